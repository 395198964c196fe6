package clustertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

func (s *suite) election(value string) cluster.Election {
	return cluster.Election{
		Name: "election/x", Value: []byte(value), HoldOptions: cluster.HoldOptions{TTL: s.Wait},
	}
}

// testElect has many lead in turn: never two at once, each with a higher number
// than the one before.
func testElect(s *suite) {
	_, err := cluster.Leader(s.ctx, s, "election/x")
	s.wants(object.NotFound, err)
	s.put("election/x2", "not a candidate")
	var leading atomic.Int32
	var last atomic.Int64
	var group sync.WaitGroup
	for w := range 5 {
		group.Go(func() {
			us := fmt.Sprint(w)
			for range 4 {
				err := cluster.Lead(s.ctx, s, s.election(us), func(ctx context.Context, leader cluster.Record) error {
					if n := leading.Add(1); n != 1 {
						s.Errorf("%d lead at once", n)
					}
					if before := last.Swap(leader.Created); before >= leader.Created {
						s.Errorf("the leader after %d has number %d", before, leader.Created)
					}
					seen, err := cluster.Leader(ctx, s, "election/x")
					if err != nil || string(seen.Value) != us || seen.Key != leader.Key || seen.Created != leader.Created {
						s.Errorf("leader %+v is seen as %+v, error %v", leader, seen, err)
					}
					_, err = s.Txn(ctx, cluster.Txn{
						If:   []cluster.Condition{cluster.IfUnchanged(leader)},
						Then: []cluster.Op{cluster.Put("work", leader.Value)},
					})
					leading.Add(-1)
					return err
				})
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	group.Wait()
	_, err = cluster.Leader(s.ctx, s, "election/x")
	s.wants(object.NotFound, err)
}

// testElectLost cuts off a leader. It must know before another leads, and what it
// still tries must fail.
func testElectLost(s *suite) {
	link := &cut{Control: s}
	first := s.election("first")
	first.TTL = s.TTL
	leads, lost := make(chan cluster.Record), make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		err := cluster.Lead(s.ctx, link, first, func(ctx context.Context, leader cluster.Record) error {
			leads <- leader
			<-ctx.Done()
			close(lost)
			return ctx.Err()
		})
		if !object.Is(err, object.Unavailable) {
			s.Errorf("a leader that was cut off ends with %v", err)
		}
	})
	old := <-leads
	link.off.Store(true)
	err := cluster.Lead(s.ctx, s, s.election("second"), func(ctx context.Context, leader cluster.Record) error {
		select {
		case <-lost:
		case <-s.ctx.Done():
			s.Error("the first leader does not know that it lost")
		}
		if leader.Created <= old.Created {
			s.Errorf("leader %+v comes after %+v", leader, old)
		}
		_, err := s.Txn(ctx, cluster.Txn{
			If:   []cluster.Condition{cluster.IfUnchanged(old)},
			Then: []cluster.Op{cluster.Put("work", nil)},
		})
		if !object.Is(err, object.Stale) {
			s.Errorf("a transaction of the old leader ends with %v", err)
		}
		return nil
	})
	s.must(err)
}

// testElectGivesUp sees that a candidate that leaves does not stand in the way.
func testElectGivesUp(s *suite) {
	err := cluster.Lead(s.ctx, s, s.election("first"), func(context.Context, cluster.Record) error {
		ctx, cancel := context.WithCancel(s.ctx)
		gaveUp := make(chan error)
		go func() {
			gaveUp <- cluster.Lead(ctx, s, s.election("second"), func(context.Context, cluster.Record) error {
				s.Error("two lead at once")
				return nil
			})
		}()
		for view, err := range cluster.Follow(s.ctx, s, "election/x/") {
			s.must(err)
			if len(view.Records) == 2 {
				break
			}
		}
		cancel()
		s.wants(object.Canceled, <-gaveUp)
		if view := s.list("election/x/"); len(view.Records) != 1 {
			s.Errorf("a candidate that gave up left %s", show(view.Records))
		}
		return nil
	})
	s.must(err)
	s.must(cluster.Lead(s.ctx, s, s.election("third"), func(context.Context, cluster.Record) error { return nil }))
}

func testObserve(s *suite) {
	seen := make(chan string)
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	group.Go(func() {
		defer close(seen)
		for leader, err := range cluster.Observe(ctx, s, "election/x") {
			if err != nil {
				if !object.Is(err, object.Canceled) {
					s.Error(err)
				}
				return
			}
			select {
			case seen <- string(leader.Value):
			case <-ctx.Done():
			}
		}
	})
	expect := func(want string) {
		s.Helper()
		if got := <-seen; got != want {
			s.Errorf("the leader is seen as %q, want %q", got, want)
		}
	}
	expect("")
	for _, us := range []string{"first", "second"} {
		s.must(cluster.Lead(s.ctx, s, s.election(us), func(context.Context, cluster.Record) error {
			expect(us)
			return nil
		}))
		expect("")
	}
	cancel()
	if _, more := <-seen; more {
		s.Error("observing goes on after the context has ended")
	}
}
