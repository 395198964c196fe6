package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// steps does the same work for the same generator: puts, overwrites, conditional
// puts, copies, deletes and reads of small and large objects, enough of them for
// rotation, checkpoints and compaction. It goes on after errors, all of which
// must be Unavailable.
func (m *model) steps(t *testing.T, s *store.Store, r *rand.Rand, count int) {
	t.Helper()
	for range count {
		name := key(fmt.Sprintf("d%d/k%d", r.IntN(2), r.IntN(7)))
		other := key(fmt.Sprintf("d%d/k%d", r.IntN(2), r.IntN(7)))
		switch op := r.IntN(22); {
		case op > 19:
			for err := range m.many(s, r, fmt.Sprintf("d%d/", r.IntN(2)), 7) {
				if err != nil {
					wantKind(t, "put of many", err, object.Unavailable)
				}
			}
		case op < 9:
			m.put(t, s, name, object.Condition{}, r.IntN(2) == 0)
		case op < 11:
			m.put(t, s, name, object.Condition{IfNoneMatch: "*"}, true)
		case op < 12:
			m.put(t, s, name, object.Condition{IfMatch: "*"}, true)
		case op < 14:
			m.duplicate(t, s, name, other)
		case op < 17:
			m.remove(t, s, name)
		default:
			m.read(t, s, name)
		}
	}
}

func (m *model) states(name object.Name) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.possible[name]; len(p) > 0 {
		return slices.Clone(p)
	}
	return []int{0}
}

func (m *model) set(name object.Name, states ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.possible[name] = states
}

// answer checks what a write was answered with.
func (m *model) answer(t *testing.T, what string, name object.Name, err error) {
	t.Helper()
	states := m.states(name)
	absent := slices.Contains(states, 0)
	present := slices.ContainsFunc(states, func(n int) bool { return n != 0 })
	switch {
	case err == nil, object.Is(err, object.Unavailable):
	case object.Is(err, object.NotFound) && absent, object.Is(err, object.Exists) && present:
	default:
		t.Fatalf("%s %s, which may be %v: %v", what, name, states, err)
	}
}

func (m *model) put(t *testing.T, s *store.Store, name object.Name, cond object.Condition, hint bool) {
	t.Helper()
	n := m.number()
	data := content(n)
	o := object.PutOptions{Condition: cond}
	if hint {
		o.SizeHint = int64(len(data))
	}
	_, err := s.Put(ctx, name, bytes.NewReader(data), o)
	m.answer(t, "put", name, err)
	if err == nil || object.Is(err, object.Unavailable) {
		m.note(name, n, err)
	}
}

func (m *model) remove(t *testing.T, s *store.Store, name object.Name) {
	t.Helper()
	err := s.Delete(ctx, name, object.Condition{})
	m.answer(t, "delete", name, err)
	switch {
	case err == nil:
		m.set(name, 0)
	case object.Is(err, object.Unavailable):
		m.note(name, 0, err)
	}
}

func (m *model) duplicate(t *testing.T, s *store.Store, dst, src object.Name) {
	t.Helper()
	if dst == src {
		return
	}
	_, err := s.Copy(ctx, dst, src, object.PutOptions{})
	m.answer(t, "copy", src, err)
	from := slices.DeleteFunc(m.states(src), func(n int) bool { return n == 0 })
	switch {
	case err == nil:
		m.set(dst, from...)
	case object.Is(err, object.Unavailable):
		m.set(dst, append(m.states(dst), from...)...)
	}
}

// read requires the right answer, or Unavailable.
func (m *model) read(t *testing.T, s *store.Store, name object.Name) {
	t.Helper()
	n, err := readNumber(s, name)
	if object.Is(err, object.Unavailable) {
		return
	}
	if err != nil || !slices.Contains(m.states(name), n) {
		t.Fatalf("%s holds write %d (%v), not one of %v", name, n, err, m.states(name))
	}
}

// wave is a workload that meets every kind of step in less than 2,000 operations
// of the drive.
func (m *model) wave(t *testing.T, s *store.Store, seed uint64) {
	t.Helper()
	m.steps(t, s, random(seed, 11), 120)
}

// fault1 is one way in which a drive fails.
type failure struct {
	n    int64
	ever bool // not only the n-th operation but all from it on
	err  error
}

func (f failure) hook() fault.Hook {
	if f.ever {
		return fault.FailFrom(f.n, fault.AnyOp&^fault.OpLock, f.err)
	}
	return fault.FailNth(f.n, fault.AnyOp&^fault.OpLock, f.err)
}

func randomFailure(r *rand.Rand) failure {
	return failure{n: 1 + r.Int64N(1+r.Int64N(2000)), ever: r.IntN(2) == 0, err: []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS}[r.IntN(3)]}
}

// TestFaultAtEveryStep fails one operation of a drive, or all from one on, with
// every error a drive has, during opening, work, background work and closing.
// Nothing acknowledged is lost, nothing is half there, and when the fault is over
// writes go on without a restart. PENSTOCK_FAULTS=all tries all of them.
func TestFaultAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_FAULTS", 30, func(t *testing.T, seed uint64) {
				r := random(seed, 12)
				atStep(t, randomFailure(r), disks, seed)
			})
		})
	}
}

func atStep(t *testing.T, f failure, disks int, seed uint64) {
	r := random(seed, 13)
	t.Logf("operation %d, ever %v, %v", f.n, f.ever, f.err)
	g := newGate()
	g.set(f.hook())
	drives := make([]*fault.Memory, disks)
	fs := make([]disk.FS, disks)
	for i := range drives {
		drives[i] = fault.NewMemory(seed + uint64(i))
		fs[i] = drives[i]
	}
	bad := r.IntN(disks)
	fs[bad] = fault.Inject(drives[bad], g.Hook)
	m := newModel()
	s, stop, err := running(quick(small(fs...)))
	if err != nil {
		wantKind(t, "open", err, object.Unavailable)
		g.set(nil)
		s, stop, err = running(quick(small(fs...)))
		must(t, err)
	}
	m.wave(t, s, seed)
	if r.IntN(3) > 0 { // else the fault lasts until the store is closed
		g.set(nil)
		until(t, "the disk is back", func() bool {
			for _, d := range s.Disks() {
				if d.State != "ok" {
					return false
				}
			}
			return true
		})
		m.check(t, s)
		m.wave(t, s, seed+1)
		m.check(t, s)
	}
	err = stop()
	g.set(nil)
	if err != nil && object.KindOf(err) == object.Corrupt {
		t.Fatal(err)
	}
	for round := range 2 {
		for i := range drives {
			if r.IntN(2) == 0 {
				drives[i] = drives[i].Crash()
			} else {
				drives[i] = drives[i].KillProcess()
			}
			fs[i] = drives[i]
		}
		s, stop, err = running(quick(small(fs...)))
		must(t, err)
		m.check(t, s)
		scrubbed(t, s)
		if round == 0 {
			m.wave(t, s, seed+2)
		}
		must(t, stop())
	}
}

// TestEveryStep goes through all operations one by one. It takes minutes and is
// asked for by PENSTOCK_FAULTS=all.
func TestEveryStep(t *testing.T) {
	if os.Getenv("PENSTOCK_FAULTS") != "all" {
		t.Skip("PENSTOCK_FAULTS=all asks for it; TestFaultAtEveryStep takes a sample")
	}
	seed, _ := strconv.ParseUint(os.Getenv("PENSTOCK_TEST_SEED"), 10, 64)
	for n := range int64(2000) {
		for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
			for _, ever := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d/%v/%v", n+1, err, ever), func(t *testing.T) { atStep(t, failure{n + 1, ever, err}, 1, seed+uint64(n)) })
			}
		}
	}
}
