package fault_test

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
)

func wantFree(t *testing.T, m *fault.Memory, pages int64) {
	t.Helper()
	usage, err := m.Usage()
	must(t, err)
	if usage.Free != pages*4096 {
		t.Fatalf("%d pages and %d bytes are free, want %d pages", usage.Free/4096, usage.Free%4096, pages)
	}
}

func TestCapacity(t *testing.T) {
	m := fault.NewMemory(1)
	m.SetCapacity(10 * 4096)
	wantFree(t, m, 10)
	f := create(t, m, "a", "x")
	wantFree(t, m, 9)
	write(t, f, 100, "y") // the same page
	wantFree(t, m, 9)
	write(t, f, 5*4096, "z") // a hole before it
	wantFree(t, m, 8)
	must(t, f.Truncate(9*4096)) // no data, no space
	wantFree(t, m, 8)
	must(t, f.Allocate(4*4096)) // one of the four is there
	wantFree(t, m, 5)
	write(t, f, 4096, "reserved")
	wantFree(t, m, 5)
	must(t, f.Allocate(4*4096))
	wantFree(t, m, 5)
	must(t, f.Sync())
	wantFree(t, m, 5)

	g, err := m.Create("b")
	must(t, err)
	if err := g.Allocate(5*4096 + 1); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("allocate: %v", err)
	}
	if size, _ := g.Size(); size != 0 {
		t.Fatalf("a failed Allocate left a length of %d", size)
	}
	wantFree(t, m, 5)
	n, err := g.WriteAt(make([]byte, 8*4096), 10)
	if !errors.Is(err, unix.ENOSPC) || n != 5*4096-10 {
		t.Fatalf("write: %d, %v", n, err)
	}
	if size, _ := g.Size(); size != 5*4096 {
		t.Fatalf("length after a short write: %d", size)
	}
	wantFree(t, m, 0)
	write(t, f, 0, "what is reserved is there for us")
	if n, err := f.WriteAt([]byte("x"), 4*4096); n != 0 || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("write to a hole: %d, %v", n, err)
	}

	must(t, f.Truncate(4096+1))
	wantFree(t, m, 3) // two of the reserved and the last
	must(t, m.Remove("b"))
	wantFree(t, m, 3) // it is open
	must(t, g.Close())
	wantFree(t, m, 8)
	must(t, m.Rename("a", "c"))
	must(t, f.Close())
	must(t, m.Remove("c"))
	wantFree(t, m, 10)
	if m.Files() != 0 {
		t.Errorf("%d files left", m.Files())
	}
}

func TestReplacedFileGivesSpaceBack(t *testing.T) {
	m := fault.NewMemory(1)
	m.SetCapacity(4 * 4096)
	must(t, create(t, m, "a", "old").Close())
	must(t, create(t, m, "b", "new").Close())
	wantFree(t, m, 2)
	must(t, m.Rename("b", "a"))
	wantFree(t, m, 3)
}

func TestSpaceAfterACrash(t *testing.T) {
	for seed := range uint64(100) {
		m := fault.NewMemory(seed)
		m.SetCapacity(10 * 4096)
		f := create(t, m, "a", "x")
		must(t, f.Allocate(3*4096))
		must(t, f.Sync())
		must(t, m.SyncDir("."))
		write(t, f, 2*4096, "reserved")
		create(t, m, "b", "y")
		m = m.Crash()
		want := int64(7)
		if b, ok := read(t, m, "b"); ok && b != "" {
			usage, err := m.Usage()
			must(t, err)
			if usage.Free != 6*4096 && b != "\x00" { // a lost sector may need none
				t.Fatalf("seed %d: %d free with %q", seed, usage.Free, b)
			}
			continue
		}
		wantFree(t, m, want)
		g, err := m.OpenWrite("a")
		must(t, err)
		write(t, g, 4096, "still reserved")
		wantFree(t, m, want)
	}
}

func TestMaxFiles(t *testing.T) {
	m := fault.NewMemory(1)
	m.SetMaxFiles(3)
	must(t, m.MkdirAll("d"))
	f := create(t, m, "d/a", "")
	guard, err := m.Lock("lock")
	must(t, err)
	defer guard.Close()
	if _, err := m.Create("d/b"); !errors.Is(err, unix.ENOSPC) || !disk.IsFull(err) {
		t.Fatalf("create: %v", err)
	}
	if err := m.MkdirAll("e"); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("mkdir: %v", err)
	}
	must(t, m.Remove("d/a"))
	if _, err := m.Create("d/b"); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("create while the removed file is open: %v", err)
	}
	must(t, f.Close())
	create(t, m, "d/b", "")
}

func TestReadOnly(t *testing.T) {
	m := fault.NewMemory(1)
	f := create(t, m, "a", "x")
	must(t, f.Sync())
	must(t, m.SyncDir("."))
	must(t, m.MkdirAll("d"))
	must(t, m.SyncDir("."))
	write(t, f, 1, "y")
	m.SetReadOnly(true)
	_, create := m.Create("b")
	_, open := m.OpenWrite("a")
	_, write := f.WriteAt([]byte("x"), 0)
	for i, err := range []error{
		create, open, write, f.Sync(), f.Truncate(0), f.Allocate(1),
		m.Rename("a", "b"), m.Remove("a"), m.MkdirAll("e"),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%d: %v", i, err)
		}
	}
	must(t, m.MkdirAll("d"))
	must(t, m.SyncDir("."))
	if data, _ := read(t, m, "a"); data != "xy" {
		t.Errorf("read %q", data)
	}
	m.SetReadOnly(false)
	must(t, f.Sync())
	if data, _ := read(t, m.Crash(), "a"); data != "xy" {
		t.Errorf("read %q after", data)
	}
}

func TestHugeAllocateCostsNothing(t *testing.T) {
	allocs := testing.AllocsPerRun(10, func() {
		m := fault.NewMemory(1)
		f := create(t, m, "a", "x")
		must(t, f.Allocate(1<<38))
		write(t, f, 1<<37, "far")
		must(t, f.Sync())
		must(t, m.SyncDir("."))
		m.Crash()
	})
	if allocs > 200 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestErrorsAreThoseOfFiles(t *testing.T) {
	m := fault.NewMemory(1)
	must(t, create(t, m, "a", "x").Close())
	must(t, m.MkdirAll("d/e"))
	f, err := m.Open("a")
	must(t, err)
	_, write := f.WriteAt([]byte("x"), 0)
	must(t, f.Close())
	_, open := m.Open("b")
	_, create := m.Create("a")
	_, under := m.Create("a/b")
	_, outside := m.Create("../a")
	_, dir := m.Open("d")
	guard, err := m.Lock("lock")
	must(t, err)
	_, lock := m.Lock("lock")
	must(t, guard.Close())
	for i, test := range []struct{ got, want error }{
		{write, unix.EBADF},
		{f.Close(), fs.ErrClosed},
		{open, fs.ErrNotExist},
		{create, fs.ErrExist},
		{under, unix.ENOTDIR},
		{outside, unix.EINVAL},
		{dir, unix.EISDIR},
		{m.Remove("d"), unix.ENOTEMPTY},
		{m.Remove("b"), fs.ErrNotExist},
		{m.Rename("b", "c"), fs.ErrNotExist},
		{m.SyncDir("b"), fs.ErrNotExist},
	} {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%d: %v, want %v", i, test.got, test.want)
		}
	}
	if lock == nil {
		t.Error("locked twice")
	}
	if again, err := m.Lock("lock"); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
}
