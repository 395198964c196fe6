package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// state is all records at one revision. It is never changed.
type state struct {
	revision int64
	records  []*Record // by key
	size     int64     // of all records, as stored
}

func compareKey(r *Record, key string) int { return cmp.Compare(r.Key, key) }

// find returns the record of a key, nil if there is none.
func (s *state) find(key string) *Record {
	if i, ok := slices.BinarySearchFunc(s.records, key, compareKey); ok {
		return s.records[i]
	}
	return nil
}

// under returns the records whose keys begin with prefix.
func (s *state) under(prefix string) []Record {
	i, _ := slices.BinarySearchFunc(s.records, prefix, compareKey)
	var records []Record
	for _, r := range s.records[i:] {
		if !strings.HasPrefix(r.Key, prefix) {
			break
		}
		records = append(records, *r)
	}
	return records
}

// draft is a state in the making: a base, and what a batch of requests changes.
type draft struct {
	base       *state
	leaseLives func(LeaseID) bool
	saved      int64 // the revision of the last snapshot
	refused    error // if not nil nothing can be written, for this reason

	revision int64
	size     int64
	changed  map[string]*Record // nil: deleted
	changes  []Change
	ended    map[LeaseID]bool
	durable  bool // it must be written before it is shown
}

func (d *draft) find(key string) *Record {
	if r, ok := d.changed[key]; ok {
		return r
	}
	return d.base.find(key)
}

func (d *draft) leaseHolds(id LeaseID) bool { return !d.ended[id] && d.leaseLives(id) }

// txn does a transaction whole, or not at all.
func (d *draft) txn(t Txn) (int64, error) {
	for _, c := range t.If {
		if !c.holds(d.find(c.Key)) {
			return 0, object.Errorf(object.Stale, "a condition on the control record %q does not hold", c.Key)
		}
	}
	size, durable := d.size, false
	var ops []Op
	for _, op := range t.Then {
		old := d.find(op.Key)
		switch {
		case op.Delete && old == nil:
			continue
		case op.Delete:
		case op.Lease != 0 && !d.leaseHolds(op.Lease):
			return 0, errNoLease(op.Lease)
		default:
			size += recordSize(&Record{Key: op.Key, Value: op.Value})
			durable = durable || op.Lease == 0
		}
		if old != nil {
			size -= recordSize(old)
			durable = durable || old.Lease == 0
		}
		ops = append(ops, op)
	}
	if size > MaxTotal {
		return 0, object.Errorf(object.Unavailable, "the control records would take %d bytes, and %d are possible: delete some", size, MaxTotal)
	}
	err := d.apply(ops, durable)
	return d.revision, err
}

// apply makes one change of the operations, if there are any.
func (d *draft) apply(ops []Op, durable bool) error {
	if len(ops) == 0 {
		return nil
	}
	ahead := d.revision + 1 - d.saved
	if d.refused != nil && (durable || ahead > revisionJump) {
		return d.refused
	}
	d.durable = d.durable || durable || ahead > revisionJump/2
	d.revision++
	change := Change{Revision: d.revision}
	for _, op := range ops {
		r := &Record{Key: op.Key, Value: op.Value, Created: d.revision, Modified: d.revision, Lease: op.Lease}
		if old := d.find(op.Key); old != nil {
			r.Created = old.Created
			d.size -= recordSize(old)
		}
		if op.Delete {
			d.changed[op.Key] = nil
			change.Events = append(change.Events, Event{Record: Record{Key: op.Key, Modified: d.revision}, Deleted: true})
			continue
		}
		d.size += recordSize(r)
		d.changed[op.Key] = r
		change.Events = append(change.Events, Event{Record: *r})
	}
	d.changes = append(d.changes, change)
	return nil
}

// end deletes the records of leases, in one change for each lease.
func (d *draft) end(ids ...LeaseID) error {
	ops := make(map[LeaseID][]Op, len(ids))
	for _, id := range ids {
		ops[id] = nil
	}
	for r := range d.all {
		if _, ok := ops[r.Lease]; ok {
			ops[r.Lease] = append(ops[r.Lease], Delete(r.Key))
		}
	}
	for _, id := range ids {
		if err := d.apply(ops[id], false); err != nil {
			return err
		}
		d.ended[id] = true
	}
	return nil
}

// all yields the records in the order of their keys.
func (d *draft) all(yield func(*Record) bool) {
	rest := d.base.records
	for _, key := range slices.Sorted(maps.Keys(d.changed)) {
		i, found := slices.BinarySearchFunc(rest, key, compareKey)
		for _, r := range rest[:i] {
			if !yield(r) {
				return
			}
		}
		if rest = rest[i:]; found {
			rest = rest[1:]
		}
		if r := d.changed[key]; r != nil && !yield(r) {
			return
		}
	}
	for _, r := range rest {
		if !yield(r) {
			return
		}
	}
}

// state returns the draft as a state.
func (d *draft) state() *state {
	if len(d.changes) == 0 {
		return d.base
	}
	records := make([]*Record, 0, len(d.base.records)+len(d.changed))
	for r := range d.all {
		records = append(records, r)
	}
	return &state{revision: d.revision, records: records, size: d.size}
}
