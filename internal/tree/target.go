package tree

import (
	"context"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

// target is the directory that a Get writes to. Paths in it are resolved by os.Root,
// which does not let symbolic links lead out of it.
type target struct {
	root    *os.Root
	growing *os.File // the directory of temporaries, locked
	next    atomic.Uint64
}

// part ends the names of temporaries.
const part = ".part"

// openTarget opens a directory, takes its lock, and removes what an act that was
// interrupted has left.
func openTarget(dir string) (*target, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &target{root: root}
	for t.growing == nil {
		if err := t.lock(dir); err != nil {
			root.Close()
			return nil, err
		}
	}
	if err := t.clean(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// lock makes the directory of temporaries and locks it. If the act before us has
// just removed it, growing stays nil, and it has to be made again.
func (t *target) lock(dir string) error {
	if err := t.root.Mkdir(temporaries, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	f, err := t.root.Open(temporaries)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = localfile.Uninterrupted(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return object.Errorf(object.Busy, "another get -r is writing to %s", dir)
		}
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	opened, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	now, err := t.root.Lstat(temporaries)
	switch {
	case os.IsNotExist(err), err == nil && now.IsDir() && !os.SameFile(now, opened):
		f.Close()
		return nil
	case err != nil:
		f.Close()
		return err
	case !now.IsDir():
		f.Close()
		return object.Errorf(object.Exists, "%s is not a directory", path.Join(dir, temporaries))
	}
	t.growing = f
	return nil
}

// clean removes temporaries.
func (t *target) clean() error {
	names, err := t.growing.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, part) {
			if err := unix.Unlinkat(int(t.growing.Fd()), name, 0); err != nil {
				return &fs.PathError{Op: "remove", Path: path.Join(temporaries, name), Err: err}
			}
		}
	}
	return nil
}

// close removes the directory of temporaries and gives up the lock.
func (t *target) close() error {
	err := t.root.Remove(temporaries)
	t.growing.Close()
	t.root.Close()
	return err
}

// fileWriter writes files below a target. It keeps the directory of the last one
// open: keys come in order, so the next one is likely to lie there too. Not for
// concurrent use.
type fileWriter struct {
	target *target
	dir    *os.File
	dirFD  int
	path   string // of dir
	base   string // of the current file, in dir
	buffer []byte
}

func (w *fileWriter) close() {
	if w.dir != nil {
		w.dir.Close()
		w.dir = nil
	}
}

// enter makes a file the current one, and its directory if there is none.
func (w *fileWriter) enter(file string) error {
	dir := "."
	w.base = file
	if at := strings.LastIndexByte(file, '/'); at >= 0 {
		dir, w.base = file[:at], file[at+1:]
	}
	if w.dir != nil && w.path == dir {
		return nil
	}
	w.close()
	opened, err := w.target.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if os.IsNotExist(err) {
		if err = w.target.root.MkdirAll(dir, 0o777); err == nil {
			opened, err = w.target.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
		}
	}
	if err != nil {
		return object.Errorf(object.Invalid, "its directory: %w", localfile.Reason(err))
	}
	w.dir, w.dirFD, w.path = opened, int(opened.Fd()), dir
	return nil
}

// checksum reads the current file, which is there.
func (w *fileWriter) checksum(ctx context.Context) (uint32, error) {
	var fd int
	err := localfile.Uninterrupted(func() (err error) {
		fd, err = unix.Openat(w.dirFD, w.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), w.base)
	defer f.Close()
	if w.buffer == nil {
		w.buffer = make([]byte, smallFile)
	}
	return checksum(ctx, f, w.buffer)
}

// write makes data the content of the current file.
func (w *fileWriter) write(data []byte, modified time.Time) error {
	temporary, fd, err := w.create()
	if err != nil {
		return err
	}
	for len(data) > 0 && err == nil {
		var n int
		err = localfile.Uninterrupted(func() (err error) { n, err = unix.Write(fd, data); return err })
		data = data[max(n, 0):]
	}
	if closing := unix.Close(fd); err == nil {
		err = closing
	}
	return w.place(temporary, modified, err)
}

// stream makes what r gives the content of the current file.
func (w *fileWriter) stream(r penstock.Reader, t *tally) error {
	temporary, fd, err := w.create()
	if err != nil {
		return err
	}
	f := &watchedFile{file: os.NewFile(uintptr(fd), temporary), tally: t}
	_, err = r.WriteTo(f)
	t.moving.Add(-f.moved)
	if closing := f.file.Close(); err == nil {
		err = closing
	}
	return w.place(temporary, r.Info().Modified, err)
}

// create makes a temporary file.
func (w *fileWriter) create() (name string, fd int, err error) {
	name = strconv.FormatUint(w.target.next.Add(1), 10) + part
	err = localfile.Uninterrupted(func() (err error) {
		fd, err = unix.Openat(int(w.target.growing.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
		return err
	})
	return name, fd, err
}

// place puts a temporary file in the place of the current one, or removes it if
// writing it has failed.
func (w *fileWriter) place(temporary string, modified time.Time, err error) error {
	growing := int(w.target.growing.Fd())
	if err == nil {
		at := unix.NsecToTimespec(modified.UnixNano())
		err = unix.UtimesNanoAt(growing, temporary, []unix.Timespec{at, at}, 0)
	}
	if err == nil {
		err = unix.Renameat(growing, temporary, w.dirFD, w.base)
	}
	if err != nil {
		_ = unix.Unlinkat(growing, temporary, 0) // the next act tries again
	}
	return err
}

// watchedFile counts what is written to it.
type watchedFile struct {
	file  *os.File
	tally *tally
	moved int64
}

// Write counts.
func (f *watchedFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.moved += int64(n)
	f.tally.moving.Add(int64(n))
	return n, err
}
