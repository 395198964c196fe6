package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// restore puts files back under a directory in place of what is there.
func (s shot) restore(t *testing.T, fsys disk.FS, dir string) {
	t.Helper()
	erase(t, fsys, dir)
	for name, data := range s {
		save(t, fsys, name, data)
	}
}

// TestLostIndex goes on with an index that was deleted, truncated, damaged, or
// replaced by an older copy of itself while the log and compaction went on. After
// a clean stop or a cut everything is exact all the same.
func TestLostIndex(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 2} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_INDEXES", 5, func(t *testing.T, seed uint64) { lostIndex(t, disks, seed) })
		})
	}
}

func lostIndex(t *testing.T, disks int, seed uint64) {
	r := random(seed, 21)
	m := newModel()
	drives := make([]*fault.Memory, disks)
	for i := range drives {
		drives[i] = fault.NewMemory(seed + uint64(i))
	}
	open := func() (*store.Store, func() error) {
		fs := make([]disk.FS, disks)
		for i := range drives {
			fs[i] = drives[i]
		}
		s, stop, err := running(quick(small(fs...)))
		must(t, err)
		return s, stop
	}
	var old []shot // copies of the indexes' directories
	for round := range 6 {
		s, stop := open()
		if round > 0 {
			m.checkSettled(t, s)
		}
		m.steps(t, s, r, 100)
		if r.IntN(2) == 0 {
			tidy(t, s)
		}
		clean := r.IntN(2) == 0
		if clean {
			must(t, stop())
		}
		for i := range drives {
			if !clean {
				drives[i] = drives[i].KillProcess()
			}
		}
		if !clean {
			stop() //nolint:errcheck // the process is dead
		}
		for i := range drives {
			now := take(t, drives[i], "index")
			if len(old) < disks || r.IntN(3) == 0 {
				if len(old) < disks {
					old = append(old, now)
				}
				continue
			}
			harm(t, r, drives[i], old[i])
			if r.IntN(2) == 0 {
				old[i] = now
			}
		}
	}
	s, stop := open()
	m.checkSettled(t, s)
	scrubbed(t, s)
	must(t, stop())
}

// harm does something to an index.
func harm(t *testing.T, r *rand.Rand, fsys disk.FS, old shot) {
	t.Helper()
	files := tree(t, fsys, "index")
	pick := func() string { return files[r.IntN(len(files))] }
	what := r.IntN(6)
	t.Logf("harm %d to %v", what, files)
	switch {
	case what == 0 || len(files) == 0:
		erase(t, fsys, "index")
	case what == 1:
		must(t, fsys.Remove(pick()))
	case what == 2:
		name := pick()
		data := load(t, fsys, name)
		save(t, fsys, name, data[:r.IntN(len(data)+1)])
	case what == 3:
		for range 1 + r.IntN(3) {
			name := pick()
			data := load(t, fsys, name)
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			save(t, fsys, name, data)
		}
	default:
		old.restore(t, fsys, "index")
	}
}

// checkSettled is check after sweeping has settled what several disks know.
func (m *model) checkSettled(t *testing.T, s *store.Store) {
	t.Helper()
	allWell(t, s)
	until(t, "every name can be read", func() bool { // damage may be met only now
		for name := range m.possible {
			if _, err := readNumber(s, name); object.Is(err, object.Unavailable) {
				return false
			}
		}
		for _, err := range s.List(ctx, "bkt", object.ListOptions{}) {
			if object.Is(err, object.Unavailable) {
				return false
			}
		}
		return true
	})
	want := m.usage(t, s)
	until(t, fmt.Sprintf("usage is %+v", want), func() bool { return s.Usage("bkt") == want })
	m.check(t, s)
}

func (m *model) usage(t *testing.T, s *store.Store) (u store.Usage) {
	t.Helper()
	for name := range m.possible {
		n, err := readNumber(s, name)
		if err != nil {
			t.Fatalf("%s, which may be %v: %v", name, m.states(name), err)
		}
		if n != 0 {
			u.Objects++
			u.Bytes += int64(len(content(n)))
		}
	}
	return u
}

// TestIndexDamagedWhileRunning damages index files under a running store. Until
// the index is rebuilt the answers are right or Unavailable.
func TestIndexDamagedWhileRunning(t *testing.T) {
	t.Parallel()
	runs(t, "PENSTOCK_INDEXES", 5, func(t *testing.T, seed uint64) {
		r := random(seed, 22)
		mem := fault.NewMemory(seed)
		m := newModel()
		s, stop := start(t, quick(small(mem)))
		for range 4 {
			m.steps(t, s, r, 100)
			until(t, "there is an index on the disk", func() bool {
				m.steps(t, s, r, 5)
				return len(tree(t, mem, "index")) > 1
			})
			files := tree(t, mem, "index")
			damage(t, mem, files[r.IntN(len(files))], r)
			for name := range m.possible {
				m.read(t, s, name)
			}
			for e, err := range s.List(ctx, "bkt", object.ListOptions{}) {
				if err != nil {
					wantKind(t, "listing", err, object.Unavailable)
				} else if m.states(e.Info.Name)[0] == 0 && len(m.states(e.Info.Name)) == 1 {
					t.Fatalf("listed %v, which is gone", e.Info.Name)
				}
			}
			m.steps(t, s, r, 30)
			allWell(t, s)
			m.steps(t, s, r, 30)
		}
		m.checkSettled(t, s)
		s.Scrub(ctx, store.ScrubOptions{}, func(store.Finding) {}) //nolint:errcheck // what is still damaged is found now
		allWell(t, s)
		m.checkSettled(t, s)
		scrubbed(t, s)
		stop()
		s, _ = start(t, quick(small(mem)))
		m.checkSettled(t, s)
		scrubbed(t, s)
	})
}

// damage changes bytes of a file in place, as those who have it open see.
func damage(t *testing.T, fsys disk.FS, name string, r *rand.Rand) {
	t.Helper()
	f, err := fsys.OpenWrite(name)
	if err != nil {
		return // it was replaced meanwhile
	}
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	if size == 0 {
		return
	}
	for range 4 {
		at := r.Int64N(size)
		var b [1]byte
		f.ReadAt(b[:], at) //nolint:errcheck // short at the end
		b[0] ^= byte(1 + r.IntN(255))
		_, err = f.WriteAt(b[:], at)
		must(t, err)
	}
}

// TestListingOutlivesIndex writes from within a listing while the index that it
// goes over is found damaged and rebuilt: neither waits for the other.
func TestListingOutlivesIndex(t *testing.T) {
	mem := fault.NewMemory(3)
	s, _ := start(t, quick(small(mem)))
	for i := range 300 {
		put(t, s, fmt.Sprintf("k%03d", i), bytesOf("k", 100))
	}
	until(t, "there is an index on the disk", func() bool {
		put(t, s, "more", bytesOf("more", 100))
		return len(tree(t, mem, "index")) > 1
	})
	done := make(chan bool)
	var ended atomic.Bool
	go func() {
		defer close(done)
		first := true
		for _, err := range s.List(ctx, "bkt", object.ListOptions{}) {
			if err != nil {
				break // the damage is met here too
			}
			if first {
				first = false
				for _, name := range tree(t, mem, "index") {
					damage(t, mem, name, random(1, 1))
				}
				s.Scrub(ctx, store.ScrubOptions{}, func(store.Finding) {}) //nolint:errcheck // the damage is met
				for !ended.Load() {                                        // until it is repaired
					if _, err := s.Put(ctx, key("k"), bytes.NewReader(nil), object.PutOptions{}); err == nil {
						break
					}
					time.Sleep(time.Millisecond)
				}
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		ended.Store(true)
		t.Error("the listing and the rebuilding of the index wait for each other")
		<-done
	}
	allWell(t, s)
	if got := names(t, s, object.ListOptions{}); len(got) != 302 {
		t.Errorf("%d names", len(got))
	}
}

// TestDeepNames stores names of very many parts: the index does not grow by each
// of them, neither now nor when it is rebuilt.
func TestDeepNames(t *testing.T) {
	mem := fault.NewMemory(1)
	o := small(mem)
	for round := range 2 {
		s := still(t, o)
		if round == 0 {
			for i := range 20 {
				put(t, s, fmt.Sprintf("%d/%s", i, strings.Repeat("x/", 500)), nil)
				put(t, s, fmt.Sprintf("%d/%sx", i, strings.Repeat("x/", 500)), nil)
			}
		}
		must(t, s.Close())
		if size := take(t, mem, "index").size(""); size > 200<<10 {
			t.Errorf("round %d: the index of 40 names takes %d bytes", round, size)
		}
		erase(t, mem, "index")
	}
	s := still(t, o)
	if got := names(t, s, object.ListOptions{}); len(got) != 40 {
		t.Errorf("%d names", len(got))
	}
	must(t, s.Close())
}
