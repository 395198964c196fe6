package cluster

import (
	"context"
	"fmt"
	"iter"

	"penstock.dev/penstock/internal/object"
)

// Election is an office that one candidate at a time holds.
type Election struct {
	// Name is the office. All records under Name + "/" are its candidates; the
	// one created first leads.
	Name string
	// Value is what others learn about this candidate, its address say.
	Value []byte

	HoldOptions
}

// Lead waits until this candidate leads, then calls work with its record. Returning
// from work resigns. The context given to work ends when the leadership does, see
// Hold; that is a promise about our clock only. What must never be done by two
// leaders goes into a transaction with IfUnchanged(leader), or carries
// leader.Created, which is higher for each later leader.
func Lead(ctx context.Context, control Control, e Election, work func(ctx context.Context, leader Record) error) error {
	return Hold(ctx, control, e.HoldOptions, func(ctx context.Context, lease Lease) error {
		us := Record{Key: fmt.Sprintf("%s/%016x", e.Name, uint64(lease.ID)), Value: e.Value, Lease: lease.ID}
		revision, err := control.Txn(ctx, Txn{
			If:   []Condition{IfAbsent(us.Key)},
			Then: []Op{PutLeased(us.Key, us.Value, us.Lease)},
		})
		if err != nil {
			return err
		}
		us.Created, us.Modified = revision, revision
		if err := elected(ctx, control, e.Name, us); err != nil {
			return err
		}
		return work(ctx, us)
	})
}

// elected returns when the candidate leads.
func elected(ctx context.Context, control Control, name string, candidate Record) error {
	for view, err := range Follow(ctx, control, name+"/") {
		if err != nil {
			return err
		}
		standing := false
		for _, r := range view.Records {
			standing = standing || r.Key == candidate.Key && r.Created == candidate.Created
		}
		if !standing {
			return object.Errorf(object.Unavailable, "lease %x ended before %s was won", candidate.Lease, name)
		}
		if first(view).Key == candidate.Key {
			return nil
		}
	}
	return ctx.Err()
}

// Leader returns the record of the candidate that leads, or NotFound.
func Leader(ctx context.Context, control Control, name string) (Record, error) {
	view, err := control.List(ctx, name+"/")
	if err != nil {
		return Record{}, err
	}
	leader := first(view)
	if leader.Key == "" {
		return Record{}, object.Errorf(object.NotFound, "nobody leads %s", name)
	}
	return leader, nil
}

// Observe yields the record of the candidate that leads, now and whenever it is
// another one; the zero Record while there is none. It ends as Follow does.
func Observe(ctx context.Context, control Control, name string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var last Record
		begun := false
		for view, err := range Follow(ctx, control, name+"/") {
			if err != nil {
				yield(Record{}, err)
				return
			}
			leader := first(view)
			if begun && leader.Key == last.Key && leader.Created == last.Created {
				continue
			}
			last, begun = leader, true
			if !yield(leader, nil) {
				return
			}
		}
	}
}

// first returns the record created first, or none.
func first(view View) Record {
	var leader Record
	for _, r := range view.Records {
		if leader.Key == "" || r.Created < leader.Created {
			leader = r
		}
	}
	return leader
}
