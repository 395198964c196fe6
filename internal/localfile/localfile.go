// Package localfile is what walking and copying somebody's files on this machine
// needs beside the system calls: signals that break them off, why a thing is not a
// plain file, errors that do not repeat the path. It opens nothing, and has nothing to
// do with the drives of a node: those are package disk's.
package localfile

import (
	"io/fs"
	"syscall"

	"penstock.dev/penstock/internal/object"
)

// Uninterrupted makes a system call again when a signal broke it off.
func Uninterrupted(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// Reason takes the path out of an error, for who names it already.
func Reason(err error) error {
	if path, ok := err.(*fs.PathError); ok {
		return path.Err
	}
	return err
}

// NotContent says why a thing in a directory is not taken.
func NotContent(kind fs.FileMode) error {
	what := "it is not a plain file"
	switch kind.Type() {
	case fs.ModeSymlink:
		what = "it is a symbolic link"
	case fs.ModeSocket:
		what = "it is a socket"
	case fs.ModeNamedPipe:
		what = "it is a named pipe"
	case fs.ModeDir:
		what = "it is a link to a directory"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		what = "it is a device"
	}
	return object.Errorf(object.Invalid, "%s", what)
}
