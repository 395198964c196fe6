package store

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

const burst = 4 << 20 // bytes compaction may copy at once

// run looks after a disk until the context ends.
func (d *drive) run(ctx context.Context) error {
	budget := rate.NewLimiter(rate.Limit(d.store.opts.CompactRate), burst)
	ticker := time.NewTicker(d.store.opts.MaintainEvery)
	defer ticker.Stop()
	wake := d.wake
	for {
		if d.readable() == nil {
			if d.unswept.Load() || d.behind.Load() > 0 && d.writable() && d.store.allReadable() {
				d.note(ctx, "sweep", d.sweep(ctx)) //nolint:errcheck // noted
			}
			wake = d.wake
			if d.note(ctx, "maintain", d.maintain(ctx, budget)) != nil {
				wake = nil // what failed is tried again in a while, not at once
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			d.heal(ctx)
		case <-wake:
		}
	}
}

// note logs what background work failed with, and not again as long as it goes on
// failing.
func (d *drive) note(ctx context.Context, what string, err error) error {
	if err != nil && ctx.Err() == nil && !d.noted[what] {
		d.store.log.Warn("background work failed and will be tried again", "disk", d.name, "work", what, "error", err)
	}
	d.noted[what] = err != nil
	return err
}

// maintain writes a checkpoint if one is due, merges the index, and compacts as
// long as it is worth it.
func (d *drive) maintain(ctx context.Context, budget *rate.Limiter) error {
	for ctx.Err() == nil {
		merged, err := d.tend(ctx)
		if err != nil && !disk.IsFull(err) { // a full disk needs what follows all the more
			return err
		}
		open := errors.Join(d.sealWasteful(), d.log.sealOpen())
		id, worth := d.victim()
		if worth {
			if err := d.compact(ctx, id, budget); err != nil {
				return err
			}
		}
		if !merged && !worth {
			return open // which kept nothing else from being done
		}
	}
	return ctx.Err()
}

// tend writes the index out if it is due, and reports whether it merged some of it.
func (d *drive) tend(ctx context.Context) (merged bool, err error) {
	if d.idx().Full() {
		if err := d.checkpoint(ctx); err != nil {
			return false, err
		}
	}
	if d.crowded() {
		return false, nil // merging takes space first
	}
	merged, err = d.idx().Merge(ctx)
	if object.Is(err, object.Corrupt) {
		d.indexFailed(err)
	}
	return merged, err
}

// sweep removes what a crash may have left: blobs that no record needs, notes of
// dead records in packs that are gone, tombstones over nothing. And it buries
// objects that have a newer record on another disk, written while this one was
// away.
func (d *drive) sweep(ctx context.Context) error {
	passed, epoch := d.behind.Load(), d.store.epoch.Load()
	d.unswept.Store(false)
	err := d.sweepBlobs(ctx, nil)
	if err == nil {
		err = d.sweepDead(ctx)
	}
	if err == nil {
		err = d.sweepNames(ctx)
	}
	if err != nil {
		d.unswept.Store(true)
		return err
	}
	if passed > 0 && epoch == d.store.epoch.Load() && d.store.allReadable() {
		return d.store.roster.caughtUp(d, passed)
	}
	return nil
}

// sweepBlobs calls found for each blob that no record needs, and removes it.
func (d *drive) sweepBlobs(ctx context.Context, found func(id uint64)) error {
	dirs, err := d.fs.ReadDir(blobsDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		names, err := d.fs.ReadDir(blobsDir + "/" + dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			id, err := strconv.ParseUint(name, 16, 64)
			if err != nil || blobName(id) != blobsDir+"/"+dir+"/"+name {
				continue // not ours
			}
			// In this order: a blob leaves the list of those being written only after
			// the index has it.
			if d.blobs.beingWritten(id) {
				continue
			}
			_, needed, err := d.idx().Get(blobKey(nil, id), nil)
			if err != nil {
				d.indexFailed(err)
				return err
			}
			if needed {
				continue
			}
			if err := d.readable(); err != nil {
				return err // an index to be rebuilt does not say what is needed
			}
			if d.blobs.toBeRead(id) {
				continue
			}
			if found != nil {
				found(id)
			}
			d.blobs.remove([]uint64{id})
		}
	}
	return nil
}

func (d *drive) sweepDead(ctx context.Context) error {
	var stale [][]byte
	it := d.idx().Scan([]byte{spaceDead}, []byte{spaceDead + 1})
	defer it.Close()
	for it.Next() && ctx.Err() == nil {
		key := it.Key()
		id := binary.BigEndian.Uint64(key[len(key)-8:])
		d.apply.Lock()
		known := d.tally.Packs[id] != nil
		d.apply.Unlock()
		if !known {
			stale = append(stale, append([]byte(nil), key...))
		}
	}
	if err := errors.Join(it.Err(), ctx.Err()); err != nil {
		return err
	}
	var b index.Batch
	for _, key := range stale {
		b.Delete(key)
	}
	d.apply.Lock()
	d.idx().Apply(&b)
	d.apply.Unlock()
	return nil
}

func (d *drive) sweepNames(ctx context.Context) error {
	it := d.idx().Scan([]byte{spaceObject}, []byte{spaceObject + 1})
	defer it.Close()
	for it.Next() && ctx.Err() == nil {
		e, err := parseEntry(d, it.Value())
		if err != nil {
			return err
		}
		name, _, ok := splitKey(it.Key())
		switch {
		case !ok:
		case e.Kind == pack.Tombstone && d.store.complete():
			err = d.store.dropTombstones(ctx, name)
		case e.live() && d.store.elsewhere(name, d):
			err = d.store.settle(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(it.Err(), ctx.Err())
}

// elsewhere reports whether another disk than d knows a name.
func (s *Store) elsewhere(name object.Name, d *drive) bool {
	for _, other := range s.drives {
		if other == d {
			continue
		}
		if _, known, _ := other.get(name); known {
			return true
		}
	}
	return false
}

// settle buries what older disks know of a name.
func (s *Store) settle(ctx context.Context, name object.Name) error {
	unlock, err := s.keys.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	epoch := s.epoch.Load()
	all, _ := s.find(name) // what cannot be asked can only make more of it old
	if len(all) < 2 {
		return nil
	}
	return s.supersede(pack.Record{Name: name, Version: all[0].Version, Modified: s.opts.Clock().UTC()}, all, epoch, all[0].drive)
}

// heal tries to bring a failed disk back: it must take a file and give it back,
// unless it is full or read-only, and its index must be readable or rebuilt.
func (d *drive) heal(ctx context.Context) {
	if d.readable() == nil {
		d.retry()
		return
	}
	if err := d.probe(); err != nil && !disk.IsFull(err) && !errors.Is(err, syscall.EROFS) {
		return
	}
	if _, err := disk.ReadIdentity(d.fs); err != nil {
		return
	}
	err := d.log.exclusively(func() error {
		if err := d.reopen(ctx); err != nil {
			return err
		}
		d.recorded.Store(false)
		d.store.passed(d) // also where the disk itself tells it
		d.health.Lock()
		d.failure, d.damaged = nil, false
		d.health.Unlock()
		// Last: who has seen this epoch has been able to ask the disk.
		d.store.epoch.Add(1)
		return nil
	})
	if d.note(ctx, "bring a disk back", err) != nil {
		return
	}
	d.nudge()
	d.store.log.Info("a disk is back in use", "disk", d.name)
}

// retry finds out whether a disk that refused writes takes them again. Nobody
// else would, as long as there are other disks to go to.
func (d *drive) retry() {
	d.health.Lock()
	refused := d.refused
	d.health.Unlock()
	if refused != nil && d.space(0) == nil && d.probe() == nil {
		if d.behind.Load() > 0 {
			d.recorded.Store(false)
			d.store.passed(d) // also where the disk itself tells it
		}
		d.wrote(nil)
	}
}

// probe writes a file and reads it back.
func (d *drive) probe() error {
	const probe = "probe"
	if err := disk.WriteSealed(d.fs, probe, probe, 1, []byte("ok")); err != nil {
		return err
	}
	if _, err := disk.ReadSealed(d.fs, probe, probe, 1); err != nil {
		return err
	}
	return d.fs.Remove(probe)
}

// reopen reads index and log anew, in a second drive beside this one, and takes
// over what that finds. Nothing is appended meanwhile.
func (d *drive) reopen(ctx context.Context) error {
	d.health.Lock()
	damaged := d.damaged
	d.health.Unlock()
	old := d.idx()
	if old != nil && !damaged {
		return nil // it was the disk, not the index
	}
	if err := d.log.close(); err != nil {
		return err
	}
	if damaged {
		if err := index.Reset(d.fs, indexDir); err != nil {
			return err
		}
	}
	shadow := newDrive(d.store, Disk{FS: d.fs, Name: d.name, Kind: d.kind, Quota: d.quota})
	shadow.id, shadow.secret = d.id, d.secret
	shadow.capacity, shadow.packSize, shadow.step, shadow.headroom = d.capacity, d.packSize, d.step, d.headroom
	shadow.nextPack.Store(d.nextPack.Load())
	err := shadow.recover(ctx)
	shadow.files.close()
	if err != nil {
		shadow.log.close() //nolint:errcheck // the first error counts
		if x := shadow.idx(); x != nil {
			x.Close() //nolint:errcheck // the first error counts
		}
		return err
	}
	d.apply.Lock()
	d.tally = shadow.tally
	d.apply.Unlock()
	d.nextPack.Store(shadow.nextPack.Load())
	d.log.writer, d.log.previous, d.log.end = shadow.log.writer, shadow.log.previous, shadow.log.end
	d.uncut.Store(shadow.uncut.Load())
	d.index.Store(shadow.idx())
	if old != nil {
		// It waits for its readers; a listing may well wait for this disk in turn.
		d.retired.Go(func() { old.Close() }) //nolint:errcheck // it is thrown away
	}
	return nil
}
