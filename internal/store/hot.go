package store

import (
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// hotTable remembers where recently used objects lie, so that a read needs no
// look into the index. It is a fixed number of small sets; a new place takes that
// of the one used longest ago in its set. It knows names only by hash, and of that
// only a part: whoever reads a record at a remembered place compares the name that
// stands there.
type hotTable struct {
	sets []hotSet
}

const hotWays = 4

// hotSet is two lines of the processor's cache: of millions of places the next one
// asked for is in none of its caches, and fetching it is what a get costs.
type hotSet struct {
	sync.Mutex
	writes atomic.Uint32 // how often a writer has changed the set; changed by who has locked it
	active int32         // writers at work on its names
	places [hotWays]hotPlace
}

// place is where a name's newest record lies. The zero value is none: no record has
// an empty head.
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
	seed := xxh3.HashString(name.Bucket)
	if name.ID != (object.Version{}) {
		seed ^= (name.ID.Counter ^ uint64(name.ID.Map)<<40) * 0x9e3779b97f4a7c15
	}
	return xxh3.HashStringSeed(name.Key, seed)
}

func (t *hotTable) set(hash uint64) *hotSet { return &t.sets[hash&uint64(len(t.sets)-1)] }

// touch has the processor fetch what a get of each hash will look at.
func (t *hotTable) touch(hashes []uint64) {
	for _, hash := range hashes {
		t.set(hash).writes.Load()
	}
}

// get returns a remembered place, or the state of its set to offer one with.
func (t *hotTable) get(hash uint64) (p place, ok bool, seen uint32) {
	s := t.set(hash)
	s.Lock()
	defer s.Unlock()
	for i := range s.places {
		if h := s.places[i]; h.holds(hash) {
			copy(s.places[1:i+1], s.places[:i])
			s.places[0] = h
			return h.place(hash), true, s.writes.Load()
		}
	}
	return place{}, false, s.writes.Load()
}

// offer remembers a place that a reader found in the index, unless a writer came
// between its get and now: the place may then be of a record that is gone.
func (t *hotTable) offer(p place, seen uint32) {
	s := t.set(p.hash)
	s.Lock()
	defer s.Unlock()
	if s.writes.Load() == seen && s.active == 0 {
		s.insert(&p)
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
	s.writes.Add(1)
	if p.head != 0 {
		s.insert(&p)
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
	s.writes.Add(1)
	for i := range s.places {
		if s.places[i].holds(hash) {
			s.places[i] = hotPlace{}
		}
	}
}

func (s *hotSet) insert(p *place) {
	h, ok := shrink(p)
	if !ok {
		return
	}
	last := hotWays - 1
	for i := range s.places {
		if s.places[i].holds(p.hash) {
			last = i
			break
		}
	}
	copy(s.places[1:last+1], s.places[:last])
	s.places[0] = h
}

// hotPlace is a place in 28 bytes: the upper half of the hash; the version's map; the
// lower bits of its counter; 16 more of them, 8 of the head's length in blocks, 8 of
// the payload's; 16 more of that, 15 of the drive's number, whether there are
// extents; the pack; the offset in blocks. Places beyond these bounds are not
// remembered.
type hotPlace [7]uint32

func shrink(p *place) (hotPlace, bool) {
	head, offset := uint64(p.head)/pack.Block, uint64(p.offset)/pack.Block
	if p.version.Counter >= 1<<48 || p.pack >= 1<<32 || offset >= 1<<32 || uint64(p.payload) >= 1<<24 || head >= 1<<8 || p.drive < 0 {
		return hotPlace{}, false
	}
	extents := uint32(0)
	if p.extents {
		extents = 1
	}
	return hotPlace{
		uint32(p.hash >> 32), p.version.Map, uint32(p.version.Counter),
		uint32(p.version.Counter>>32) | uint32(head)<<16 | uint32(p.payload)<<24,
		uint32(p.payload>>8) | uint32(p.drive)<<16 | extents<<31,
		uint32(p.pack), uint32(offset),
	}, true
}

func (h *hotPlace) holds(hash uint64) bool { return h[0] == uint32(hash>>32) && h[3]&(0xff<<16) != 0 }

func (h *hotPlace) place(hash uint64) place {
	return place{
		hash:    hash,
		version: object.Version{Map: h[1], Counter: uint64(h[2]) | uint64(h[3]&0xffff)<<32},
		head:    int32(h[3]>>16&0xff) * pack.Block,
		payload: int64(h[3]>>24) | int64(h[4]&0xffff)<<8,
		drive:   int16(h[4] >> 16 & 0x7fff),
		extents: h[4]>>31 != 0,
		pack:    uint64(h[5]),
		offset:  int64(h[6]) * pack.Block,
	}
}
