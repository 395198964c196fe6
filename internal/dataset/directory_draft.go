package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

// directoryDraft holds a lock on the directory, so there is only one at a time.
type directoryDraft struct {
	place   *directory
	version uint64
	lock    *os.File
	found   []string // shards that were there
	note    note     // of those that wrote them, and of this one

	mu   sync.Mutex
	mine map[string]bool // shards that were written or reused
}

// part ends the names of files that are being written.
const part = ".part"

func (d *directory) draft(ctx context.Context, version uint64) (draft, error) {
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return nil, failed(err)
	}
	lock, err := d.lock()
	if err != nil {
		return nil, err
	}
	if _, last, err := d.versions(ctx); err != nil || last+1 != version {
		lock.Close()
		if err == nil {
			err = object.Errorf(object.Busy, "another dataset create has just made version %d of %s", last, d)
		}
		return nil, err
	}
	t := &directoryDraft{place: d, version: version, lock: lock, mine: map[string]bool{}}
	if err := t.look(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// lock returns the open directory, locked. It is unlocked by closing it.
func (d *directory) lock() (*os.File, error) {
	f, err := os.Open(d.dir)
	if err != nil {
		return nil, failed(err)
	}
	if err := localfile.Uninterrupted(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, object.Errorf(object.Busy, "another dataset create or rm is at work in %s", d.dir)
		}
		return nil, failed(&fs.PathError{Op: "lock", Path: d.dir, Err: err})
	}
	return f, nil
}

func (d *directory) hold() (func(), error) {
	f, err := d.lock()
	return func() { f.Close() }, err
}

// look finds what a run before has left, and removes what it left half done.
func (t *directoryDraft) look() error {
	entries, err := os.ReadDir(t.folder())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasSuffix(name, part):
			if err := os.Remove(filepath.Join(t.folder(), name)); err != nil {
				return failed(err)
			}
		case name != noteName:
			t.found = append(t.found, folderName(t.version)+"/"+name)
		}
	}
	beside, err := os.ReadDir(t.place.dir)
	if err != nil {
		return failed(err)
	}
	for _, entry := range beside {
		name := entry.Name()
		if half := strings.HasPrefix(name, ".manifest-") && strings.HasSuffix(name, ".tmp"); half || name == filepath.Base(t.manifest()) {
			if err := os.Remove(filepath.Join(t.place.dir, name)); err != nil {
				return failed(err)
			}
		}
	}
	return nil
}

func (t *directoryDraft) folder() string { return filepath.Join(t.place.dir, folderName(t.version)) }

func (t *directoryDraft) left() []string { return t.found }

func (t *directoryDraft) discard() error {
	for _, name := range t.found {
		if err := os.Remove(filepath.Join(t.place.dir, filepath.FromSlash(name))); err != nil {
			return failed(err)
		}
	}
	t.found = nil
	return nil
}

// begin keeps the note of a run before this one if its shards may be used. If not,
// they are removed before the note is written: nobody must take them for shards of
// this origin.
func (t *directoryDraft) begin(ctx context.Context, n note) error {
	left, err := t.place.note(ctx, t.version)
	if err != nil {
		return err
	}
	if t.note = left; left.sameAs(n) {
		return nil
	}
	if err := t.discard(); err != nil {
		return err
	}
	t.note = n
	return t.writeNote(n)
}

func (t *directoryDraft) open(_ context.Context, name string) (io.ReadCloser, note, error) {
	f, err := os.Open(filepath.Join(t.place.dir, filepath.FromSlash(name)))
	return f, t.note, err
}

func (t *directoryDraft) reuse(name string) string {
	t.take(name)
	return ""
}

func (t *directoryDraft) take(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mine[name] = true
}

// write writes to a file of another name first: one that has its own is whole.
func (t *directoryDraft) write(_ context.Context, name string, fill func(io.Writer) error) (written, tag string, err error) {
	path := filepath.Join(t.place.dir, filepath.FromSlash(name))
	f, err := os.OpenFile(path+part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return "", "", failed(err)
	}
	err = fill(&early{file: f})
	if err == nil {
		err = failed(f.Sync())
	}
	if closing := f.Close(); err == nil {
		err = failed(closing)
	}
	if err == nil {
		err = failed(os.Rename(path+part, path))
	}
	if err != nil {
		_ = os.Remove(path + part) // the next run would do it
		return "", "", err
	}
	t.take(name)
	return name, "", nil
}

func (t *directoryDraft) again(context.Context, string, error) bool { return false }

// early has the kernel begin to write out what it was given, so that the disk works
// while the next files are read, and not only when the shard is synced.
type early struct {
	file *os.File
	at   int64
	sent int64
}

// Write writes.
func (e *early) Write(b []byte) (int, error) {
	n, err := e.file.Write(b)
	if e.at += int64(n); e.at-e.sent >= 8<<20 {
		// If it does not, Sync will.
		_ = unix.SyncFileRange(int(e.file.Fd()), e.sent, e.at-e.sent, unix.SYNC_FILE_RANGE_WRITE)
		e.sent = e.at
	}
	if err != nil {
		err = failed(err)
	}
	return n, err
}

func (t *directoryDraft) writeNote(n note) error {
	if err := os.MkdirAll(t.folder(), 0o777); err != nil {
		return failed(err)
	}
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	path := filepath.Join(t.folder(), noteName)
	f, err := os.Create(path + part)
	if err != nil {
		return failed(err)
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(path+part, path)
	}
	if err == nil {
		err = syncDir(t.folder())
	}
	return failed(err)
}

func (t *directoryDraft) manifest() string {
	return filepath.Join(t.place.dir, manifestName(t.version)+unfinished)
}

// publish need not look for the base: who removes one holds the lock.
func (t *directoryDraft) publish(context.Context, int64, uint64) error {
	t.found = slices.DeleteFunc(t.found, func(name string) bool { return t.mine[name] })
	if err := t.discard(); err != nil {
		return err
	}
	// The shards' names must be durable before the manifest's is.
	if err := syncDir(t.folder()); err != nil {
		return failed(err)
	}
	if err := syncDir(t.place.dir); err != nil {
		return failed(err)
	}
	err := os.Link(t.manifest(), filepath.Join(t.place.dir, manifestName(t.version)))
	if errors.Is(err, fs.ErrExist) {
		return object.Errorf(object.Exists, "version %d of %s was published by somebody else", t.version, t.place)
	}
	if err != nil {
		return failed(err)
	}
	if err := os.Remove(t.manifest()); err != nil {
		return failed(err)
	}
	return failed(syncDir(t.place.dir))
}

// close gives up the lock.
func (t *directoryDraft) close() { t.lock.Close() }
