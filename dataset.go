package penstock

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Dataset is a name with versions, as the node's records have it. What a version
// holds is in its manifest.
type Dataset struct {
	Name     string           `json:"name"`
	Bucket   string           `json:"bucket"`   // that all versions lie in
	Newest   int64            `json:"newest"`   // number of the newest version; zero if all were removed
	Next     int64            `json:"next"`     // what the next version must be called; no number is given out twice
	Versions []DatasetVersion `json:"versions"` // by number
	Problem  string           `json:"problem,omitempty"`
}

// DatasetVersion is what is known of one version of a dataset without its manifest. It
// never changes.
type DatasetVersion struct {
	Version  int64     `json:"version,omitempty"` // from 1
	Bucket   string    `json:"bucket,omitempty"`
	Manifest string    `json:"manifest"` // its key in the bucket
	ETag     string    `json:"etag"`     // of the manifest
	Samples  int64     `json:"samples"`
	Bytes    int64     `json:"bytes"`
	Fields   []string  `json:"fields"`
	Columns  []string  `json:"columns"`
	Logical  string    `json:"logical"` // SHA-256 of the manifest's logical part, in hexadecimal
	Created  time.Time `json:"created,omitzero"`

	// Base is for PublishDataset alone: the version whose shards this one keeps, zero if
	// it keeps none.
	Base int64 `json:"base,omitempty"`
}

// settle gives the versions what they share.
func (d *Dataset) settle() {
	for i := range d.Versions {
		d.Versions[i].Bucket = d.Bucket
	}
}

// Datasets returns all datasets that have a version, in the order of their names.
func (c *Client) Datasets(ctx context.Context) ([]Dataset, error) {
	var all []Dataset
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for after := ""; ; query.Set("after", after) {
		var page struct {
			Datasets []Dataset `json:"datasets"`
			Next     string    `json:"next"`
		}
		_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/datasets", query), what: "datasets", out: &page})
		if err != nil {
			return nil, err
		}
		for _, d := range page.Datasets {
			d.settle()
			all = append(all, d)
		}
		switch {
		case page.Next == "":
			return all, nil
		case page.Next <= after:
			return nil, c.errorf(Internal, "listing datasets does not get on: after %q comes %q", after, page.Next)
		}
		after = page.Next
	}
}

// Dataset returns a dataset, or NotFound. One whose versions were all removed is still
// known, for the sake of its Next.
func (c *Client) Dataset(ctx context.Context, name string) (Dataset, error) {
	if err := object.ValidateDataset(name); err != nil {
		return Dataset{}, err
	}
	var answer Dataset
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/datasets/"+name, nil), what: "dataset " + name, out: &answer})
	answer.settle()
	return answer, err
}

// PublishDataset makes a version known, whose manifest and shards are stored already,
// and returns it with the time at which it was Created. It answers Exists if there is
// such a version, Stale if another number is the next one, Invalid if the manifest is
// not there or has another ETag, NotFound if there is no such bucket or the version's
// Base was removed.
func (c *Client) PublishDataset(ctx context.Context, name string, version int64, v DatasetVersion) (DatasetVersion, error) {
	if err := object.ValidateDataset(name); err != nil {
		return DatasetVersion{}, err
	}
	v.Version, v.Created = 0, time.Time{} // the path says the one, the node the other
	body, header, err := jsonBody(ctx, v)
	if err != nil {
		return DatasetVersion{}, err
	}
	answer := DatasetVersion{Bucket: v.Bucket}
	ask := call{method: http.MethodPut, url: c.version(name, version), what: "dataset " + name, header: header, body: body, out: &answer}
	_, attempts, err := c.do(ctx, ask)
	if err == nil {
		return answer, nil
	}
	if attempts > 1 && Is(err, Exists) {
		// An attempt whose answer was lost may have published it. No two writers can
		// have stored the same manifest, so it is ours then.
		d, getErr := c.Dataset(ctx, name)
		for _, there := range d.Versions {
			if getErr == nil && there.Version == version && there.Bucket == v.Bucket && there.Manifest == v.Manifest && there.ETag == v.ETag {
				return there, nil
			}
		}
	}
	return DatasetVersion{}, err
}

// version returns the URL of a version of a dataset.
func (c *Client) version(name string, version int64) *url.URL {
	return c.path("/v1/datasets/"+name+"/"+strconv.FormatInt(version, 10), nil)
}

// RemoveDataset makes a version unknown, or all of them if version is zero. The
// objects stay, and the numbers are not given out again.
func (c *Client) RemoveDataset(ctx context.Context, name string, version int64) error {
	if err := object.ValidateDataset(name); err != nil {
		return err
	}
	ask := call{method: http.MethodDelete, url: c.version(name, version), what: "dataset " + name}
	if version == 0 {
		ask.url = c.path("/v1/datasets/"+name, nil)
	}
	resp, attempts, err := c.do(ctx, ask)
	switch {
	case err == nil:
		return resp.Body.Close()
	case attempts > 1 && Is(err, NotFound):
		return nil
	}
	return err
}
