package store

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"
	"syscall"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// drive is one disk of a store: its log, its blobs and its index.
type drive struct {
	store  *Store
	number int // in Store.drives
	fs     disk.FS
	name   string
	kind   string
	quota  int64
	id     disk.Identity
	secret []byte
	lock   io.Closer

	capacity int64 // of the file system, or the quota
	packSize int64
	step     int64 // how much a pack grows at a time
	headroom int64 // free space that is kept for deletes, checkpoints and compaction

	index   atomic.Pointer[index.Index]
	retired sync.WaitGroup // indexes that were replaced and are still read from
	files   packFiles
	blobs   blobs
	log     appender

	// apply guards the tally and the order of changes to the index. It is held for
	// moments, never over a disk operation.
	apply sync.Mutex
	tally *tally

	checkpointing sync.Mutex
	nextPack      atomic.Uint64
	parents       parents

	noted map[string]bool // background work that failed the last time; run's own
	standing
	unswept atomic.Bool // something may be left that a sweep finds
	uncut   atomic.Bool // the log may end with records that failed: the next start would find them

	health  sync.Mutex
	failure error         // why the disk cannot be used; nil if it can
	damaged bool          // the index does not verify: it is to be rebuilt
	refused error         // why the last write was refused; nil if it was not
	wake    chan struct{} // something for run to do
}

const (
	indexDir = "index"
	blobsDir = "blobs"
	lockFile = "lock"
)

func newDrive(s *Store, o Disk) *drive {
	d := &drive{
		store: s, number: len(s.drives), fs: o.FS, name: o.Name, kind: o.Kind, quota: o.Quota,
		tally: newTally(), wake: make(chan struct{}, 1), noted: make(map[string]bool),
	}
	d.unswept.Store(true)
	d.log.drive = d
	d.files.drive = d
	d.blobs.init(d)
	return d
}

// identify locks the directory and learns which disk it is, or makes it one.
func (d *drive) identify() error {
	if err := d.fs.MkdirAll("."); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	var err error
	if d.lock, err = d.fs.Lock(lockFile); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	d.id, err = disk.ReadIdentity(d.fs)
	if object.Is(err, object.NotFound) {
		if has, err := d.hasPacks(); err != nil {
			return err
		} else if has {
			return object.Errorf(object.Corrupt, "there are packs but no identity: restore it from a backup, or take the data out with penstock unpack")
		}
		d.id, err = disk.NewIdentity(d.fs, d.store.opts.Clock())
	}
	if err != nil {
		return err
	}
	if d.secret, err = d.id.Key(); err != nil {
		return err
	}
	return d.layOut()
}

func (d *drive) hasPacks() (bool, error) {
	names, err := d.fs.ReadDir(pack.Dir)
	if err := ignoreMissing(err); err != nil {
		return false, object.Errorf(object.Unavailable, "%w", err)
	}
	return len(names) > 0, nil
}

// layOut makes the directories and chooses sizes that fit the disk.
func (d *drive) layOut() error {
	dirs := []string{pack.Dir, indexDir, blobsDir}
	for i := range 256 {
		dirs = append(dirs, fmt.Sprintf("%s/%02x", blobsDir, i))
	}
	// All of it at every start: the process before may have been killed between
	// making a directory and syncing its name.
	for _, dir := range dirs {
		if err := d.fs.MkdirAll(dir); err != nil {
			return object.Errorf(object.Unavailable, "%w", err)
		}
	}
	if err := errors.Join(d.fs.SyncDir(blobsDir), d.fs.SyncDir(pack.Dir), d.fs.SyncDir(".")); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	usage, err := d.fs.Usage()
	if err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	size := usage.Size
	if d.quota > 0 {
		size = min(size, d.quota)
	}
	d.capacity = max(size, 1)
	d.packSize = d.store.opts.PackSize
	if d.packSize == 0 {
		d.packSize = min(256<<20, max(1<<20, size/32))
	}
	d.step = min(16<<20, max(64<<10, d.packSize/8))
	// Half of it lets a pack be compacted and the index be written out.
	d.headroom = min(2*(d.packSize+4*d.store.opts.IndexMem), size/10)
	return nil
}

// packOptions are those of a pack of this disk.
func (d *drive) packOptions(id uint64) pack.Options {
	return pack.Options{ID: id, Disk: d.id.ID, Secret: d.secret, Clock: d.store.opts.Clock, Step: d.step}
}

func (d *drive) idx() *index.Index { return d.index.Load() }

// readable says why the disk cannot be asked, nil if it can.
func (d *drive) readable() error {
	d.health.Lock()
	defer d.health.Unlock()
	if d.failure != nil {
		return object.Errorf(object.Unavailable, "disk %s: %w", d.name, d.failure)
	}
	return nil
}

// fail takes the disk out of use until a probe finds it well.
func (d *drive) fail(err error) {
	d.health.Lock()
	first := d.failure == nil
	d.failure = err
	d.health.Unlock()
	if first {
		d.store.metrics.failures.Inc()
		d.store.log.Error("a disk failed and is out of use", "disk", d.name, "error", err)
		d.blobs.idle.clear() // so that it can be unmounted
	}
	d.nudge()
}

// indexFailed notes an error of the index: damage has it rebuilt, other errors
// take the disk out of use.
func (d *drive) indexFailed(err error) {
	if object.Is(err, object.Corrupt) {
		d.store.metrics.corrupt.Inc()
		d.rebuild(err)
		return
	}
	d.fail(err)
}

// rebuild takes the disk out of use until its index is made anew.
func (d *drive) rebuild(err error) {
	d.health.Lock()
	d.damaged = true
	d.health.Unlock()
	d.fail(fmt.Errorf("its index is damaged and being rebuilt: %w", err))
}

// nudge tells run that there is something to do.
func (d *drive) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *drive) state() string {
	d.health.Lock()
	defer d.health.Unlock()
	switch {
	case d.damaged:
		return "rebuilding"
	case d.failure != nil:
		return "failed"
	case disk.IsFull(d.refused):
		return "full"
	case errors.Is(d.refused, syscall.EROFS):
		return "read-only"
	case d.refused != nil:
		return "failed"
	}
	return "ok"
}

// wrote notes how the last write went.
func (d *drive) wrote(err error) {
	d.health.Lock()
	changed := (d.refused == nil) != (err == nil)
	d.refused = err
	d.health.Unlock()
	if err == nil {
		return
	}
	if disk.IsFull(err) {
		d.nudge() // compaction may help
	} else {
		d.store.metrics.writeErrors.Inc()
	}
	if changed {
		d.store.log.Warn("a disk refuses writes", "disk", d.name, "error", err)
	}
}

// writable reports whether the last write went well.
func (d *drive) writable() bool {
	d.health.Lock()
	defer d.health.Unlock()
	return d.failure == nil && d.refused == nil
}

// space says why the disk should take no further object, nil if it should.
func (d *drive) space(need int64) error { return d.spare(need, 1) }

// spare says why there is no room for so many bytes beside a part of those, and of
// the inodes, that are kept for deletes, checkpoints and compaction: all of them
// for 1, half of them for 2.
func (d *drive) spare(need, part int64) error {
	kept := d.headroom / part
	usage, err := d.fs.Usage()
	if err != nil {
		return object.Errorf(object.Unavailable, "disk %s: %w", d.name, err)
	}
	if usage.Files > 0 && usage.FreeFiles < min(64, usage.Files/10)/part {
		return object.Errorf(object.Unavailable, "disk %s is full: %d inodes are free: %w", d.name, usage.FreeFiles, syscall.ENOSPC)
	}
	if usage.Free < kept+need {
		return object.Errorf(object.Unavailable, "disk %s is full: %d bytes are free, of which %d are kept: %w", d.name, usage.Free, kept, syscall.ENOSPC)
	}
	if d.quota > 0 {
		if used := d.used(); used+need > d.quota-kept {
			return object.Errorf(object.Unavailable, "disk %s is full: %d bytes of its quota of %d are used: %w", d.name, used, d.quota, syscall.EDQUOT)
		}
	}
	return nil
}

// room returns how many bytes compaction may use.
func (d *drive) room() int64 {
	usage, err := d.fs.Usage()
	if err != nil {
		return 0
	}
	if d.quota > 0 {
		return min(usage.Free, d.quota-d.used())
	}
	return usage.Free
}

// used returns how many bytes packs, blobs and index take.
func (d *drive) used() int64 {
	d.apply.Lock()
	defer d.apply.Unlock()
	total, _ := d.tally.bytes()
	return total + d.tally.Blobs.Bytes + d.idx().Stats().Bytes
}

// close writes a last checkpoint and frees everything.
func (d *drive) close() error {
	var errs []error
	if x := d.idx(); x != nil {
		errs = append(errs, d.log.close())
		if d.readable() == nil {
			errs = append(errs, d.checkpoint(noCancel))
		}
		errs = append(errs, x.Close())
	}
	d.retired.Wait()
	d.files.close()
	d.blobs.idle.clear()
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

func blobName(id uint64) string { return fmt.Sprintf("%s/%02x/%016x", blobsDir, byte(id>>56), id) }

func blobDir(id uint64) string { return path.Dir(blobName(id)) }
