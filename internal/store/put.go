package store

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"maps"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// Put stores an object; see object.Sink.
func (s *Store) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if err := name.ValidateStored(); err != nil {
		return object.Info{}, err
	}
	if opts.SizeHint > MaxObject {
		return object.Info{}, object.Errorf(object.Invalid, "object is larger than %d bytes", int64(MaxObject))
	}
	if err := s.checkEarly(name, opts.Condition); err != nil {
		return object.Info{}, err
	}
	w := s.write(name, opts)
	if opts.SizeHint > s.opts.InlineMax {
		return w.large(ctx, nil, r, opts.SizeHint)
	}
	return w.small(ctx, r, max(0, opts.SizeHint))
}

// write prepares to store an object.
func (s *Store) write(name object.Name, opts object.PutOptions) *write {
	w := &write{store: s, cond: opts.Condition, crc: opts.CRC32, keep: opts.Keep, near: opts.Near, finish: opts.Finish}
	w.rec = pack.Record{Kind: pack.Object, Name: exactOf(name, opts.Keep), ContentType: opts.ContentType, Metadata: opts.Metadata}
	if !opts.Keep { // else plain tar does not show it as a file of its own
		w.rec.Hidden, w.parents = s.plainName(w.rec.Name)
	}
	if w.near == (object.Name{}) {
		w.near = w.rec.Name
	}
	return w
}

// checkEarly spares a client the upload of what would be refused at its end.
func (s *Store) checkEarly(name object.Name, cond object.Condition) error {
	if cond == (object.Condition{}) {
		return nil
	}
	name.ID = object.Version{}
	all, err := s.find(name)
	if err != nil {
		return err
	}
	return s.checkCondition(name, cond, all)
}

// checkCondition checks a condition on the newest version of a name.
func (s *Store) checkCondition(name object.Name, cond object.Condition, all []entry) error {
	if cond == (object.Condition{}) {
		return nil
	}
	now, err := s.present(name, all)
	if err != nil {
		return err
	}
	return checkEntry(name, cond, now)
}

func checkEntry(name object.Name, cond object.Condition, now *entry) error {
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
	keep    bool    // it gets an ID of its own
	near    object.Name
	finish  func() (object.Finish, error)
	buf     []byte // head, then the payload
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
	if err := w.complete(); err != nil {
		return object.Info{}, err
	}
	w.makeRoom(head)
	return w.commit(ctx, nil)
}

// complete adds what is known at the end of the content, which may be refused here.
func (w *write) complete() error {
	if w.finish == nil {
		return nil
	}
	end, err := w.finish()
	if err != nil {
		return err
	}
	w.rec.ETag = end.ETag
	if len(end.Metadata) > 0 {
		all := maps.Clone(end.Metadata)
		maps.Copy(all, w.rec.Metadata)
		maps.Copy(all, end.Metadata)
		w.rec.Metadata = all
	}
	return nil
}

// makeRoom moves the payload if the head has become longer since it was laid out.
func (w *write) makeRoom(before int64) {
	after := pack.HeadLen(&w.rec)
	if after == before {
		return
	}
	content := w.buf[before:]
	room := w.store.buffers.get(after + int64(len(content)) + pack.Block)[:after]
	room = append(room, content...)
	w.store.buffers.put(w.buf)
	w.buf = room
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
	d, err := w.store.roomy(w.near, hint)
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
	if err := w.complete(); err != nil {
		return object.Info{}, err
	}
	w.rec.Size, w.rec.CRC32, w.rec.Extents = blob.size, blob.crc, blob.extents()
	head := pack.HeadLen(&w.rec)
	w.buf = append(make([]byte, head, head+int64(len(blob.table))+pack.Block), blob.table...)
	return w.commit(ctx, d)
}

// commit checks the condition, gives the record its version and place, and waits
// until it is durable and visible. A record over blobs must go to their disk.
func (w *write) commit(ctx context.Context, on *drive) (object.Info, error) {
	if err := w.checkCRC(); err != nil {
		return object.Info{}, err
	}
	unlock, err := w.store.keys.lock(ctx, w.rec.Name)
	if err != nil {
		return object.Info{}, err
	}
	defer unlock()
	return w.commitLocked(ctx, on)
}

func (w *write) checkCRC() error {
	if w.crc != nil && *w.crc != w.rec.CRC32 {
		return object.Errorf(object.Invalid, "content has CRC-32 %08x, not %08x as announced", w.rec.CRC32, *w.crc)
	}
	return nil
}

func (w *write) commitLocked(ctx context.Context, on *drive) (object.Info, error) {
	s := w.store
	if err := ctx.Err(); err != nil {
		return object.Info{}, err
	}
	epoch := s.epoch.Load()
	all, err := s.find(exactOf(w.rec.Name, false))
	if err != nil && w.cond != (object.Condition{}) {
		return object.Info{}, err
	}
	if err := s.checkCondition(w.rec.Name, w.cond, all); err != nil {
		return object.Info{}, err
	}
	if w.keep {
		all = nil // nothing has the ID it will get
	}
	p := pending{store: s, rec: w.rec, buf: w.buf, parents: w.parents, all: all, epoch: epoch, keep: w.keep}
	e, err := p.commit(on)
	if err != nil {
		return object.Info{}, err
	}
	info := e.Info(p.rec.Name)
	info.ContentType, info.Metadata = w.rec.ContentType, w.rec.Metadata
	return info, nil
}

// Delete removes an object; see object.Sink. Of one that has versions it removes the
// one with the ID, and without an ID the one that has none.
func (s *Store) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	if err := name.ValidateStored(); err != nil {
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
	if name.ID == object.NullID {
		name.ID = object.Version{}
	}
	epoch := s.epoch.Load()
	all, err := s.find(name)
	if err != nil {
		return err
	}
	now := current(all)
	if now == nil {
		return notFound(name)
	}
	if err := checkEntry(name, cond, now); err != nil {
		return err
	}
	stone := pack.Record{Kind: pack.Tombstone, Name: name}
	p := pending{store: s, rec: stone, buf: make([]byte, pack.HeadLen(&stone)), all: all, epoch: epoch}
	_, err = p.commit(nil)
	return err
}
