package store_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// machine is some drives that lose their power, or their process, at one moment.
type machine struct {
	drives []*fault.Memory
}

func newMachine(disks int, seed uint64) *machine {
	m := &machine{}
	for i := range uint64(disks) {
		m.drives = append(m.drives, fault.NewMemory(seed*10+i))
	}
	return m
}

func (m *machine) options(relaxed bool, wrap func(disk.FS) disk.FS) store.Options {
	var fs []disk.FS
	for _, d := range m.drives {
		fs = append(fs, wrap(d))
	}
	o := quick(small(fs...))
	o.Relaxed = relaxed
	return o
}

// die ends everything in place of the n-th change, over all drives together.
func (m *machine) die(n int64, kill bool) (wrap func(disk.FS) disk.FS, after func()) {
	var seen atomic.Int64
	var once sync.Once
	end := func() {
		once.Do(func() {
			for i, d := range m.drives {
				if kill {
					m.drives[i] = d.KillProcess()
				} else {
					m.drives[i] = d.Crash()
				}
			}
		})
	}
	hook := func(fault.Op) error {
		if seen.Add(1) == n {
			end()
		}
		return nil // the dead drive answers
	}
	return func(fsys disk.FS) disk.FS { return fault.InjectOn(fsys, fault.Mutations, hook) }, end
}

func plain(fsys disk.FS) disk.FS { return fsys }

// TestMachineDies cuts the power of all drives of a store at once, or kills its
// process, under concurrent work, again and again. All that was acknowledged is
// there; with relaxed durability, whatever is served was written at some time.
func TestMachineDies(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		for _, relaxed := range []bool{false, true} {
			t.Run(fmt.Sprintf("disks=%d/relaxed=%v", disks, relaxed), func(t *testing.T) {
				runs(t, "PENSTOCK_CUTS", 8, func(t *testing.T, seed uint64) { machineDies(t, disks, relaxed, seed) })
			})
		}
	}
}

func machineDies(t *testing.T, disks int, relaxed bool, seed uint64) {
	r := random(seed, 51)
	box := newMachine(disks, seed)
	m := newModel()
	h := &history{written: make(map[object.Name]map[int]bool)}
	for range 4 {
		kill := r.IntN(3) == 0
		wrap, end := box.die(1+r.Int64N(700), kill)
		if s, stop, err := running(box.options(relaxed, wrap)); err == nil {
			var wg sync.WaitGroup
			for w := range 3 {
				wr := rand.New(rand.NewPCG(r.Uint64(), 52))
				wg.Go(func() { m.work(s, wr, w, 100) }) //nolint:errcheck // the power is cut
			}
			wg.Wait()
			end()
			stop() //nolint:errcheck // the power is cut
		}
		end()
		h.note(m)
		s, stop, err := running(box.options(relaxed, plain))
		must(t, err)
		if relaxed && !kill {
			m = h.check(t, s, m)
		} else {
			m.checkSettled(t, s)
			if !relaxed { // else there may be damage from earlier cuts
				scrubbed(t, s)
			}
		}
		must(t, stop())
		if r.IntN(2) == 0 {
			for _, d := range box.drives {
				if r.IntN(2) == 0 {
					erase(t, d, "index")
				}
			}
			s, stop, err = running(box.options(relaxed, plain))
			must(t, err)
			if relaxed {
				m = h.check(t, s, m)
			} else {
				m.checkSettled(t, s)
			}
			must(t, stop())
		}
	}
}

// history knows every write that was ever tried.
type history struct {
	written map[object.Name]map[int]bool
}

func (h *history) note(m *model) {
	for name, states := range m.possible {
		if h.written[name] == nil {
			h.written[name] = map[int]bool{0: true}
		}
		for _, n := range states {
			h.written[name][n] = true
		}
	}
}

// check requires that what is served was written once, as a whole, and returns a
// model of it.
func (h *history) check(t *testing.T, s *store.Store, m *model) *model {
	t.Helper()
	now := newModel()
	now.next = m.next
	for name := range h.written {
		n, err := readNumber(s, name)
		if object.Is(err, object.Corrupt) {
			s.Delete(ctx, name, object.Condition{}) //nolint:errcheck // it is read again
			n, err = readNumber(s, name)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now.possible[name] = []int{n}
	}
	return now
}
