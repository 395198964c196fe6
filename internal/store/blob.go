package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// BlockSize is the piece of a blob that has a checksum of its own.
const BlockSize = 64 << 10

// MaxObject is the largest object: its block checksums, four bytes each, fit a
// record of 64 MiB.
const MaxObject = 1 << 40

// blobs are the files of a disk that hold large objects.
type blobs struct {
	drive   *drive
	checked checked
	idle    idleBlobs

	mu       sync.Mutex
	writing  map[uint64]bool // being written, or written and not yet in the index
	doubtful []uint64        // of these, the ones whose record failed but may be found at the next start
	pinned   map[uint64]*pin // that are to be read
}

// pin keeps a blob from being removed.
type pin struct {
	readers int
	removed bool // when the last of them is done
}

func (b *blobs) init(d *drive) {
	b.drive = d
	b.writing = make(map[uint64]bool)
	b.pinned = make(map[uint64]*pin)
	b.checked.blobs = make(map[uint64]*blobCheck)
}

// blobDraft is a large object that is on disk but not in the log.
type blobDraft struct {
	id    uint64
	size  int64
	crc   uint32
	table []byte // checksums of the blocks
}

func (b *blobDraft) extents() []pack.Extent {
	return []pack.Extent{{Blob: b.id, Length: b.size}}
}

// write stores first and then all that r gives in a new blob, durably. It stays
// marked as being written until done or discard.
func (b *blobs) write(ctx context.Context, first []byte, r io.Reader, hint int64) (draft *blobDraft, err error) {
	draft = &blobDraft{id: b.reserve()}
	file, err := b.drive.fs.Create(blobName(draft.id))
	if err != nil {
		b.done(draft.id)
		return nil, b.drive.refuse(err)
	}
	err = draft.fill(ctx, file, first, r, hint, b.drive)
	if err == nil {
		if err = syncBoth(file, b.drive.fs, draft.id, b.drive.store.opts.Relaxed); err != nil {
			err = b.drive.refuse(err)
		}
	}
	if cerr := file.Close(); err == nil {
		err = unavailable(b.drive, cerr)
	}
	if err != nil {
		b.discard(draft)
		return nil, err
	}
	b.checked.whole(draft.id)
	return draft, nil
}

// syncBoth syncs a new file and, meanwhile, the directory that names it.
func syncBoth(file disk.File, fsys disk.FS, id uint64, relaxed bool) error {
	if relaxed {
		return nil
	}
	dir := make(chan error, 1)
	go func() { dir <- fsys.SyncDir(blobDir(id)) }()
	err := file.Sync()
	if derr := <-dir; err == nil {
		err = derr
	}
	return err
}

func unavailable(d *drive, err error) error {
	if err == nil {
		return nil
	}
	return object.Errorf(object.Unavailable, "disk %s: %w", d.name, err)
}

// fill copies the content in pieces of whole blocks.
func (b *blobDraft) fill(ctx context.Context, file disk.File, first []byte, r io.Reader, hint int64, d *drive) error {
	if hint > 0 && hint <= MaxObject {
		if err := file.Allocate(hint); err != nil {
			return d.refuse(fmt.Errorf("no room for %d bytes: %w", hint, err))
		}
		// Looked at again with the room taken: others may have taken theirs meanwhile.
		if err := d.space(0); err != nil {
			return d.refuse(err)
		}
	}
	pool := &d.store.buffers
	buf := pool.get(1 << 20)
	defer pool.put(buf)
	buf = buf[:1<<20]
	n := copy(buf, first)
	rest := first[n:]
	for {
		m, err := readFull(&rest, r, buf[n:])
		n += m
		end := err == io.EOF
		if err != nil && !end {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.size+int64(n) > MaxObject {
			return object.Errorf(object.Invalid, "object is larger than %d bytes", int64(MaxObject))
		}
		if _, err := file.WriteAt(buf[:n], b.size); err != nil {
			return d.refuse(err)
		}
		if b.size+int64(n) > hint {
			if err := d.space(0); err != nil {
				return d.refuse(err)
			}
		}
		// The drive works while the next piece arrives.
		if start, ok := file.(disk.Starter); ok {
			start.StartSync(b.size, int64(n))
		}
		b.add(buf[:n])
		n = 0
		if end {
			break
		}
	}
	if hint > 0 && hint != b.size {
		if err := file.Truncate(b.size); err != nil {
			return d.refuse(err)
		}
	}
	return nil
}

// refuse notes that the disk did not take a write, so that others are preferred
// and a full one is compacted, and returns what the writer is told.
func (d *drive) refuse(err error) error {
	d.wrote(err)
	return unavailable(d, err)
}

// readFull fills buf from rest, then from r; io.EOF comes with the last bytes.
func readFull(rest *[]byte, r io.Reader, buf []byte) (n int, err error) {
	n = copy(buf, *rest)
	*rest = (*rest)[n:]
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// add accounts for content: always whole blocks, except at the end.
func (b *blobDraft) add(p []byte) {
	b.size += int64(len(p))
	b.crc = crc32.Update(b.crc, crc32.IEEETable, p)
	for len(p) > 0 {
		n := min(len(p), BlockSize)
		b.table = binary.LittleEndian.AppendUint32(b.table, crc32.ChecksumIEEE(p[:n]))
		p = p[n:]
	}
}

// reserve chooses the number of a new blob.
func (b *blobs) reserve() uint64 {
	var raw [8]byte
	rand.Read(raw[:]) //nolint:errcheck // never fails
	id := binary.LittleEndian.Uint64(raw[:])
	b.mu.Lock()
	b.writing[id] = true
	b.mu.Unlock()
	return id
}

// done says that the blob is in the index, or gone.
func (b *blobs) done(id uint64) {
	b.mu.Lock()
	delete(b.writing, id)
	b.mu.Unlock()
}

// discard removes a blob that did not get into the log.
func (b *blobs) discard(draft *blobDraft) {
	b.remove([]uint64{draft.id})
	b.done(draft.id)
}

// doubt keeps a blob of which it is uncertain whether it got into the log.
func (b *blobs) doubt(draft *blobDraft) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubtful = append(b.doubtful, draft.id)
}

// decided removes the doubtful blobs: their records will not be found any more.
func (b *blobs) decided() {
	b.mu.Lock()
	ids := b.doubtful
	b.doubtful = nil
	b.mu.Unlock()
	b.remove(ids)
	for _, id := range ids {
		b.done(id)
	}
}

// pin keeps blobs that a reader has not opened yet, until it is done with them.
func (b *blobs) pin(extents []pack.Extent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range extents {
		p := b.pinned[x.Blob]
		if p == nil {
			p = new(pin)
			b.pinned[x.Blob] = p
		}
		p.readers++
	}
}

func (b *blobs) unpin(extents []pack.Extent) {
	var gone []uint64
	b.mu.Lock()
	for _, x := range extents {
		p := b.pinned[x.Blob]
		if p.readers--; p.readers > 0 {
			continue
		}
		delete(b.pinned, x.Blob)
		if p.removed {
			gone = append(gone, x.Blob)
		}
	}
	b.mu.Unlock()
	b.remove(gone)
}

// toBeRead reports whether a blob is pinned, and has it removed afterwards.
func (b *blobs) toBeRead(id uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pinned[id]
	if p != nil {
		p.removed = true
	}
	return p != nil
}

// remove deletes files, at once or when they are read. One that cannot be deleted is
// swept later.
func (b *blobs) remove(ids []uint64) {
	for _, id := range ids {
		if b.toBeRead(id) {
			continue
		}
		b.checked.forget(id)
		if err := ignoreMissing(b.drive.fs.Remove(blobName(id))); err != nil {
			b.drive.store.log.Warn("a blob could not be removed", "disk", b.drive.name, "blob", id, "error", err)
		}
		b.idle.removed(id) // only now: nobody can open it again
	}
}

func (b *blobs) beingWritten(id uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writing[id]
}
