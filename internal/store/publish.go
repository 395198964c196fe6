package store

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"

	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// publish makes records visible that are in the log. Their names are locked.
func (d *drive) publish(packID uint64, end int64, group []*change) {
	var b index.Batch
	refs := make(blobRefs)
	d.apply.Lock()
	for _, c := range group {
		c.entry = entry{drive: d, pack: packID, Stub: c.draft.Stub()}
		for _, path := range c.parents {
			b.Set(parentKey(nil, c.draft.Name.Bucket, path), nil)
		}
		d.record(&b, refs, c.draft.Name, &c.entry, c.draft.Extents, c.old, c.oldBlobs)
	}
	gone, err := d.settleBlobs(&b, refs)
	d.tally.pack(packID).End = end
	d.idx().Apply(&b)
	d.apply.Unlock()
	if err != nil {
		d.rebuild(err) // it missed a change: a blob that is needed would pass for garbage
		return
	}
	d.blobs.remove(gone)
}

// record notes a name's new record, and what becomes of the one before. The
// tally is locked.
func (d *drive) record(b *index.Batch, refs blobRefs, name object.Name, e *entry, extents []pack.Extent, old *entry, oldExtents []pack.Extent) {
	var kb [256]byte
	var vb [128]byte
	b.Set(objectKey(kb[:0], name), e.append(vb[:0]))
	d.tally.pack(e.pack).Total += e.Len()
	d.tally.Counter = max(d.tally.Counter, e.Version.Counter)
	if e.live() {
		d.tally.count(name, e, 1)
		refs.add(extents, 1)
		d.store.versioned.note(name)
	}
	if old != nil {
		d.bury(b, refs, name, old, oldExtents)
	}
}

// bury notes that a record is no longer the newest of its name. As long as it
// stands in its pack, a tombstone above it must stay.
func (d *drive) bury(b *index.Batch, refs blobRefs, name object.Name, old *entry, extents []pack.Extent) {
	if p := d.tally.Packs[old.pack]; p != nil {
		p.Dead += old.Len()
	}
	if old.live() {
		var kb [256]byte
		b.Set(deadKey(kb[:0], name, old.pack), nil)
		d.tally.count(name, old, -1)
		refs.add(extents, -1)
	}
}

// blobRefs are changes to the number of records that need a blob.
type blobRefs map[uint64]*blobRef

type blobRef struct{ count, bytes int64 }

func (r blobRefs) add(extents []pack.Extent, sign int64) {
	for _, x := range extents {
		ref := r[x.Blob]
		if ref == nil {
			ref = new(blobRef)
			r[x.Blob] = ref
		}
		ref.count += sign
		ref.bytes = max(ref.bytes, x.Offset+x.Length)
	}
}

// settleBlobs adds the changes to what the index knows and returns the blobs
// that nobody needs any more. The tally is locked.
func (d *drive) settleBlobs(b *index.Batch, refs blobRefs) (gone []uint64, err error) {
	for id, ref := range refs {
		key := blobKey(nil, id)
		value, _, err := d.idx().Get(key, nil)
		if err != nil {
			return nil, err
		}
		before, _ := binary.Uvarint(value)
		after := int64(before) + ref.count
		switch {
		case after <= 0:
			b.Delete(key)
			gone = append(gone, id)
		default:
			b.Set(key, binary.AppendUvarint(nil, uint64(after)))
		}
		if before == 0 && after > 0 {
			d.tally.Blobs.Objects++
			d.tally.Blobs.Bytes += ref.bytes
		} else if before > 0 && after <= 0 {
			d.tally.Blobs.Objects--
			d.tally.Blobs.Bytes -= ref.bytes
		}
	}
	return gone, nil
}

// sealed notes how the sealing of a pack stands.
func (d *drive) sealed(id uint64, underWay, done bool) {
	d.apply.Lock()
	defer d.apply.Unlock()
	if p := d.tally.Packs[id]; p != nil {
		p.sealing, p.Sealed = underWay, done
	}
}

// damagedPack notes that a pack cannot be sealed or compacted.
func (d *drive) damagedPack(id uint64) {
	d.apply.Lock()
	defer d.apply.Unlock()
	if p := d.tally.Packs[id]; p != nil {
		p.Damaged = true
		d.store.metrics.corrupt.Inc()
	}
}

// checkpoint has the index written out, with the tally of the same moment.
func (d *drive) checkpoint(ctx context.Context) error {
	d.checkpointing.Lock()
	defer d.checkpointing.Unlock()
	if err := d.readable(); err != nil {
		return err // lest a damaged index becomes durable
	}
	if !d.store.opts.Relaxed {
		return d.freeze().Write(ctx)
	}
	// What the index points at must be durable before the index is.
	var frozen *index.Frozen
	err := d.log.exclusively(func() error {
		if err := d.log.sync(); err != nil {
			return err
		}
		frozen = d.freeze()
		return nil
	})
	if err != nil {
		return err
	}
	return frozen.Write(ctx)
}

func (d *drive) freeze() *index.Frozen {
	d.apply.Lock()
	defer d.apply.Unlock()
	return d.idx().Freeze(d.tally.encode())
}

// limitMemory keeps the index from growing in memory faster than it is written
// out: the leader of a group does it itself, and the writers behind it wait.
func (d *drive) limitMemory() error {
	if err := d.readable(); err != nil {
		return err
	}
	limit := d.store.opts.IndexMem
	used := d.idx().Stats().MemBytes
	if used < 4*limit {
		return nil
	}
	if !d.checkpointing.TryLock() { // it is being written out
		if used < 8*limit {
			return nil
		}
		if d.store.opts.Relaxed { // that may wait for the log in turn
			return object.Errorf(object.Busy, "disk %s: writes wait for the index to be written out", d.name)
		}
		d.checkpointing.Lock()
	}
	defer d.checkpointing.Unlock()
	if d.idx().Stats().MemBytes < 4*limit {
		return nil
	}
	err := d.log.sync()
	if err == nil {
		err = d.freeze().Write(noCancel)
	}
	if err != nil {
		return object.Errorf(object.Unavailable, "disk %s cannot write its index: %w", d.name, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
