package dataset

import (
	"context"
	"io"
	"strings"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
)

// Objects returns the origin that is the objects under a prefix, which is taken for
// a directory.
func Objects(client *penstock.Client, bucket, prefix string) Origin {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return &objects{client: client, bucket: bucket, prefix: prefix}
}

type objects struct {
	client         *penstock.Client
	bucket, prefix string
}

// String names the origin.
func (o *objects) String() string { return o.bucket + "/" + o.prefix }

func (o *objects) open(*run) error { return nil }

func (o *objects) close() {}

func (o *objects) where() string { return o.client.Endpoint() + "/" + o.String() }

func (o *objects) local(path string) string { return o.bucket + "/" + o.prefix + path }

func (o *objects) name(path string) penstock.Name {
	return penstock.Name{Bucket: o.bucket, Key: o.prefix + path}
}

// list lists the objects in the byte order of their keys, in which the files of a
// sample are neighbours.
func (o *objects) list(ctx context.Context, r *run) ([]*folder, error) {
	var folders []*folder
	var f *folder
	for entry, err := range o.client.List(ctx, o.bucket, penstock.ListOptions{Prefix: o.prefix}) {
		if err != nil {
			return nil, err // also if it is incomplete: samples would be missing
		}
		info := entry.Info
		path := strings.TrimPrefix(info.Name.Key, o.prefix)
		slash := strings.LastIndexByte(path, '/') + 1
		if r.own(path) {
			continue
		}
		r.listed.Add(1)
		if hidden(path) {
			r.skip(o.local(path), object.Errorf(object.Invalid, "it is hidden"))
			continue
		}
		if path[slash:] == "" {
			r.skip(o.local(path), object.Errorf(object.Invalid, "it stands for a directory"))
			continue
		}
		if f == nil || f.path != path[:slash] || len(f.names) > maxNames {
			f = &folder{path: strings.Clone(path[:slash])}
			folders = append(folders, f)
		}
		f.add(path[slash:])
		f.sizes = append(f.sizes, info.Size)
		f.stamps = append(f.stamps, info.Modified.UnixNano())
		f.sums = append(f.sums, info.CRC32)
	}
	return folders, nil
}

// hidden reports whether an element of a path begins with a dot.
func hidden(path string) bool { return strings.HasPrefix(path, ".") || strings.Contains(path, "/.") }

// read asks for all of them at once.
func (o *objects) read(ctx context.Context, wants []want) {
	if len(wants) == 0 {
		return
	}
	refs := make([]penstock.Ref, len(wants))
	for i := range wants {
		refs[i].Name = o.name(wants[i].path)
	}
	i := 0
	for item, err := range o.client.Batch(ctx, refs) {
		w := &wants[i]
		switch {
		case err != nil:
			w.err = err
		case len(item.Bytes) > len(w.dst):
			w.err = errGrown
		case len(item.Bytes) < len(w.dst):
			w.err = errShorter
		default:
			copy(w.dst, item.Bytes)
			w.crc = item.CRC32
		}
		i++
	}
	for ; i < len(wants); i++ {
		wants[i].err = object.Errorf(object.Canceled, "it was not read")
	}
}

func (o *objects) tag(ctx context.Context, path string) (string, error) {
	info, err := o.client.Stat(ctx, o.name(path))
	return info.ETag, err
}

func (o *objects) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	return o.client.Open(ctx, o.name(path), penstock.Range{})
}
