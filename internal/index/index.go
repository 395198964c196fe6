package index

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/disk"
)

// Options tune an Index. The zero value is useful.
type Options struct {
	MemBytes int64 // memtable size at which Full reports true; default 32 MiB
}

const defaultMemBytes = 32 << 20

// Index is an ordered map from bytes to bytes. See the package's page for what may
// be called concurrently.
type Index struct {
	fs      disk.FS
	dir     string
	options Options
	state   []byte // of the checkpoint that was opened
	seed    maphash.Seed
	buffers bufferPool
	current atomic.Pointer[view] // nil when closed
	numbers atomic.Uint64        // the last one a run was given

	writing sync.Mutex // held by the one Write at work
	merging sync.Mutex // held by the one Merge at work
	install installer

	mu      sync.Mutex // for what follows; no I/O under it
	drained *sync.Cond // views became zero
	views   int        // those still held by somebody
	idle    []*run     // held by no view: for tidy
	freezes uint64
}

// State returns the state of the checkpoint that was opened, nil if there was
// none. The caller must not change it.
func (x *Index) State() []byte { return x.state }

// Get returns the value of key, appended to buf[:0], and whether there is one. It
// does not allocate if buf is large enough. An error is of kind Corrupt, and wraps
// ErrDamaged, if something read does not verify; Unavailable if it cannot be read.
func (x *Index) Get(key []byte, buf []byte) (value []byte, ok bool, err error) {
	v := x.acquire()
	if v == nil {
		return nil, false, errClosed
	}
	defer x.release(v)
	hash := maphash.Bytes(x.seed, key)
	for _, m := range v.mems {
		if node := m.find(hash, key); node != 0 {
			value, deleted := m.value(node)
			if deleted {
				return nil, false, nil
			}
			return append(buf[:0], value...), true, nil
		}
	}
	if len(v.runs) == 0 {
		return nil, false, nil
	}
	hash = filterHash(key)
	for _, r := range v.runs {
		if !r.filter.has(hash) {
			continue
		}
		b := x.buffers.get()
		value, found, deleted, err := r.get(key, buf, b)
		x.buffers.put(b)
		if found || err != nil {
			return value, found && !deleted, err
		}
	}
	return nil, false, nil
}

// Apply makes the changes of b, in memory only: all are visible to readers when it
// returns, one after the other while it runs. One caller at a time, and none during
// Freeze. It cannot fail, and has no bound: a caller that cannot write checkpoints
// must watch Stats and stop.
func (x *Index) Apply(b *Batch) {
	v := x.current.Load()
	if v == nil {
		return
	}
	m := v.mems[0]
	b.each(func(key, value []byte, deleted bool) {
		if m.crowded() {
			m.publish()
			m = x.swap(m)
		}
		m.set(maphash.Bytes(x.seed, key), key, value, deleted)
	})
	m.publish()
}

// swap puts a new memtable over the current one, old, and returns it. It will
// probably hold as many keys: with a hash table as large it need not grow. But one
// that was far too large must not make the next look full from the start.
func (x *Index) swap(old *memtable) *memtable {
	slots := len(old.table.Load().slots)
	for slots > smallTable && int64(slots)*8 > x.options.MemBytes/4 {
		slots /= 2
	}
	m := newMemtable(old.number+1, slots)
	x.publish(func(mems []*memtable, runs []*run) ([]*memtable, []*run) {
		return append([]*memtable{m}, mems...), runs
	})
	return m
}

// Full reports that the memtable has reached Options.MemBytes.
func (x *Index) Full() bool {
	v := x.current.Load()
	return v != nil && !v.mems[0].empty() && v.mems[0].size() >= x.options.MemBytes
}

// Checkpoint is Freeze and Write.
func (x *Index) Checkpoint(ctx context.Context, state []byte) error {
	return x.Freeze(state).Write(ctx)
}

// Stats are figures about an index.
type Stats struct {
	Runs     int
	Entries  int64 // in memtables and runs; a key counts in each of them it is in
	Bytes    int64 // of the run files
	MemBytes int64 // of the memtables, those included that wait to be written
}

// Stats returns figures about the index.
func (x *Index) Stats() Stats {
	v := x.acquire()
	if v == nil {
		return Stats{}
	}
	defer x.release(v)
	s := Stats{Runs: len(v.runs)}
	for _, m := range v.mems {
		s.Entries += m.count.Load()
		s.MemBytes += m.size()
	}
	for _, r := range v.runs {
		s.Entries += int64(r.footer.entries)
		s.Bytes += r.size
	}
	return s
}

// Close frees the files. It writes no checkpoint: what is in memory only comes
// back from the log. It waits for readers, iterators, Write and Merge at work; the
// caller cancels the latter two first. Later calls answer that the index is closed.
func (x *Index) Close() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.merging.Lock()
	defer x.merging.Unlock()
	x.mu.Lock()
	v := x.current.Swap(nil)
	x.mu.Unlock()
	if v == nil {
		return nil
	}
	x.release(v)
	x.mu.Lock()
	for x.views > 0 {
		x.drained.Wait()
	}
	x.mu.Unlock()
	x.tidy()
	return nil
}
