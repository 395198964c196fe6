package node

import (
	"context"
	"strings"
	"sync/atomic"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// bucketPrefix is where buckets are in the control records.
const bucketPrefix = "buckets/"

// snapshot is all buckets at one revision. It is never changed.
type snapshot struct {
	revision int64
	byName   map[string]*bucket
	sorted   []*bucket
}

// bucket is one bucket in a snapshot.
type bucket struct {
	Bucket
	err    error // why it cannot be used
	record cluster.Record
	live   *life
}

// life is what belongs to a bucket from its making to its deletion, through all
// changes of its properties.
type life struct {
	gate    gate
	claimed atomic.Int64 // bytes of writes under way, for the quota
	facts   factsState
}

// find returns a bucket that can be used.
func (n *Node) find(name string) (*bucket, error) {
	b := n.buckets.Load().byName[name]
	if b == nil {
		if err := object.ValidateBucket(name); err != nil {
			return nil, err
		}
		return nil, object.Errorf(object.NotFound, "bucket %s does not exist", name)
	}
	return b, b.err
}

// enter returns a bucket with its gate passed; the caller leaves it.
func (n *Node) enter(name string) (*bucket, error) {
	b, err := n.find(name)
	if err != nil {
		return nil, err
	}
	if b.live.gate.enter() {
		return b, nil
	}
	if again, err := n.find(name); err != nil || (again.live != b.live && again.live.gate.enter()) {
		return again, err // it was deleted since, and perhaps made anew
	}
	return nil, object.Errorf(object.Busy, "bucket %s is being deleted", name)
}

// refresh reads the buckets from the control records.
func (n *Node) refresh(ctx context.Context) error {
	view, err := n.control.List(ctx, bucketPrefix)
	if err != nil {
		return err
	}
	n.apply(view)
	return nil
}

// apply makes a view the current one, unless a newer one is.
func (n *Node) apply(view cluster.View) {
	n.applying.Lock()
	defer n.applying.Unlock()
	old := n.buckets.Load()
	if view.Revision <= old.revision && old.byName != nil {
		return
	}
	next := &snapshot{revision: view.Revision, byName: make(map[string]*bucket, len(view.Records))}
	for _, r := range view.Records {
		name := strings.TrimPrefix(r.Key, bucketPrefix)
		b := n.parse(name, r, old.byName[name])
		next.byName[name] = b
		next.sorted = append(next.sorted, b)
	}
	n.buckets.Store(next)
}

// parse makes a bucket of its record; before is what went by its name.
func (n *Node) parse(name string, r cluster.Record, before *bucket) *bucket {
	if before != nil && before.record.Modified == r.Modified {
		return before
	}
	b := &bucket{record: r}
	if b.Bucket, b.err = decodeBucket(name, r.Value); b.err != nil {
		b.Problem = b.err.Error()
		n.log.Error("a bucket cannot be used", "bucket", name, "error", b.err)
	}
	if before == nil || before.record.Created != r.Created {
		b.live = new(life)
		return b
	}
	b.live = before.live
	// A delete that may still happen is one of the record as it was before; now
	// that the record has changed it cannot.
	b.live.gate.reopen()
	return b
}
