// Package disk is the seam between Penstock and a drive. FS lists the few things
// the engine does with files, all relative to one data directory; Dir does them
// for real, and package fault does them in memory or wrongly on purpose.
//
// Names are built by the engine from its own numbers; no object name ever comes
// here. Everything may be called concurrently.
package disk

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// FS is one data directory. Names are relative and use slashes. Nothing is
// durable until the file is synced and, for a new, renamed or removed name, the
// directory that holds it.
type FS interface {
	// Create makes a new file for reading and writing; it must not exist.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Rename replaces newname by oldname in one step.
	Rename(oldname, newname string) error
	Remove(name string) error
	// MkdirAll makes a directory and its parents, which the caller syncs.
	MkdirAll(name string) error
	// ReadDir returns the names in a directory, in no particular order.
	ReadDir(name string) ([]string, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// Usage says how large the drive is and how much of it is free.
	Usage() (Usage, error)
	// Lock keeps other processes off the directory until the Closer is closed.
	Lock(name string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync returns when the content and the length are durable. After a failed
	// Sync nothing is known about what was written since the last good one, and
	// it must not be tried again on the same file.
	Sync() error
	Truncate(size int64) error
	// Allocate reserves room up to size and lengthens the file to it, with zeros.
	// It fails cleanly when there is not enough.
	Allocate(size int64) error
	Size() (int64, error)
}

// Opened is what a File may have beside: the operating system's file, so that
// the kernel can move its bytes to a socket.
type Opened interface {
	OSFile() *os.File
}

// Starter is what a File may have beside: it begins to make bytes durable, without
// waiting or promising anything, so that Sync finds less to do.
type Starter interface {
	StartSync(offset, length int64)
}

// Usage is the state of a drive.
type Usage struct {
	Size int64 // bytes
	Free int64 // bytes that we may still use

	// Files and FreeFiles count inodes. Zero Files means that the file system
	// makes them as it needs them, or does not tell.
	Files     int64
	FreeFiles int64
}

// IsFull reports whether an operation failed for want of space, inodes or quota.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
