package index

import (
	"path"
	"slices"
	"sync"
)

// installer is the state of the one step that changes the index on disk. Its lock
// is held over I/O, and no reader takes it.
type installer struct {
	sync.Mutex
	state   []byte // of the newest durable checkpoint
	written uint64 // the newest freeze in it

	// unsure are files that the checkpoint on disk may name, after a failure that
	// left open which one that is. They stay until it is settled.
	unsure []string
}

func (i *installer) covers(freeze uint64) bool {
	i.Lock()
	defer i.Unlock()
	return i.written >= freeze
}

// installRuns makes a checkpoint with the runs that change makes of the current
// ones, and shows them to readers. added is a run that change adds, or nil. f is
// what is written; nil leaves state and memtables as they are.
func (x *Index) installRuns(added *run, change func([]*run) []*run, f *Frozen) error {
	i := &x.install
	i.Lock()
	defer i.Unlock()
	state := i.state
	if f != nil {
		state = f.state
	}
	c := checkpoint{state: state}
	for _, r := range change(x.current.Load().runs) {
		c.runs = append(c.runs, r.ref())
	}
	if sure, err := writeCheckpoint(x.fs, x.dir, c); err != nil {
		if added != nil {
			added.file.Close()
			if sure {
				x.fs.Remove(path.Join(x.dir, added.name))
			} else {
				i.unsure = append(i.unsure, added.name)
			}
		}
		return err
	}
	i.state = state
	if f != nil {
		i.written = f.number
	}
	x.publish(func(mems []*memtable, runs []*run) ([]*memtable, []*run) {
		return withoutWritten(mems, f), change(runs)
	})
	i.forget(x, c)
	return nil
}

// withoutWritten returns the memtables that are not yet in a run.
func withoutWritten(mems []*memtable, f *Frozen) []*memtable {
	if f == nil {
		return mems
	}
	for i, m := range mems {
		if m.number < f.before {
			return slices.Clone(mems[:i]) // a part of the old list would keep the rest in memory
		}
	}
	return mems
}

// settle finds out which checkpoint is in force after a failure that left it open,
// before more files are written: a disk that goes on failing gets no more of them.
func (x *Index) settle() error {
	i := &x.install
	i.Lock()
	defer i.Unlock()
	if len(i.unsure) == 0 {
		return nil
	}
	if err := x.fs.SyncDir(x.dir); err != nil {
		return diskError("syncing directory", x.dir, err)
	}
	c, err := readCheckpoint(x.fs, x.dir)
	if err != nil {
		return err
	}
	i.forget(x, c)
	return nil
}

// forget removes the unsure files that c, which is durable, does not name.
func (i *installer) forget(x *Index, c checkpoint) {
	var left []string
	for _, name := range i.unsure {
		named := false
		for _, r := range c.runs {
			named = named || runName(r.number) == name
		}
		if named || x.fs.Remove(path.Join(x.dir, name)) != nil {
			left = append(left, name)
		}
	}
	i.unsure = left
}
