package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
	"penstock.dev/penstock/internal/store"
)

// TestSimulate does to a store in this process, on a drive in memory, what the
// other tests do to a node, and more: it can hit between any two operations, lose
// what no real file system happens to lose, and fail single operations.
func TestSimulate(t *testing.T) {
	first := uint64(setting(t, "SEED", int(rand.Uint32())))
	for seed := first; seed < first+uint64(setting(t, "RUNS", 60)); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { simulate(t, seed) }) {
			t.Fatalf("PENSTOCK_CHAOS_SEED=%d PENSTOCK_CHAOS_RUNS=1 repeats it, as far as goroutines allow", seed)
		}
	}
}

// simulation is one drive in the course of many disasters.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	drive  *fault.Memory
	ledger *ledger
	crew   *crew
	told   []string // the disasters, for the report
}

func simulate(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	s := &simulation{t: t, random: random, drive: fault.NewMemory(seed), ledger: newLedger("chaos")}
	s.crew = newCrew(t, random, nil, s.ledger, 3, 12)
	for _, w := range s.crew.workers {
		w.size = simulatedSize
	}
	for range 5 {
		s.disaster()
		s.examine()
		if random.IntN(3) == 0 {
			// What was seen must stay, even if it was in the page cache only.
			s.tell("power cut after the check")
			s.drive = s.drive.Crash()
			s.examine()
		}
		if t.Failed() {
			t.Fatalf("after: %v", s.told)
		}
	}
}

func (s *simulation) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// disaster lets the crew work on a store until something happens to its drive.
func (s *simulation) disaster() {
	n := 1 + s.random.Int64N(500)
	var hook fault.Hook
	next := func() *fault.Memory { return nil }
	s.crew.stubborn = false
	switch s.random.IntN(7) {
	case 0, 1:
		s.tell("power cut at change %d", n)
		hook, next = fault.PowerCut(s.drive, n, fault.Mutations)
	case 2:
		s.tell("kill at change %d", n)
		hook, next = fault.Kill(s.drive, n, fault.Mutations)
	case 3:
		s.tell("operation %d fails", 4*n)
		hook, s.crew.stubborn = fault.FailNth(4*n, fault.AnyOp, unix.EIO), true
	case 4:
		s.tell("sync %d fails", n/8+1)
		hook, s.crew.stubborn = fault.FailNth(n/8+1, fault.OpSync|fault.OpSyncDir, unix.EIO), true
	case 5:
		s.tell("change %d finds the disk full", n)
		hook, s.crew.stubborn = fault.FailNth(n, fault.OpWrite|fault.OpAllocate|fault.OpCreate, &fault.Short{N: s.random.Int64N(600), Err: unix.ENOSPC}), true
	case 6:
		s.tell("the name of a compacted pack cannot be synced")
		hook, s.crew.stubborn = failAfterCompaction(), true
	}
	held, stop, err := openStore(fault.Inject(s.drive, hook), true)
	if err == nil {
		for _, w := range s.crew.workers {
			w.client = held
		}
		s.crew.run(s.t.Context(), 60)
		err = stop()
	}
	if after := next(); after != nil {
		s.drive = after
		return
	}
	s.tell("then the end (%v)", err)
	if s.random.IntN(2) == 0 {
		s.drive = s.drive.KillProcess()
	} else {
		s.drive = s.drive.Crash()
	}
}

// failAfterCompaction fails the first sync of the packs' directory after a new pack
// got its name there: random faults hardly ever hit it.
func failAfterCompaction() fault.Hook {
	var named, failed atomic.Bool
	return func(op fault.Op) error {
		switch {
		case op.Kind == fault.OpRename && path.Dir(op.NewName) == pack.Dir:
			named.Store(true)
		case op.Kind == fault.OpSyncDir && op.Name == pack.Dir && named.Load() && failed.CompareAndSwap(false, true):
			return unix.EIO
		}
		return nil
	}
}

// examine opens a store on the drive as it is now and compares it with the ledger.
func (s *simulation) examine() {
	held, stop, err := openStore(s.drive, s.random.IntN(2) == 0)
	if err != nil {
		s.t.Fatalf("after %v: %v", s.told, err)
	}
	check(s.t.Context(), s.t, held, s.ledger, s.ledger.keys())
	checkListing(s.t.Context(), s.t, held, s.ledger)
	s.scrub(held)
	if err := stop(); err != nil {
		s.t.Errorf("close: %v", err)
	}
	s.drive = s.drive.KillProcess()
}

// scrub wants everything in order: nothing but orphans the first time, which it
// removes, and nothing at all the second.
func (s *simulation) scrub(held *heldStore) {
	for i := range 2 {
		_, err := held.Scrub(s.t.Context(), store.ScrubOptions{}, func(f store.Finding) {
			if f.Kind != "orphan" || i > 0 {
				s.t.Errorf("scrub: %+v", f)
			}
		})
		if err != nil {
			s.t.Errorf("scrub: %v", err)
		}
	}
}

// heldStore gives a store the face of a client.
type heldStore struct{ *store.Store }

func (h *heldStore) Copy(ctx context.Context, dst, src penstock.Name, cond penstock.Condition) (penstock.Info, error) {
	return h.Store.Copy(ctx, dst, src, object.PutOptions{Condition: cond})
}

func (h *heldStore) PutBatch(ctx context.Context, bucket string, objects []penstock.Upload) error {
	failed := &penstock.PutBatchError{Failed: make(map[string]error)}
	for i, err := range h.PutMany(ctx, bucket, objects) {
		if err != nil {
			failed.Failed[objects[i].Key] = err
		}
	}
	if len(failed.Failed) > 0 {
		return failed
	}
	return nil
}

// openStore opens a store in which everything is small, with its background work
// if it is to run.
func openStore(fsys disk.FS, run bool) (*heldStore, func() error, error) {
	s, err := store.Open(context.Background(), store.Options{
		Disks:     []store.Disk{{FS: fsys, Name: "disk"}},
		InlineMax: 4 << 10, PackSize: 64 << 10, IndexMem: 16 << 10, HotPlaces: 64,
	})
	if err != nil {
		return nil, nil, err
	}
	if !run {
		return &heldStore{s}, s.Close, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	return &heldStore{s}, func() error {
		cancel()
		return errors.Join(<-done, s.Close())
	}, nil
}

func simulatedSize(random *rand.Rand) int64 {
	switch random.IntN(10) {
	case 0:
		return 0
	case 1, 2:
		return 4<<10 - 2 + random.Int64N(4)
	case 3:
		return 1 + random.Int64N(150<<10)
	}
	return 1 + random.Int64N(2000)
}
