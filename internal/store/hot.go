package store

import (
	"sync"

	"github.com/zeebo/xxh3"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// hotTable remembers where recently used objects lie, so that a read needs no
// look into the index. It is a fixed number of small sets; a new place takes that
// of the one used longest ago in its set. It knows names only by hash: whoever
// reads a record at a remembered place compares the name that stands there.
type hotTable struct {
	sets []hotSet
}

const hotWays = 4

type hotSet struct {
	sync.Mutex
	writes uint32         // how often a writer has changed the set
	active int32          // writers at work on its names
	places [hotWays]place // the most recently used first
}

// place is a hot location. The zero value is none: no record has an empty head.
type place struct {
	hash    uint64
	version object.Version
	pack    uint64
	offset  int64
	payload int64
	head    int32
	drive   int16
	extents bool
}

func (p *place) location() pack.Location {
	return pack.Location{Offset: p.offset, Head: int64(p.head), Payload: p.payload}
}

func newHotTable(places int) *hotTable {
	sets := 1
	for sets*hotWays < places {
		sets *= 2
	}
	return &hotTable{sets: make([]hotSet, sets)}
}

func hashName(name object.Name) uint64 {
	return xxh3.HashStringSeed(name.Key, xxh3.HashString(name.Bucket))
}

func (t *hotTable) set(hash uint64) *hotSet { return &t.sets[hash&uint64(len(t.sets)-1)] }

// get returns a remembered place, or the state of its set to offer one with.
func (t *hotTable) get(hash uint64) (p place, ok bool, seen uint32) {
	s := t.set(hash)
	s.Lock()
	defer s.Unlock()
	for i := range s.places {
		if p := s.places[i]; p.hash == hash && p.head != 0 {
			copy(s.places[1:i+1], s.places[:i])
			s.places[0] = p
			return p, true, s.writes
		}
	}
	return place{}, false, s.writes
}

// offer remembers a place that a reader found in the index, unless a writer came
// between its get and now: the place may then be of a record that is gone.
func (t *hotTable) offer(p place, seen uint32) {
	s := t.set(p.hash)
	s.Lock()
	defer s.Unlock()
	if s.writes == seen && s.active == 0 {
		s.insert(p)
	}
}

// begin forgets a name that is about to be written: from the moment at which the
// index has the new record nobody may see the old one, and it gets there before
// the writer is done. The name is locked.
func (t *hotTable) begin(hash uint64) {
	s := t.set(hash)
	s.Lock()
	defer s.Unlock()
	s.active++
	s.drop(hash)
}

// end remembers the place of the record that was written, if it is an object.
func (t *hotTable) end(hash uint64, p place) {
	s := t.set(hash)
	s.Lock()
	defer s.Unlock()
	s.active--
	s.writes++
	if p.head != 0 {
		s.insert(p)
	}
}

// drop forgets a name whose place has changed or proved wrong.
func (t *hotTable) drop(hash uint64) {
	s := t.set(hash)
	s.Lock()
	defer s.Unlock()
	s.drop(hash)
}

func (s *hotSet) drop(hash uint64) {
	s.writes++
	for i := range s.places {
		if s.places[i].hash == hash {
			s.places[i] = place{}
		}
	}
}

func (s *hotSet) insert(p place) {
	last := hotWays - 1
	for i := range s.places {
		if s.places[i].hash == p.hash {
			last = i
			break
		}
	}
	copy(s.places[1:last+1], s.places[:last])
	s.places[0] = p
}
