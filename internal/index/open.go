package index

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"penstock.dev/penstock/internal/disk"
)

// Open opens the index in dir of fs; a directory without one gives an empty index
// with a nil State. What is there and does not verify, or is of a version we do
// not know, is ErrDamaged: then Reset and build it again from the log. Left-overs
// of interrupted work are removed.
func Open(fsys disk.FS, dir string, o Options) (*Index, error) {
	if o.MemBytes <= 0 {
		o.MemBytes = defaultMemBytes
	}
	names, err := listDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	check, err := readCheckpoint(fsys, dir)
	if err != nil {
		return nil, err
	}
	x := &Index{fs: fsys, dir: dir, options: o, state: check.state, seed: maphash.MakeSeed()}
	x.drained = sync.NewCond(&x.mu)
	x.install.state = check.state
	v := &view{mems: []*memtable{newMemtable(1, smallTable)}}
	named := map[string]bool{checkpointName: true}
	for _, ref := range check.runs {
		r, err := openRun(fsys, dir, ref)
		if err != nil {
			for _, r := range v.runs {
				r.file.Close()
			}
			return nil, err
		}
		r.refs = 1
		v.runs = append(v.runs, r)
		named[r.name] = true
	}
	for _, name := range names {
		if ours(name) && !named[name] {
			fsys.Remove(path.Join(dir, name)) // if it stays it does no harm
		}
	}
	// Each Open numbers its runs from somewhere else. So no run is ever given a name
	// that another one had, and an index that is still open on a directory that was
	// Reset cannot remove the files of the next.
	x.numbers.Store(maphash.String(x.seed, dir) &^ (1<<24 - 1))
	v.refs.Store(1)
	x.views = 1
	x.current.Store(v)
	return x, nil
}

// listDir returns the names in dir, which it makes if need be.
func listDir(fsys disk.FS, dir string) ([]string, error) {
	names, err := fsys.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return names, diskError("reading directory", dir, err)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, diskError("making directory", dir, err)
	}
	for at := path.Clean(dir); at != "." && at != "/"; {
		at = path.Dir(at)
		if err := fsys.SyncDir(at); err != nil {
			return nil, diskError("syncing directory", at, err)
		}
	}
	return nil, nil
}

// Reset removes whatever index is in dir; nothing there is fine. An Index that is
// still open on it answers its readers as before, but must not Write or Merge any
// more. If Reset is interrupted, call it again.
func Reset(fsys disk.FS, dir string) error {
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskError("reading directory", dir, err)
	}
	slices.SortFunc(names, func(a, b string) int { // the checkpoint first: without it the rest is nothing
		return strings.Compare(path.Ext(a), path.Ext(b))
	})
	for _, name := range names {
		if !ours(name) {
			continue
		}
		if err := fsys.Remove(path.Join(dir, name)); err != nil {
			return diskError("removing", name, err)
		}
	}
	return diskError("syncing directory", dir, fsys.SyncDir(dir))
}
