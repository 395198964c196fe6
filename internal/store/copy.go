package store

import (
	"bytes"
	"context"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// Copy stores the content of one object under another name. A large object is
// not copied: both records name the same blobs. An empty ContentType keeps that of
// the source, and so does a nil Metadata.
func (s *Store) Copy(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error) {
	for _, name := range []object.Name{dst, src} {
		if err := name.Validate(); err != nil {
			return object.Info{}, err
		}
	}
	reader, err := s.Open(ctx, src, object.Range{})
	if err != nil {
		return object.Info{}, err
	}
	defer reader.Close()
	info := reader.Info()
	if opts.ContentType == "" {
		opts.ContentType = info.ContentType
	}
	if opts.Metadata == nil {
		opts.Metadata = info.Metadata
	}
	opts.SizeHint, opts.CRC32 = info.Size, &info.CRC32
	if _, large := reader.(*blobReader); large && dst != src {
		if got, err := s.share(ctx, dst, src, opts); err != errMoved {
			return got, err
		}
	}
	return s.Put(ctx, dst, reader, opts)
}

// share writes a second record over the blobs of src. Both names are locked, so
// that the blobs cannot go meanwhile. It answers errMoved if the record must be
// on another disk or src is no longer large.
func (s *Store) share(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error) {
	hidden, parents := s.plainName(dst)
	unlock, err := s.keys.lockTwo(ctx, dst, src)
	if err != nil {
		return object.Info{}, err
	}
	defer unlock()
	all, err := s.find(src)
	if err != nil {
		return object.Info{}, err
	}
	now := current(all)
	if now == nil {
		return object.Info{}, notFound(src)
	}
	if !now.Extents {
		return object.Info{}, errMoved
	}
	rec, table, err := now.drive.read(now)
	if err != nil {
		return object.Info{}, s.readFailed(now.drive, src, err)
	}
	w := &write{store: s, cond: opts.Condition, parents: parents, rec: pack.Record{
		Kind: pack.Object, Name: dst, ContentType: opts.ContentType, Metadata: opts.Metadata, Hidden: hidden,
		Size: rec.Size, CRC32: rec.CRC32, Extents: rec.Extents,
	}}
	w.buf = append(make([]byte, pack.HeadLen(&w.rec)), table...)
	return w.commitLocked(ctx, now.drive)
}

// read reads a whole record into memory of its own.
func (d *drive) read(e *entry) (*pack.Record, []byte, error) {
	f, err := d.files.acquire(e.pack)
	if err != nil {
		return nil, nil, err
	}
	defer d.files.release(f)
	rec, payload, err := f.Read(e.Location, nil)
	return rec, bytes.Clone(payload), err
}
