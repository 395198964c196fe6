package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// Compose stores under dst what the parts hold, one after the other. Each is a whole
// object; one that is not of the version it is asked for is Stale. Nothing large is
// copied: the record names the blobs of the parts, which stay as they are, and may be
// deleted afterwards. Only a part that lies in a pack, because it is small, that was
// put together itself, or that lies on another disk than most of them, is written
// again. Info then tells the sizes of those parts that are not empty, if Finish gives
// an ETag that is not an MD5.
func (s *Store) Compose(ctx context.Context, dst object.Name, parts []object.Ref, opts object.PutOptions) (object.Info, error) {
	if len(parts) == 0 {
		return object.Info{}, object.Errorf(object.Invalid, "%s is to be put together from nothing", dst)
	}
	names := []object.Name{dst}
	for i := range parts {
		names = append(names, parts[i].Name)
	}
	for _, name := range names {
		if err := name.ValidateStored(); err != nil {
			return object.Info{}, err
		}
	}
	w := s.write(dst, opts)
	c := &composition{store: s, ctx: ctx}
	defer c.unlock()
	if err := c.lock(names); err != nil {
		return object.Info{}, err
	}
	if err := s.checkEarly(dst, opts.Condition); err != nil {
		return object.Info{}, err
	}
	if err := c.find(parts); err != nil {
		return object.Info{}, err
	}
	w.rec.Size, w.rec.CRC32 = c.size, c.crc
	if err := w.checkCRC(); err != nil {
		return object.Info{}, err
	}
	if err := w.complete(); err != nil {
		return object.Info{}, err
	}
	if c.size == 0 {
		w.buf = make([]byte, pack.HeadLen(&w.rec))
		return w.commitLocked(ctx, nil)
	}
	var first error
	for _, d := range c.candidates(dst) {
		info, err := c.commit(w, d)
		if err == nil {
			return info, nil
		}
		if first == nil {
			first = err
		}
		if !object.Is(err, object.Unavailable) || errors.Is(err, errUncertain) {
			break
		}
	}
	return object.Info{}, first
}

// composition is an object that is being put together. The names of all parts are
// locked meanwhile, so that their blobs cannot go.
type composition struct {
	store  *Store
	ctx    context.Context
	locked []object.Name
	parts  []part
	size   int64
	crc    uint32
}

type part struct {
	name object.Name // exact
	*entry
}

// lock locks all names in the order of their names, as everybody does who locks
// several. Versions of one name have one lock.
func (c *composition) lock(names []object.Name) error {
	byName := func(a, b object.Name) int {
		return cmp.Or(strings.Compare(a.Bucket, b.Bucket), strings.Compare(a.Key, b.Key))
	}
	slices.SortFunc(names, byName)
	names = slices.CompactFunc(names, func(a, b object.Name) bool { return byName(a, b) == 0 })
	for _, name := range names {
		if err := c.store.keys.acquire(c.ctx, name, new(keyLock)); err != nil {
			return err
		}
		c.locked = append(c.locked, name)
	}
	return nil
}

func (c *composition) unlock() {
	for _, name := range c.locked {
		c.store.keys.release(name)
	}
}

// find looks the parts up.
func (c *composition) find(parts []object.Ref) error {
	for _, ref := range parts {
		name, err := c.store.exact(ref.Name)
		if err != nil {
			return err
		}
		all, err := c.store.find(name)
		if err != nil {
			return err
		}
		e, err := objectOf(name, all)
		if err != nil {
			return err
		}
		if ref.Of != (object.Version{}) && ref.Of != e.Version {
			return object.Errorf(object.Stale, "%s was replaced meanwhile", name)
		}
		if c.size += e.Size; c.size > MaxObject {
			return object.Errorf(object.Invalid, "object is larger than %d bytes", int64(MaxObject))
		}
		c.crc = uint32(checksum.CRC32.Combine(uint64(c.crc), uint64(e.CRC32), e.Size))
		if e.Size > 0 {
			c.parts = append(c.parts, part{name, e})
		}
	}
	return nil
}

// candidates returns the disks in the order in which they should be tried: the less
// has to be written again the better.
func (c *composition) candidates(dst object.Name) []*drive {
	held := make(map[*drive]int64)
	for _, p := range c.parts {
		if p.Extents {
			held[p.drive] += p.Size
		}
	}
	order := slices.Clone(c.store.candidates(dst, nil))
	slices.SortStableFunc(order, func(a, b *drive) int { return cmp.Compare(held[b], held[a]) })
	return order
}

// commit stores the object on a disk, to which what is missing there is copied.
func (c *composition) commit(w *write, d *drive) (info object.Info, err error) {
	if err := d.readable(); err != nil {
		return object.Info{}, err
	}
	var copies []*blobDraft
	defer func() {
		for _, blob := range copies {
			switch {
			case err == nil:
				d.blobs.done(blob.id)
			case errors.Is(err, errUncertain):
				d.blobs.doubt(blob)
			default:
				d.blobs.discard(blob)
			}
		}
	}()
	w.rec.Extents = nil
	var table []byte
	for _, p := range c.parts {
		rec, payload, err := p.drive.read(p.entry)
		if err != nil {
			return object.Info{}, c.store.readFailed(p.drive, p.name, err)
		}
		if p.drive != d || len(rec.Extents) != 1 {
			blob, err := c.copy(p, payload, d)
			if err != nil {
				return object.Info{}, err
			}
			copies = append(copies, blob)
			rec.Extents, payload = blob.extents(), blob.table
		}
		w.rec.Extents = append(w.rec.Extents, rec.Extents...)
		table = append(table, payload...)
	}
	head := pack.HeadLen(&w.rec)
	w.buf = append(make([]byte, head, head+int64(len(table))+pack.Block), table...)
	return w.commitLocked(c.ctx, d)
}

// copy writes a part to a disk.
func (c *composition) copy(p part, payload []byte, d *drive) (*blobDraft, error) {
	if err := d.space(p.Size); err != nil {
		return nil, d.refuse(err)
	}
	content := io.Reader(bytes.NewReader(payload))
	if p.Extents {
		r, err := c.store.open(c.ctx, inexact(p.name), object.Range{}, true)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		content = r
	}
	blob, err := d.blobs.write(c.ctx, nil, content, p.Size)
	if err == nil && blob.crc != p.CRC32 {
		d.blobs.discard(blob)
		err = object.Errorf(object.Corrupt, "%s is damaged: its content has not the checksum that was stored with it", p.name)
	}
	if err != nil {
		return nil, err
	}
	return blob, nil
}
