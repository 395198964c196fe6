package store

import (
	"context"
	"strconv"

	"golang.org/x/time/rate"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// Compaction copies what is live in a pack of mostly dead records to a new pack
// and removes the old one. It runs beside reads and writes; a name is locked
// only while its entry is pointed at the copy.
//
// The order is what keeps deleted objects deleted. The copy is durable before
// the index points at it; the index is durable before the old pack is removed;
// the old pack is durably gone before the tombstones that stood above its dead
// records may go.

// victim chooses the sealed pack with the largest share of dead bytes, if there
// is enough garbage on the disk to be worth the copying. There must be room for the
// copy and for the index behind it: a copy alone would only make a full disk fuller.
func (d *drive) victim() (id uint64, ok bool) {
	room := d.room() - d.idx().Stats().MemBytes
	d.apply.Lock()
	defer d.apply.Unlock()
	total, dead := d.tally.bytes()
	live := total - dead
	crowded := d.crowded()
	if dead == 0 || (!crowded && dead < live/4+d.packSize/8) {
		return 0, false
	}
	best := 0.0
	for candidate, p := range d.tally.Packs {
		if before := d.tally.Packs[p.After]; !p.Sealed || p.Damaged || p.Total == 0 || (before != nil && !before.Sealed) {
			continue
		}
		if p.Dead < p.Total && p.Total-p.Dead > room {
			continue
		}
		share := float64(p.Dead) / float64(p.Total)
		worth := share > 0.2 || crowded
		share /= float64(1 + p.tries) // lest one that cannot be read keeps the others from it
		if worth && share > best {
			id, best, ok = candidate, share, true
		}
	}
	return id, ok
}

// crowded reports whether the disk refuses writes for want of space.
func (d *drive) crowded() bool { return d.state() == "full" }

// sealWasteful ends the pack being written if compaction could gain from it.
func (d *drive) sealWasteful() error {
	return d.log.exclusively(func() error {
		w := d.log.writer
		if w == nil {
			return nil
		}
		d.apply.Lock()
		p := *d.tally.pack(w.ID())
		total, dead := d.tally.bytes()
		d.apply.Unlock()
		if p.Dead > (total-dead)/4+d.packSize/8 || (d.crowded() && p.Dead > p.Total/4) {
			d.log.rotate()
		}
		return nil
	})
}

// compaction is one pack being emptied.
type compaction struct {
	drive  *drive
	ctx    context.Context
	source *packFile
	out    *pack.Writer
	budget *rate.Limiter

	target uint64        // number of out
	moved  []move        // records that were copied
	dead   []object.Name // objects whose dead record was in the pack
	stones []object.Name // tombstones that nothing needs once the pack is gone
	kept   int64
}

type move struct {
	name object.Name
	from pack.Stub
	to   pack.Location
}

func (d *drive) compact(ctx context.Context, id uint64, budget *rate.Limiter) error {
	c := &compaction{drive: d, ctx: ctx, budget: budget}
	err := c.empty(id)
	d.apply.Lock()
	p := d.tally.pack(id)
	if err != nil {
		p.tries++
	} else if !p.Emptied {
		p.Emptied = true
		d.tally.Removed++
	}
	if object.Is(err, object.Corrupt) || object.Is(err, object.NotFound) {
		p.Damaged = true
		d.store.metrics.corrupt.Inc()
	}
	d.apply.Unlock()
	if err != nil {
		return err
	}
	if err := d.checkpoint(ctx); err != nil {
		return err
	}
	if err := d.noteRemoved(); err != nil {
		return err
	}
	if err := d.removePack(id); err != nil {
		return err
	}
	c.forget(id)
	d.store.metrics.compacted.Inc()
	return nil
}

// How many packs compaction has removed in a disk's life stands in a file beside
// them too. An index that counts fewer is an old copy: it believes in records that
// are gone together with their tombstones.
const (
	removedFile   = "removed"
	removedFormat = 1
)

// noteRemoved is called before a pack is removed, and after the index that counts
// it is durable.
func (d *drive) noteRemoved() error {
	d.apply.Lock()
	count := d.tally.Removed
	d.apply.Unlock()
	err := disk.WriteSealed(d.fs, removedFile, removedFile, removedFormat, strconv.AppendUint(nil, count, 10))
	return unavailable(d, err)
}

// removed returns what noteRemoved noted last.
func (d *drive) removed() (count uint64, err error) {
	content, err := disk.ReadSealed(d.fs, removedFile, removedFile, removedFormat)
	if err == nil {
		count, err = strconv.ParseUint(string(content), 10, 64)
	}
	if object.Is(err, object.Unavailable) || object.Is(err, object.Invalid) {
		return 0, err
	}
	if err != nil && !object.Is(err, object.NotFound) {
		d.store.log.Warn("a file is damaged and will be written anew", "disk", d.name, "file", removedFile, "error", err)
	}
	return count, nil
}

// empty makes everything that is needed of a pack stand in another one.
func (c *compaction) empty(id uint64) error {
	d := c.drive
	source, err := d.files.acquire(id)
	if err != nil {
		d.apply.Lock()
		p := *d.tally.pack(id)
		d.apply.Unlock()
		if object.Is(err, object.NotFound) && p.Dead == p.Total {
			d.unswept.Store(true) // it was removed, or never got its name: a sweep clears the notes about it away
			return nil
		}
		return err
	}
	defer d.files.release(source)
	c.source = source
	if err := c.copyLive(); err != nil {
		c.discard()
		return err
	}
	return c.point()
}

// copyLive appends every record that is still the newest of its name to a new
// pack and seals it.
func (c *compaction) copyLive() error {
	_, err := c.source.Directory(func(name object.Name, stub pack.Stub) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		e, ok, err := c.drive.get(name)
		if err != nil {
			return err
		}
		if !ok || e.pack != c.source.ID() || e.Offset != stub.Offset {
			if stub.Kind != pack.Tombstone {
				c.dead = append(c.dead, name)
			}
			return nil
		}
		if e.Kind == pack.Tombstone && c.drive.store.unneeded(name, &e) {
			c.stones = append(c.stones, name)
			return nil
		}
		return c.copy(name, &e)
	})
	if err != nil || c.out == nil {
		return err
	}
	out := c.out
	c.out = nil
	if err = out.Seal(); err != nil {
		out.Discard() //nolint:errcheck // what is left is removed at the next start
		err = object.Errorf(object.Unavailable, "%w", err)
	}
	// Until the index points at a copy it counts as dead. So it does if Seal failed:
	// the pack may have its name all the same, and then is to be removed.
	d := c.drive
	var b index.Batch
	for _, m := range c.moved {
		if m.from.Kind != pack.Tombstone {
			b.Set(deadKey(nil, m.name, c.target), nil)
		}
	}
	d.apply.Lock()
	p := d.tally.pack(c.target)
	p.End, p.Sealed, p.Total, p.Dead = out.End(), true, c.kept, c.kept
	d.idx().Apply(&b)
	d.apply.Unlock()
	return err
}

func (c *compaction) copy(name object.Name, e *entry) error {
	d := c.drive
	if c.out == nil {
		o := d.packOptions(d.nextPack.Add(1))
		o.Moved = true
		out, err := pack.Create(d.fs, o)
		if err != nil {
			return object.Errorf(object.Unavailable, "%w", err)
		}
		c.out, c.target = out, out.ID()
	}
	if err := c.pay(e.Len()); err != nil {
		return err
	}
	buf := d.store.buffers.get(e.Len() + pack.Block)
	defer d.store.buffers.put(buf)
	rec, payload, err := c.source.Read(e.Location, nil)
	if err != nil {
		return err
	}
	buf = append(buf[:pack.HeadLen(rec)], payload...)
	draft := pack.NewDraft(*rec, buf)
	if err := c.out.Append(draft); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	c.kept += draft.Len()
	c.moved = append(c.moved, move{name: name, from: e.Stub, to: draft.Location})
	return nil
}

// pay waits for the budget, unless the disk needs the space at once.
func (c *compaction) pay(n int64) error {
	if c.drive.crowded() {
		return nil
	}
	burst := int64(c.budget.Burst())
	for n > 0 {
		part := min(n, burst)
		if err := c.budget.WaitN(c.ctx, int(part)); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (c *compaction) discard() {
	if c.out != nil {
		c.out.Discard() //nolint:errcheck // what is left is removed at the next start
	}
}

// point makes the index name the copies, one name at a time.
func (c *compaction) point() error {
	for _, m := range c.moved {
		unlock, err := c.drive.store.keys.lock(c.ctx, m.name)
		if err != nil {
			return err
		}
		err = c.pointOne(m)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// pointOne moves one name, unless somebody has written it meanwhile.
func (c *compaction) pointOne(m move) error {
	d := c.drive
	e, ok, err := d.get(m.name)
	if err != nil {
		return err
	}
	if !ok || e.pack != c.source.ID() || e.Offset != m.from.Offset {
		return nil
	}
	e.pack, e.Location = c.target, m.to
	var b index.Batch
	b.Set(objectKey(nil, m.name), e.append(nil))
	if e.live() {
		b.Delete(deadKey(nil, m.name, c.target))
		b.Set(deadKey(nil, m.name, c.source.ID()), nil)
	}
	d.apply.Lock()
	d.tally.pack(c.source.ID()).Dead += m.from.Len()
	d.tally.pack(c.target).Dead -= m.to.Len()
	d.idx().Apply(&b)
	d.apply.Unlock()
	d.store.hot.drop(hashName(m.name))
	return nil
}

// forget takes the removed pack out of the books, and then the tombstones that
// were there only because of it.
func (c *compaction) forget(id uint64) {
	d := c.drive
	var b index.Batch
	for _, name := range c.dead {
		b.Delete(deadKey(nil, name, id))
	}
	for _, m := range c.moved {
		b.Delete(deadKey(nil, m.name, id))
	}
	d.apply.Lock()
	delete(d.tally.Packs, id)
	d.idx().Apply(&b)
	d.apply.Unlock()
	for _, names := range [][]object.Name{c.stones, c.dead} {
		for _, name := range names {
			if d.store.dropTombstones(c.ctx, name) != nil {
				return // the sweep after the next start does it
			}
		}
	}
}

// unneeded reports whether nothing that a tombstone covers stands in any other
// pack of any disk. Only then may it go: with the pack that holds it. What another
// disk believes to be the object, because it was away or took no tombstone, is
// covered too.
func (s *Store) unneeded(name object.Name, stone *entry) bool {
	if !s.complete() {
		return false
	}
	own := deadKey(nil, name, stone.pack)
	prefix := deadPrefix(nil, name)
	for _, d := range s.drives {
		if e, ok, err := d.get(name); err != nil || d.uncut.Load() || (ok && e.live() && stone.newer(&e)) {
			return false
		}
		it := d.idx().Scan(prefix, successor(prefix))
		found := false
		for !found && it.Next() {
			found = d != stone.drive || string(it.Key()) != string(own)
		}
		err := it.Err()
		it.Close()
		if found || err != nil {
			return false
		}
	}
	return true
}

// dropTombstones takes a name's tombstones out of the index if no older record
// of it is left anywhere. Their records in the log are then garbage.
func (s *Store) dropTombstones(ctx context.Context, name object.Name) error {
	unlock, err := s.keys.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.find(name)
	if err != nil {
		return err
	}
	for i := range all {
		if e := &all[i]; e.Kind == pack.Tombstone && s.unneeded(name, e) {
			e.drive.dropTombstone(name, e)
		}
	}
	return nil
}

func (d *drive) dropTombstone(name object.Name, e *entry) {
	var b index.Batch
	b.Delete(objectKey(nil, name))
	d.apply.Lock()
	defer d.apply.Unlock()
	// While older records stand in the tombstone's own pack it stays.
	if _, dead, err := d.idx().Get(deadKey(nil, name, e.pack), nil); err != nil || (dead && d.tally.Packs[e.pack] != nil) {
		return
	}
	if p := d.tally.Packs[e.pack]; p != nil {
		p.Dead += e.Len()
	}
	d.idx().Apply(&b)
}
