package fault

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"penstock.dev/penstock/internal/disk"
)

// Inject returns fsys with the hook before each operation. Its files are never
// disk.Opened: what the kernel reads by itself no hook could fail or delay.
func Inject(fsys disk.FS, hook Hook) disk.FS { return InjectOn(fsys, AnyOp, hook) }

// InjectOn is Inject for operations of the given kinds only; others are neither
// shown to the hook nor counted. Without OpRead among the kinds, files are
// disk.Opened if those of fsys are.
func InjectOn(fsys disk.FS, kinds OpKind, hook Hook) disk.FS {
	return &injected{fsys: fsys, kinds: kinds, hook: hook}
}

type injected struct {
	fsys  disk.FS
	kinds OpKind
	hook  Hook
	count atomic.Int64
}

// before asks the hook about op. A Flip is returned for reads and dropped for
// others; a Short is returned for writes and replaced by its cause for others.
func (d *injected) before(op Op) error {
	if op.Kind&d.kinds == 0 {
		return nil
	}
	op.N = d.count.Add(1)
	err := d.hook(op)
	var flip *Flip
	var short *Short
	switch {
	case err == nil:
		return nil
	case errors.As(err, &flip) && op.Kind != OpRead:
		return nil
	case errors.As(err, &short) && op.Kind != OpWrite:
		return short.Err
	}
	return err
}

func (d *injected) Create(name string) (disk.File, error) {
	return d.open(OpCreate, name, d.fsys.Create)
}

func (d *injected) Open(name string) (disk.File, error) {
	return d.open(OpOpen, name, d.fsys.Open)
}

func (d *injected) OpenWrite(name string) (disk.File, error) {
	return d.open(OpOpen, name, d.fsys.OpenWrite)
}

func (d *injected) open(kind OpKind, name string, open func(string) (disk.File, error)) (disk.File, error) {
	if err := d.before(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	file := &injectedFile{drive: d, file: f, name: name}
	if opened, ok := f.(disk.Opened); ok && d.kinds&OpRead == 0 {
		return &openedFile{file, opened}, nil
	}
	return file, nil
}

func (d *injected) Rename(oldname, newname string) error {
	if err := d.before(Op{Kind: OpRename, Name: oldname, NewName: newname}); err != nil {
		return err
	}
	return d.fsys.Rename(oldname, newname)
}

func (d *injected) Remove(name string) error {
	if err := d.before(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return d.fsys.Remove(name)
}

func (d *injected) MkdirAll(name string) error {
	if err := d.before(Op{Kind: OpMkdir, Name: name}); err != nil {
		return err
	}
	return d.fsys.MkdirAll(name)
}

func (d *injected) ReadDir(name string) ([]string, error) {
	if err := d.before(Op{Kind: OpReadDir, Name: name}); err != nil {
		return nil, err
	}
	return d.fsys.ReadDir(name)
}

func (d *injected) SyncDir(name string) error {
	if err := d.before(Op{Kind: OpSyncDir, Name: name}); err != nil {
		return err
	}
	return d.fsys.SyncDir(name)
}

func (d *injected) Usage() (disk.Usage, error) {
	if err := d.before(Op{Kind: OpUsage}); err != nil {
		return disk.Usage{}, err
	}
	return d.fsys.Usage()
}

func (d *injected) Lock(name string) (io.Closer, error) {
	if err := d.before(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return d.fsys.Lock(name)
}

type injectedFile struct {
	drive *injected
	file  disk.File
	name  string
}

type openedFile struct {
	*injectedFile
	opened disk.Opened
}

func (f *openedFile) OSFile() *os.File { return f.opened.OSFile() }

func (f *injectedFile) ReadAt(p []byte, offset int64) (int, error) {
	err := f.drive.before(Op{Kind: OpRead, Name: f.name, Offset: offset, Length: int64(len(p))})
	var flip *Flip
	if err != nil && !errors.As(err, &flip) {
		return 0, err
	}
	n, err := f.file.ReadAt(p, offset)
	if flip != nil && flip.Offset >= offset && flip.Offset < offset+int64(n) {
		p[flip.Offset-offset] ^= flip.Mask
	}
	return n, err
}

func (f *injectedFile) WriteAt(p []byte, offset int64) (int, error) {
	err := f.drive.before(Op{Kind: OpWrite, Name: f.name, Offset: offset, Length: int64(len(p))})
	var short *Short
	switch {
	case err == nil:
		return f.file.WriteAt(p, offset)
	case !errors.As(err, &short):
		return 0, err
	}
	n, err := f.file.WriteAt(p[:min(short.N, int64(len(p)))], offset)
	if err == nil {
		err = short.Err
	}
	return n, err
}

// Sync, if the hook fails it, leaves a file of a Memory as a kernel does: some of
// the writes since the last good Sync are lost for good though reads still show
// them, and a second Sync would wrongly succeed.
func (f *injectedFile) Sync() error {
	if err := f.drive.before(Op{Kind: OpSync, Name: f.name}); err != nil {
		f.failSync()
		return err
	}
	return f.file.Sync()
}

func (f *injectedFile) failSync() {
	if forgetful, ok := f.file.(interface{ failSync() }); ok {
		forgetful.failSync()
	}
}

func (f *injectedFile) Truncate(size int64) error {
	if err := f.drive.before(Op{Kind: OpTruncate, Name: f.name, Length: size}); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *injectedFile) Allocate(size int64) error {
	if err := f.drive.before(Op{Kind: OpAllocate, Name: f.name, Length: size}); err != nil {
		return err
	}
	return f.file.Allocate(size)
}

func (f *injectedFile) Size() (int64, error) {
	if err := f.drive.before(Op{Kind: OpSize, Name: f.name}); err != nil {
		return 0, err
	}
	return f.file.Size()
}

func (f *injectedFile) Close() error { return f.file.Close() }
