package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// fill writes objects of a size until one is refused, and returns their number.
func fill(t *testing.T, s *store.Store, prefix string, size int) int {
	t.Helper()
	for n := 0; ; n++ {
		k := fmt.Sprintf("%s%d", prefix, n)
		_, err := s.Put(ctx, key(k), bytes.NewReader(bytesOf(k, size)), object.PutOptions{SizeHint: int64(size)})
		if err != nil {
			wantKind(t, "put on a full disk", err, object.Unavailable)
			if !disk.IsFull(err) {
				t.Fatalf("%v does not say that the disk is full", err)
			}
			return n
		}
	}
}

func allThere(t *testing.T, s *store.Store, prefix string, from, to, size int) {
	t.Helper()
	for i := from; i < to; i++ {
		k := fmt.Sprintf("%s%d", prefix, i)
		holds(t, s, k, bytesOf(k, size))
	}
}

// TestFull fills a disk, or its quota, or its inodes, with small and large
// objects. Everything acknowledged is there, deletes work, compaction gives space
// back, and writes go on by themselves, also after a restart on the full disk.
func TestFull(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 3000, 20000} {
		for _, limit := range []string{"capacity", "quota", "files"} {
			for _, restart := range []bool{false, true} {
				if limit == "files" && size < 20000 || limit == "quota" && restart {
					continue // packs are few and never run out of inodes; a restart does not change a quota
				}
				t.Run(fmt.Sprintf("%s/%d/restart=%v", limit, size, restart), func(t *testing.T) { fullDisk(t, limit, size, restart) })
			}
		}
	}
}

func fullDisk(t *testing.T, limit string, size int, restart bool) {
	const room = 4 << 20
	mem := fault.NewMemory(1)
	o := quick(small(mem))
	switch limit {
	case "capacity":
		mem.SetCapacity(room)
	case "quota":
		o.Disks[0].Quota = room
	case "files":
		mem.SetMaxFiles(400)
	}
	s, stop, err := running(o)
	must(t, err)
	n := fill(t, s, "k", size)
	t.Logf("%d objects of %d bytes", n, size)
	if limit != "files" && n*max(size, 1024) < room/6 {
		t.Errorf("only %d objects of %d bytes in %d", n, size, room)
	}
	allThere(t, s, "k", 0, n, size)
	if limit == "capacity" {
		// Somebody else takes the rest, down to the last page.
		mem.SetCapacity(room - free(t, mem))
	}
	if restart {
		mem = mem.KillProcess()
		stop() //nolint:errcheck // the process is dead
		o.Disks[0].FS = mem
		s, stop, err = running(o)
		must(t, err)
	}
	allThere(t, s, "k", 0, n, size)
	if limit == "capacity" {
		mem.SetCapacity(room)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%+v, last %v", s.Disks(), err)
		}
	}()
	for i := range n / 2 {
		k := fmt.Sprintf("k%d", i)
		until(t, "the delete is taken", func() bool {
			if err = s.Delete(ctx, key(k), object.Condition{}); err != nil && !disk.IsFull(err) {
				t.Fatalf("delete on a full disk: %v", err)
			}
			return err == nil
		})
	}
	allThere(t, s, "k", n/2, n, size)
	again := 0
	until(t, "writes go on", func() bool {
		again += fill(t, s, fmt.Sprintf("again%d-", again), size)
		return again >= n/5
	})
	allThere(t, s, "k", n/2, n, size)
	for i := range n / 2 {
		missing(t, s, fmt.Sprintf("k%d", i))
	}
	scrubbed(t, s)
	if err := stop(); err != nil && !disk.IsFull(err) { // the last checkpoint may not fit
		t.Fatal(err)
	}
	// What compaction was moving when it was stopped may be there twice.
	if used := take(t, mem, ".").size(""); limit == "quota" && used > room+o.PackSize {
		t.Errorf("%d bytes are used of a quota of %d", used, room)
	}
	mem.SetMaxFiles(0)
	mem.SetCapacity(fault.DefaultCapacity)
	s, _ = start(t, o)
	allThere(t, s, "k", n/2, n, size)
}

func free(t *testing.T, fsys disk.FS) int64 {
	t.Helper()
	u, err := fsys.Usage()
	must(t, err)
	return u.Free
}

// TestNothingLeft restarts on a drive without a byte or an inode to spare: what
// is there can be read, and deleting makes room.
func TestNothingLeft(t *testing.T) {
	for _, what := range []string{"bytes", "files"} {
		t.Run(what, func(t *testing.T) {
			mem := fault.NewMemory(1)
			s, stop, err := running(small(mem))
			must(t, err)
			for i := range 60 {
				put(t, s, fmt.Sprintf("k%d", i), bytesOf(fmt.Sprintf("k%d", i), 3000))
				put(t, s, fmt.Sprintf("large%d", i), bytesOf(fmt.Sprintf("large%d", i), 10000))
			}
			mem = mem.KillProcess()
			stop() //nolint:errcheck // the process is dead
			const size = 1 << 40
			mem.SetCapacity(size)
			if what == "bytes" {
				mem.SetCapacity(size - free(t, mem))
			} else {
				mem.SetMaxFiles(mem.Files())
			}
			s, end := start(t, quick(small(mem)))
			allThere(t, s, "k", 0, 60, 3000)
			allThere(t, s, "large", 0, 60, 10000)
			for i := range 30 {
				until(t, "the delete is taken", func() bool { return s.Delete(ctx, key(fmt.Sprintf("large%d", i)), object.Condition{}) == nil })
			}
			allThere(t, s, "k", 0, 60, 3000)
			allThere(t, s, "large", 30, 60, 10000)
			mem.SetCapacity(size)
			mem.SetMaxFiles(0)
			allWell(t, s)
			put(t, s, "k60", bytesOf("k60", 3000))
			end()
			s, _ = start(t, quick(small(mem)))
			allThere(t, s, "k", 0, 61, 3000)
			allThere(t, s, "large", 30, 60, 10000)
			scrubbed(t, s)
		})
	}
}

// TestReadOnly turns a drive read-only and back.
func TestReadOnly(t *testing.T) {
	mem := fault.NewMemory(1)
	s, _ := start(t, quick(small(mem)))
	m := newModel()
	m.steps(t, s, random(1, 31), 100)
	for range 3 {
		mem.SetReadOnly(true)
		_, err := s.Put(ctx, key("x"), strings.NewReader("x"), object.PutOptions{})
		wantKind(t, "put", err, object.Unavailable)
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%v does not say why", err)
		}
		m.steps(t, s, random(1, 32), 30)
		for name := range m.possible {
			if _, err := readNumber(s, name); err != nil {
				t.Fatalf("%s on a read-only drive: %v", name, err)
			}
		}
		mem.SetReadOnly(false)
		allWell(t, s)
		s.Delete(ctx, key("x"), object.Condition{}) //nolint:errcheck // it may be there
		m.steps(t, s, random(1, 33), 30)
		m.checkSettled(t, s)
	}
}

// TestDiskFullAndIndexUnreadable fails a read of the index while the disk has no
// room for the file that tries it out: it comes back all the same.
func TestDiskFullAndIndexUnreadable(t *testing.T) {
	mem := fault.NewMemory(1)
	g := newGate()
	s, _ := start(t, quick(small(fault.Inject(mem, g.Hook))))
	for i := range 400 {
		put(t, s, fmt.Sprintf("k%d", i), bytesOf(fmt.Sprintf("k%d", i), 100))
	}
	until(t, "there is an index on the disk", func() bool { return len(tree(t, mem, "index")) > 1 })
	mem.SetCapacity(fault.DefaultCapacity - free(t, mem))
	g.set(always(syscall.EIO, fault.OpRead, "index/"))
	until(t, "the fault is met", func() bool {
		for i := range 400 {
			if _, err := get(s, fmt.Sprintf("k%d", i)); object.Is(err, object.Unavailable) {
				return true
			}
		}
		return false
	})
	g.set(nil)
	until(t, "the disk is back", func() bool {
		_, err := get(s, "none")
		return object.Is(err, object.NotFound)
	})
	allThere(t, s, "k", 0, 400, 100)
	mem.SetCapacity(fault.DefaultCapacity)
	allWell(t, s)
}

// TestSpaceAmplification overwrites objects of 64 KiB at random and meters the
// files: never more than half of what is live beside it, except for the packs
// under way.
func TestSpaceAmplification(t *testing.T) {
	const objects, size = 400, 64 << 10
	mem := fault.NewMemory(1)
	o := quick(store.Options{Disks: []store.Disk{{FS: mem, Name: "disk"}}, PackSize: 1 << 20, CompactRate: 1 << 40})
	s, _ := start(t, o)
	r := random(1, 41)
	for i := range objects {
		put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", size))
	}
	var most int64
	for round := range 6 {
		for range objects / 2 {
			i := r.IntN(objects)
			put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", size))
			if round%2 == 0 && r.IntN(20) == 0 {
				del(t, s, fmt.Sprintf("k%d", i))
				put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", size))
			}
		}
		var used int64
		until(t, "disk use is below 1.5 times what is live", func() bool {
			u, err := mem.Usage()
			must(t, err)
			used = u.Size - u.Free
			return used < objects*size*3/2
		})
		most = max(most, used)
	}
	t.Logf("at most %.2f", float64(most)/(objects*size))
}
