package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

func testWatchPast(s *suite) {
	start := s.list("").Revision
	var revisions []int64
	for i := range 10 {
		revisions = append(revisions, s.put("a", fmt.Sprint(i)))
	}
	for skip := range revisions {
		after := start
		if skip > 0 {
			after = revisions[skip-1]
		}
		next := skip
		for change, err := range s.Watch(s.ctx, "a", after) {
			s.must(err)
			e := change.Events[0]
			if change.Revision != revisions[next] || len(change.Events) != 1 || string(e.Value) != fmt.Sprint(next) || e.Created != revisions[0] {
				s.Fatalf("after revision %d, change %d is %+v", after, next, change)
			}
			if next++; next == len(revisions) {
				break
			}
		}
	}
	// What a watch has shown, a get finds.
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		if _, err := s.Txn(s.ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("b", nil)}}); err != nil {
			s.Error(err)
		}
	})
	for change, err := range s.Watch(s.ctx, "b", revisions[0]) {
		s.must(err)
		if view := s.list("b"); view.Revision < change.Revision || len(view.Records) != 1 {
			s.Fatalf("a watch shows revision %d, a list only %+v", change.Revision, view)
		}
		break
	}
}

func testWatchPrefix(s *suite) {
	start := s.list("").Revision
	s.do(cluster.Put("a", nil), cluster.Put("a/1", nil), cluster.Put("a/2", nil), cluster.Put("b/1", nil))
	s.put("b/2", "")
	s.do(cluster.Delete("a/2"))
	last := s.put("a/3", "")
	got := ""
	for change, err := range s.Watch(s.ctx, "a/", start) {
		s.must(err)
		if len(change.Events) == 0 {
			s.Fatal("a change without events")
		}
		for _, e := range change.Events {
			if got += " " + e.Key; e.Deleted {
				got += "-"
			}
		}
		if change.Revision == last {
			break
		}
	}
	if got != " a/1 a/2 a/2- a/3" && got != " a/2 a/1 a/2- a/3" {
		s.Fatalf("under a/: %s", got)
	}
}

// testWatchLoad has several write, each its own counter, while others watch all or
// one of them: nothing may be missing, double, out of order or torn.
func testWatchLoad(s *suite) {
	const writers = 4
	start := s.list("").Revision
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range s.Rounds {
				value := fmt.Appendf(nil, "%d", i)
				_, err := s.Txn(s.ctx, cluster.Txn{Then: []cluster.Op{
					cluster.Put(fmt.Sprintf("w/%d/x", w), value), cluster.Put(fmt.Sprintf("w/%d/y", w), value),
				}})
				if err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	for w := -1; w < writers; w++ {
		prefix, left := "w/", writers*s.Rounds
		if w >= 0 {
			prefix, left = fmt.Sprintf("w/%d/", w), s.Rounds
		}
		group.Go(func() {
			if err := s.count(prefix, start, left); err != nil {
				s.Error(err)
			}
		})
	}
	group.Wait()
}

// count watches until so many changes have come, each of which puts x and y of one
// writer to its next number.
func (s *suite) count(prefix string, after int64, left int) error {
	next := map[string]int{}
	for change, err := range s.Watch(s.ctx, prefix, after) {
		if err != nil {
			return err
		}
		if change.Revision <= after || len(change.Events) != 2 {
			return fmt.Errorf("after revision %d comes %+v", after, change)
		}
		after = change.Revision
		for _, e := range change.Events {
			if !strings.HasPrefix(e.Key, prefix) || e.Modified != after || string(e.Value) != fmt.Sprint(next[e.Key]) {
				return fmt.Errorf("under %s comes %+v, but number %d is next", prefix, e, next[e.Key])
			}
			next[e.Key]++
		}
		if left--; left == 0 {
			break
		}
	}
	return nil
}

// testWatchSlow stops reading after the first change while much is written. What
// comes then has no gap; it may end with ErrCompacted.
func testWatchSlow(s *suite) {
	lease, err := s.Grant(s.ctx, s.Wait)
	s.must(err)
	total, next := 50*s.Rounds, 0
	after := s.list("").Revision
	s.do(cluster.PutLeased("a", []byte("0"), lease.ID))
	for change, err := range s.Watch(s.ctx, "a", after) {
		if errors.Is(err, cluster.ErrCompacted) && next > 0 {
			return
		}
		s.must(err)
		if string(change.Events[0].Value) != fmt.Sprint(next) {
			s.Fatalf("number %d comes as %+v", next, change)
		}
		if next == 0 {
			for i := 1; i < total; i++ {
				s.do(cluster.PutLeased("a", fmt.Append(nil, i), lease.ID))
			}
		}
		if next++; next == total {
			return
		}
	}
}

func testWatchEnds(s *suite) {
	after := s.put("a", "")
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	ended := make(chan error)
	go func() {
		seen := 0
		for _, err := range s.Watch(ctx, "a", after) {
			if err != nil {
				ended <- err
				break
			}
			if seen++; seen == 1 {
				ended <- nil
			}
		}
		close(ended)
	}()
	s.put("a", "")
	s.must(<-ended)
	cancel()
	s.wants(object.Canceled, <-ended)
	if _, open := <-ended; open {
		s.Fatal("the watch goes on after its error")
	}
}

// testFollow sees that the last view is right however the changes came.
func testFollow(s *suite) {
	s.put("f/0", "before")
	var group sync.WaitGroup
	for w := range 3 {
		group.Go(func() {
			for i := range s.Rounds {
				key := fmt.Sprintf("f/%d/%d", w, i%5)
				op := cluster.Put(key, fmt.Append(nil, i))
				if i%7 == 3 {
					op = cluster.Delete(key)
				}
				if _, err := s.Txn(s.ctx, cluster.Txn{Then: []cluster.Op{op}}); err != nil {
					s.Error(err)
				}
			}
		})
	}
	written := make(chan int64, 1)
	go func() {
		group.Wait()
		revision, _ := s.Txn(s.ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("f/last", nil)}})
		written <- revision
	}()
	views := 0
	for view, err := range cluster.Follow(s.ctx, s, "f/") {
		s.must(err)
		if views++; views == 1 && (len(view.Records) == 0 || view.Records[0].Key != "f/0") {
			s.Fatalf("the first view is %s", show(view.Records))
		}
		if view.Records[len(view.Records)-1].Key == "f/last" {
			if want := s.list("f/"); show(view.Records) != show(want.Records) || view.Revision != <-written {
				s.Fatalf("the last view is %s, want %s", show(view.Records), show(want.Records))
			}
			break
		}
	}
}
