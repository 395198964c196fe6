package index

import "bytes"

// Iterator walks over the keys of a range in order. It sees every key that is
// there from Scan to the end, with one of the values it has meanwhile; what is
// applied meanwhile it may or may not see. It holds files open until it is closed.
// Not for concurrent use.
type Iterator struct {
	index      *Index
	view       *view // nil when closed
	merger     *merger
	start, end []byte
	bounded    bool
	target     []byte // where the next Next goes, if seeking
	seeking    bool
	done       bool
	value      []byte
	failure    error
}

// Scan returns an iterator, before the first of the keys from start up to but not
// with end; a nil end is no bound. Start and end are copied. The caller closes it.
func (x *Index) Scan(start, end []byte) *Iterator {
	it := &Iterator{index: x, start: bytes.Clone(start), end: bytes.Clone(end), bounded: end != nil}
	if it.view = x.acquire(); it.view == nil {
		it.failure = errClosed
		return it
	}
	sources := make([]source, 0, len(it.view.mems)+len(it.view.runs))
	for _, m := range it.view.mems {
		sources = append(sources, &memSource{table: m})
	}
	for _, r := range it.view.runs {
		sources = append(sources, newRunSource(r, &x.buffers))
	}
	it.merger = newMerger(sources)
	it.Seek(start)
	return it
}

// Seek makes the next Next go to the first key that is not before key, forward or
// backward, within the range of the Scan. Going forward costs less, and little if
// the target is near. After an error that was no damage it tries again.
func (it *Iterator) Seek(key []byte) {
	if it.view == nil {
		return
	}
	if bytes.Compare(key, it.start) < 0 {
		key = it.start
	}
	it.target = append(it.target[:0], key...)
	it.seeking, it.done, it.failure = true, false, nil
}

// Next moves to the next key and reports whether there is one; if not, Err says
// whether that is the end.
func (it *Iterator) Next() bool {
	if it.done || it.failure != nil || it.view == nil {
		return false
	}
	for {
		ok := false
		if it.seeking {
			it.seeking = false
			ok = it.merger.seek(it.target)
		} else {
			ok = it.merger.next()
		}
		if !ok || it.bounded && bytes.Compare(it.merger.key(), it.end) >= 0 {
			it.done, it.failure = true, it.merger.failure
			return false
		}
		var deleted bool
		if it.value, deleted = it.merger.value(); !deleted {
			return true
		}
	}
}

// Key returns the key Next moved to, valid until the next call of Next, Seek or
// Close. It must not be changed.
func (it *Iterator) Key() []byte { return it.merger.key() }

// Value returns the value that belongs to Key, valid as long.
func (it *Iterator) Value() []byte { return it.value }

// Err returns what ended the iteration early, nil if nothing did.
func (it *Iterator) Err() error { return it.failure }

// Close gives back what the iterator holds. A second Close does nothing.
func (it *Iterator) Close() {
	if it.view == nil {
		return
	}
	it.merger.close()
	it.index.release(it.view)
	it.view = nil
}
