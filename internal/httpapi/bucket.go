package httpapi

import (
	"net/http"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
)

func (a *API) putBucket(x *exchange) error {
	body, err := x.properties()
	if err != nil {
		return err
	}
	props, err := node.Properties{}.Merge(body)
	if err != nil {
		return err
	}
	b, err := a.node.CreateBucketAs(x.R.Context(), x.name.Bucket, props, auth.OwnedBy(x.user), a.authority.Standing(x.user.Name)...)
	if err != nil {
		return err
	}
	return x.respond(http.StatusCreated, newBucketJSON(b, a.node.Usage(b.Name)))
}

func (a *API) patchBucket(x *exchange) error {
	body, err := x.properties()
	if err != nil {
		return err
	}
	b, err := a.node.SetBucket(x.R.Context(), x.name.Bucket, body)
	if err != nil {
		return err
	}
	return x.respond(http.StatusOK, newBucketJSON(b, a.node.Usage(b.Name)))
}

// properties returns the body that says them.
func (x *exchange) properties() ([]byte, error) {
	if err := x.noQuery(); err != nil {
		return nil, err
	}
	return x.ReadSmall(x.Body(), maxSmallBody)
}

func (a *API) getBucket(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	b, err := a.node.Bucket(x.name.Bucket)
	if err != nil {
		return err
	}
	return x.respond(http.StatusOK, newBucketJSON(b, a.node.Usage(b.Name)))
}

func (a *API) deleteBucket(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	if err := a.node.DeleteBucket(x.R.Context(), x.name.Bucket); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) listBuckets(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	answer := bucketsJSON{Buckets: []bucketJSON{}}
	for _, b := range a.node.Buckets() {
		if auth.Sees(x.user, b.Access) {
			answer.Buckets = append(answer.Buckets, newBucketJSON(b, a.node.Usage(b.Name)))
		}
	}
	return x.respond(http.StatusOK, answer)
}
