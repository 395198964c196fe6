package fault

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
)

// ErrDead is what every operation answers on a Memory after Crash or KillProcess,
// so that goroutines left over from before cannot write to what was found after.
var ErrDead = errors.New("the process that used this drive is dead")

// DefaultCapacity is the size of a Memory that was given none.
const DefaultCapacity = 1 << 40

// Memory is a drive in memory. It keeps to the letter of disk.FS: a write is
// durable after Sync of its file, a name after SyncDir of its directory, and
// nothing is durable otherwise. What is unsynced takes memory until it is synced.
//
// Hard links and the renaming of directories are not modelled.
type Memory struct {
	mu       sync.Mutex
	random   *rand.Rand
	dead     bool
	root     *node
	log      []*nameChange // not durable yet, in the order they were made
	locks    map[string]bool
	pages    int64 // in use, preallocated ones included
	files    int   // and directories, without the root
	capacity int64
	maxFiles int // 0: no limit
	readOnly bool
}

var _ disk.FS = (*Memory)(nil)

// NewMemory returns an empty drive. The seed decides what its crashes lose and in
// which order ReadDir answers.
func NewMemory(seed uint64) *Memory {
	return &Memory{
		random:   rand.New(rand.NewPCG(seed, 0x70656e73746f636b)),
		root:     newDirectory(nil),
		locks:    map[string]bool{},
		capacity: DefaultCapacity,
	}
}

// SetCapacity makes the drive so many bytes large. What needs more fails with
// ENOSPC. Space is counted in blocks of 4 KiB, written or preallocated; a removed
// file keeps its space until it is closed. Names and directories need none.
func (m *Memory) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// SetMaxFiles limits the number of files and directories, as inodes do: creating
// one more fails with ENOSPC. Zero lifts the limit.
func (m *Memory) SetMaxFiles(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maxFiles = n
}

// SetReadOnly lets all changes fail with EROFS, also through files that are open,
// as when the kernel remounts a damaged file system.
func (m *Memory) SetReadOnly(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readOnly = on
}

// Files returns the number of files and directories, removed ones that are still
// open included: after Close of everything none must be left over.
func (m *Memory) Files() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files
}

// enter takes the lock for an operation that may begin. Unless it fails the
// caller unlocks.
func (m *Memory) enter(op, name string, changes bool) error {
	m.mu.Lock()
	switch {
	case m.dead:
		m.mu.Unlock()
		return &fs.PathError{Op: op, Path: name, Err: ErrDead}
	case changes && m.readOnly:
		m.mu.Unlock()
		return &fs.PathError{Op: op, Path: name, Err: unix.EROFS}
	}
	return nil
}

// Create makes a new file for reading and writing.
func (m *Memory) Create(name string) (disk.File, error) {
	if err := m.enter("create", name, true); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	n, err := m.create(name)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return m.handle(n, name, true), nil
}

// Open opens a file for reading.
func (m *Memory) Open(name string) (disk.File, error) { return m.open(name, false) }

// OpenWrite opens an existing file for reading and writing.
func (m *Memory) OpenWrite(name string) (disk.File, error) { return m.open(name, true) }

func (m *Memory) open(name string, writable bool) (disk.File, error) {
	if err := m.enter("open", name, writable); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	_, _, n, err := m.find(name)
	switch {
	case err != nil:
	case n == nil:
		err = unix.ENOENT
	case n.file == nil:
		err = unix.EISDIR
	default:
		return m.handle(n, name, writable), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// Rename replaces newname by oldname in one step.
func (m *Memory) Rename(oldname, newname string) error {
	if err := m.enter("rename", oldname, true); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := m.rename(oldname, newname); err != nil {
		return &fs.PathError{Op: "rename", Path: oldname + " to " + newname, Err: err}
	}
	return nil
}

// Remove removes a file or an empty directory.
func (m *Memory) Remove(name string) error {
	if err := m.enter("remove", name, true); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := m.remove(name); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// MkdirAll makes a directory and its parents.
func (m *Memory) MkdirAll(name string) error {
	if err := m.enter("mkdir", name, false); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := m.mkdirAll(name); err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// ReadDir returns the names in a directory, shuffled.
func (m *Memory) ReadDir(name string) ([]string, error) {
	if err := m.enter("readdir", name, false); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	dir, err := m.directory(name)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	names := make([]string, 0, len(dir.names))
	for name := range dir.names {
		names = append(names, name)
	}
	slices.Sort(names) // so that the seed alone decides
	m.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names, nil
}

// SyncDir makes the names in a directory durable, and with each its way there: a
// rename into or out of it as a whole. It does not make the directory itself
// durable; that takes SyncDir of its parent.
func (m *Memory) SyncDir(name string) error {
	if err := m.enter("syncdir", name, false); err != nil {
		return err
	}
	defer m.mu.Unlock()
	dir, err := m.directory(name)
	if err == nil && m.readOnly && dir.pending(m.log) {
		err = unix.EROFS
	}
	if err != nil {
		return &fs.PathError{Op: "syncdir", Path: name, Err: err}
	}
	m.syncDir(dir)
	return nil
}

// Usage says how large the drive is and how much of it is free.
func (m *Memory) Usage() (disk.Usage, error) {
	if err := m.enter("usage", ".", false); err != nil {
		return disk.Usage{}, err
	}
	defer m.mu.Unlock()
	usage := disk.Usage{Size: m.capacity, Free: max(0, m.freePages()*pageSize), Files: int64(m.maxFiles)}
	if m.maxFiles > 0 {
		usage.FreeFiles = int64(max(0, m.maxFiles-m.files))
	}
	return usage, nil
}

func (m *Memory) freePages() int64 { return m.capacity/pageSize - m.pages }

// Lock keeps others off until the Closer is closed, or the process dead.
func (m *Memory) Lock(name string) (io.Closer, error) {
	if err := m.enter("lock", name, true); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	_, _, n, err := m.find(name)
	switch {
	case err == nil && n == nil:
		_, err = m.create(name)
	case err == nil && n.file == nil:
		err = unix.EISDIR
	case err == nil && m.locks[name]:
		return nil, fmt.Errorf("%s is in use by another process", name)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	m.locks[name] = true
	return &lock{m, name}, nil
}

type lock struct {
	m    *Memory
	name string
}

func (l *lock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.name)
	return nil
}
