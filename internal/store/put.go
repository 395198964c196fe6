package store

import (
	"context"
	"errors"
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// Put stores an object; see object.Sink.
func (s *Store) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if err := name.Validate(); err != nil {
		return object.Info{}, err
	}
	if opts.SizeHint > MaxObject {
		return object.Info{}, object.Errorf(object.Invalid, "object is larger than %d bytes", int64(MaxObject))
	}
	if err := s.checkEarly(name, opts.Condition); err != nil {
		return object.Info{}, err
	}
	rec := pack.Record{Kind: pack.Object, Name: name, ContentType: opts.ContentType, Metadata: opts.Metadata}
	hidden, parents := s.plainName(name)
	rec.Hidden = hidden
	w := &write{store: s, rec: rec, cond: opts.Condition, parents: parents, crc: opts.CRC32}
	if opts.SizeHint > s.opts.InlineMax {
		return w.large(ctx, nil, r, opts.SizeHint)
	}
	return w.small(ctx, r, max(0, opts.SizeHint))
}

// checkEarly spares a client the upload of what would be refused at its end.
func (s *Store) checkEarly(name object.Name, cond object.Condition) error {
	if cond == (object.Condition{}) {
		return nil
	}
	all, err := s.find(name)
	if err != nil {
		return err
	}
	return checkCondition(name, cond, all)
}

func checkCondition(name object.Name, cond object.Condition, all []entry) error {
	now := current(all)
	if now == nil {
		return cond.Check(name, nil)
	}
	info := now.Info(name)
	return cond.Check(name, &info)
}

// write is one object on its way in.
type write struct {
	store   *Store
	rec     pack.Record
	cond    object.Condition
	parents []string
	crc     *uint32 // what the content must have
	buf     []byte  // head, then the payload
}

// small reads an object into memory and, if it turns out to be large, goes on
// with a blob.
func (w *write) small(ctx context.Context, r io.Reader, hint int64) (object.Info, error) {
	s := w.store
	head := pack.HeadLen(&w.rec)
	room := head + hint + pack.Block
	if hint == 0 {
		room = head + min(s.opts.InlineMax, 8<<10)
	}
	cost := min(s.opts.InlineMax, s.opts.WriteMemory)
	if hint > 0 {
		cost = min(hint, cost)
	}
	if err := s.memory.Acquire(ctx, cost); err != nil {
		return object.Info{}, err
	}
	defer s.memory.Release(cost)
	w.buf = s.buffers.get(room)[:head]
	defer func() { s.buffers.put(w.buf) }()
	if err := w.read(r, head); err != nil {
		return object.Info{}, err
	}
	content := w.buf[head:]
	if int64(len(content)) > s.opts.InlineMax {
		return w.large(ctx, content, r, hint)
	}
	w.rec.Size, w.rec.CRC32 = int64(len(content)), crc32.ChecksumIEEE(content)
	return w.commit(ctx, nil)
}

// read appends to the buffer until the end of r or one byte beyond what may lie
// in a record.
func (w *write) read(r io.Reader, head int64) error {
	limit := head + w.store.opts.InlineMax + 1
	for int64(len(w.buf)) < limit {
		if len(w.buf) == cap(w.buf) {
			larger := w.store.buffers.get(min(2*int64(cap(w.buf)), limit+pack.Block))
			larger = append(larger, w.buf...)
			w.store.buffers.put(w.buf)
			w.buf = larger
		}
		n, err := r.Read(w.buf[len(w.buf):cap(w.buf)])
		w.buf = w.buf[:len(w.buf)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// large stores the content in a blob on the first disk that has room.
func (w *write) large(ctx context.Context, first []byte, r io.Reader, hint int64) (object.Info, error) {
	d, err := w.store.roomy(w.rec.Name, hint)
	if err != nil {
		return object.Info{}, err
	}
	blob, err := d.blobs.write(ctx, first, r, hint)
	if err != nil {
		return object.Info{}, err
	}
	info, err := w.blobRecord(ctx, d, blob)
	if errors.Is(err, errUncertain) {
		d.blobs.doubt(blob)
		return object.Info{}, err
	}
	if err != nil {
		d.blobs.discard(blob)
		return object.Info{}, err
	}
	d.blobs.done(blob.id)
	return info, nil
}

func (w *write) blobRecord(ctx context.Context, d *drive, blob *blobDraft) (object.Info, error) {
	w.rec.Size, w.rec.CRC32, w.rec.Extents = blob.size, blob.crc, blob.extents()
	head := pack.HeadLen(&w.rec)
	w.buf = append(make([]byte, head, head+int64(len(blob.table))+pack.Block), blob.table...)
	return w.commit(ctx, d)
}

// commit checks the condition, gives the record its version and place, and waits
// until it is durable and visible. A record over blobs must go to their disk.
func (w *write) commit(ctx context.Context, on *drive) (object.Info, error) {
	if w.crc != nil && *w.crc != w.rec.CRC32 {
		return object.Info{}, object.Errorf(object.Invalid, "content has CRC-32 %08x, not %08x as announced", w.rec.CRC32, *w.crc)
	}
	unlock, err := w.store.keys.lock(ctx, w.rec.Name)
	if err != nil {
		return object.Info{}, err
	}
	defer unlock()
	return w.commitLocked(ctx, on)
}

func (w *write) commitLocked(ctx context.Context, on *drive) (object.Info, error) {
	s := w.store
	if err := ctx.Err(); err != nil {
		return object.Info{}, err
	}
	epoch := s.epoch.Load()
	all, err := s.find(w.rec.Name)
	if err != nil && w.cond != (object.Condition{}) {
		return object.Info{}, err
	}
	if err := checkCondition(w.rec.Name, w.cond, all); err != nil {
		return object.Info{}, err
	}
	p := pending{store: s, rec: w.rec, buf: w.buf, parents: w.parents, all: all, epoch: epoch}
	e, err := p.commit(on)
	if err != nil {
		return object.Info{}, err
	}
	info := e.Info(w.rec.Name)
	info.ContentType, info.Metadata = w.rec.ContentType, w.rec.Metadata
	return info, nil
}

// Delete removes an object; see object.Sink.
func (s *Store) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	if err := name.Validate(); err != nil {
		return err
	}
	unlock, err := s.keys.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	epoch := s.epoch.Load()
	all, err := s.find(name)
	if err != nil {
		return err
	}
	if current(all) == nil {
		return notFound(name)
	}
	if err := checkCondition(name, cond, all); err != nil {
		return err
	}
	stone := pack.Record{Kind: pack.Tombstone, Name: name}
	p := pending{store: s, rec: stone, buf: make([]byte, pack.HeadLen(&stone)), all: all, epoch: epoch}
	_, err = p.commit(nil)
	return err
}
