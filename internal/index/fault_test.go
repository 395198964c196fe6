package index_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
)

// faulty is a drive whose hook can be changed while it is in use.
type faulty struct {
	*fault.Memory
	hook  atomic.Pointer[fault.Hook]
	fired atomic.Int64
}

func (f *faulty) arm(h fault.Hook) {
	f.fired.Store(0)
	f.hook.Store(&h)
}

func (f *faulty) disarm() { f.hook.Store(nil) }

// failing returns a model on a drive that fails on demand.
func failing(t testing.TB, random *rand.Rand) (*model, *faulty) {
	f := &faulty{Memory: fault.NewMemory(random.Uint64())}
	return newModel(t, random, fault.Inject(f.Memory, func(op fault.Op) error {
		h := f.hook.Load()
		if h == nil {
			return nil
		}
		err := (*h)(op)
		if err != nil {
			f.fired.Add(1)
		}
		return err
	})), f
}

// act is one thing that may fail at any of its steps, and what comes before it.
type act struct {
	name   string
	before func(m *model)
	do     func(m *model) error
}

var acts = []act{
	{
		name:   "first checkpoint",
		before: func(m *model) { m.apply() },
		do:     func(m *model) error { return m.checkpoint() },
	},
	{
		name:   "checkpoint",
		before: func(m *model) { m.runs(2); m.apply() },
		do:     func(m *model) error { return m.checkpoint() },
	},
	{
		name:   "checkpoint of a state alone",
		before: func(m *model) { m.runs(2) },
		do:     func(m *model) error { return m.checkpoint() },
	},
	{
		name:   "merge",
		before: func(m *model) { m.runs(5); m.apply() },
		do:     func(m *model) error { _, err := m.index.Merge(background); return err },
	},
	{
		name: "merge to nothing",
		before: func(m *model) {
			m.runs(1)
			m.batch.Reset()
			for key := range m.want {
				m.batch.Delete([]byte(key))
			}
			clear(m.want)
			m.index.Apply(&m.batch)
			m.must(m.checkpoint())
		},
		do: func(m *model) error { _, err := m.index.Merge(background); return err },
	},
}

// runs makes checkpoints.
func (m *model) runs(n int) {
	for range n {
		m.apply()
		m.must(m.checkpoint())
	}
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestFailures fails each operation of each act, once or for good, and looks for
// what was lost, then and later.
func TestFailures(t *testing.T) {
	for _, a := range acts {
		for _, mode := range []string{"once", "for good", "short", "no room"} {
			t.Run(a.name+"/"+mode, func(t *testing.T) {
				random := seeded(t)
				for n := int64(1); ; n++ {
					if !failAt(t, random, a, mode, n) {
						t.Logf("%d operations", n-1)
						break
					}
				}
			})
		}
	}
}

// failAt fails the n-th operation of an act and reports whether it came to that.
func failAt(t *testing.T, random *rand.Rand, a act, mode string, n int64) bool {
	m, f := failing(t, random)
	a.before(m)
	switch mode {
	case "once":
		f.arm(fault.FailNth(n, fault.AnyOp, unix.EIO))
	case "for good":
		f.arm(fault.FailFrom(n, fault.AnyOp, unix.EIO))
	case "short":
		f.arm(fault.FailNth(n, fault.OpWrite, &fault.Short{N: 100, Err: unix.EIO}))
	case "no room":
		f.arm(fault.FailFrom(n, fault.OpWrite|fault.OpAllocate|fault.OpCreate, unix.ENOSPC))
	}
	err := a.do(m)
	fired := f.fired.Load() > 0
	f.disarm()
	if err != nil && !object.Is(err, object.Unavailable) {
		t.Fatalf("operation %d: %v of kind %v", n, err, object.KindOf(err))
	}
	if err == nil && fired && mode != "once" && mode != "for good" {
		t.Fatalf("operation %d: the failure was not noticed", n)
	}
	m.check()
	if mode == "once" && err != nil {
		m.checkTidy(f.Memory, 1)
	}
	m.checkCrashes(f.Memory)
	switch random.IntN(3) {
	case 0: // the same again
		m.must(a.do(m))
	case 1: // more work first
		m.apply()
		m.must(m.checkpoint())
		m.check()
		m.must(a.do(m))
	case 2: // another process
		m.recover(f.Memory.Image())
		m.must(a.do(m))
		f = &faulty{Memory: m.fsys.(*fault.Memory)}
	}
	m.check()
	m.verify()
	m.must(m.checkpoint())
	m.reopen()
	m.check()
	m.close()
	checkFiles(t, f.Memory)
	return fired
}

// checkTidy says whether an open index has files lying about: more runs than it
// uses, but for so many that it may not remove yet.
func (m *model) checkTidy(memory *fault.Memory, more int) {
	m.t.Helper()
	names, err := memory.ReadDir(dir)
	m.must(err)
	if n := m.index.Stats().Runs + 1 + more; slices.Contains(names, "checkpoint.tmp") || len(names) > n {
		m.t.Fatalf("files pile up: %q", names)
	}
}

// checkCrashes looks at several outcomes of a power cut at this moment.
func (m *model) checkCrashes(memory *fault.Memory) {
	m.t.Helper()
	for range 3 {
		after := &model{t: m.t, random: m.random, states: m.states, last: m.last, count: m.count}
		after.recover(memory.Image())
		after.close()
	}
}

// recover opens what a crash left: it must be the last checkpoint that was
// written, or one that was tried after it.
func (m *model) recover(fsys disk.FS) {
	m.t.Helper()
	if m.index != nil {
		m.close()
	}
	m.fsys, m.index = fsys, open(m.t, fsys)
	state := string(m.index.State())
	want, known := m.states[state]
	if !known || number(state) < number(m.last) {
		m.t.Fatalf("recovered state %q, the last one written was %q", state, m.last)
	}
	m.last, m.want = state, want
	m.check()
	m.verify()
}

func number(state string) (n int) {
	fmt.Sscanf(state, "state %d", &n) //nolint:errcheck // the empty state is before all
	return n
}

// TestPowerCuts cuts the power at every operation that changes the drive.
func TestPowerCuts(t *testing.T) {
	seed := seeded(t).Uint64()
	for n := int64(1); ; n++ {
		random := rand.New(rand.NewPCG(seed, 0))
		memory := fault.NewMemory(uint64(n))
		hook, after := fault.PowerCut(memory, n, fault.Mutations)
		m := &model{t: t, random: random, fsys: fault.Inject(memory, hook), states: map[string]map[string]string{"": {}}, want: map[string]string{}}
		m.workUntilDead()
		left := after()
		if left == nil {
			t.Logf("%d changes to the drive", n-1)
			return
		}
		m.recover(left)
		m.apply()
		m.must(m.checkpoint())
		m.reopen()
		m.check()
		m.close()
		checkFiles(t, left)
	}
}

// workUntilDead opens an index and works with it until something fails or it has
// done enough.
func (m *model) workUntilDead() {
	x, err := index.Open(m.fsys, dir, index.Options{})
	if err != nil {
		return
	}
	m.index = x
	for i := range 9 {
		m.apply()
		if m.checkpoint() != nil {
			break
		}
		if i%3 == 2 {
			if _, err := m.index.Merge(background); err != nil {
				break
			}
		}
	}
	m.close()
	m.index = nil
}

// late is a drive that does what it is told and then says that it failed.
type late struct {
	disk.FS
	kinds fault.OpKind
}

func (l *late) Rename(oldname, newname string) error {
	return errors.Join(l.FS.Rename(oldname, newname), l.fail(fault.OpRename))
}

func (l *late) SyncDir(name string) error {
	return errors.Join(l.FS.SyncDir(name), l.fail(fault.OpSyncDir))
}

func (l *late) fail(kind fault.OpKind) error {
	if l.kinds&kind != 0 {
		return unix.EIO
	}
	return nil
}

// TestUnsure lets the step fail after which nobody knows which checkpoint is in
// force, again and again: whichever it is, all its runs must be there, and files
// must not pile up.
func TestUnsure(t *testing.T) {
	for _, a := range acts {
		for _, kind := range []fault.OpKind{fault.OpRename, fault.OpSyncDir, fault.OpRename | fault.OpSyncDir} {
			t.Run(fmt.Sprint(a.name, "/", kind), func(t *testing.T) {
				memory := fault.NewMemory(1)
				drive := &late{FS: memory}
				m := newModel(t, seeded(t), drive)
				a.before(m)
				for range 6 {
					drive.kinds = kind
					if a.do(m) == nil {
						t.Fatal("the failure was not noticed")
					}
					drive.kinds = 0
					m.check()
					m.checkCrashes(memory)
					m.checkTidy(memory, 2)
				}
				m.must(a.do(m))
				m.check()
				m.checkTidy(memory, 0)
				m.must(m.checkpoint())
				m.reopen()
				m.check()
				m.close()
				checkFiles(t, memory)
			})
		}
	}
}

func TestCancel(t *testing.T) {
	m, f := failing(t, seeded(t))
	m.runs(6)
	for range 40 {
		m.apply()
	}
	for n := int64(0); n < 3; n++ {
		ctx, cancel := context.WithCancel(background)
		if n == 0 {
			cancel()
		}
		f.arm(func(op fault.Op) error { // in the middle of the second write
			if op.Kind == fault.OpWrite {
				cancel()
			}
			return nil
		})
		frozen, _ := m.freeze()
		if err := frozen.Write(ctx); n == 0 && !object.Is(err, object.Canceled) {
			t.Fatal(err)
		} else if err == nil {
			m.last = string(fmt.Sprintf("state %d", m.count))
		}
		if _, err := m.index.Merge(ctx); !object.Is(err, object.Canceled) {
			t.Fatal(err)
		}
		f.disarm()
		m.check()
	}
	m.must(m.checkpoint())
	m.reopen()
	m.check()
	m.close()
	checkFiles(t, f.Memory)
}

// TestFullDisk goes on reading, and works again when there is room.
func TestFullDisk(t *testing.T) {
	memory := fault.NewMemory(1)
	m := newModel(t, seeded(t), memory)
	m.runs(6)
	for range 20 {
		m.apply()
	}
	usage, err := memory.Usage()
	m.must(err)
	memory.SetCapacity(usage.Size - usage.Free + 8<<10)
	if err := m.checkpoint(); !errors.Is(err, unix.ENOSPC) || !object.Is(err, object.Unavailable) {
		t.Fatal(err)
	}
	if _, err := m.index.Merge(background); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	m.check()
	memory.SetCapacity(fault.DefaultCapacity)
	m.must(m.checkpoint())
	m.check()
	m.reopen()
	m.check()
	m.close()
	checkFiles(t, memory)
}

// TestWriteDuringMerge writes a checkpoint in the middle of a merge.
func TestWriteDuringMerge(t *testing.T) {
	m, f := failing(t, seeded(t))
	m.runs(5)
	f.arm(func(op fault.Op) error {
		if op.Kind == fault.OpSync {
			f.disarm()
			m.runs(2)
		}
		return nil
	})
	did, err := m.index.Merge(background)
	if m.must(err); !did || m.index.Stats().Runs != 3 {
		t.Fatalf("%v, %d runs", did, m.index.Stats().Runs)
	}
	m.check()
	m.reopen()
	m.check()
	m.close()
	checkFiles(t, f.Memory)
}

// TestSeekAfterFailure goes on with an iterator when the drive is back.
func TestSeekAfterFailure(t *testing.T) {
	m, f := failing(t, seeded(t))
	m.runs(3)
	it := m.index.Scan(nil, nil)
	defer m.close()
	defer it.Close()
	f.arm(fault.FailFrom(1, fault.OpRead, unix.EIO))
	for range 2 {
		if it.Next() || !object.Is(it.Err(), object.Unavailable) || !errors.Is(it.Err(), unix.EIO) {
			t.Fatal(it.Err())
		}
	}
	f.disarm()
	it.Seek(nil)
	n := 0
	for it.Next() {
		n++
	}
	if it.Err() != nil || n != len(m.want) {
		t.Fatalf("%d of %d keys: %v", n, len(m.want), it.Err())
	}
}

// TestPartialMerge merges small runs over a large one: their deletes must stay.
func TestPartialMerge(t *testing.T) {
	memory := fault.NewMemory(1)
	m := newModel(t, seeded(t), memory)
	set := func(key, value string) {
		m.batch.Set([]byte(key), []byte(value))
		m.want[key] = value
	}
	for i := range 6000 {
		set(fmt.Sprintf("large %05d", i), strings.Repeat("v", 1000))
	}
	m.index.Apply(&m.batch)
	m.must(m.checkpoint())
	for run := range 4 {
		m.batch.Reset()
		for i := range 100 {
			key := fmt.Sprintf("large %05d", i*50+run)
			m.batch.Delete([]byte(key))
			delete(m.want, key)
			set(fmt.Sprintf("small %05d", i*7+run), "value")
		}
		m.index.Apply(&m.batch)
		m.must(m.checkpoint())
	}
	did, err := m.index.Merge(background)
	if m.must(err); !did || m.index.Stats().Runs != 2 {
		t.Fatalf("%v, %d runs", did, m.index.Stats().Runs)
	}
	m.check()
	m.checkTidy(memory, 0)
	m.reopen()
	m.check()
	m.close()
}
