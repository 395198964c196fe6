// Package cluster keeps the control records: the few small facts all nodes must
// agree on, such as nodes, the map, buckets, datasets, tasks, jobs and users. It
// is not for data: a record is at most 1 MiB, and all of them together are small
// enough to be held in memory and written whole.
//
// Control is what the rest of Penstock sees: get, list, transaction, watch and
// lease, with the meaning they have in etcd. What can be said with those is a
// function over any Control: Hold keeps a lease alive around a piece of work,
// Lead lets one of many candidates do it, Follow gives the records under a prefix
// whenever they change. Package clustertest is the suite every Control passes.
//
// Alone is the Control of a node that has no others. Data flows from Txn to its
// one owner, Run, which takes all transactions that wait, applies them to a draft,
// writes the draft's records to every disk as one snapshot, and only then shows it
// to readers and watchers. docs/internals/control.md draws the file and says how
// it is recovered.
//
// Everything exported may be called concurrently, unless it says otherwise.
package cluster

import (
	"context"
	"errors"
	"iter"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Control holds records in one global order. Each transaction or ending lease
// that changes something gets a revision of its own, higher than all before it;
// revisions may skip numbers and never go back. Every answer is linearizable: it
// reflects all that was acknowledged before the call.
//
// Values given to a method are copied; those it returns are shared and must not be
// changed. When the context ends a method returns its error.
type Control interface {
	// Get returns one record, or NotFound.
	Get(ctx context.Context, key string) (Record, error)

	// List returns the records whose keys begin with prefix, all as of one
	// revision. A prefix is just bytes: end it with a separator.
	List(ctx context.Context, prefix string) (View, error)

	// Txn does all operations if all conditions hold, and returns the revision
	// that made; or the current one if there was nothing to change, as when
	// deleting what is not there. If a condition does not hold the answer is
	// Stale; if a lease is gone, NotFound; if a limit is exceeded, Invalid. None
	// of these changes anything. After Unavailable, or the end of the context,
	// the outcome is unknown: it may have happened, or happen later.
	Txn(ctx context.Context, txn Txn) (int64, error)

	// Watch yields every change to keys that begin with prefix made after the
	// given revision, in order, each once, none left out. It waits for further
	// changes until the context ends. Changes are remembered for a while only:
	// who asks for one that is forgotten, or falls so far behind, gets
	// ErrCompacted and lists anew. The iteration always ends with an error,
	// unless the caller leaves it.
	Watch(ctx context.Context, prefix string, after int64) iter.Seq2[Change, error]

	// Grant makes a lease that ends by itself after ttl, or a little more: see
	// its TTL. With it end the records that were put under it.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)

	// KeepAlive lets a lease begin its time anew, or answers NotFound if it has
	// ended. An ended lease does not come back.
	KeepAlive(ctx context.Context, id LeaseID) error

	// Revoke ends a lease now, and deletes its records in one change; NotFound if
	// it has ended.
	Revoke(ctx context.Context, id LeaseID) error
}

// ErrCompacted ends a Watch whose next change is forgotten. The remedy is to List
// and to watch from there.
var ErrCompacted error = &object.Error{
	Kind: object.Stale, Err: errors.New("the changes since that revision are no longer kept: list, and watch from there"),
}

// Record is one key and its value.
type Record struct {
	Key      string
	Value    []byte
	Created  int64   // the revision that put it where there was none
	Modified int64   // the revision that put it last
	Lease    LeaseID // what it ends with; zero: it stays until it is deleted
}

// View is the records under a prefix at one revision, in the byte order of their
// keys. It is not to be changed.
type View struct {
	Revision int64
	Records  []Record
}

// Change is what one revision did to the keys under a prefix. The events are of
// different keys, in no particular order.
type Change struct {
	Revision int64
	Events   []Event
}

// Event says that a record was put, or deleted: then it has a Key, and Modified is
// the revision that deleted it.
type Event struct {
	Record
	Deleted bool
}

// LeaseID names a lease. Zero is none.
type LeaseID int64

// Lease is a span of time that ends unless it is renewed.
type Lease struct {
	ID  LeaseID
	TTL time.Duration // from the grant, or the last KeepAlive
}

// Clock is the time as this package sees it.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func clockOr(clock Clock) Clock {
	if clock == nil {
		return wallClock{}
	}
	return clock
}
