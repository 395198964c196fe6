package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// event is one operation on one key, as its caller saw it.
type event struct {
	start, end int64 // moments of a common clock
	kind       string
	cond       object.Condition
	n          int    // write: what was written; read: what was found, 0 for nothing
	etag       string // write: what it got; read: what was found
	err        object.Kind
	failed     bool // with err
}

func (e event) String() string {
	s := fmt.Sprintf("[%d,%d] %s %+v: %d %s", e.start, e.end, e.kind, e.cond, e.n, e.etag)
	if e.failed {
		s += " " + e.err.String()
	}
	return s
}

// state is what a key may hold.
type state struct {
	n    int
	etag string
}

// step says what an event makes of a state, and whether it can have happened in
// it with that outcome.
func (e event) step(s state) (state, bool) {
	var current *object.Info
	if s.n != 0 {
		current = &object.Info{ETag: s.etag}
	}
	condition := e.cond.Check(object.Name{}, current)
	switch e.kind {
	case "read":
		return s, e.n == s.n && (e.n == 0 || e.etag == s.etag)
	case "put":
		if e.failed {
			return s, condition != nil && object.KindOf(condition) == e.err
		}
		return state{e.n, e.etag}, condition == nil
	default: // delete
		if current == nil {
			return s, e.failed && e.err == object.NotFound
		}
		if e.failed {
			return s, condition != nil && object.KindOf(condition) == e.err
		}
		return state{}, condition == nil
	}
}

// linear reports whether the events of one key can have happened one after the
// other, each at some moment between its start and its end. One that ended in
// Unavailable may have happened or not.
func linear(events []event, first state) bool {
	if len(events) > 60 {
		panic("too many events")
	}
	type point struct {
		done uint64
		state
	}
	tried := make(map[point]bool)
	var search func(done uint64, s state) bool
	search = func(done uint64, s state) bool {
		if done == 1<<len(events)-1 {
			return true
		}
		if p := (point{done, s}); tried[p] {
			return false
		} else {
			tried[p] = true
		}
		soonest := int64(1 << 62) // end of those left
		for i, e := range events {
			if done&(1<<i) == 0 {
				soonest = min(soonest, e.end)
			}
		}
		for i, e := range events {
			if done&(1<<i) != 0 || e.start > soonest {
				continue
			}
			if e.failed && e.err == object.Unavailable {
				if search(done|1<<i, s) {
					return true
				}
				e.failed = false
			}
			if next, ok := e.step(s); ok && search(done|1<<i, next) {
				return true
			}
		}
		return false
	}
	return search(0, first)
}

func TestLinear(t *testing.T) {
	put := func(start, end int64, n int, cond object.Condition) event {
		return event{start: start, end: end, kind: "put", n: n, etag: fmt.Sprint(n), cond: cond}
	}
	read := func(start, end int64, n int) event {
		return event{start: start, end: end, kind: "read", n: n, etag: fmt.Sprint(n)}
	}
	for _, c := range []struct {
		events []event
		want   bool
	}{
		{[]event{put(1, 2, 1, object.Condition{}), read(3, 4, 1)}, true},
		{[]event{put(1, 2, 1, object.Condition{}), read(3, 4, 0)}, false},
		{[]event{put(1, 4, 1, object.Condition{}), read(2, 3, 0), read(5, 6, 1)}, true},
		{[]event{put(1, 9, 1, object.Condition{}), read(2, 3, 1), read(4, 5, 0)}, false}, // seen, and then unseen
		{[]event{put(1, 9, 1, object.Condition{IfNoneMatch: "*"}), put(1, 9, 2, object.Condition{IfNoneMatch: "*"})}, false},
		{[]event{put(1, 9, 1, object.Condition{}), put(1, 9, 2, object.Condition{IfMatch: "1"}), read(10, 11, 2)}, true},
		{[]event{put(1, 9, 1, object.Condition{}), put(1, 9, 2, object.Condition{IfMatch: "1"}), read(10, 11, 1)}, false},
	} {
		if got := linear(c.events, state{}); got != c.want {
			t.Errorf("%v: %v", c.events, got)
		}
	}
}

// recorder writes down what happens to keys.
type recorder struct {
	s     *store.Store
	clock atomic.Int64
	next  atomic.Int64
	mu    sync.Mutex
	keys  map[string][]event
}

func (r *recorder) record(k string, e event, do func() (n int, etag string, err error)) event {
	e.start = r.clock.Add(1)
	var err error
	e.n, e.etag, err = do()
	e.end = r.clock.Add(1)
	if err != nil {
		e.failed, e.err = true, object.KindOf(err)
		if e.kind == "read" && e.err == object.NotFound {
			e.failed = false
		}
	}
	if e.kind == "read" && e.failed && e.err == object.Unavailable {
		return e // says nothing
	}
	if e.failed && e.err == object.Unavailable {
		e.end = 1 << 61 // whenever
	}
	r.mu.Lock()
	r.keys[k] = append(r.keys[k], e)
	r.mu.Unlock()
	return e
}

func (r *recorder) put(k string, cond object.Condition) event {
	n := int(r.next.Add(1))
	return r.record(k, event{kind: "put", cond: cond}, func() (int, string, error) {
		info, err := r.s.Put(ctx, key(k), bytes.NewReader(content(n)), object.PutOptions{Condition: cond})
		return n, info.ETag, err
	})
}

func (r *recorder) delete(k string, cond object.Condition) event {
	return r.record(k, event{kind: "delete", cond: cond}, func() (int, string, error) {
		return 0, "", r.s.Delete(ctx, key(k), cond)
	})
}

func (r *recorder) read(t *testing.T, k string) event {
	return r.record(k, event{kind: "read"}, func() (int, string, error) {
		reader, err := r.s.Open(ctx, key(k), object.Range{})
		if err != nil {
			return 0, "", err
		}
		defer reader.Close()
		var buf bytes.Buffer
		if _, err := reader.WriteTo(&buf); err != nil {
			return 0, "", err
		}
		n := numberOf(buf.Bytes())
		if n == 0 {
			t.Errorf("%s: %d bytes that nobody wrote", k, buf.Len())
		}
		return n, reader.Info().ETag, nil
	})
}

// look reads by listing.
func (r *recorder) look(k string) event {
	return r.record(k, event{kind: "read"}, func() (int, string, error) {
		for e, err := range r.s.List(ctx, "bkt", object.ListOptions{Prefix: k}) {
			if err != nil {
				return 0, "", object.Errorf(object.Unavailable, "%w", err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, other := range r.keys[k] {
				if other.kind == "put" && other.etag == e.Info.ETag && !other.failed {
					return other.n, e.Info.ETag, nil
				}
			}
			return 0, "", object.Errorf(object.Unavailable, "not yet known to us")
		}
		return 0, "", nil
	})
}

// numberOf returns which write some bytes are from, 0 if from none.
func numberOf(data []byte) int {
	n, factor := 0, 1
	for i := len(data) - 1; i >= 0 && data[i] >= '0' && data[i] <= '9' && factor < 1e9; i-- {
		n += int(data[i]-'0') * factor
		factor *= 10
		if n > 0 && bytes.Equal(content(n), data) {
			return n
		}
	}
	return 0
}

// TestLinearizable lets many goroutines read, list, write, delete and write under
// conditions on few keys, while compaction runs and, with two disks, each of them
// refuses writes now and then, so that objects move. The history of each key must
// have an order.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 2} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_RACES", 2, func(t *testing.T, seed uint64) { linearizable(t, disks, seed) })
		})
	}
}

func linearizable(t *testing.T, disks int, seed uint64) {
	p := newPair(seed)
	numbers := []int{0, 1}[:disks]
	o := p.options(numbers...)
	o.HotPlaces, o.IndexMem = 4, 512 // so that reads go to the disk
	s, _ := start(t, o)
	slow := func(op fault.Op) error { // widens the moments between two steps
		if op.Kind&(fault.OpSync|fault.OpWrite) != 0 || op.Kind == fault.OpRead && strings.HasPrefix(op.Name, "index/") {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
		} else if rand.IntN(4) == 0 {
			runtime.Gosched()
		}
		return nil
	}
	refuse := fault.FailMatching(func(op fault.Op) bool {
		return op.Kind&fault.Mutations != 0 && strings.HasPrefix(op.Name, "packs/")
	}, syscall.EROFS)
	rec := &recorder{s: s, keys: make(map[string][]event)}
	r := random(seed, 81)
	states := make(map[string]state)
	for round := range 25 {
		rec.keys = make(map[string][]event)
		for i := range p.gates {
			p.gates[i].set(slow)
		}
		if disks > 1 {
			p.gates[round%2].set(fault.Chain(slow, refuse))
		}
		var wg sync.WaitGroup
		for range 5 {
			gr := rand.New(rand.NewPCG(r.Uint64(), 82))
			wg.Go(func() { rec.play(t, gr) })
		}
		wg.Wait()
		for i := range p.gates {
			p.gates[i].set(nil)
		}
		for _, k := range []string{"x", "y"} {
			last := rec.read(t, k)
			if !linear(rec.keys[k], states[k]) {
				slices.SortFunc(rec.keys[k], func(a, b event) int { return int(a.start - b.start) })
				for _, e := range rec.keys[k] {
					t.Log(e)
				}
				t.Fatalf("round %d: no order explains what happened to %s, which was %+v", round, k, states[k])
			}
			if !last.failed {
				states[k] = state{last.n, last.etag}
			} else {
				allWell(t, s)
				last = rec.read(t, k)
				states[k] = state{last.n, last.etag}
			}
		}
	}
}

// play is what one goroutine does.
func (rec *recorder) play(t *testing.T, r *rand.Rand) {
	seen := map[string]string{"x": "none", "y": "none"}
	for range 4 {
		k := []string{"x", "y"}[r.IntN(2)]
		var e event
		switch r.IntN(12) {
		case 0, 1:
			e = rec.put(k, object.Condition{})
		case 2:
			e = rec.put(k, object.Condition{IfNoneMatch: "*"})
		case 3, 4:
			e = rec.put(k, object.Condition{IfMatch: seen[k]})
		case 5:
			e = rec.put(k, object.Condition{IfNoneMatch: seen[k]})
		case 6:
			e = rec.delete(k, object.Condition{})
		case 7:
			e = rec.delete(k, object.Condition{IfMatch: seen[k]})
		case 8:
			e = rec.look(k)
		default:
			e = rec.read(t, k)
		}
		if !e.failed && e.etag != "" {
			seen[k] = e.etag
		}
	}
}

// TestReadWhileMoving stops a reader between its questions to two disks, and has
// the object move from the one not asked yet to the one asked already: it was
// there all the time.
func TestReadWhileMoving(t *testing.T) {
	for _, list := range []bool{false, true} {
		p := newPair(9)
		o := p.options(0, 1)
		o.HotPlaces, o.IndexMem = 1, 512
		s, stop := start(t, o)
		p.on(t, s, 0, "k", []byte("first"))
		p.on(t, s, 1, "k", []byte("second"))
		indexReads := func(op fault.Op) bool { return op.Kind == fault.OpRead && strings.HasPrefix(op.Name, "index/") }
		var reads atomic.Int64
		p.gates[0].set(func(op fault.Op) error {
			if indexReads(op) {
				reads.Add(1)
			}
			return nil
		})
		until(t, "the index of the first disk is on the disk", func() bool {
			for i := range 20 {
				put(t, s, fmt.Sprintf("filler%d", i), nil)
			}
			before := reads.Load()
			holds(t, s, "k", []byte("second"))
			return reads.Load() > before
		})
		stop()
		s = still(t, o) // nobody else reads the index
		reached, release := make(chan bool), make(chan bool)
		var armed atomic.Bool
		armed.Store(true)
		p.gates[0].set(func(op fault.Op) error {
			if indexReads(op) && armed.CompareAndSwap(true, false) {
				close(reached)
				<-release
			}
			return nil
		})
		got := make(chan string)
		go func() {
			if list {
				got <- strings.Join(names(t, s, object.ListOptions{Prefix: "k"}), " ")
				return
			}
			data, err := get(s, "k")
			if err != nil {
				data = []byte(err.Error())
			}
			got <- string(data)
		}()
		<-reached
		p.gates[1].set(once(syscall.EROFS, func(op fault.Op) bool { return op.Kind == fault.OpWrite && strings.HasPrefix(op.Name, "packs/") }))
		put(t, s, "k", []byte("third"))
		close(release)
		if answer := <-got; answer != "second" && answer != "third" && answer != "k" {
			t.Errorf("the reader was told %q", answer)
		}
		p.gates[0].set(nil)
		p.gates[1].set(nil)
		must(t, s.Close())
	}
}

// TestChain lets goroutines replace one object by compare and swap: each ETag has
// one successor, and only one of those who create it wins.
func TestChain(t *testing.T) {
	mem := fault.NewMemory(1)
	s, _ := start(t, quick(small(mem)))
	var mu sync.Mutex
	next := make(map[string]string)
	created := 0
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				var cond object.Condition
				info, err := s.Stat(ctx, key("k"))
				if err == nil {
					cond.IfMatch = info.ETag
				} else {
					cond.IfNoneMatch = "*"
				}
				got, err := s.Put(ctx, key("k"), strings.NewReader(fmt.Sprintf("%d/%d", g, i)), object.PutOptions{Condition: cond})
				if err != nil {
					if !object.Is(err, object.Stale) && !object.Is(err, object.Exists) {
						t.Errorf("put: %v", err)
					}
					continue
				}
				mu.Lock()
				if cond.IfMatch == "" {
					created++
				} else if other := next[cond.IfMatch]; other != "" {
					t.Errorf("%s was replaced by %s and by %s", cond.IfMatch, other, got.ETag)
				}
				next[cond.IfMatch] = got.ETag
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if created != 1 {
		t.Errorf("%d have created it", created)
	}
	at, length := next[""], 1
	for next[at] != "" {
		at = next[at]
		length++
	}
	if info, err := s.Stat(ctx, key("k")); err != nil || info.ETag != at || length != len(next) {
		t.Errorf("the chain of %d of %d writes ends at %s; the object has %s (%v)", length, len(next), at, info.ETag, err)
	}
}

// TestListingUnderWrites lists while other names come and go, packs are compacted
// and indexes merged: what stays is always listed, once and in order.
func TestListingUnderWrites(t *testing.T) {
	p := newPair(1)
	s, _ := start(t, p.options(0, 1))
	var stable []string
	for i := range 60 {
		stable = append(stable, fmt.Sprintf("d%d/stable%02d", i%3, i))
		put(t, s, stable[i], bytesOf("s", 1000))
	}
	slices.Sort(stable)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 83))
			for stop.Err() == nil {
				k := fmt.Sprintf("d%d/s%d", r.IntN(4), r.IntN(100))
				if r.IntN(3) == 0 {
					s.Delete(ctx, key(k), object.Condition{}) //nolint:errcheck // it may not be there
				} else if _, err := s.Put(ctx, key(k), bytes.NewReader(bytesOf("s", r.IntN(6000))), object.PutOptions{}); err != nil {
					t.Error(err)
				}
				if r.IntN(10) == 0 { // a stable one may be overwritten: it moves
					put(t, s, stable[r.IntN(len(stable))], bytesOf("s", 1000))
				}
			}
		})
	}
	pages := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); pages++ {
		var got []string
		limit := 1 + rand.IntN(50)
		for after, more := "", true; more; {
			page := names(t, s, object.ListOptions{After: after, Limit: limit})
			more = len(page) == limit
			if more {
				after = page[limit-1]
			}
			got = append(got, page...)
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("not in order, or twice: %v", got)
		}
		got = slices.DeleteFunc(got, func(k string) bool { return !strings.Contains(k, "stable") })
		if !slices.Equal(got, stable) {
			t.Fatalf("listed %d of %d stable names", len(got), len(stable))
		}
		folded := names(t, s, object.ListOptions{Delimiter: "/"})
		if !slices.Equal(slices.DeleteFunc(folded, func(k string) bool { return k == "d3/" }), []string{"d0/", "d1/", "d2/"}) {
			t.Fatalf("folded: %v", folded)
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d listings", pages)
}
