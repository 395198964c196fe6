package store_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// once fails the first operation that match picks.
func once(err error, match func(op fault.Op) bool) fault.Hook {
	var mu sync.Mutex
	done := false
	return func(op fault.Op) error {
		if !match(op) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if done {
			return nil
		}
		done = true
		return err
	}
}

func always(err error, kinds fault.OpKind, part string) fault.Hook {
	return fault.FailMatching(func(op fault.Op) bool { return op.Kind&kinds != 0 && strings.Contains(op.Name, part) }, err)
}

// packsOf returns the packs of a drive in their order.
func packsOf(t *testing.T, fsys disk.FS) []string {
	t.Helper()
	return tree(t, fsys, "packs")
}

// TestOpenPackBeforeSealedOne leaves a pack without a directory before one that
// has it, and restarts twice: nothing may be written behind the end that the
// later pack's head tells of the earlier.
func TestOpenPackBeforeSealedOne(t *testing.T) {
	mem := fault.NewMemory(1)
	g := newGate()
	fs := fault.Inject(mem, g.Hook)
	s := still(t, small(fs))
	put(t, s, "first", bytesOf("first", 2000))
	first := packsOf(t, mem)[0]
	g.set(always(syscall.EIO, fault.OpWrite|fault.OpTruncate, first)) // it is given up
	_, err := s.Put(ctx, key("failed"), strings.NewReader("x"), object.PutOptions{})
	wantKind(t, "put", err, object.Unavailable)
	g.set(nil)
	put(t, s, "b0", bytesOf("b", 4000))
	last := 1
	g.set(always(syscall.EIO, fault.OpCreate, "packs/"))
	for ; ; last++ { // until the third cannot be made
		_, err := s.Put(ctx, key(fmt.Sprintf("b%d", last)), bytes.NewReader(bytesOf("b", 4000)), object.PutOptions{})
		if err != nil {
			wantKind(t, "put", err, object.Unavailable)
			break
		}
	}
	until(t, "the second pack has its directory", func() bool {
		f, err := mem.Open(packsOf(t, mem)[1])
		must(t, err)
		defer f.Close()
		data, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		must(t, err)
		return bytes.Contains(data, []byte("PSTKDIR1"))
	})
	mem = mem.KillProcess()
	s.Close() //nolint:errcheck // the process is dead
	s = still(t, small(mem))
	put(t, s, "after", bytesOf("after", 3000))
	mem = mem.KillProcess()
	s.Close() //nolint:errcheck // the process is dead
	for _, lose := range []bool{false, true} {
		if lose {
			erase(t, mem, "index")
		}
		s = still(t, small(mem))
		holds(t, s, "after", bytesOf("after", 3000))
		holds(t, s, "first", bytesOf("first", 2000))
		for i := range last {
			holds(t, s, fmt.Sprintf("b%d", i), bytesOf("b", 4000))
		}
		must(t, s.Close())
	}
}

// TestHugeMetadata is refused as Invalid without harm to the writers beside it,
// and leaves no pack behind.
func TestHugeMetadata(t *testing.T) {
	mem := fault.NewMemory(2)
	s, _ := start(t, quick(small(mem)))
	put(t, s, "x", []byte("x"))
	packs := len(packsOf(t, mem))
	huge := object.PutOptions{Metadata: map[string]string{"m": strings.Repeat("m", 2<<20)}}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 4 {
				k := key(fmt.Sprintf("k%d", i))
				if i%2 == 0 {
					if _, err := s.Put(ctx, k, strings.NewReader("x"), huge); !object.Is(err, object.Invalid) {
						t.Errorf("huge metadata: %v", err)
						return
					}
				} else if _, err := s.Put(ctx, k, strings.NewReader(fmt.Sprint(j)), object.PutOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(packsOf(t, mem)); n > packs+10 { // some were filled; each refusal would have cost one
		t.Errorf("%d packs became %d", packs, n)
	}
	for i := range 8 {
		if i%2 == 0 {
			missing(t, s, fmt.Sprintf("k%d", i))
		} else {
			holds(t, s, fmt.Sprintf("k%d", i), []byte("3"))
		}
	}
}

// TestWrongHint: a hint only helps to choose a place.
func TestWrongHint(t *testing.T) {
	o := small(fault.NewMemory(3))
	o.WriteMemory = 1 << 10 // less than one object needs
	s, _ := start(t, o)
	meta := map[string]string{"m": strings.Repeat("m", 20<<10)}
	for _, hint := range []int64{-1, -1 << 40, 1, 3999, 1 << 20} {
		for _, size := range []int{0, 100, 4 << 10, 4<<10 + 1, 100 << 10} {
			data := bytesOf("hint", size)
			_, err := s.Put(ctx, key("k"), bytes.NewReader(data), object.PutOptions{SizeHint: hint, Metadata: meta})
			if err != nil {
				t.Fatalf("hint %d, size %d: %v", hint, size, err)
			}
			holds(t, s, "k", data)
		}
	}
	_, err := s.Put(ctx, key("k"), strings.NewReader("x"), object.PutOptions{SizeHint: store.MaxObject + 1})
	wantKind(t, "an impossible hint", err, object.Invalid)
}

// TestGhostPack fails the sync of the directory after compaction has given a pack
// its name. The pack is on the disk, but the store was told that it failed; what
// is deleted afterwards must not come back from it.
func TestGhostPack(t *testing.T) {
	mem := fault.NewMemory(4)
	g := newGate()
	fs := fault.Inject(mem, g.Hook)
	s, stop := start(t, quick(small(fs)))
	var mu sync.Mutex
	renamed := 0
	writes := make(map[string]int)
	g.set(func(op fault.Op) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op.Kind == fault.OpWrite:
			writes[op.Name]++
		case op.Kind == fault.OpRename && strings.HasPrefix(op.Name, "packs/") && writes[op.Name] > 1: // else a new pack of the log
			renamed = 1
		case op.Kind == fault.OpSyncDir && op.Name == "packs" && renamed == 1:
			renamed = 2
			return syscall.EIO
		}
		return nil
	})
	for i := range 40 {
		put(t, s, fmt.Sprintf("keep%d", i), bytesOf("keep", 3000))
		put(t, s, fmt.Sprintf("waste%d", i%3), bytesOf("waste", 3000))
	}
	until(t, "compaction meets the fault", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return renamed == 2
	})
	g.set(nil)
	for i := range 40 {
		del(t, s, fmt.Sprintf("keep%d", i))
	}
	churn(t, s)
	tidy(t, s)
	stop()
	for _, lose := range []bool{false, true} {
		if lose {
			erase(t, mem, "index")
		}
		s, stop = start(t, quick(small(mem)))
		for i := range 40 {
			missing(t, s, fmt.Sprintf("keep%d", i))
		}
		scrubbed(t, s)
		stop()
	}
}

// TestPackCannotBeRemoved fails the removal of an emptied pack, and the sync
// behind it, a few times: compaction goes on.
func TestPackCannotBeRemoved(t *testing.T) {
	for _, kind := range []fault.OpKind{fault.OpRemove, fault.OpSyncDir} {
		t.Run(kind.String(), func(t *testing.T) {
			mem := fault.NewMemory(5)
			g := newGate()
			s, stop := start(t, quick(small(fault.Inject(mem, g.Hook))))
			put(t, s, "keep", []byte("keep"))
			var mu sync.Mutex
			left, armed := 3, false
			g.set(func(op fault.Op) error {
				mu.Lock()
				defer mu.Unlock()
				removes := op.Kind == fault.OpRemove && strings.HasPrefix(op.Name, "packs/")
				armed = armed || removes
				if armed && left > 0 && op.Kind == kind && (removes || op.Name == "packs") {
					left--
					return syscall.EIO
				}
				return nil
			})
			until(t, "the fault is met", func() bool {
				s.Put(ctx, key("waste"), bytes.NewReader(bytesOf("waste", 3000)), object.PutOptions{}) //nolint:errcheck // it may be met here
				mu.Lock()
				defer mu.Unlock()
				return left == 0
			})
			churn(t, s)
			tidy(t, s)
			if packs := packsOf(t, mem); len(packs) > 5 {
				t.Errorf("left: %v", packs)
			}
			holds(t, s, "keep", []byte("keep"))
			scrubbed(t, s)
			stop()
			s, _ = start(t, quick(small(mem)))
			holds(t, s, "keep", []byte("keep"))
			scrubbed(t, s)
		})
	}
}

// TestUnusablePack damages a sealed pack of which much is garbage so that it
// cannot be compacted: others still are.
func TestUnusablePack(t *testing.T) {
	for _, how := range []string{"truncated", "unreadable", "open and truncated", "open and damaged"} {
		t.Run(how, func(t *testing.T) { unusablePack(t, how) })
	}
}

func unusablePack(t *testing.T, how string) {
	mem := fault.NewMemory(6)
	s, stop := start(t, quick(small(mem)))
	put(t, s, "keep", bytesOf("keep", 1000))
	for i := range 30 {
		put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", 3000))
	}
	stop()
	packs := packsOf(t, mem)
	first, last := packs[0], packs[len(packs)-1]
	g := newGate()
	switch how {
	case "truncated":
		data := load(t, mem, first)
		save(t, mem, first, data[:len(data)-4096]) // its directory is lost
	case "open and truncated":
		save(t, mem, last, load(t, mem, last)[:2048])
	case "open and damaged":
		data := load(t, mem, last)
		clear(data[1024:2048])
		save(t, mem, last, data)
	}
	s, _ = start(t, quick(small(fault.Inject(mem, g.Hook))))
	if how == "unreadable" {
		g.set(always(syscall.EIO, fault.OpRead, first))
	}
	for i := range 30 {
		put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", 3000))
	}
	churn(t, s)
	until(t, "the other packs are few", func() bool { return len(packsOf(t, mem)) < 9 })
	g.set(nil)
	holds(t, s, "keep", bytesOf("keep", 1000))
}

// TestFailedOverwriteOfLargeObject fails the sync of the record that replaces a
// large object: the old one is whole after every kind of restart.
func TestFailedOverwriteOfLargeObject(t *testing.T) {
	for _, kind := range []fault.OpKind{fault.OpSync, fault.OpWrite, fault.OpSync | fault.OpTruncate | fault.OpOpen} {
		for seed := range uint64(10) {
			mem := fault.NewMemory(seed)
			g := newGate()
			s, err := store.Open(ctx, small(fault.Inject(mem, g.Hook)))
			must(t, err)
			put(t, s, "k", bytesOf("old", 100<<10))
			g.set(always(syscall.EIO, kind, "packs/"))
			_, err = s.Put(ctx, key("k"), bytes.NewReader(bytesOf("new", 100<<10)), object.PutOptions{})
			wantKind(t, "put", err, object.Unavailable)
			if seed%2 == 0 {
				mem = mem.Crash()
			} else {
				mem = mem.KillProcess()
			}
			s.Close() //nolint:errcheck // the process is dead
			s, stop, err := running(quick(small(mem)))
			must(t, err)
			got, err := get(s, "k")
			if err != nil || (!bytes.Equal(got, bytesOf("old", 100<<10)) && !bytes.Equal(got, bytesOf("new", 100<<10))) {
				t.Fatalf("%v, seed %d: %d bytes, %v", kind, seed, len(got), err)
			}
			scrubbed(t, s)
			must(t, stop())
		}
	}
}

// TestUncertainBlob fails the sync of a large object's record, and the cut behind
// it. The blob must stay as long as the record may come to light, and no longer.
func TestUncertainBlob(t *testing.T) {
	mem := fault.NewMemory(7)
	g := newGate()
	s, _ := start(t, quick(small(fault.Inject(mem, g.Hook))))
	put(t, s, "k", bytesOf("k", 100<<10))
	for i := range 5 {
		put(t, s, "small", []byte{byte(i)})
		g.set(always(syscall.EIO, fault.OpSync|fault.OpTruncate|fault.OpOpen|fault.OpCreate, "packs/"))
		_, err := s.Put(ctx, key("failed"), bytes.NewReader(bytesOf("failed", 100<<10)), object.PutOptions{})
		wantKind(t, "put", err, object.Unavailable)
		g.set(nil)
		allWell(t, s)
	}
	put(t, s, "small", []byte("last"))
	until(t, "only the blob that is needed is left", func() bool { return len(tree(t, mem, "blobs")) == 1 })
	holds(t, s, "k", bytesOf("k", 100<<10))
	scrubbed(t, s)
}

// TestBlobCountSurvivesFault fails a read of the index while the number of
// records over a blob is noted. Nobody may take the blob for garbage.
func TestBlobCountSurvivesFault(t *testing.T) {
	mem := fault.NewMemory(8)
	g := newGate()
	s, stop := start(t, quick(small(fault.Inject(mem, g.Hook))))
	large := bytesOf("large", 100<<10)
	copies := 0
	for round := 0; copies < 3; round++ {
		for i := range 40 { // so that the index has runs on the disk
			put(t, s, fmt.Sprintf("small%d", i), bytesOf("small", 100))
		}
		put(t, s, fmt.Sprintf("src%d", round), large)
		for i := range 200 {
			put(t, s, fmt.Sprintf("small%d", i), bytesOf("small", 100))
		}
		var durable atomic.Bool
		g.set(func(op fault.Op) error {
			if op.Kind == fault.OpSync && strings.HasPrefix(op.Name, "packs/") {
				durable.Store(true)
			}
			if durable.Load() && op.Kind == fault.OpRead && strings.HasPrefix(op.Name, "index/") {
				return syscall.EIO
			}
			return nil
		})
		dst := fmt.Sprintf("dst%d", round)
		_, err := s.Copy(ctx, key(dst), key(fmt.Sprintf("src%d", round)), object.PutOptions{})
		g.set(nil)
		allWell(t, s)
		if object.Is(err, object.Unavailable) {
			continue // a pack was being sealed, and the fault came too early
		}
		must(t, err)
		copies++
		del(t, s, fmt.Sprintf("src%d", round))
		scrubbed(t, s)
		holds(t, s, dst, large)
	}
	stop()
	for _, lose := range []bool{false, true} {
		if lose {
			erase(t, mem, "index")
		}
		s, stop = start(t, quick(small(mem)))
		scrubbed(t, s)
		for e, err := range s.List(ctx, "bkt", object.ListOptions{Prefix: "dst"}) {
			must(t, err)
			holds(t, s, e.Info.Name.Key, large)
		}
		stop()
	}
}
