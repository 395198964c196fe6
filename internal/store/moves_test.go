package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// TestMoves is a long life of a store of three disks. Disks refuse writes or all
// work for a while, so that objects move; are taken away and brought back; lose
// their index; lose their power. At every moment what is served is right.
func TestMoves(t *testing.T) {
	t.Parallel()
	runs(t, "PENSTOCK_MOVES", 8, moves)
}

func moves(t *testing.T, seed uint64) {
	r := random(seed, 101)
	m := newModel()
	drives := make([]*fault.Memory, 3)
	gates := make([]*gate, 3)
	for i := range drives {
		drives[i] = fault.NewMemory(seed*10 + uint64(i))
		gates[i] = newGate()
	}
	open := func(numbers ...int) (*store.Store, func() error) {
		t.Helper()
		var fs []disk.FS
		for _, i := range numbers {
			fs = append(fs, fault.Inject(drives[i], gates[i].Hook))
		}
		s, stop, err := running(quick(small(fs...)))
		must(t, err)
		return s, stop
	}
	end := func(stop func() error, numbers ...int) {
		t.Helper()
		if r.IntN(2) == 0 {
			must(t, stop())
			return
		}
		for _, i := range numbers {
			if r.IntN(2) == 0 {
				drives[i] = drives[i].Crash()
			} else {
				drives[i] = drives[i].KillProcess()
			}
		}
		stop() //nolint:errcheck // the power is cut
	}
	for range 6 {
		order := r.Perm(3)
		s, stop := open(order...)
		m.checkSettled(t, s)
		for range 3 {
			bad := gates[r.IntN(3)]
			switch r.IntN(4) {
			case 0:
				bad.set(fault.FailMatching(func(op fault.Op) bool { return op.Kind&fault.Mutations != 0 }, syscall.EROFS))
			case 1:
				bad.set(always(syscall.ENOSPC, fault.OpAllocate|fault.OpWrite|fault.OpCreate, ""))
			case 2:
				bad.set(fault.FailMatching(func(fault.Op) bool { return true }, syscall.EIO))
			}
			m.steps(t, s, r, 25)
			bad.set(nil)
			allWell(t, s)
			m.steps(t, s, r, 15)
		}
		if r.IntN(2) == 0 {
			m.checkSettled(t, s)
			tidy(t, s)
			m.checkSettled(t, s)
		}
		end(stop, order...)
		if r.IntN(2) == 0 { // one is away
			left := order[:2]
			s, stop := open(left...)
			m.without(t, s, r)
			end(stop, left...)
		}
		for _, d := range drives {
			if r.IntN(3) == 0 {
				erase(t, d, "index")
			}
		}
	}
	s, stop := open(0, 1, 2)
	m.checkSettled(t, s)
	tidy(t, s)
	m.checkSettled(t, s)
	scrubbed(t, s)
	must(t, stop())
}

// without works with a store of which a disk is absent. What is Unavailable has
// not happened: nothing else is wrong with it.
func (m *model) without(t *testing.T, s *store.Store, r *rand.Rand) {
	t.Helper()
	for range 60 {
		name := key(fmt.Sprintf("d%d/k%d", r.IntN(2), r.IntN(7)))
		before := m.states(name)
		switch r.IntN(4) {
		case 0:
			m.put(t, s, name, object.Condition{}, true)
			if now := m.states(name); len(now) != 1 {
				t.Fatalf("put of %s failed with a disk to spare", name)
			}
			continue
		case 1:
			m.put(t, s, name, object.Condition{IfNoneMatch: "*"}, true)
		case 2:
			m.remove(t, s, name)
		default:
			m.read(t, s, name)
		}
		if now := m.states(name); len(now) > 1 {
			m.set(name, before...)
		}
	}
	listed := names(t, s, object.ListOptions{})
	if len(listed) == 0 || listed[0] != "?" {
		t.Fatalf("the listing does not say that it is incomplete: %v", listed)
	}
}

// TestSharedBlobs copies, overwrites and deletes large objects among few names
// from many goroutines: whatever is there can be read, and in the end no blob is
// left over.
func TestSharedBlobs(t *testing.T) {
	mem := fault.NewMemory(1)
	s, _ := start(t, quick(small(mem)))
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 102))
			for range 150 {
				a, b := key(fmt.Sprintf("k%d", r.IntN(5))), key(fmt.Sprintf("k%d", r.IntN(5)))
				var err error
				switch r.IntN(6) {
				case 0:
					data := bytesOf(fmt.Sprint(r.IntN(1000)), 10<<10+r.IntN(100))
					_, err = s.Put(ctx, a, strings.NewReader(string(data)), object.PutOptions{SizeHint: int64(len(data))})
				case 1, 2, 3:
					_, err = s.Copy(ctx, a, b, object.PutOptions{})
				case 4:
					err = s.Delete(ctx, a, object.Condition{})
				default:
					_, err = readRange(s, a, object.Range{}, r.IntN(2) == 0)
				}
				if err != nil && !object.Is(err, object.NotFound) {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	scrubbed(t, s)
	for i := range 5 {
		s.Delete(ctx, key(fmt.Sprintf("k%d", i)), object.Condition{}) //nolint:errcheck // it may not be there
	}
	if left := tree(t, mem, "blobs"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestIndexCannotBeWritten lets nothing be written beside packs: writes are taken
// as long as there is memory for the index, then refused, and go on when the
// fault is over.
func TestIndexCannotBeWritten(t *testing.T) {
	mem := fault.NewMemory(1)
	g := newGate()
	s, stop := start(t, quick(small(fault.Inject(mem, g.Hook))))
	put(t, s, "first", nil)
	g.set(always(syscall.EIO, fault.Mutations, "index"))
	n := 0
	for ; n < 20000; n++ {
		if _, err := s.Put(ctx, key(fmt.Sprintf("k%d", n)), strings.NewReader("x"), object.PutOptions{}); err != nil {
			wantKind(t, "put", err, object.Unavailable, object.Busy)
			break
		}
	}
	if n == 20000 {
		t.Error("the index grows without a bound")
	}
	for i := range n {
		holds(t, s, fmt.Sprintf("k%d", i), []byte("x"))
	}
	g.set(nil)
	allWell(t, s)
	for i := range 500 {
		put(t, s, fmt.Sprintf("more%d", i), []byte("x"))
	}
	stop()
	s, _ = start(t, quick(small(mem)))
	usage(t, s, n+501, n+500)
}
