package penstock

import (
	"context"
	"net/http"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Bucket is what is known about a bucket.
type Bucket struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Owner   string    `json:"owner"`  // the user who made it
	Quota   int64     `json:"quota"`  // bytes it may hold; zero: no limit
	Verify  string    `json:"verify"` // "always": every byte is checked on every read
	Objects int64     `json:"objects"`
	Bytes   int64     `json:"bytes"`
	Problem string    `json:"problem,omitempty"` // why it cannot be used, if so
}

// BucketOptions are the properties a user gives a bucket. On a change, nil leaves
// a property as it is.
type BucketOptions struct {
	Quota  *int64  `json:"quota,omitempty"`
	Verify *string `json:"verify,omitempty"`
}

// CreateBucket makes a bucket. It answers Exists if there is one.
func (c *Client) CreateBucket(ctx context.Context, name string, opts BucketOptions) (Bucket, error) {
	return c.bucket(ctx, http.MethodPut, name, opts)
}

// UpdateBucket changes properties of a bucket.
func (c *Client) UpdateBucket(ctx context.Context, name string, opts BucketOptions) (Bucket, error) {
	return c.bucket(ctx, http.MethodPatch, name, opts)
}

// Bucket returns what is known about a bucket, or NotFound.
func (c *Client) Bucket(ctx context.Context, name string) (Bucket, error) {
	return c.bucket(ctx, http.MethodGet, name, nil)
}

// bucket sends a request about one bucket, with in as its body if not nil.
func (c *Client) bucket(ctx context.Context, method, name string, in any) (Bucket, error) {
	if err := object.ValidateBucket(name); err != nil {
		return Bucket{}, err
	}
	var answer Bucket
	// A repeated PUT would find the bucket the first one made.
	ask := call{method: method, url: c.path("/v1/buckets/"+name, nil), what: "bucket " + name, out: &answer, once: method == http.MethodPut}
	if in != nil {
		var err error
		if ask.body, ask.header, err = jsonBody(ctx, in); err != nil {
			return Bucket{}, err
		}
	}
	_, _, err := c.do(ctx, ask)
	return answer, err
}

// Buckets returns all buckets the caller may see, in the order of their names.
func (c *Client) Buckets(ctx context.Context) ([]Bucket, error) {
	var answer struct {
		Buckets []Bucket `json:"buckets"`
	}
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/buckets", nil), what: "buckets", out: &answer})
	return answer.Buckets, err
}

// DeleteBucket removes a bucket, which must be empty.
func (c *Client) DeleteBucket(ctx context.Context, name string) error {
	if err := object.ValidateBucket(name); err != nil {
		return err
	}
	resp, attempts, err := c.do(ctx, call{method: http.MethodDelete, url: c.path("/v1/buckets/"+name, nil), what: "bucket " + name})
	switch {
	case err == nil:
		return resp.Body.Close()
	case attempts > 1 && Is(err, NotFound):
		return nil
	}
	return err
}
