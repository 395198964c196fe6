package index_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
)

// small returns the files of a small index with two runs, and what it holds.
func small(t *testing.T) (*fault.Memory, map[string]string) {
	t.Helper()
	memory := fault.NewMemory(1)
	x := open(t, memory)
	want := map[string]string{}
	var b index.Batch
	for run := range 2 {
		for i := range 40 {
			key, value := fmt.Sprintf("obucket\x00train/%04d", i*7+run), fmt.Sprint("value ", i, run)
			b.Set([]byte(key), []byte(value))
			want[key] = value
		}
		b.Delete([]byte("obucket\x00train/0007"))
		delete(want, "obucket\x00train/0007")
		x.Apply(&b)
		b.Reset()
		if err := x.Checkpoint(background, []byte("the state")); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return memory, want
}

func read(t *testing.T, m *fault.Memory, name string) []byte {
	t.Helper()
	f, err := m.Open(dir + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, m *fault.Memory, name string, b []byte) {
	t.Helper()
	f, err := m.OpenWrite(dir + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(0), f.Truncate(int64(len(b)))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, m *fault.Memory) []string {
	t.Helper()
	names, err := m.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func isDamage(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, index.ErrDamaged) || !object.Is(err, object.Corrupt) {
		t.Fatalf("%v of kind %v is not ErrDamaged", err, object.KindOf(err))
	}
}

// answers opens a damaged index and asks it everything: each answer must be right
// or ErrDamaged. It returns how many were errors; all of them if Open failed.
func answers(t *testing.T, m *fault.Memory, want map[string]string) (wrong int) {
	t.Helper()
	x, err := index.Open(m, dir, index.Options{})
	if err != nil {
		isDamage(t, err)
		return len(want) + 2
	}
	defer x.Close()
	if string(x.State()) != "the state" {
		t.Fatalf("state %q", x.State())
	}
	for key, value := range want {
		got, ok, err := x.Get([]byte(key), nil)
		if err != nil {
			isDamage(t, err)
			wrong++
		} else if !ok || string(got) != value {
			t.Fatalf("Get(%q) = %q, %v; want %q", key, got, ok, value)
		}
	}
	if _, ok, err := x.Get([]byte("obucket\x00train/0007"), nil); err != nil {
		isDamage(t, err)
		wrong++
	} else if ok {
		t.Fatal("a deleted key is back")
	}
	it := x.Scan(nil, nil)
	defer it.Close()
	keys := slices.Sorted(maps.Keys(want))
	for it.Next() {
		if len(keys) == 0 || string(it.Key()) != keys[0] || string(it.Value()) != want[keys[0]] {
			t.Fatalf("the scan gives %q = %q", it.Key(), it.Value())
		}
		keys = keys[1:]
	}
	if it.Err() != nil {
		isDamage(t, it.Err())
		wrong++
	} else if len(keys) > 0 {
		t.Fatalf("the scan ends before %q", keys[0])
	}
	found := 0
	if err := x.Verify(background, func(string, int64, string) { found++ }); err != nil {
		t.Fatal(err)
	}
	if wrong > 0 && found == 0 {
		t.Fatal("Verify finds nothing")
	}
	return wrong
}

// TestFlips flips every bit of every file, one at a time.
func TestFlips(t *testing.T) {
	memory, want := small(t)
	if n := answers(t, memory, want); n > 0 {
		t.Fatalf("%d errors in an index that is whole", n)
	}
	for _, name := range files(t, memory) {
		whole := read(t, memory, name)
		for i := range whole {
			for bit := range 8 {
				if testing.Short() && bit != i%8 {
					continue
				}
				broken := slices.Clone(whole)
				broken[i] ^= 1 << bit
				write(t, memory, name, broken)
				if answers(t, memory, want) == 0 {
					t.Fatalf("nobody noticed bit %d of byte %d of %s", bit, i, name)
				}
			}
		}
		write(t, memory, name, whole)
	}
	if n := answers(t, memory, want); n > 0 {
		t.Fatalf("%d errors at the end", n)
	}
}

// TestDamage does worse things to whole files.
func TestDamage(t *testing.T) {
	random := seeded(t)
	for name, harm := range map[string]func(t *testing.T, m *fault.Memory, runs []string){
		"missing run": func(t *testing.T, m *fault.Memory, runs []string) {
			if err := m.Remove(dir + "/" + runs[0]); err != nil {
				t.Fatal(err)
			}
		},
		"empty run":        func(t *testing.T, m *fault.Memory, runs []string) { write(t, m, runs[0], nil) },
		"empty checkpoint": func(t *testing.T, m *fault.Memory, _ []string) { write(t, m, "checkpoint", nil) },
		"swapped runs": func(t *testing.T, m *fault.Memory, runs []string) {
			a, b := read(t, m, runs[0]), read(t, m, runs[1])
			write(t, m, runs[0], b)
			write(t, m, runs[1], a)
		},
		"shortened run": func(t *testing.T, m *fault.Memory, runs []string) {
			b := read(t, m, runs[0])
			write(t, m, runs[0], b[:random.IntN(len(b))])
		},
		"longer run": func(t *testing.T, m *fault.Memory, runs []string) {
			write(t, m, runs[0], append(read(t, m, runs[0]), 0))
		},
		"zeroed run": func(t *testing.T, m *fault.Memory, runs []string) {
			write(t, m, runs[0], make([]byte, len(read(t, m, runs[0]))))
		},
		"shortened checkpoint": func(t *testing.T, m *fault.Memory, _ []string) {
			b := read(t, m, "checkpoint")
			write(t, m, "checkpoint", b[:random.IntN(len(b))])
		},
		"longer checkpoint": func(t *testing.T, m *fault.Memory, _ []string) {
			write(t, m, "checkpoint", append(read(t, m, "checkpoint"), 0))
		},
		"noise": func(t *testing.T, m *fault.Memory, runs []string) {
			b := read(t, m, runs[0])
			at := random.IntN(len(b) - 16)
			for i := range 16 {
				b[at+i] = byte(random.Uint32())
			}
			write(t, m, runs[0], b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory, want := small(t)
			runs := slices.DeleteFunc(files(t, memory), func(name string) bool { return name == "checkpoint" })
			harm(t, memory, runs)
			if answers(t, memory, want) == 0 {
				t.Fatal("nobody noticed")
			}
			left := len(files(t, memory))
			if _, err := index.Open(memory, dir, index.Options{}); err != nil && len(files(t, memory)) != left {
				t.Fatal("an Open that fails must remove nothing")
			}
			if err := index.Reset(memory, dir); err != nil {
				t.Fatal(err)
			}
			if names := files(t, memory); len(names) > 0 {
				t.Fatalf("Reset leaves %q", names)
			}
			x := open(t, memory)
			if x.State() != nil {
				t.Fatal("a state after Reset")
			}
			checkScan(t, x, nil, nil, nil)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestOldRun puts an older run in the place of one, alike in everything but the
// values and whole in itself: while the index is open, and before it is opened.
func TestOldRun(t *testing.T) {
	memory := fault.NewMemory(1)
	x := open(t, memory)
	runs := func() []string {
		return slices.DeleteFunc(files(t, memory), func(name string) bool { return !strings.HasSuffix(name, ".run") })
	}
	for round := range 2 {
		var b index.Batch
		for i := range 50 {
			b.Set(fmt.Appendf(nil, "key %04d", i), fmt.Appendf(nil, "value %d", round))
		}
		x.Apply(&b)
		if err := x.Checkpoint(background, nil); err != nil {
			t.Fatal(err)
		}
	}
	old := read(t, memory, runs()[0])
	if len(old) != len(read(t, memory, runs()[1])) {
		t.Fatal("the runs are not alike")
	}
	write(t, memory, runs()[1], old)
	_, _, err := x.Get([]byte("key 0001"), nil)
	isDamage(t, err)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = index.Open(memory, dir, index.Options{})
	isDamage(t, err)
}

// TestLeftovers removes what interrupted work has left, and nothing else.
func TestLeftovers(t *testing.T) {
	memory, want := small(t)
	for _, name := range []string{"00000000000000ff.run", "checkpoint.tmp", "notes.txt", "ff.run"} {
		f, err := memory.Create(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if n := answers(t, memory, want); n > 0 {
		t.Fatal(n)
	}
	names := files(t, memory)
	if len(names) != 5 || !slices.Contains(names, "notes.txt") || !slices.Contains(names, "ff.run") {
		t.Fatalf("%q", names)
	}
}

// TestUnreadable tells a drive that fails from an index that is damaged.
func TestUnreadable(t *testing.T) {
	memory, want := small(t)
	for n := int64(1); ; n++ {
		failed := false
		fsys := fault.Inject(memory, func(op fault.Op) error {
			if op.N != n {
				return nil
			}
			failed = true
			return errors.New("the drive is gone")
		})
		x, err := index.Open(fsys, dir, index.Options{})
		if err == nil {
			for key, value := range want {
				got, ok, gerr := x.Get([]byte(key), nil)
				if gerr == nil && (!ok || string(got) != value) {
					t.Fatalf("%q", got)
				}
				err = errors.Join(err, gerr)
			}
			x.Close()
		}
		if !failed {
			return
		}
		if err != nil && (object.Is(err, object.Corrupt) || errors.Is(err, index.ErrDamaged)) {
			t.Fatalf("operation %d: %v", n, err)
		}
	}
}

// TestFlippedReads gives wrong bytes now and then while everything goes on.
func TestFlippedReads(t *testing.T) {
	random := seeded(t)
	m, f := failing(t, random)
	m.runs(4)
	hook := func(op fault.Op) error {
		if op.Kind == fault.OpRead && rand.IntN(4) == 0 {
			return &fault.Flip{Offset: op.Offset + rand.Int64N(op.Length), Mask: 1 << rand.IntN(8)}
		}
		return nil
	}
	f.arm(hook)
	for key, value := range m.want {
		got, ok, err := m.index.Get([]byte(key), nil)
		if err != nil {
			isDamage(t, err)
		} else if !ok || string(got) != value {
			t.Fatalf("Get(%.40q) = %.40q, %v; want %.40q", key, got, ok, value)
		}
	}
	for range 20 {
		if did, err := m.index.Merge(background); err != nil {
			isDamage(t, err)
		} else if did {
			break
		}
	}
	f.disarm()
	m.check()
	m.verify()
	m.close()
}
