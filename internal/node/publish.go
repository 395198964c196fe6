package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// The bounds of a dataset's record: every change of any record writes all of them.
const (
	maxVersions     = 10_000
	maxDatasetBytes = cluster.MaxValue

	maxNames = 64 // fields, and columns, as a manifest has them
	maxName  = 64 // bytes
)

// PublishDataset adds a version to a dataset, or makes the dataset with its first one.
// It is visible and durable when PublishDataset returns. It answers Exists if the
// version is there; Stale if it is not the next one; Invalid if the manifest is not
// there with that ETag, or other versions are in another bucket; Denied if the record
// is full. base is the version whose shards it keeps, zero if it keeps none: if that was
// removed it answers NotFound, since who removes a version removes the shards that no
// other one has. The version's Created is set.
func (n *Node) PublishDataset(ctx context.Context, name, bucket string, v DatasetVersion, base int64) (DatasetVersion, error) {
	if err := v.validate(); err != nil {
		return v, err
	}
	done, err := n.change(ctx) // so that the bucket is not deleted meanwhile
	if err != nil {
		return v, err
	}
	defer done()
	r, d, err := n.dataset(ctx, name)
	if err != nil {
		return v, err
	}
	if err := d.admit(bucket, v.Version, base); err != nil {
		return v, err
	}
	if err := n.mustBeManifest(ctx, object.Name{Bucket: bucket, Key: v.Manifest}, v.ETag); err != nil {
		return v, err
	}
	v.Created = n.clock().UTC().Round(0)
	v.Fields, v.Columns = append([]string{}, v.Fields...), append([]string{}, v.Columns...) // a list even if there are none
	d.Bucket, d.Next, d.Versions = bucket, v.Version+1, append(d.Versions, v)
	return v, n.putDataset(ctx, r, d, cluster.IfPresent(bucketPrefix+bucket))
}

// RemoveDataset takes a version away, or all of them if version is zero; NotFound if
// there is none. The objects stay.
func (n *Node) RemoveDataset(ctx context.Context, name string, version int64) error {
	done, err := n.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	r, d, err := n.dataset(ctx, name)
	switch at := d.find(version); {
	case err != nil:
		return err
	case len(d.Versions) == 0:
		return noDataset(name)
	case version == 0:
		d.Versions = nil
	case at < 0:
		return object.Errorf(object.NotFound, "dataset %s has no version %d", name, version)
	default:
		d.Versions = append(d.Versions[:at], d.Versions[at+1:]...)
	}
	if len(d.Versions) == 0 {
		d.Bucket = "" // it may begin anew in another one
	}
	return n.putDataset(ctx, r, d)
}

// putDataset replaces the record of a dataset, if it is still the one that was read.
func (n *Node) putDataset(ctx context.Context, r cluster.Record, d Dataset, also ...cluster.Condition) error {
	value, err := json.Marshal(datasetRecord{Next: d.Next, Bucket: d.Bucket, Versions: d.Versions})
	if err != nil {
		return err
	}
	if count := len(d.Versions); count > maxVersions || len(value) > maxDatasetBytes {
		return object.Errorf(object.Denied, "dataset %s has %d versions, and its record has no room for another; remove old ones", d.Name, count-1)
	}
	_, err = n.control.Txn(ctx, cluster.Txn{If: append(also, cluster.IfUnchanged(r)), Then: []cluster.Op{cluster.Put(r.Key, value)}})
	if object.Is(err, object.Stale) {
		return object.Errorf(object.Busy, "dataset %s or its bucket was changed elsewhere at the same time; repeat it", d.Name)
	}
	return err
}

// admit reports why a version cannot be added.
func (d *Dataset) admit(bucket string, version, base int64) error {
	switch {
	case d.find(version) >= 0:
		return object.Errorf(object.Exists, "dataset %s has a version %d already", d.Name, version)
	case version != d.Next:
		return object.Errorf(object.Stale, "the next version of dataset %s is %d, not %d", d.Name, d.Next, version)
	case d.Bucket != "" && d.Bucket != bucket:
		return object.Errorf(object.Invalid, "dataset %s is in bucket %s, not in %s", d.Name, d.Bucket, bucket)
	case base != 0 && d.find(base) < 0:
		return object.Errorf(object.NotFound, "version %d of dataset %s is not there any more, and version %d keeps shards of it", base, d.Name, version)
	}
	return nil
}

func (n *Node) mustBeManifest(ctx context.Context, name object.Name, etag string) error {
	if _, err := n.find(name.Bucket); err != nil {
		return err
	}
	info, err := n.store.Stat(ctx, name)
	switch {
	case object.Is(err, object.NotFound):
		return object.Errorf(object.Invalid, "the manifest %s does not exist", name)
	case err != nil:
		return err
	case info.ETag != etag:
		return object.Errorf(object.Invalid, "the manifest %s has ETag %s, not %q", name, info.ETag, etag)
	}
	return nil
}

func (v *DatasetVersion) validate() error {
	if err := object.ValidateKey(v.Manifest); err != nil {
		return object.Errorf(object.Invalid, "manifest: %w", err)
	}
	if v.Version < 1 || v.Samples < 0 || v.Bytes < 0 {
		return object.Errorf(object.Invalid, "version %d with %d samples and %d bytes makes no sense", v.Version, v.Samples, v.Bytes)
	}
	if hash, err := hex.DecodeString(v.Logical); err != nil || len(hash) != 32 || v.Logical != strings.ToLower(v.Logical) {
		return object.Errorf(object.Invalid, "logical must be a SHA-256 in 64 hexadecimal digits, not %.80q", v.Logical)
	}
	if err := validateNames("field", v.Fields); err != nil {
		return err
	}
	return validateNames("column", v.Columns)
}

func validateNames(what string, names []string) error {
	if len(names) > maxNames {
		return object.Errorf(object.Invalid, "%d %ss are more than %d", len(names), what, maxNames)
	}
	for _, name := range names {
		if name == "" || len(name) > maxName || !utf8.ValidString(name) {
			return object.Errorf(object.Invalid, "the name of %s %.80q must be UTF-8 of 1 to %d bytes", what, name, maxName)
		}
	}
	return nil
}
