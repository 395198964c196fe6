package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

type datasetsJSON struct {
	Datasets []datasetJSON `json:"datasets"`
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
}

func (a *API) listDatasets(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	all, err := a.node.Datasets(x.r.Context())
	if err != nil {
		return err
	}
	answer := datasetsJSON{Datasets: []datasetJSON{}}
	for _, d := range all {
		answer.Datasets = append(answer.Datasets, newDatasetJSON(d))
	}
	return x.respondTagged(answer)
}

func (a *API) getDataset(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	d, err := a.node.Dataset(x.r.Context(), x.dataset)
	if err != nil {
		return err
	}
	return x.respondTagged(newDatasetJSON(d))
}

func (a *API) putDataset(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	body, err := x.readSmall()
	if err != nil {
		return err
	}
	var p publishJSON
	if err := decodeStrictly(body, &p); err != nil {
		return object.Errorf(object.Invalid, "a version is described by one JSON object: %v", err)
	}
	v, err := a.node.PublishDataset(x.r.Context(), x.dataset, p.Bucket, node.DatasetVersion{
		Version: x.version, Manifest: p.Manifest, ETag: p.ETag, Samples: p.Samples, Bytes: p.Bytes,
		Fields: p.Fields, Columns: p.Columns, Logical: p.Logical,
	})
	if err != nil {
		return err
	}
	return x.respond(http.StatusCreated, v)
}

// deleteDataset removes the version that the path names, or all if it names none.
func (a *API) deleteDataset(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	if err := a.node.RemoveDataset(x.r.Context(), x.dataset, x.version); err != nil {
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
	if matches(x.r.Header["If-None-Match"], tag, false) {
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
