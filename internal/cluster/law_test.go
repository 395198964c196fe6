package cluster_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

// TestPowerCut cuts the power of all disks at once between any two operations of a
// few transactions. What was acknowledged is there afterwards, what came last may
// be, and nothing else.
func TestPowerCut(t *testing.T) {
	for n := 1; n <= 3; n++ {
		for at := int64(1); at <= int64(7*n*opsPerWrite); at++ {
			m := newMachine(t, uint64(at), n)
			m.cutAt(at)
			a := m.open(m.all)
			acknowledged := 0
			for i := 1; i <= 3; i++ {
				if err := a.put("k", fmt.Sprint(i)); err != nil {
					wants(t, object.Unavailable, err)
					break
				}
				acknowledged = i
			}
			a.stop()
			m.restart(true)
			a = m.open(m.all)
			got := 0
			if r, err := a.Get(t.Context(), "k"); err == nil {
				got, _ = strconv.Atoi(string(r.Value))
			}
			if got != acknowledged && got != acknowledged+1 {
				t.Fatalf("%d disks, cut at %d: %d transactions were acknowledged, %d are found", n, at, acknowledged, got)
			}
			must(t, a.put("k", "after"))
			if good := m.good(a); good != n {
				t.Errorf("%d of %d disks are good again", good, n)
			}
			a.stop()
		}
	}
}

// TestLaw lives through transactions, failing operations, power cuts, killed
// processes, and disks that are lost, damaged, away for a time or added. At each
// start at most one disk of the last set is not there as it was. What was
// acknowledged is never lost, what was not happens once or never.
func TestLaw(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("PENSTOCK_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Logf("PENSTOCK_TEST_SEED=%d", seed)
	for i := range uint64(60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { live(t, seed+i) })
	}
}

func live(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	m := newMachine(t, seed, 1+random.IntN(4))
	possible := []map[string]string{{}} // what may be found: what was acknowledged, or that and one failed transaction
	set := slices.Clone(m.all)          // the disks of which one may be missing, until two others are written
	missing := -1                       // that one
	var tried []int                     // disks that may have been made members since
	revision := int64(0)
	for life := range 12 {
		if missing < 0 && len(set) > 1 && random.IntN(2) == 0 {
			missing = set[random.IntN(len(set))]
		}
		given := m.choose(random, slices.Concat(set, tried), missing)
		if life > 0 && random.IntN(2) == 0 {
			m.failAt(random, given)
		}
		a := m.open(given)
		found := m.found(a)
		if !slices.ContainsFunc(possible, func(p map[string]string) bool { return maps.Equal(p, found) }) {
			t.Fatalf("seed %d, life %d: disks %v of %v, %d is missing: found %v, possible are %v", seed, life, given, set, missing, found, possible)
		}
		established := m.good(a) >= min(2, len(given))
		if established {
			set, missing, tried, possible = given, -1, nil, []map[string]string{found}
		} else {
			tried = append(tried, given...)
		}
		view, err := a.List(t.Context(), "")
		must(t, err)
		if established && view.Revision < revision {
			t.Fatalf("seed %d, life %d: the revision went back from %d to %d", seed, life, revision, view.Revision)
		}

		cut := random.IntN(3) == 0
		for step := range random.IntN(10) {
			if random.IntN(3) == 0 {
				m.failAt(random, given)
			}
			if cut && step == 3 {
				m.cutAt(1 + random.Int64N(int64(opsPerWrite*len(given))))
			}
			key, value := fmt.Sprint("k", random.IntN(4)), fmt.Sprintf("%d.%d", life, step)
			next := maps.Clone(found)
			next[key] = value
			op := cluster.Put(key, []byte(value))
			if random.IntN(4) == 0 {
				delete(next, key)
				op = cluster.Delete(key)
			}
			if _, err := a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{op}}); err != nil {
				wants(t, object.Unavailable, err)
				possible = append(possible, next)
			} else if !maps.Equal(next, found) { // otherwise nothing was written
				found, possible, established = next, []map[string]string{next}, true
				set, missing, tried = given, -1, nil
			}
			if seen := m.found(a); !maps.Equal(seen, found) {
				t.Fatalf("seed %d, life %d: %v is seen, want %v", seed, life, seen, found)
			}
		}
		if view, err = a.List(t.Context(), ""); err == nil && established {
			revision = view.Revision
		}
		a.stop()
		m.restart(cut || random.IntN(2) == 0)
	}
}

// machine has drives that can fail, and all be cut at once.
type machine struct {
	t      *testing.T
	all    []int // the numbers of the drives
	mu     sync.Mutex
	drives []*fault.Memory
	hooks  []fault.Hook
	cut    fault.Hook
}

func newMachine(t *testing.T, seed uint64, n int) *machine {
	m := &machine{t: t}
	for i := range n {
		m.all = append(m.all, i)
		m.drives = append(m.drives, fault.NewMemory(seed+uint64(i)))
	}
	m.hooks = make([]fault.Hook, n)
	return m
}

// cutAt cuts the power in place of the n-th change from now on.
func (m *machine) cutAt(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = func(fault.Op) error {
		if n--; n == 0 {
			for i, d := range m.drives {
				m.drives[i] = d.Crash()
			}
		}
		return nil
	}
}

// failAt makes some drives fail at a random place, once or for good.
func (m *machine) failAt(random *rand.Rand, given []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range given {
		n := 1 + random.Int64N(opsPerWrite)
		switch random.IntN(6) {
		case 0:
			m.hooks[i] = fault.FailNth(n, fault.Mutations, syscall.EIO)
		case 1:
			m.hooks[i] = fault.FailFrom(n, fault.Mutations, syscall.ENOSPC)
		default:
			m.hooks[i] = nil
		}
	}
}

// restart ends all faults, and the process or the power.
func (m *machine) restart(power bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = nil
	clear(m.hooks)
	for i, d := range m.drives {
		if power {
			m.drives[i] = d.Crash()
		} else {
			m.drives[i] = d.KillProcess()
		}
	}
}

// choose returns the disks of the next start: all that are needed, but the missing
// one is away, empty or damaged; others come or stay away as it happens.
func (m *machine) choose(random *rand.Rand, needed []int, missing int) (given []int) {
	for i := range m.drives {
		switch {
		case i == missing && random.IntN(2) == 0:
			m.ruin(random, i)
			given = append(given, i)
		case i == missing:
		case slices.Contains(needed, i) || random.IntN(2) == 0:
			given = append(given, i)
		}
	}
	random.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
	return given
}

// ruin empties or damages a drive.
func (m *machine) ruin(random *rand.Rand, i int) {
	content := file(m.t, m.drives[i], "control")
	if content == nil || random.IntN(2) == 0 {
		m.drives[i] = drive(m.t, nil)
		return
	}
	content[random.IntN(len(content))] ^= 1 << random.IntN(8)
	m.drives[i] = drive(m.t, content)
}

func (m *machine) open(given []int) *alone {
	m.t.Helper()
	var named []cluster.Disk
	for _, i := range given {
		named = append(named, cluster.Disk{Name: fmt.Sprint(i), FS: fault.InjectOn(m.drives[i], fault.Mutations, func(op fault.Op) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.cut != nil {
				_ = m.cut(op)
			}
			if m.hooks[i] != nil {
				return m.hooks[i](op)
			}
			return nil
		})})
	}
	return start(m.t, cluster.AloneOptions{Disks: named})
}

func (m *machine) found(a *alone) map[string]string {
	m.t.Helper()
	view, err := a.List(m.t.Context(), "")
	must(m.t, err)
	all := map[string]string{}
	for _, r := range view.Records {
		all[r.Key] = string(r.Value)
	}
	return all
}

// good returns the number of disks that hold the last write.
func (m *machine) good(a *alone) int {
	n := 0
	for _, s := range a.Disks() {
		if s.Err == nil {
			n++
		}
	}
	return n
}
