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
		if err := name.ValidateStored(); err != nil {
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
	opts.Metadata = opts.MetadataOf(info.Metadata)
	opts.SizeHint, opts.CRC32 = info.Size, &info.CRC32
	if opts.Finish == nil && !native(info) { // it has the same content
		opts.Finish = func() (object.Finish, error) { return object.Finish{ETag: info.ETag}, nil }
	}
	if _, large := reader.(*blobReader); large {
		if got, err := s.share(ctx, dst, info, opts); err != errMoved {
			return got, err
		}
	}
	return s.Put(ctx, dst, reader, opts)
}

func native(info object.Info) bool { return info.ETag == object.NativeETag(info.Version, info.CRC32) }

// share writes a second record over the blobs of src. Both names are locked, so
// that the blobs cannot go meanwhile. It answers errMoved if src has been replaced:
// the options may be those of what it was.
func (s *Store) share(ctx context.Context, dst object.Name, of object.Info, opts object.PutOptions) (object.Info, error) {
	src := of.Name
	w := s.write(dst, opts)
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
	if now == nil || now.Version != of.Version {
		return object.Info{}, errMoved
	}
	rec, table, err := now.drive.read(now)
	if err != nil {
		return object.Info{}, s.readFailed(now.drive, src, err)
	}
	w.rec.Size, w.rec.CRC32, w.rec.Extents = rec.Size, rec.CRC32, rec.Extents
	if err := w.complete(); err != nil {
		return object.Info{}, err
	}
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
