package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Dir is a data directory on a real file system.
type Dir struct {
	root string
}

// NewDir returns the directory at root, which need not exist yet.
func NewDir(root string) *Dir { return &Dir{root: root} }

// Root returns the path of the directory.
func (d *Dir) Root() string { return d.root }

func (d *Dir) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// Create makes a new file for reading and writing.
func (d *Dir) Create(name string) (File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open opens a file for reading.
func (d *Dir) Open(name string) (File, error) { return d.open(name, os.O_RDONLY) }

// OpenWrite opens an existing file for reading and writing.
func (d *Dir) OpenWrite(name string) (File, error) { return d.open(name, os.O_RDWR) }

// open does what os.OpenFile does, less the four system calls by which that finds
// out that a regular file cannot be polled.
func (d *Dir) open(name string, flag int) (File, error) {
	path := d.path(name)
	for {
		fd, err := unix.Open(path, flag|unix.O_CLOEXEC, 0o600)
		switch {
		case err == nil:
			return &osFile{File: os.NewFile(uintptr(fd), path), fd: uintptr(fd)}, nil
		case !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// Rename replaces newname by oldname in one step.
func (d *Dir) Rename(oldname, newname string) error {
	return os.Rename(d.path(oldname), d.path(newname))
}

// Remove removes a file or an empty directory.
func (d *Dir) Remove(name string) error { return os.Remove(d.path(name)) }

// MkdirAll makes a directory and its parents.
func (d *Dir) MkdirAll(name string) error { return os.MkdirAll(d.path(name), 0o700) }

// ReadDir returns the names in a directory.
func (d *Dir) ReadDir(name string) ([]string, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// SyncDir makes the names in a directory durable; for the root, its own name in
// its parent too.
func (d *Dir) SyncDir(name string) error {
	if err := syncDir(d.path(name)); err != nil || name != "." {
		return err
	}
	return syncDir(filepath.Dir(filepath.Clean(d.root)))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Usage asks the file system.
func (d *Dir) Usage() (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.root, &st); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: d.root, Err: err}
	}
	return Usage{
		Size: int64(st.Blocks) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
		Files: int64(st.Files), FreeFiles: int64(st.Ffree),
	}, nil
}

// Lock takes an exclusive lock that ends with the process at the latest.
func (d *Dir) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another process", d.root)
		}
		return nil, &fs.PathError{Op: "lock", Path: d.path(name), Err: err}
	}
	return f, nil
}

type osFile struct {
	*os.File
	fd     uintptr
	cannot atomic.Bool // read without waiting, on this file system
}

func (f *osFile) OSFile() *os.File { return f.File }

func (f *osFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

func (f *osFile) StartSync(offset, length int64) {
	unix.SyncFileRange(int(f.Fd()), offset, length, unix.SYNC_FILE_RANGE_WRITE) //nolint:errcheck // only a hint; Sync tells
}

func (f *osFile) Allocate(size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP):
			return f.extend(size) // no reservation here: a full disk will show at the write
		default:
			return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

func (f *osFile) extend(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
