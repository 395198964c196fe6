package index

import (
	"bytes"
	"sort"
)

// source is a sequence of entries in key order: a memtable or a run. What key and
// value return is valid until the source moves.
type source interface {
	// next moves to the next entry. Before the first call a source is nowhere.
	next() bool
	// seek moves to the first entry that is not before key.
	seek(key []byte) bool
	key() []byte
	value() (value []byte, deleted bool)
	// err says why next or seek returned false, nil at the end.
	err() error
	// close gives back what the source holds.
	close()
}

// memSource walks over a memtable, one leaf at a time. What is added meanwhile it
// may or may not see.
type memSource struct {
	table *memtable
	words []uint64 // of the leaf
	at    int
	high  []byte // where the next leaf begins; nil behind the last
}

func (s *memSource) next() bool {
	if s.words == nil {
		return s.seek(nil)
	}
	s.at++
	if s.at < len(s.words) {
		return true
	}
	return s.high != nil && s.seek(s.high)
}

func (s *memSource) seek(key []byte) bool {
	for {
		leaf, _, _, high := s.table.tree.root.Load().locate(key)
		if s.words == nil {
			s.words = make([]uint64, 0, leafSize)
		}
		s.words, s.high = leaf.sorted(s.table, s.words), high
		s.at = sort.Search(len(s.words), func(i int) bool { return bytes.Compare(s.table.key(uint32(s.words[i])), key) >= 0 })
		if s.at < len(s.words) {
			return true
		}
		if high == nil {
			return false
		}
		key = high
	}
}

func (s *memSource) key() []byte           { return s.table.key(uint32(s.words[s.at])) }
func (s *memSource) value() ([]byte, bool) { return s.table.value(uint32(s.words[s.at])) }
func (s *memSource) err() error            { return nil }
func (s *memSource) close()                {}

// runSource walks over a run, one block in memory at a time.
type runSource struct {
	run     *run
	pool    *bufferPool
	buffer  *buffer // nil before the first block
	loaded  int     // the block the cursor is in, -1 for none
	cursor  cursor
	failure error
}

func newRunSource(r *run, pool *bufferPool) *runSource {
	return &runSource{run: r, pool: pool, loaded: -1}
}

func (s *runSource) next() bool {
	if s.failure != nil {
		return false
	}
	for {
		if s.loaded >= 0 {
			if ok, err := s.cursor.step(); ok || s.failed(err) {
				return ok
			}
		}
		if s.loaded+1 >= s.run.index.len() || !s.load(s.loaded+1) {
			return false
		}
	}
}

func (s *runSource) seek(key []byte) bool {
	s.failure = nil
	i := max(s.run.index.find(key), 0)
	if i != s.loaded && !s.load(i) {
		return false
	}
	ok, err := s.cursor.seek(key)
	if ok || s.failed(err) {
		return ok
	}
	return s.next() // it is the first of the next block
}

func (s *runSource) load(i int) bool {
	if s.buffer == nil {
		s.buffer = s.pool.get()
	}
	s.loaded = -1
	data, err := s.run.block(i, s.buffer.bytes)
	if err != nil {
		s.failure = err
		return false
	}
	s.buffer.bytes = data
	s.loaded = i
	return !s.failed(s.cursor.open(data))
}

// failed notes an error of the block at hand.
func (s *runSource) failed(err error) bool {
	if err == nil {
		return false
	}
	s.failure = s.run.senseless(s.loaded, err)
	s.loaded = -1
	return true
}

func (s *runSource) key() []byte           { return s.cursor.key }
func (s *runSource) value() ([]byte, bool) { return s.cursor.value, s.cursor.deleted }
func (s *runSource) err() error            { return s.failure }

func (s *runSource) close() {
	if s.buffer != nil {
		s.pool.put(s.buffer)
		s.buffer = nil
	}
}
