package clustertest

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

func testTransaction(s *suite) {
	s.put("b", "old")
	before := s.put("c", "old")
	revision := s.do(cluster.Put("a", []byte("new")), cluster.Put("b", []byte("new")), cluster.Delete("c"), cluster.Delete("d"))
	if a, b := s.get("a"), s.get("b"); a.Modified != revision || b.Modified != revision || a.Created != revision || b.Created == revision {
		s.Fatalf("one transaction at %d made %+v and %+v", revision, a, b)
	}
	if got := show(s.list("").Records); got != "a=new b=new" {
		s.Fatalf("after the transaction: %s", got)
	}
	for change, err := range s.Watch(s.ctx, "", before) {
		s.must(err)
		if change.Revision != revision || len(change.Events) != 3 {
			s.Fatalf("the transaction is seen as %+v", change)
		}
		for _, e := range change.Events {
			if e.Modified != revision || e.Deleted != (e.Key == "c") {
				s.Fatalf("the transaction at %d has the event %+v", revision, e)
			}
		}
		break
	}
}

// testNothingToDo sees that a transaction without effect has no revision.
func testNothingToDo(s *suite) {
	revision := s.put("a", "")
	for _, txn := range []cluster.Txn{
		{},
		{If: []cluster.Condition{cluster.IfPresent("a")}},
		{Then: []cluster.Op{cluster.Delete("none")}},
	} {
		got, err := s.Txn(s.ctx, txn)
		s.must(err)
		if got < revision {
			s.Fatalf("%+v answers with revision %d, which is before %d", txn, got, revision)
		}
	}
	next := s.put("b", "")
	for change, err := range s.Watch(s.ctx, "", revision) {
		s.must(err)
		if change.Revision != next {
			s.Fatalf("a transaction without effect is seen as %+v", change)
		}
		break
	}
}

// testCounter lets many increase a number by compare and swap. A lost update or a
// revision given twice would show.
func testCounter(s *suite) {
	const writers = 8
	s.put("n", "0")
	revisions := make([][]int64, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for len(revisions[w]) < s.Rounds {
				r, err := s.Get(s.ctx, "n")
				if err != nil {
					s.Error(err)
					return
				}
				n, _ := strconv.Atoi(string(r.Value))
				revision, err := s.Txn(s.ctx, cluster.Txn{
					If:   []cluster.Condition{cluster.IfUnchanged(r)},
					Then: []cluster.Op{cluster.Put("n", []byte(strconv.Itoa(n+1)))},
				})
				switch {
				case err == nil && revision <= r.Modified:
					s.Errorf("a write on top of revision %d has revision %d", r.Modified, revision)
					return
				case err == nil:
					revisions[w] = append(revisions[w], revision)
				case !object.Is(err, object.Stale):
					s.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if got := string(s.get("n").Value); got != strconv.Itoa(writers*s.Rounds) {
		s.Errorf("%d increments made %s", writers*s.Rounds, got)
	}
	all := slices.Sorted(slices.Values(slices.Concat(revisions...)))
	if len(slices.Compact(all)) != writers*s.Rounds {
		s.Error("two increments had the same revision")
	}
}

func testOneWinner(s *suite) {
	for round := range s.Rounds {
		key := fmt.Sprint("race/", round)
		var mu sync.Mutex
		var winners []string
		var group sync.WaitGroup
		for w := range 8 {
			group.Go(func() {
				us := strconv.Itoa(w)
				_, err := s.Txn(s.ctx, cluster.Txn{
					If:   []cluster.Condition{cluster.IfAbsent(key)},
					Then: []cluster.Op{cluster.Put(key, []byte(us))},
				})
				switch {
				case err == nil:
					mu.Lock()
					winners = append(winners, us)
					mu.Unlock()
				case !object.Is(err, object.Stale):
					s.Error(err)
				}
			})
		}
		group.Wait()
		if len(winners) != 1 || string(s.get(key).Value) != winners[0] {
			s.Fatalf("round %d: winners %v, record %q", round, winners, s.get(key).Value)
		}
	}
}

// testTransfers moves money between accounts while others look: nobody may ever
// see a sum that is wrong, or an older state after a newer one.
func testTransfers(s *suite) {
	accounts := []string{"account/a", "account/b", "account/c"}
	for _, key := range accounts {
		s.put(key, "100")
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 3 {
		from, to := accounts[w], accounts[(w+1)%3]
		writers.Go(func() {
			for moved := 0; moved < s.Rounds; {
				err := s.transfer(from, to)
				if err == nil {
					moved++
				} else if !object.Is(err, object.Stale) {
					s.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			last := int64(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				view, err := s.List(s.ctx, "account/")
				if err != nil {
					s.Error(err)
					return
				}
				sum := 0
				for _, r := range view.Records {
					n, _ := strconv.Atoi(string(r.Value))
					sum += n
				}
				if sum != 300 || view.Revision < last {
					s.Errorf("after revision %d, %d has %s", last, view.Revision, show(view.Records))
					return
				}
				last = view.Revision
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

func (s *suite) transfer(from, to string) error {
	var txn cluster.Txn
	for key, plus := range map[string]int{from: -1, to: 1} {
		r, err := s.Get(s.ctx, key)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(r.Value))
		txn.If = append(txn.If, cluster.IfValue(key, r.Value))
		txn.Then = append(txn.Then, cluster.Put(key, []byte(strconv.Itoa(n+plus))))
	}
	_, err := s.Txn(s.ctx, txn)
	return err
}
