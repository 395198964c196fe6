package index

import "context"

// Frozen is a checkpoint that is decided but not written yet.
type Frozen struct {
	index  *Index
	number uint64
	before uint64 // it covers all memtables with a smaller number
	state  []byte
}

// Freeze decides what the next checkpoint holds: all that was applied so far, and
// a copy of state. It takes no longer than to allocate an empty memtable. Apply must
// not run meanwhile.
func (x *Index) Freeze(state []byte) *Frozen {
	f := &Frozen{index: x, state: append([]byte{}, state...)}
	v := x.current.Load()
	if v == nil {
		return f
	}
	m := v.mems[0]
	if !m.empty() {
		m = x.swap(m)
	}
	f.before = m.number
	x.mu.Lock()
	defer x.mu.Unlock()
	x.freezes++
	f.number = x.freezes
	return f
}

// Write makes the checkpoint durable: it writes what was applied since the last
// one as a run, and then the checkpoint file. If it fails nothing is lost: all
// stays readable, the checkpoint before stays in force, and another Write of this
// or of a later Frozen does it all. A Frozen that a later one has overtaken has
// nothing left to do. May be called concurrently with everything.
func (f *Frozen) Write(ctx context.Context) error {
	x := f.index
	x.writing.Lock()
	defer x.writing.Unlock()
	defer x.tidy()
	v := x.acquire()
	if v == nil {
		return errClosed
	}
	defer x.release(v)
	if x.install.covers(f.number) {
		return nil
	}
	if err := canceled(ctx); err != nil {
		return err
	}
	if err := x.settle(); err != nil {
		return err
	}
	var sources []source
	var entries, size int64
	for _, m := range v.mems {
		if m.number < f.before {
			sources = append(sources, &memSource{table: m})
			entries += m.count.Load()
			size += m.used.Load()
		}
	}
	// With no run below there is nothing a delete could hide.
	added, err := x.writeRun(ctx, sources, entries, size, len(v.runs) == 0)
	if err != nil {
		return err
	}
	return x.installRuns(added, func(runs []*run) []*run {
		if added == nil {
			return runs
		}
		return append([]*run{added}, runs...)
	}, f)
}

// writeRun writes what the sources give, newest source first, as a run. It returns
// nil if there is nothing to write.
func (x *Index) writeRun(ctx context.Context, sources []source, entries, size int64, dropDeletes bool) (*run, error) {
	m := newMerger(sources)
	defer m.close()
	var w *runWriter
	number := x.numbers.Add(1)
	for m.next() {
		value, deleted := m.value()
		if deleted && dropDeletes {
			continue
		}
		if w == nil {
			var err error
			if w, err = createRun(x.fs, x.dir, runName(number), entries, size); err != nil {
				return nil, err
			}
		}
		err := w.add(m.key(), value, deleted)
		if err == nil && w.builder.count == 0 { // once a block
			err = canceled(ctx)
		}
		if err != nil {
			w.abort()
			return nil, err
		}
	}
	if w == nil {
		return nil, m.failure
	}
	r, err := x.finishRun(w, number, m.failure)
	if err != nil {
		w.abort()
	}
	return r, err
}

// finishRun makes a written run durable and opens it for reading.
func (x *Index) finishRun(w *runWriter, number uint64, failure error) (*run, error) {
	if failure != nil {
		return nil, failure
	}
	ref, err := w.finish()
	if err != nil {
		return nil, err
	}
	ref.number = number
	if err := x.fs.SyncDir(x.dir); err != nil {
		return nil, diskError("syncing directory", x.dir, err)
	}
	return openRun(x.fs, x.dir, ref)
}
