package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
)

func TestHookSeesEveryOperation(t *testing.T) {
	var seen []string
	fsys := fault.Inject(fault.NewMemory(1), func(op fault.Op) error {
		if op.N != int64(len(seen)+1) {
			t.Errorf("operation %d has number %d", len(seen)+1, op.N)
		}
		seen = append(seen, fmt.Sprint(op.Kind, " ", op.Name, " ", op.NewName, " ", op.Offset, " ", op.Length))
		return nil
	})
	must(t, fsys.MkdirAll("d"))
	f := create(t, fsys, "d/a", "abc")
	_, err := f.ReadAt(make([]byte, 2), 1)
	must(t, err)
	must(t, f.Truncate(2))
	must(t, f.Allocate(9))
	_, err = f.Size()
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
	must(t, fsys.Rename("d/a", "b"))
	must(t, fsys.SyncDir("d"))
	_, err = fsys.ReadDir(".")
	must(t, err)
	g, err := fsys.Open("b")
	must(t, err)
	must(t, g.Close())
	must(t, fsys.Remove("b"))
	_, err = fsys.Usage()
	must(t, err)
	guard, err := fsys.Lock("l")
	must(t, err)
	must(t, guard.Close())
	want := []string{
		"mkdir d  0 0", "create d/a  0 0", "write d/a  0 3", "read d/a  1 2", "truncate d/a  0 2", "allocate d/a  0 9",
		"size d/a  0 0", "sync d/a  0 0", "rename d/a b 0 0", "syncdir d  0 0", "readdir .  0 0", "open b  0 0",
		"remove b  0 0", "usage   0 0", "lock l  0 0",
	}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("saw\n%s", strings.Join(seen, "\n"))
	}
}

// Each operation in turn fails, and nothing of it is done.
func TestFailNthForAllN(t *testing.T) {
	run := func(fsys disk.FS) error {
		f, err := fsys.Create("a")
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return fsys.Rename("a", "b")
	}
	var counter fault.Counter
	must(t, run(fault.Inject(fault.NewMemory(1), counter.Hook)))
	if counter.Of(fault.AnyOp) != 4 || counter.Of(fault.OpSync|fault.OpWrite) != 2 {
		t.Fatalf("counted %d", counter.Of(fault.AnyOp))
	}
	want := []string{"", "a:", "a:x", "a:x"}
	for n := range counter.Of(fault.AnyOp) {
		m := fault.NewMemory(1)
		if err := run(fault.Inject(m, fault.FailNth(n+1, fault.AnyOp, unix.EIO))); !errors.Is(err, unix.EIO) {
			t.Errorf("operation %d: %v", n+1, err)
		}
		got := ""
		if data, ok := read(t, m, "a"); ok {
			got = "a:" + data
		}
		if got != want[n] {
			t.Errorf("operation %d failed and left %q, want %q", n+1, got, want[n])
		}
	}
}

func TestPowerCutForAllN(t *testing.T) {
	// A careful write of a new version of a file: whatever the moment of the cut,
	// the old or the new one is there, and the new one once it was acknowledged.
	const oldData, newData = "the old one", "the new one, longer"
	run := func(fsys disk.FS) error {
		f, err := fsys.Create("tmp")
		if err != nil {
			return err
		}
		if _, err := f.WriteAt([]byte(newData), 0); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := fsys.Rename("tmp", "a"); err != nil {
			return err
		}
		return fsys.SyncDir(".")
	}
	for n := int64(1); ; n++ {
		cut := false
		for seed := range uint64(20) {
			m := fault.NewMemory(seed)
			must(t, create(t, m, "a", oldData).Sync())
			must(t, m.SyncDir("."))
			hook, left := fault.PowerCut(m, n, fault.Mutations)
			err := run(fault.Inject(m, hook))
			after := left()
			if cut = after != nil; !cut {
				must(t, err)
				after = m.Crash()
			}
			data, ok := read(t, after, "a")
			if !ok || (data != oldData && data != newData) || (err == nil && data != newData) {
				t.Fatalf("cut at %d, seed %d: %q %v", n, seed, data, ok)
			}
		}
		if !cut {
			if n != 6 {
				t.Errorf("%d operations, want 5", n-1)
			}
			return
		}
	}
}

func TestShortWrite(t *testing.T) {
	m := fault.NewMemory(1)
	short := &fault.Short{N: 2, Err: unix.ENOSPC}
	fsys := fault.Inject(m, fault.FailMatching(func(op fault.Op) bool { return op.Name == "a" && op.Kind != fault.OpCreate }, short))
	f, err := fsys.Create("a")
	must(t, err)
	if n, err := f.WriteAt([]byte("abc"), 0); n != 2 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := f.WriteAt([]byte("d"), 2); n != 1 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if err := f.Truncate(0); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("truncate: %v", err)
	}
	if data, _ := read(t, m, "a"); data != "abd" {
		t.Errorf("left %q", data)
	}
}

func TestFlip(t *testing.T) {
	m := fault.NewMemory(1)
	must(t, create(t, m, "a", "abcd").Close())
	fsys := fault.Inject(m, func(fault.Op) error { return &fault.Flip{Offset: 2, Mask: 0x20} })
	if data, _ := read(t, fsys, "a"); data != "abCd" {
		t.Errorf("read %q", data)
	}
	f, err := fsys.Open("a")
	must(t, err)
	p := make([]byte, 2)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "ab" {
		t.Errorf("read %q: %v", p, err)
	}
	if data, _ := read(t, m, "a"); data != "abcd" {
		t.Errorf("the drive holds %q", data)
	}
}

func TestFailFromAndDelay(t *testing.T) {
	var delays fault.Counter
	fsys := fault.Inject(fault.NewMemory(1), fault.Chain(
		fault.Delay(10*time.Millisecond, fault.OpWrite),
		delays.Hook,
		fault.FailFrom(2, fault.OpWrite, unix.EIO),
	))
	start := time.Now()
	f := create(t, fsys, "a", "x")
	for range 2 {
		if _, err := f.WriteAt([]byte("y"), 0); !errors.Is(err, unix.EIO) {
			t.Error(err)
		}
	}
	if took := time.Since(start); took < 30*time.Millisecond || delays.Of(fault.OpWrite) != 3 {
		t.Errorf("%d writes took %v", delays.Of(fault.OpWrite), took)
	}
}

func TestOpenedOnlyWhereReadsAreFree(t *testing.T) {
	dir := disk.NewDir(t.TempDir())
	pass := func(fault.Op) error { return nil }
	for _, test := range []struct {
		fsys disk.FS
		want bool
	}{
		{dir, true},
		{fault.Inject(dir, pass), false},
		{fault.InjectOn(dir, fault.OpRead|fault.OpSync, pass), false},
		{fault.InjectOn(dir, fault.OpSync, pass), true},
		{fault.InjectOn(fault.Inject(dir, pass), fault.OpSync, pass), false},
		{fault.InjectOn(fault.NewMemory(1), fault.OpSync, pass), false},
	} {
		f := create(t, test.fsys, "a", "x")
		opened, ok := f.(disk.Opened)
		if ok != test.want || (ok && opened.OSFile() == nil) {
			t.Errorf("%T: %v", test.fsys, ok)
		}
		must(t, f.Close())
		must(t, test.fsys.Remove("a"))
	}
}

func TestKillAtAnOperation(t *testing.T) {
	m := fault.NewMemory(1)
	hook, left := fault.Kill(m, 2, fault.OpWrite)
	fsys := fault.Inject(m, hook)
	f := create(t, fsys, "a", "x")
	if left() != nil {
		t.Fatal("killed too early")
	}
	if _, err := f.WriteAt([]byte("y"), 0); !errors.Is(err, fault.ErrDead) {
		t.Fatalf("write: %v", err)
	}
	if data, _ := read(t, left(), "a"); data != "x" {
		t.Errorf("left %q", data)
	}
}
