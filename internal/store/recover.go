package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// recover opens the index and brings it up to date with the log. If the index is
// lost, or proves damaged at once or on the way, everything is read anew. If it
// fails there is no index: half of one must not pass for the whole.
func (d *drive) recover(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			d.dropIndex()
		}
	}()
	err = d.catchUpIndex(ctx)
	if !errors.Is(err, index.ErrDamaged) {
		return err
	}
	d.store.log.Warn("an index is damaged and will be rebuilt from the log", "disk", d.name, "error", err)
	d.store.metrics.corrupt.Inc()
	d.dropIndex()
	if err := index.Reset(d.fs, indexDir); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	return d.catchUpIndex(ctx)
}

// dropIndex closes index and log as they are.
func (d *drive) dropIndex() {
	d.log.close() //nolint:errcheck // all in it is synced
	if x := d.index.Swap(nil); x != nil {
		x.Close() //nolint:errcheck // it is thrown away
	}
}

func (d *drive) catchUpIndex(ctx context.Context) error {
	x, err := index.Open(d.fs, indexDir, index.Options{MemBytes: d.store.opts.IndexMem})
	if err != nil {
		return err
	}
	d.index.Store(x)
	if d.tally, err = decodeTally(x.State()); err != nil {
		return err
	}
	d.store.versioned.add(d.tally.Kept)
	removed, err := d.removed()
	if err != nil {
		return err
	}
	if removed > d.tally.Removed && x.State() != nil {
		return object.Errorf(object.Corrupt, "%w: it is an old copy: since it was made %d packs were removed", index.ErrDamaged, removed-d.tally.Removed)
	}
	d.tally.Removed = max(removed, d.tally.Removed)
	packs, err := d.listPacks()
	if err != nil {
		return err
	}
	if packs, err = d.removeEmptied(packs); err != nil {
		return err
	}
	ends, err := d.catchUp(ctx, packs)
	if err != nil {
		return err
	}
	d.dropMissing(packs)
	return d.resume(packs, ends)
}

// listPacks returns the packs on the disk in the order of their numbers, and
// removes what compaction left unfinished.
func (d *drive) listPacks() ([]uint64, error) {
	names, err := d.fs.ReadDir(pack.Dir)
	if err != nil {
		return nil, object.Errorf(object.Unavailable, "%w", err)
	}
	var ids []uint64
	for _, name := range names {
		if pack.Leftover(name) {
			if err := ignoreMissing(d.fs.Remove(pack.Dir + "/" + name)); err != nil {
				d.store.log.Warn("a leftover could not be removed", "disk", d.name, "file", name, "error", err)
			}
			continue
		}
		if id, ok := pack.ParseFileName(name); ok {
			ids = append(ids, id)
		} else if !strings.HasPrefix(name, ".") {
			d.store.log.Warn("a file does not belong here", "disk", d.name, "file", pack.Dir+"/"+name)
		}
	}
	slices.Sort(ids)
	last := uint64(0)
	if len(ids) > 0 {
		last = ids[len(ids)-1]
	}
	for id := range d.tally.Packs {
		last = max(last, id)
	}
	d.nextPack.Store(max(last, d.nextPack.Load()))
	return ids, nil
}

// removeEmptied finishes compactions: packs whose records all stand elsewhere.
// They must not be read again, since tombstones above them may be gone. It
// returns the packs that are left.
func (d *drive) removeEmptied(packs []uint64) ([]uint64, error) {
	var left []uint64
	for _, id := range packs {
		if p := d.tally.Packs[id]; p == nil || !p.Emptied {
			left = append(left, id)
			continue
		}
		if err := d.noteRemoved(); err != nil {
			return nil, err
		}
		if err := d.removePack(id); err != nil {
			return nil, err
		}
	}
	for id, p := range d.tally.Packs {
		if p.Emptied {
			delete(d.tally.Packs, id)
		}
	}
	return left, nil
}

func (d *drive) removePack(id uint64) error {
	d.files.forget(id)
	if err := ignoreMissing(d.fs.Remove(pack.FileName(id))); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	if err := d.fs.SyncDir(pack.Dir); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	return nil
}

// catchUp reads every record that the index does not know yet. It returns where
// each pack that was not sealed ends.
func (d *drive) catchUp(ctx context.Context, packs []uint64) (map[uint64]int64, error) {
	ends := make(map[uint64]int64)
	limits := make(map[uint64]int64)
	newest := uint64(0) // pack of the log
	open := false
	for _, id := range packs {
		if p := d.tally.Packs[id]; !open && p != nil && p.Sealed {
			continue // before the first open one: nothing to learn from it
		}
		open = true
		f, err := d.files.acquire(id)
		if err != nil {
			return nil, err
		}
		if prev, end := f.Previous(); prev != 0 {
			limits[prev] = end // a pack tells where the one before it ends
			d.tally.pack(id).After = prev
		}
		if !f.Moved() {
			newest = max(newest, id)
		}
		d.files.release(f)
	}
	for _, id := range packs {
		if p := d.tally.Packs[id]; p != nil && p.Sealed {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// A killed process may have left bytes that only the page cache has: nothing
		// may be built on them before they are durable.
		if err := pack.SyncFile(d.fs, id); err != nil && !errors.Is(err, syscall.EROFS) {
			return nil, err
		}
		end, sealed, err := d.readPack(ctx, id, limits[id], id == newest)
		if err != nil {
			return nil, err
		}
		d.tally.pack(id).End = end
		d.tally.pack(id).Sealed = sealed
		if !sealed {
			ends[id] = end
		}
	}
	return ends, nil
}

// readPack replays the records of one pack that are not in the index. One without a
// directory was open when the process ended, if it is the newest of the log or a
// later pack tells where it ends: others do as long as it is open. Otherwise it has
// lost its end.
func (d *drive) readPack(ctx context.Context, id uint64, limit int64, newest bool) (end int64, sealed bool, err error) {
	f, err := d.files.acquire(id)
	if err != nil {
		return 0, false, err
	}
	defer d.files.release(f)
	from := d.tally.pack(id).End
	r := replay{drive: d, ctx: ctx, pack: id}
	end, err = f.Directory(func(name object.Name, stub pack.Stub) error {
		if stub.Offset < from {
			return nil
		}
		return r.add(name, stub, func() ([]pack.Extent, error) {
			rec, err := f.Head(stub.Location)
			if err != nil {
				return nil, err
			}
			return rec.Extents, nil
		})
	})
	if err == nil {
		return end, true, nil
	}
	if !object.Is(err, object.NotFound) && !object.Is(err, object.Corrupt) {
		return 0, false, err
	}
	res, err := f.Scan(pack.ScanOptions{From: from, Floor: max(from, limit), Limit: limit}, func(rec *pack.Record, l pack.Location) error {
		draft := pack.Draft{Record: *rec, Location: l}
		return r.add(rec.Name, draft.Stub(), func() ([]pack.Extent, error) { return rec.Extents, nil })
	})
	if err != nil {
		return 0, false, err
	}
	if f.Moved() || !newest && limit == 0 && r.seen > 0 {
		res.Damage = append(res.Damage, pack.Span{Offset: res.End})
	}
	for _, span := range res.Damage {
		d.store.metrics.corrupt.Inc()
		d.tally.pack(id).Damaged = true
		d.store.log.Error("a pack is damaged", "disk", d.name, "pack", id, "offset", span.Offset, "length", span.Length)
	}
	return res.End, false, nil
}

// replay puts records found in a pack into the index, as publish would have.
type replay struct {
	drive *drive
	ctx   context.Context
	pack  uint64
	seen  int
}

// add compares a record with what the index knows of its name.
func (r *replay) add(name object.Name, stub pack.Stub, extents func() ([]pack.Extent, error)) error {
	d := r.drive
	r.seen++
	if r.seen%4096 == 0 && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	e := entry{drive: d, pack: r.pack, Stub: stub}
	old, known, err := d.lookup(name)
	if err != nil {
		return err
	}
	var b index.Batch
	refs := make(blobRefs)
	switch {
	case known && old.Version == e.Version && old.Kind == e.Kind:
		r.again(&b, name, &e, &old)
	case known && !e.newer(&old):
		d.tally.pack(e.pack).Total += e.Len()
		d.tally.pack(e.pack).Dead += e.Len()
		if e.live() {
			b.Set(deadKey(nil, name, e.pack), nil)
		}
	default:
		if err := r.replace(&b, refs, name, &e, &old, known, extents); err != nil {
			return err
		}
	}
	// Files of blobs that are not needed are swept later: a copy may still come.
	if _, err := d.settleBlobs(&b, refs); err != nil {
		return err
	}
	d.idx().Apply(&b)
	d.tally.pack(e.pack).End = e.End()
	if !d.idx().Full() {
		return nil
	}
	err = d.checkpoint(r.ctx)
	if disk.IsFull(err) && d.idx().Stats().MemBytes < 8*d.store.opts.IndexMem {
		return nil // as much as a running store may have in memory
	}
	return err
}

func (r *replay) replace(b *index.Batch, refs blobRefs, name object.Name, e, old *entry, known bool, extents func() ([]pack.Extent, error)) error {
	d := r.drive
	var blobs, oldBlobs []pack.Extent
	var err error
	if e.Extents {
		if blobs, err = extents(); err != nil && !object.Is(err, object.Corrupt) {
			return err
		}
	}
	if !known {
		old = nil
	} else if old.Extents {
		if rec, err := d.head(old); err == nil {
			oldBlobs = rec.Extents
		} else if object.Is(err, object.Unavailable) {
			return err
		}
	}
	d.record(b, refs, name, e, blobs, old, oldBlobs)
	if e.Kind == pack.Object && !e.Hidden && e.ID == (object.Version{}) && strings.Count(name.Key, "/") <= maxDepth {
		for i := range name.Key {
			if name.Key[i] == '/' && i > 0 {
				r.parent(b, object.Name{Bucket: name.Bucket, Key: name.Key[:i]})
			}
		}
	}
	return nil
}

func (r *replay) parent(b *index.Batch, path object.Name) {
	hash := hashName(path)
	if !r.drive.parents.has(hash) {
		r.drive.parents.add(hash)
		b.Set(parentKey(nil, path.Bucket, path.Key), nil)
	}
}

// again meets a record that the index knows already: the same one, or a copy
// that compaction made. The copy that is in the newer pack stays.
func (r *replay) again(b *index.Batch, name object.Name, e, old *entry) {
	d := r.drive
	if e.pack == old.pack {
		return
	}
	d.tally.pack(e.pack).Total += e.Len()
	if e.pack < old.pack {
		d.tally.pack(e.pack).Dead += e.Len()
		if e.live() {
			b.Set(deadKey(nil, name, e.pack), nil)
		}
		return
	}
	if p := d.tally.Packs[old.pack]; p != nil {
		p.Dead += old.Len()
	}
	if old.live() {
		b.Set(deadKey(nil, name, old.pack), nil)
	}
	b.Set(objectKey(nil, name), e.append(nil))
}

// dropMissing forgets packs that the index knows but the disk does not hold.
func (d *drive) dropMissing(packs []uint64) {
	for id, p := range d.tally.Packs {
		if !slices.Contains(packs, id) {
			if p.Total > p.Dead {
				d.store.log.Error("a pack is missing; its objects are lost", "disk", d.name, "pack", id, "bytes", p.Total-p.Dead)
				d.store.metrics.corrupt.Inc()
			}
			delete(d.tally.Packs, id)
		}
	}
}

// resume seals the packs that were left open, except the last, and goes on
// writing there, unless a later pack tells already where it ends. A damaged one is
// left as it is: it is evidence.
func (d *drive) resume(packs []uint64, ends map[uint64]int64) error {
	var last uint64
	for id := range ends {
		last = max(last, id)
	}
	followed := false
	for _, p := range d.tally.Packs {
		followed = followed || p.After == last
	}
	for _, id := range packs {
		end, open := ends[id]
		switch {
		case !open:
			continue
		case end == 0:
			if err := d.dropHeadless(id); err != nil {
				return err
			}
			continue
		case d.tally.pack(id).Damaged:
			d.log.previous, d.log.end = id, end
			continue
		}
		d.files.forget(id)
		w, err := pack.Resume(d.fs, d.packOptions(id), end)
		if err != nil {
			d.uncut.Store(true)
			d.store.log.Warn("a pack cannot be written to", "disk", d.name, "pack", id, "error", err)
			d.log.previous, d.log.end = id, end
			continue
		}
		if id == last && !followed {
			d.log.writer = w
			continue
		}
		if err := w.Seal(); err != nil {
			d.store.log.Warn("a pack could not be sealed", "disk", d.name, "pack", id, "error", err)
			continue
		}
		d.tally.pack(id).Sealed = true
	}
	return nil
}

// setAside ends the names of packs that are kept for people to look at.
const setAside = ".damaged"

// dropHeadless sets a pack aside whose head cannot be read: nothing in it can be.
func (d *drive) dropHeadless(id uint64) error {
	delete(d.tally.Packs, id)
	d.files.forget(id)
	d.store.metrics.corrupt.Inc()
	d.store.log.Error("a pack is damaged all over and set aside", "disk", d.name, "pack", id)
	if err := d.fs.Rename(pack.FileName(id), pack.FileName(id)+setAside); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	return nil
}
