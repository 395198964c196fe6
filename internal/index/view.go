package index

import (
	"path"
	"slices"
	"sync/atomic"
)

// view is what a reader looks at: an immutable list of memtables and runs. A
// reader holds one while it reads, and nothing in it goes away meanwhile.
type view struct {
	refs atomic.Int64
	mems []*memtable // newest first; the first of them still takes changes
	runs []*run      // newest first
}

// acquire returns the current view, to be given to release; nil when closed.
func (x *Index) acquire() *view {
	for {
		v := x.current.Load()
		if v == nil {
			return nil
		}
		// A view whose count fell to zero stays dead: another one is current.
		if n := v.refs.Load(); n > 0 && v.refs.CompareAndSwap(n, n+1) {
			return v
		}
	}
}

func (x *Index) release(v *view) {
	if v.refs.Add(-1) > 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range v.runs {
		if r.refs--; r.refs == 0 {
			x.idle = append(x.idle, r)
		}
	}
	if x.views--; x.views == 0 {
		x.drained.Broadcast()
	}
}

// publish replaces the current view by what change makes of its lists. After
// Close it does nothing and returns false. Runs that change leaves out are
// obsolete: the caller has made that durable.
func (x *Index) publish(change func(mems []*memtable, runs []*run) ([]*memtable, []*run)) bool {
	x.mu.Lock()
	old := x.current.Load()
	if old == nil {
		x.mu.Unlock()
		return false
	}
	v := new(view)
	v.mems, v.runs = change(old.mems, old.runs)
	v.refs.Store(1)
	for _, r := range v.runs {
		r.refs++
	}
	for _, r := range old.runs {
		r.obsolete = r.obsolete || !slices.Contains(v.runs, r)
	}
	x.views++
	x.current.Store(v)
	x.mu.Unlock()
	x.release(old)
	return true
}

// tidy closes the runs that no view holds, and removes the obsolete ones among
// them. What cannot be removed now is tried again, and by the next Open at last.
func (x *Index) tidy() {
	x.mu.Lock()
	idle := x.idle
	x.idle = nil
	x.mu.Unlock()
	var left []*run
	for _, r := range idle {
		if r.file != nil {
			r.file.Close() // only read from: nothing can be lost
			r.file = nil
		}
		if r.obsolete && x.fs.Remove(path.Join(x.dir, r.name)) != nil {
			left = append(left, r)
		}
	}
	if len(left) > 0 {
		x.mu.Lock()
		x.idle = append(x.idle, left...)
		x.mu.Unlock()
	}
}
