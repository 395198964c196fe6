package store

import (
	"encoding/json"

	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// tally is what a disk counts while records come and go. It is stored with each
// checkpoint of the index and so is always as old as that: what the log holds
// beyond it is counted again at start.
type tally struct {
	Packs   map[uint64]*packTally `json:"packs"`
	Buckets map[string]*Usage     `json:"buckets"`
	Kept    map[string]int64      `json:"kept,omitempty"` // of each bucket, names that have an ID
	Blobs   Usage                 `json:"blobs"`          // blobs in use and their bytes
	Counter uint64                `json:"counter"`        // the newest version's
	Removed uint64                `json:"removed"`        // packs that compaction has removed so far
}

// packTally counts the records of one pack.
type packTally struct {
	End     int64 `json:"end"`               // records before are in the index
	Sealed  bool  `json:"sealed,omitempty"`  // End is final
	Emptied bool  `json:"emptied,omitempty"` // nothing in it is needed: to be removed
	Damaged bool  `json:"damaged,omitempty"` // cannot be compacted
	Total   int64 `json:"total"`             // bytes of records
	Dead    int64 `json:"dead"`              // bytes of records that are not the newest of their name

	// After is the log pack before this one. This one's head tells where that one
	// ends, and must stay as long as that one is open.
	After   uint64 `json:"after,omitempty"`
	sealing bool   // under way
	tries   int    // how often compaction of it failed
}

// Usage counts objects and the bytes of their content.
type Usage struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func newTally() *tally {
	return &tally{Packs: make(map[uint64]*packTally), Buckets: make(map[string]*Usage), Kept: make(map[string]int64)}
}

func decodeTally(state []byte) (*tally, error) {
	t := newTally()
	if len(state) == 0 {
		return t, nil
	}
	if err := json.Unmarshal(state, t); err != nil {
		return t, object.Errorf(object.Corrupt, "%w: its checkpoint holds no tally: %w", index.ErrDamaged, err)
	}
	return t, nil
}

func (t *tally) encode() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // plain numbers and strings
	}
	return b
}

func (t *tally) pack(id uint64) *packTally {
	p := t.Packs[id]
	if p == nil {
		p = new(packTally)
		t.Packs[id] = p
	}
	return p
}

// count adds an object to its bucket, or takes it away with a negative sign. A mark
// of a deletion is no object.
func (t *tally) count(name object.Name, e *entry, sign int64) {
	if name.ID != (object.Version{}) {
		if t.Kept[name.Bucket] += sign; t.Kept[name.Bucket] == 0 {
			delete(t.Kept, name.Bucket)
		}
	}
	if e.Kind != pack.Object {
		return
	}
	u := t.Buckets[name.Bucket]
	if u == nil {
		u = new(Usage)
		t.Buckets[name.Bucket] = u
	}
	u.Objects += sign
	u.Bytes += sign * e.Size
	if *u == (Usage{}) {
		delete(t.Buckets, name.Bucket)
	}
}

// bytes returns how many bytes of records there are, and how many of them dead.
func (t *tally) bytes() (total, dead int64) {
	for _, p := range t.Packs {
		total += p.Total
		dead += p.Dead
	}
	return total, dead
}
