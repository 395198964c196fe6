package dataset

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// bucket is the objects NAME/... of a bucket, and what the node knows of the name.
type bucket struct {
	client *penstock.Client
	bucket string
	name   string
}

// Find returns the place of a dataset that there is.
func Find(ctx context.Context, client *penstock.Client, name string) (Place, error) {
	d, err := client.Dataset(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case d.Problem != "":
		return nil, object.Errorf(object.Unavailable, "dataset %s: %s", name, d.Problem)
	case len(d.Versions) == 0:
		return nil, object.Errorf(object.NotFound, "dataset %s does not exist: all its versions were removed", name)
	}
	return &bucket{client, d.Bucket, name}, nil
}

// Bucket returns the place where versions of a dataset are made: the bucket where
// it is, or if there is none of that name the one that is asked for.
func Bucket(ctx context.Context, client *penstock.Client, name, in string) (Place, error) {
	d, err := client.Dataset(ctx, name)
	switch {
	case err != nil && !penstock.Is(err, penstock.NotFound):
		return nil, err
	case d.Problem != "":
		return nil, object.Errorf(object.Unavailable, "dataset %s: %s", name, d.Problem)
	case d.Bucket == "" && in == "":
		return nil, object.Errorf(object.NotFound, "dataset %s does not exist yet", name)
	case d.Bucket != "" && in != "" && d.Bucket != in:
		return nil, object.Errorf(object.Exists, "dataset %s lies in bucket %s", name, d.Bucket)
	case d.Bucket != "":
		in = d.Bucket
	}
	return &bucket{client, in, name}, nil
}

// String names the place.
func (b *bucket) String() string { return b.bucket + "/" + b.name }

func (b *bucket) close() {}

func (b *bucket) versions(ctx context.Context) (published []uint64, last uint64, err error) {
	d, err := b.client.Dataset(ctx, b.name)
	if penstock.Is(err, penstock.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, v := range d.Versions {
		published = append(published, uint64(v.Version))
	}
	return published, uint64(max(d.Next, 1) - 1), nil
}

// version returns what the node knows of a version.
func (b *bucket) version(ctx context.Context, number uint64) (penstock.DatasetVersion, error) {
	d, err := b.client.Dataset(ctx, b.name)
	if err != nil {
		return penstock.DatasetVersion{}, err
	}
	for _, v := range d.Versions {
		if uint64(v.Version) == number {
			return v, nil
		}
	}
	return penstock.DatasetVersion{}, object.Errorf(object.NotFound, "dataset %s has no version %d", b.name, number)
}

// manifest downloads it. The file has no name any more when it is mapped.
func (b *bucket) manifest(ctx context.Context, number uint64) (*manifest.Manifest, error) {
	v, err := b.version(ctx, number)
	if err != nil {
		return nil, err
	}
	name := penstock.Name{Bucket: b.bucket, Key: v.Manifest}
	r, err := b.client.Open(ctx, name, penstock.Range{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Info().ETag != v.ETag {
		return nil, object.Errorf(object.Corrupt, "%s is not the manifest that was published: its ETag is %s and should be %s", name, r.Info().ETag, v.ETag)
	}
	dir, err := os.MkdirTemp("", "penstock-manifest-")
	if err != nil {
		return nil, failed(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, manifestName(number))
	f, err := os.Create(path)
	if err != nil {
		return nil, failed(err)
	}
	_, err = r.WriteTo(f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, failed(err)
	}
	return manifest.Open(path)
}

// object returns the name of something of the dataset, or of a shard that is
// elsewhere.
func (b *bucket) object(name string) penstock.Name {
	if other, ok := strings.CutPrefix(name, "/"); ok {
		bucket, key, _ := strings.Cut(other, "/")
		return penstock.Name{Bucket: bucket, Key: key}
	}
	return penstock.Name{Bucket: b.bucket, Key: b.name + "/" + name}
}

// read asks for all ranges in one request.
func (b *bucket) read(ctx context.Context, ranges []stretch, each func(int, []byte, error) error) error {
	refs := make([]penstock.Ref, 0, len(ranges))
	for _, r := range ranges {
		if r.length > 0 {
			refs = append(refs, penstock.Ref{
				Name: b.object(r.shard), Range: penstock.Range{Offset: r.offset, Length: r.length}, CRC32: r.crc, Checked: r.checked,
			})
		}
	}
	next := 0
	empty := func() error { // no range means nothing: a length of zero reaches to the end
		for ; next < len(ranges) && ranges[next].length == 0; next++ {
			if err := each(next, []byte{}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := empty(); err != nil || len(refs) == 0 {
		return err
	}
	for item, err := range b.client.Batch(ctx, refs) {
		if err == nil && int64(len(item.Bytes)) != ranges[next].length {
			err = object.Errorf(object.Corrupt, "the shard ends too early")
		}
		if err := each(next, item.Bytes, err); err != nil {
			return err
		}
		next++
		if err := empty(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (b *bucket) stream(ctx context.Context, r stretch) (io.ReadCloser, error) {
	if r.length == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return b.client.Open(ctx, b.object(r.shard), penstock.Range{Offset: r.offset, Length: r.length})
}

func (b *bucket) size(ctx context.Context, shard string) (int64, error) {
	info, err := b.client.Stat(ctx, b.object(shard))
	return info.Size, err
}

func (b *bucket) note(ctx context.Context, version uint64) (n note, err error) {
	data, err := b.client.Get(ctx, b.object(notePath(version)))
	switch {
	case penstock.Is(err, penstock.NotFound):
		return note{}, nil
	case err != nil:
		return note{}, err
	case json.Unmarshal(data, &n) != nil:
		return note{}, nil
	}
	return n, nil
}

// foreign finds objects where they are.
func (b *bucket) foreign(from Origin, path string) string {
	if o, ok := from.(*objects); ok {
		return "/" + o.local(path)
	}
	return ""
}

// owned is for prefixes that the dataset's objects lie under.
func (b *bucket) owned(from Origin) func(path string) bool {
	o, ok := from.(*objects)
	own := b.name + "/"
	if !ok || o.bucket != b.bucket || !strings.HasPrefix(own, o.prefix) {
		return nil
	}
	return func(path string) bool { return strings.HasPrefix(o.prefix+path, own) }
}

// hold does nothing: there is no lock in a bucket.
func (b *bucket) hold() (func(), error) { return func() {}, nil }

func (b *bucket) withdraw(ctx context.Context, version uint64) ([]string, error) {
	v, err := b.version(ctx, version)
	if err != nil {
		return nil, err
	}
	if err := b.client.RemoveDataset(ctx, b.name, int64(version)); err != nil {
		return nil, err
	}
	rest := []string{notePath(version)}
	if name, ok := strings.CutPrefix(v.Manifest, b.name+"/"); ok {
		rest = append(rest, name)
	}
	return rest, nil
}

func (b *bucket) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		err := b.client.Delete(ctx, b.object(name), penstock.Condition{})
		if err != nil && !penstock.Is(err, penstock.NotFound) {
			return err
		}
	}
	return nil
}
