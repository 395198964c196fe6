package node

import (
	"context"
	"strings"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// datasetPrefix is where datasets are in the control records.
const datasetPrefix = "datasets/"

// Dataset is a name with versions. All of them lie in one bucket.
type Dataset struct {
	Name     string
	Bucket   string           // empty if there are no versions
	Next     int64            // what the next version must be called; no number is given out twice
	Versions []DatasetVersion // by number

	// Problem says why the record cannot be used, if so.
	Problem string
}

// Newest returns the number of the newest version, zero if there is none.
func (d *Dataset) Newest() int64 {
	if len(d.Versions) == 0 {
		return 0
	}
	return d.Versions[len(d.Versions)-1].Version
}

// find returns where in Versions a version is, negative if it is not there.
func (d *Dataset) find(version int64) int {
	for i := range d.Versions {
		if d.Versions[i].Version == version {
			return i
		}
	}
	return -1
}

// DatasetVersion is what is known of a version without its manifest. It never changes.
type DatasetVersion struct {
	Version  int64     `json:"version"`  // from 1
	Manifest string    `json:"manifest"` // its key in the dataset's bucket
	ETag     string    `json:"etag"`     // of the manifest
	Samples  int64     `json:"samples"`
	Bytes    int64     `json:"bytes"`
	Fields   []string  `json:"fields"`
	Columns  []string  `json:"columns"`
	Logical  string    `json:"logical"` // hash of the manifest's logical part
	Created  time.Time `json:"created"`
}

// Datasets returns all datasets that have a version, in the order of their names, and
// those whose record cannot be used.
func (n *Node) Datasets(ctx context.Context) ([]Dataset, error) {
	view, err := n.control.List(ctx, datasetPrefix)
	if err != nil {
		return nil, err
	}
	var all []Dataset
	for _, r := range view.Records {
		d, err := decodeDataset(r)
		if err != nil {
			d.Problem = err.Error()
		}
		if len(d.Versions) > 0 || err != nil {
			all = append(all, d)
		}
	}
	return all, nil
}

// Dataset returns a dataset, or NotFound. It may have no versions left: then it still
// tells what the next one must be called.
func (n *Node) Dataset(ctx context.Context, name string) (Dataset, error) {
	r, d, err := n.dataset(ctx, name)
	if err == nil && r.Modified == 0 {
		err = noDataset(name)
	}
	return d, err
}

func noDataset(name string) error {
	return object.Errorf(object.NotFound, "dataset %s does not exist", name)
}

// dataset returns the record of a dataset and what it says. One that is not there has
// never been modified.
func (n *Node) dataset(ctx context.Context, name string) (cluster.Record, Dataset, error) {
	if err := object.ValidateDataset(name); err != nil {
		return cluster.Record{}, Dataset{}, err
	}
	r, err := n.control.Get(ctx, datasetPrefix+name)
	if object.Is(err, object.NotFound) {
		return cluster.Record{Key: datasetPrefix + name}, Dataset{Name: name, Next: 1}, nil
	}
	if err != nil {
		return r, Dataset{}, err
	}
	d, err := decodeDataset(r)
	return r, d, err
}

// mustHoldNone answers Exists if a dataset lies in a bucket. Its objects may be gone,
// but a bucket made later must not be taken for the one that it was in.
func (n *Node) mustHoldNone(ctx context.Context, bucket string) error {
	all, err := n.Datasets(ctx)
	if err != nil {
		return err
	}
	for _, d := range all {
		switch {
		case d.Problem != "":
			return object.Errorf(object.Unavailable, "whether bucket %s holds a dataset is not known: %s", bucket, d.Problem)
		case d.Bucket == bucket:
			return object.Errorf(object.Exists, "bucket %s holds dataset %s; remove that first", bucket, d.Name)
		}
	}
	return nil
}

// datasetRecord is a dataset in the control records; its name is the key. It stays
// when all versions are removed, so that their numbers are not used again.
type datasetRecord struct {
	Next     int64            `json:"next"`
	Bucket   string           `json:"bucket,omitempty"`
	Versions []DatasetVersion `json:"versions,omitempty"`
}

// decodeDataset refuses fields it does not know, as decodeBucket does.
func decodeDataset(r cluster.Record) (Dataset, error) {
	name := strings.TrimPrefix(r.Key, datasetPrefix)
	var record datasetRecord
	if err := decodeOne(r.Value, &record); err != nil {
		return Dataset{Name: name}, object.Errorf(object.Unavailable, "the record of dataset %s cannot be used by this version: %v", name, err)
	}
	return Dataset{Name: name, Bucket: record.Bucket, Next: record.Next, Versions: record.Versions}, nil
}
