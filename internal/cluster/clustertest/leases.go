package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// testLeaseExpires sees that a lease ends no earlier than it may, and all its
// records with it, in one change; others stay.
func testLeaseExpires(s *suite) {
	asked := time.Now()
	lease := s.grant()
	s.put("stays", "")
	revision := s.do(
		cluster.PutLeased("l/a", []byte("1"), lease.ID), cluster.PutLeased("l/b", nil, lease.ID), cluster.Put("l/c", nil))
	if r := s.get("l/a"); r.Lease != lease.ID || string(r.Value) != "1" {
		s.Fatalf("under lease %x: %+v", lease.ID, r)
	}
	for change, err := range s.Watch(s.ctx, "l/", revision) {
		s.must(err)
		if took := time.Since(asked); took < lease.TTL {
			s.Errorf("the lease of %s ended after %s", lease.TTL, took)
		}
		if len(change.Events) != 2 || !change.Events[0].Deleted || !change.Events[1].Deleted {
			s.Fatalf("the end of the lease is seen as %+v", change)
		}
		break
	}
	if got := show(s.list("").Records); got != "l/c= stays=" {
		s.Fatalf("after the lease: %s", got)
	}
	s.wants(object.NotFound, s.KeepAlive(s.ctx, lease.ID))
	s.wants(object.NotFound, s.Revoke(s.ctx, lease.ID))
}

// testLeaseKept renews one lease until another, granted later, has ended twice.
func testLeaseKept(s *suite) {
	kept := s.grant()
	s.do(cluster.PutLeased("kept", nil, kept.ID))
	for range 2 {
		other := s.grant()
		revision := s.do(cluster.PutLeased("other", nil, other.ID))
		ctx, cancel := context.WithCancel(s.ctx)
		renewed := make(chan error)
		go func() { renewed <- s.renew(ctx, kept) }()
		for change, err := range s.Watch(s.ctx, "other", revision) {
			s.must(err)
			if !change.Events[0].Deleted {
				s.Fatalf("unexpected %+v", change)
			}
			break
		}
		cancel()
		s.must(<-renewed)
		if r := s.get("kept"); r.Lease != kept.ID {
			s.Fatalf("under a kept lease: %+v", r)
		}
	}
	s.gone("kept")
}

// renew keeps a lease alive until the context ends.
func (s *suite) renew(ctx context.Context, lease cluster.Lease) error {
	tick := time.NewTicker(lease.TTL / 4)
	defer tick.Stop()
	for {
		if err := s.KeepAlive(s.ctx, lease.ID); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func testLeaseRevoked(s *suite) {
	lease, err := s.Grant(s.ctx, s.Wait)
	s.must(err)
	var ops []cluster.Op
	for i := range 20 {
		ops = append(ops, cluster.PutLeased(fmt.Sprintf("l/%02d", i), nil, lease.ID))
	}
	revision := s.do(ops...)
	s.must(s.Revoke(s.ctx, lease.ID))
	if view := s.list("l/"); len(view.Records) != 0 || view.Revision <= revision {
		s.Fatalf("after the lease was revoked: %+v", view)
	}
	for change, err := range s.Watch(s.ctx, "", revision) {
		s.must(err)
		if len(change.Events) != len(ops) {
			s.Fatalf("the end of a lease with %d records is seen as %+v", len(ops), change)
		}
		break
	}
	s.wants(object.NotFound, s.Revoke(s.ctx, lease.ID))
	s.wants(object.NotFound, s.KeepAlive(s.ctx, lease.ID))

	empty := s.grant()
	s.must(s.Revoke(s.ctx, empty.ID))
}

// testLeaseLeft puts records under a lease again without it, or under another one.
func testLeaseLeft(s *suite) {
	lease, err := s.Grant(s.ctx, s.Wait)
	s.must(err)
	other, err := s.Grant(s.ctx, s.Wait)
	s.must(err)
	s.put("joined", "")
	s.do(cluster.PutLeased("left", nil, lease.ID), cluster.PutLeased("moved", nil, lease.ID),
		cluster.PutLeased("deleted", nil, lease.ID), cluster.PutLeased("joined", nil, lease.ID))
	s.do(cluster.Put("left", nil), cluster.PutLeased("moved", nil, other.ID), cluster.Delete("deleted"))
	s.put("deleted", "again")
	s.must(s.Revoke(s.ctx, lease.ID))
	if got := show(s.list("").Records); got != "deleted=again left= moved=" {
		s.Fatalf("after the first lease: %s", got)
	}
	s.must(s.Revoke(s.ctx, other.ID))
	if got := show(s.list("").Records); got != "deleted=again left=" {
		s.Fatalf("after both leases: %s", got)
	}
}

func testLeaseUnknown(s *suite) {
	lease := s.grant()
	s.must(s.Revoke(s.ctx, lease.ID))
	for _, id := range []cluster.LeaseID{lease.ID, 1<<62 + 12345} {
		_, err := s.Txn(s.ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("b", nil), cluster.PutLeased("a", nil, id)}})
		s.wants(object.NotFound, err)
		s.wants(object.NotFound, s.KeepAlive(s.ctx, id))
		s.wants(object.NotFound, s.Revoke(s.ctx, id))
	}
	if view := s.list(""); len(view.Records) != 0 {
		s.Fatalf("a refused transaction left %s", show(view.Records))
	}
}

// testHold sees that a held lease outlives its time, and ends with the work.
func testHold(s *suite) {
	failed := errors.New("the work's own error")
	err := cluster.Hold(s.ctx, s, cluster.HoldOptions{TTL: s.TTL}, func(ctx context.Context, lease cluster.Lease) error {
		s.do(cluster.PutLeased("held", nil, lease.ID))
		for range 2 { // the time of others passes
			other := s.grant()
			s.do(cluster.PutLeased("other", nil, other.ID))
			s.gone("other")
		}
		s.get("held")
		s.must(ctx.Err())
		return failed
	})
	if !errors.Is(err, failed) {
		s.Fatalf("the work fails with %v, Hold with %v", failed, err)
	}
	_, err = s.Get(s.ctx, "held")
	s.wants(object.NotFound, err)

	ctx, cancel := context.WithCancel(s.ctx)
	err = cluster.Hold(ctx, s, cluster.HoldOptions{TTL: s.TTL}, func(ctx context.Context, lease cluster.Lease) error {
		s.do(cluster.PutLeased("held", nil, lease.ID))
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	s.wants(object.Canceled, err)
	_, err = s.Get(s.ctx, "held")
	s.wants(object.NotFound, err)
}

// cut is a control whose lease traffic can be cut off.
type cut struct {
	cluster.Control
	off atomic.Bool
}

var errCut = object.Errorf(object.Unavailable, "the link is cut")

func (c *cut) KeepAlive(ctx context.Context, id cluster.LeaseID) error {
	if c.off.Load() {
		return errCut
	}
	return c.Control.KeepAlive(ctx, id)
}

func (c *cut) Revoke(ctx context.Context, id cluster.LeaseID) error {
	if c.off.Load() {
		return errCut
	}
	return c.Control.Revoke(ctx, id)
}

// testHoldLost sees that a holder who cannot renew knows of the end no later than
// others see it.
func testHoldLost(s *suite) {
	link := &cut{Control: s}
	err := cluster.Hold(s.ctx, link, cluster.HoldOptions{TTL: s.TTL}, func(ctx context.Context, lease cluster.Lease) error {
		s.do(cluster.PutLeased("held", nil, lease.ID))
		link.off.Store(true)
		from := time.Now()
		<-ctx.Done()
		if took := time.Since(from); took > lease.TTL+s.TTL/2 {
			s.Errorf("a lease of %s was taken for live %s after its last renewal", lease.TTL, took)
		}
		return ctx.Err()
	})
	s.wants(object.Unavailable, err)
	s.gone("held")
}

// testHoldRevoked sees that a holder learns of it at its next renewal.
func testHoldRevoked(s *suite) {
	from := time.Now()
	err := cluster.Hold(s.ctx, s, cluster.HoldOptions{TTL: 4 * s.TTL}, func(ctx context.Context, lease cluster.Lease) error {
		s.must(s.Revoke(s.ctx, lease.ID))
		<-ctx.Done()
		if took := time.Since(from); took >= lease.TTL {
			s.Errorf("a lease of %s that was revoked was taken for live for %s", lease.TTL, took)
		}
		return ctx.Err()
	})
	s.wants(object.Unavailable, err)
	s.must(s.ctx.Err())
}
