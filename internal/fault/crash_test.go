package fault_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
)

// outcomes returns what see says about the drive after a power cut, and how often,
// over many cuts of the state that prepare makes.
func outcomes(t *testing.T, prepare func(*fault.Memory), see func(*fault.Memory) string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seed := range uint64(400) {
		m := fault.NewMemory(seed)
		prepare(m)
		seen[see(m.Crash())]++
	}
	return seen
}

// state returns what is under a name, cut short.
func state(t *testing.T, name string) func(*fault.Memory) string {
	return func(m *fault.Memory) string {
		data, ok := read(t, m, name)
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%.8s/%d", strings.ReplaceAll(data, "\x00", "0"), len(data))
	}
}

func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	synced := func(m *fault.Memory, name, data string) disk.File {
		f := create(t, m, name, data)
		must(t, f.Sync())
		must(t, m.SyncDir("."))
		return f
	}
	tests := []struct {
		name    string
		prepare func(*fault.Memory)
		look    string
		want    []string // each must be seen, and nothing else
	}{
		{"synced", func(m *fault.Memory) { synced(m, "a", "new") }, "a", []string{"new/3"}},
		{
			"never synced", func(m *fault.Memory) { create(t, m, "a", "new") }, "a",
			[]string{"none", "/0", "000/3", "new/3"},
		},
		{
			"no SyncDir", func(m *fault.Memory) { must(t, create(t, m, "a", "new").Sync()) }, "a",
			[]string{"none", "new/3"},
		},
		{
			"no Sync", func(m *fault.Memory) { create(t, m, "a", "new"); must(t, m.SyncDir(".")) }, "a",
			[]string{"/0", "000/3", "new/3"},
		},
		{
			"overwrite", func(m *fault.Memory) { write(t, synced(m, "a", "old"), 0, "new") }, "a",
			[]string{"old/3", "new/3"},
		},
		{
			"append", func(m *fault.Memory) { write(t, synced(m, "a", "old"), 3, "new") }, "a",
			[]string{"old/3", "old000/6", "oldnew/6"},
		},
		{
			"truncate", func(m *fault.Memory) { must(t, synced(m, "a", "old").Truncate(1)) }, "a",
			[]string{"old/3", "o/1"},
		},
		{"truncate and write", func(m *fault.Memory) {
			f := synced(m, "a", "old")
			must(t, f.Truncate(0))
			write(t, f, 0, "renewed")
		}, "a", []string{"old/3", "/0", "0000000/7", "renewed/7"}},
		{"rename without Sync of the file", func(m *fault.Memory) {
			synced(m, "a", "old")
			create(t, m, "b", "new")
			must(t, m.Rename("b", "a"))
			must(t, m.SyncDir("."))
		}, "a", []string{"/0", "000/3", "new/3"}},
		{"rename without SyncDir", func(m *fault.Memory) {
			synced(m, "a", "old")
			must(t, create(t, m, "b", "new").Sync())
			must(t, m.Rename("b", "a"))
		}, "a", []string{"old/3", "new/3"}},
		{"rename, synced", func(m *fault.Memory) {
			synced(m, "a", "old")
			must(t, create(t, m, "b", "new").Sync())
			must(t, m.Rename("b", "a"))
			must(t, m.SyncDir("."))
		}, "a", []string{"new/3"}},
		{
			"remove without SyncDir", func(m *fault.Memory) { synced(m, "a", "old"); must(t, m.Remove("a")) }, "a",
			[]string{"none", "old/3"},
		},
		{"remove, synced", func(m *fault.Memory) {
			synced(m, "a", "old")
			must(t, m.Remove("a"))
			must(t, m.SyncDir("."))
		}, "a", []string{"none"}},
		{"parent not synced", func(m *fault.Memory) {
			must(t, m.MkdirAll("d/e"))
			must(t, create(t, m, "d/e/a", "new").Sync())
			must(t, m.SyncDir("d/e"))
			must(t, m.SyncDir("d"))
		}, "d/e/a", []string{"none", "new/3"}},
		{"all parents synced", func(m *fault.Memory) {
			must(t, m.MkdirAll("d/e"))
			must(t, create(t, m, "d/e/a", "new").Sync())
			must(t, m.SyncDir("d/e"))
			must(t, m.SyncDir("d"))
			must(t, m.SyncDir("."))
		}, "d/e/a", []string{"new/3"}},
		{
			"allocated", func(m *fault.Memory) { must(t, synced(m, "a", "old").Allocate(6)) }, "a",
			[]string{"old/3", "old000/6"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := outcomes(t, test.prepare, state(t, test.look))
			for _, want := range test.want {
				if got[want] == 0 {
					t.Errorf("never saw %q in %v", want, got)
				}
				delete(got, want)
			}
			if len(got) > 0 {
				t.Errorf("saw %v besides", got)
			}
		})
	}
}

func TestCrashTearsAtSectors(t *testing.T) {
	const size = 10 * 512
	see := func(m *fault.Memory) string {
		data, _ := read(t, m, "a")
		if len(data) != size {
			t.Fatalf("a synced length of %d became %d", size, len(data))
		}
		var b strings.Builder
		for at := 0; at < size; at += 512 {
			sector := data[at : at+512]
			if strings.Trim(sector, sector[:1]) != "" {
				t.Fatalf("sector at %d is torn: %q", at, sector)
			}
			b.WriteString(sector[:1])
		}
		return b.String()
	}
	got := outcomes(t, func(m *fault.Memory) {
		f := create(t, m, "a", strings.Repeat("0", size))
		must(t, f.Sync())
		must(t, m.SyncDir("."))
		write(t, f, 0, strings.Repeat("1", size))
		write(t, f, 0, strings.Repeat("2", size/2))
	}, see)
	if len(got) < 50 {
		t.Errorf("only %d ways to tear: %v", len(got), got)
	}
	reordered := 0
	for sectors, n := range got {
		if strings.HasPrefix(sectors, "22222") && strings.HasSuffix(sectors, "00000") {
			reordered += n // the later write is there and the earlier is not
		}
	}
	if reordered == 0 {
		t.Error("no write overtook another")
	}
}

// A sector that reached the drive holds all that was written to it before.
func TestCrashKeepsSectorsCoherent(t *testing.T) {
	got := outcomes(t, func(m *fault.Memory) {
		f := create(t, m, "a", "....")
		must(t, f.Sync())
		must(t, m.SyncDir("."))
		write(t, f, 0, "1")
		write(t, f, 1, "2")
		write(t, f, 2, "3")
	}, state(t, "a"))
	for _, want := range []string{"..../4", "1.../4", "12../4", "123./4"} {
		if got[want] == 0 {
			t.Errorf("never saw %q in %v", want, got)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("saw %v besides", got)
	}
}

func TestRenameIsAtomic(t *testing.T) {
	both := func(m *fault.Memory) string { return state(t, "d/a")(m) + " " + state(t, "e/b")(m) }
	prepare := func(m *fault.Memory, sync ...string) {
		must(t, m.MkdirAll("d"))
		must(t, m.MkdirAll("e"))
		must(t, create(t, m, "d/a", "new").Sync())
		must(t, create(t, m, "e/b", "old").Sync())
		for _, dir := range []string{".", "d", "e"} {
			must(t, m.SyncDir(dir))
		}
		must(t, m.Rename("d/a", "e/b"))
		for _, dir := range sync {
			must(t, m.SyncDir(dir))
		}
	}
	got := outcomes(t, func(m *fault.Memory) { prepare(m) }, both)
	if len(got) != 2 || got["new/3 old/3"] == 0 || got["none new/3"] == 0 {
		t.Errorf("unsynced: %v", got)
	}
	for _, dir := range []string{"d", "e"} {
		got := outcomes(t, func(m *fault.Memory) { prepare(m, dir) }, both)
		if len(got) != 1 || got["none new/3"] == 0 {
			t.Errorf("%s synced: %v", dir, got)
		}
	}
}

// What is moved into a directory that is new, or out of one that is removed, is
// in one of the two places.
func TestMovedFileIsNeverNowhere(t *testing.T) {
	got := outcomes(t, func(m *fault.Memory) {
		must(t, create(t, m, "a", "new").Sync())
		must(t, m.SyncDir("."))
		must(t, m.MkdirAll("d"))
		must(t, m.Rename("a", "d/a"))
		must(t, m.Rename("d/a", "b"))
		must(t, m.Remove("d"))
	}, func(m *fault.Memory) string {
		return state(t, "a")(m) + " " + state(t, "d/a")(m) + " " + state(t, "b")(m)
	})
	if len(got) != 3 || got["none none none"] > 0 {
		t.Errorf("saw %v", got)
	}
}

func TestFailedSyncLosesAndLies(t *testing.T) {
	fsyncErr := errors.New("bad drive")
	got := outcomes(t, func(m *fault.Memory) {
		fsys := fault.Inject(fault.Inject(m, fault.FailNth(1, fault.OpSync, fsyncErr)), fault.FailNth(9, fault.AnyOp, fsyncErr))
		f := create(t, fsys, "a", "new")
		must(t, m.SyncDir("."))
		if err := f.Sync(); !errors.Is(err, fsyncErr) {
			t.Fatalf("sync: %v", err)
		}
		if data, _ := read(t, m, "a"); data != "new" {
			t.Fatalf("reads see %q", data)
		}
		must(t, f.Sync()) // the lie
		write(t, f, 4096, "more")
		must(t, f.Sync())
	}, state(t, "a"))
	if len(got) != 2 || got["00000000/4100"] == 0 || got["new00000/4100"] == 0 {
		t.Errorf("saw %v", got)
	}
}

func TestKillProcessKeepsWhatWasWritten(t *testing.T) {
	got := map[string]int{}
	for seed := range uint64(200) {
		m := fault.NewMemory(seed)
		f := create(t, m, "a", "new")
		guard, err := m.Lock("lock")
		must(t, err)
		after := m.KillProcess()
		if data, ok := read(t, after, "a"); !ok || data != "new" {
			t.Fatalf("after the kill: %q %v", data, ok)
		}
		if _, err := after.Lock("lock"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fault.ErrDead) {
			t.Fatalf("the dead wrote: %v", err)
		}
		guard.Close()
		got[state(t, "a")(after.Crash())]++
	}
	if got["new/3"] == 0 || got["none"] == 0 || got["/0"] == 0 {
		t.Errorf("a power cut after the kill gave %v", got)
	}
}

func TestImageLeavesTheDriveAlone(t *testing.T) {
	m := fault.NewMemory(1)
	f := create(t, m, "a", strings.Repeat("x", 10000))
	must(t, m.SyncDir("."))
	seen := map[string]bool{}
	for range 100 {
		image := m.Image()
		data, _ := read(t, image, "a")
		seen[data] = true
		g, err := image.OpenWrite("a")
		must(t, err)
		write(t, g, 5000, "scribble")
	}
	if len(seen) < 10 {
		t.Errorf("%d different images", len(seen))
	}
	must(t, f.Sync())
	if data, _ := read(t, m.Crash(), "a"); data != strings.Repeat("x", 10000) {
		t.Error("an image shares bytes with its drive")
	}
}

func TestDeadDriveAnswersErrDead(t *testing.T) {
	m := fault.NewMemory(1)
	f := create(t, m, "a", "x")
	m.Crash()
	_, create := m.Create("b")
	_, open := m.Open("a")
	_, list := m.ReadDir(".")
	_, usage := m.Usage()
	_, lock := m.Lock("l")
	_, read := f.ReadAt(make([]byte, 1), 0)
	_, write := f.WriteAt([]byte("x"), 0)
	_, size := f.Size()
	for i, err := range []error{
		create, open, list, usage, lock, read, write, size, f.Sync(), f.Truncate(0), f.Allocate(9), f.Close(),
		m.Rename("a", "b"), m.Remove("a"), m.MkdirAll("d"), m.SyncDir("."),
	} {
		if !errors.Is(err, fault.ErrDead) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestSameSeedSameCrash(t *testing.T) {
	var first []byte
	for i := range 5 {
		m := fault.NewMemory(42)
		for n := range 20 {
			create(t, m, fmt.Sprint(n), strings.Repeat(fmt.Sprint(n), 3000))
		}
		after := m.Crash()
		var all bytes.Buffer
		for n := range 20 {
			data, ok := read(t, after, fmt.Sprint(n))
			fmt.Fprintln(&all, ok, data)
		}
		if i == 0 {
			first = all.Bytes()
		} else if !bytes.Equal(first, all.Bytes()) {
			t.Fatal("two runs differ")
		}
	}
}
