package manifest

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"io"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// sorter puts the samples into the order of their keys, with bounded memory: as
// many keys as fit are sorted at a time and spooled as a run; then the runs are
// merged. Keys that occur twice meet on the way.
type sorter struct {
	spool   *spool
	arena   []byte // keys of this run
	starts  []uint32
	entries []sortEntry
	first   uint32 // number of the sample that begins the run
	runs    []*stream
}

// sortEntry stands for a key: eight bytes of it, from a depth that all entries
// being sorted share. Comparing them seldom needs the key itself.
type sortEntry struct {
	word uint64
	key  uint32 // in this run
	rest uint32 // how many bytes there are from the depth on, at most 9
}

const (
	entryBytes = 20 // a sortEntry and a start
	deeper     = 9  // there is more behind the word
)

// sortKeys returns the stream of sample numbers in the order of their keys.
func sortKeys(sp *spool, ends, content *stream, memory int64) (*stream, error) {
	s := newSorter(sp, ends.length/8, content.length, memory)
	read := content.reader()
	readEnd := ends.reader()
	var from uint64
	for range ends.length / 8 {
		to, err := readEnd.uint64()
		if err != nil {
			return nil, err
		}
		if err := s.add(read, int(to-from)); err != nil {
			return nil, err
		}
		from = to
	}
	if len(s.runs) == 0 {
		order := sp.stream()
		if err := s.sort(s.entries, 0); err != nil {
			return nil, err
		}
		for _, e := range s.entries {
			order.uint32(e.key)
		}
		return order, nil
	}
	if err := s.endRun(); err != nil {
		return nil, err
	}
	s.arena, s.starts, s.entries = nil, nil, nil
	return s.merge()
}

// newSorter takes the memory at once, for keys of the average length.
func newSorter(sp *spool, count, length, memory int64) *sorter {
	memory = min(max(memory, 1<<16), 1<<31) // starts have 32 bits; the longest key must fit
	each := entryBytes + length/max(1, count)
	entries := min(count, memory/each)
	return &sorter{
		spool: sp, entries: make([]sortEntry, 0, entries), starts: make([]uint32, 0, entries),
		arena: make([]byte, 0, min(length, memory-entryBytes*entries)),
	}
}

// add takes the next key.
func (s *sorter) add(read *streamReader, length int) error {
	if len(s.entries) == cap(s.entries) || len(s.arena)+length > cap(s.arena) {
		if err := s.endRun(); err != nil {
			return err
		}
	}
	at := len(s.arena)
	s.arena = s.arena[:at+length]
	s.starts = append(s.starts, uint32(at))
	s.entries = append(s.entries, sortEntry{key: uint32(len(s.entries))})
	return read.take(s.arena[at:])
}

func (s *sorter) key(e sortEntry) []byte {
	if int(e.key)+1 < len(s.starts) {
		return s.arena[s.starts[e.key]:s.starts[e.key+1]]
	}
	return s.arena[s.starts[e.key]:]
}

// sort sorts entries whose keys have the first depth bytes in common.
func (s *sorter) sort(entries []sortEntry, depth int) error {
	if len(entries) < 2 {
		return nil
	}
	for i := range entries {
		e := &entries[i]
		rest := s.key(*e)[depth:]
		var word [8]byte
		copy(word[:], rest)
		e.word, e.rest = binary.BigEndian.Uint64(word[:]), uint32(min(len(rest), deeper))
	}
	slices.SortFunc(entries, func(a, b sortEntry) int {
		if a.word != b.word {
			return cmp.Compare(a.word, b.word)
		}
		return cmp.Compare(a.rest, b.rest) // a key that ends within the word comes before one that has zeros there
	})
	for from := 0; from < len(entries); {
		to := from + 1
		for to < len(entries) && entries[to].word == entries[from].word && entries[to].rest == entries[from].rest {
			to++
		}
		if to-from > 1 {
			if entries[from].rest < deeper {
				return twice(s.key(entries[from]), s.first+entries[from].key, s.first+entries[from+1].key)
			}
			if err := s.sort(entries[from:to], depth+8); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

func twice(key []byte, a, b uint32) error {
	return object.Errorf(object.Exists, "key %q occurs twice: samples %d and %d have it", key, min(a, b), max(a, b))
}

// endRun sorts what there is and spools it: of each key the number of its sample,
// its length and itself.
func (s *sorter) endRun() error {
	if err := s.sort(s.entries, 0); err != nil {
		return err
	}
	run := s.spool.stream()
	for _, e := range s.entries {
		key := s.key(e)
		var b [6]byte
		little.PutUint32(b[:], s.first+e.key)
		little.PutUint16(b[4:], uint16(len(key)))
		run.append(b[:])
		run.append(key)
	}
	s.runs = append(s.runs, run)
	s.first += uint32(len(s.entries))
	s.arena, s.starts, s.entries = s.arena[:0], s.starts[:0], s.entries[:0]
	return s.spool.err
}

func (s *sorter) merge() (*stream, error) {
	var front runs
	for _, r := range s.runs {
		next := &run{read: r.reader()}
		if err := next.advance(); err != nil {
			return nil, err
		}
		front = append(front, next)
	}
	heap.Init(&front)
	order := s.spool.stream()
	var last []byte // no key is empty
	var lastNumber uint32
	for len(front) > 0 {
		r := front[0]
		if bytes.Equal(last, r.key) {
			return nil, twice(last, lastNumber, r.number)
		}
		last, lastNumber = append(last[:0], r.key...), r.number
		order.uint32(r.number)
		if err := r.advance(); err == io.EOF {
			heap.Pop(&front)
		} else if err != nil {
			return nil, err
		} else {
			heap.Fix(&front, 0)
		}
	}
	return order, s.spool.err
}

// run is a sorted run that is being merged, at one of its keys.
type run struct {
	read   *streamReader
	number uint32
	key    []byte
}

// advance goes to the next key, or returns io.EOF.
func (r *run) advance() error {
	var b [6]byte
	if err := r.read.take(b[:]); err != nil {
		return err
	}
	r.number = little.Uint32(b[:])
	r.key = slices.Grow(r.key[:0], int(little.Uint16(b[4:])))[:little.Uint16(b[4:])]
	if err := r.read.take(r.key); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else {
		return err
	}
}

type runs []*run

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return bytes.Compare(r[i].key, r[j].key) < 0 }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.(*run)) }

func (r *runs) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
