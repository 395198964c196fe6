package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
)

type datasetsJSON struct {
	Datasets  []datasetJSON `json:"datasets"`
	Truncated bool          `json:"truncated,omitempty"`
	Next      string        `json:"next,omitempty"`
}

type datasetJSON struct {
	Name     string                `json:"name"`
	Bucket   string                `json:"bucket"`
	Newest   int64                 `json:"newest"`
	Next     int64                 `json:"next"`
	Versions []node.DatasetVersion `json:"versions"`
	Problem  string                `json:"problem,omitempty"`
}

func newDatasetJSON(d node.Dataset) datasetJSON {
	versions := append([]node.DatasetVersion{}, d.Versions...) // a list even if there are none
	return datasetJSON{Name: d.Name, Bucket: d.Bucket, Newest: d.Newest(), Next: d.Next, Versions: versions, Problem: d.Problem}
}

// publishJSON is what a writer says about a version.
type publishJSON struct {
	Bucket   string   `json:"bucket"`
	Manifest string   `json:"manifest"`
	ETag     string   `json:"etag"`
	Samples  int64    `json:"samples"`
	Bytes    int64    `json:"bytes"`
	Fields   []string `json:"fields"`
	Columns  []string `json:"columns"`
	Logical  string   `json:"logical"`
	Base     int64    `json:"base,omitempty"`
}

// maxPageVersions bounds the versions of a page of datasets, which have up to ten
// thousand each. A page ends before the dataset that would take it beyond, unless that
// is the first.
const maxPageVersions = 10000

// listDatasets answers with one page of the datasets.
func (a *API) listDatasets(x *exchange) error {
	opts, err := parseList(x.R.URL.RawQuery, "after", "limit")
	if err != nil {
		return err
	}
	all, err := a.node.Datasets(x.R.Context())
	if err != nil {
		return err
	}
	answer, versions := datasetsJSON{Datasets: []datasetJSON{}}, 0
	for _, d := range all {
		if d.Name <= opts.After || x.may("s3:GetObject", manifestOf(&d)) != nil {
			continue
		}
		versions += len(d.Versions)
		if count := len(answer.Datasets); count == opts.Limit || (count > 0 && versions > maxPageVersions) {
			answer.Truncated, answer.Next = true, answer.Datasets[count-1].Name
			break
		}
		answer.Datasets = append(answer.Datasets, newDatasetJSON(d))
	}
	return x.respondTagged(answer)
}

func (a *API) getDataset(x *exchange) error {
	return x.respondTagged(newDatasetJSON(x.set))
}

func (a *API) putDataset(x *exchange) error {
	p := &x.publish
	v, err := a.node.PublishDataset(x.R.Context(), x.dataset, p.Bucket, node.DatasetVersion{
		Version: x.version, Manifest: p.Manifest, ETag: p.ETag, Samples: p.Samples, Bytes: p.Bytes,
		Fields: p.Fields, Columns: p.Columns, Logical: p.Logical,
	}, p.Base)
	if err != nil {
		return err
	}
	return x.respond(http.StatusCreated, v)
}

// deleteDataset removes the version that the path names, or all if it names none.
func (a *API) deleteDataset(x *exchange) error {
	if err := a.node.RemoveDataset(x.R.Context(), x.dataset, x.version); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// respondTagged answers with JSON, or that the client has it already. The tag is made
// from the answer itself, so nothing can change without it.
func (x *exchange) respondTagged(v any) error {
	body, err := marshal(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	tag := hex.EncodeToString(sum[:16])
	x.Header()["Etag"] = []string{`"` + tag + `"`}
	if door.Matches(x.R.Header["If-None-Match"], tag, false) {
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	return x.writeDocument(body)
}

// decodeStrictly decodes exactly one JSON value, without unknown fields.
func decodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows it")
	}
	return nil
}
