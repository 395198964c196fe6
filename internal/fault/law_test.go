package fault_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
)

// reason returns the errno of an error, so that two drives can be compared.
func reason(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	}
	return err.Error()
}

// step does one random operation and says what came of it.
func step(random *rand.Rand, fsys disk.FS, open *[]disk.File) string {
	dirs := []string{".", "d", "d/e", "f"}
	name := dirs[random.IntN(len(dirs))] + "/" + string(rune('p'+random.IntN(4)))
	other := dirs[random.IntN(len(dirs))] + "/" + string(rune('p'+random.IntN(4)))
	at, data := random.Int64N(20000), bytes.Repeat([]byte{byte(random.IntN(255) + 1)}, 1+random.IntN(9000))
	act, which := random.IntN(16), random.IntN(1000)
	opened := func(f disk.File, err error) string {
		if err == nil {
			*open = append(*open, f)
		}
		return reason(err)
	}
	switch act {
	case 0:
		return "create " + opened(fsys.Create(name))
	case 1:
		return "open " + opened(fsys.Open(name))
	case 2:
		return "openwrite " + opened(fsys.OpenWrite(name))
	case 3:
		return "rename " + reason(fsys.Rename(name, other))
	case 4:
		return "remove " + reason(fsys.Remove(name))
	case 5:
		return "mkdir " + reason(fsys.MkdirAll(dirs[which%4]))
	case 6:
		names, err := fsys.ReadDir(dirs[which%4])
		slices.Sort(names)
		return fmt.Sprint("readdir ", names, reason(err))
	case 7:
		return "syncdir " + reason(fsys.SyncDir(dirs[which%4]))
	}
	if len(*open) == 0 {
		return "no file"
	}
	which %= len(*open)
	f := (*open)[which]
	switch act {
	case 8:
		*open = slices.Delete(*open, which, which+1)
		return "close " + reason(f.Close())
	case 9:
		return "sync " + reason(f.Sync())
	case 10:
		return "truncate " + reason(f.Truncate(at))
	case 11:
		return "allocate " + reason(f.Allocate(at))
	case 12:
		size, err := f.Size()
		return fmt.Sprint("size ", size, reason(err))
	case 13, 14:
		n, err := f.WriteAt(data, at)
		return fmt.Sprint("write ", n, reason(err))
	}
	p := make([]byte, len(data))
	n, err := f.ReadAt(p, at)
	return fmt.Sprint("read ", n, p[:n], reason(err))
}

// Without a crash a Memory behaves like a real directory.
func TestLikeARealDirectory(t *testing.T) {
	for seed := range uint64(20) {
		drives := []disk.FS{disk.NewDir(t.TempDir()), fault.NewMemory(seed), fault.Inject(fault.NewMemory(seed), func(fault.Op) error { return nil })}
		got := make([][]string, len(drives))
		for i, fsys := range drives {
			random := rand.New(rand.NewPCG(seed, 1))
			var open []disk.File
			for range 1000 {
				got[i] = append(got[i], step(random, fsys, &open))
			}
			for _, f := range open {
				must(t, f.Close())
			}
		}
		for i := range drives {
			for n := range got[i] {
				if got[i][n] != got[0][n] {
					t.Fatalf("seed %d, drive %d, operation %d: %.100q, the real one %.100q", seed, i, n, got[i][n], got[0][n])
				}
			}
		}
	}
}

// history is what a file held after each change since it was last synced; the
// first is what was synced.
type history [][]byte

// explains reports whether a power cut may have left data: a length the file had,
// or one inside a write that lengthened it, and each sector as it was at some
// moment.
func (h history) explains(data []byte) error {
	lengths := false
	for i, version := range h {
		between := i > 0 && len(data) > len(h[i-1]) && len(data) < len(version) && len(data)%512 == 0
		lengths = lengths || len(version) == len(data) || between
	}
	if !lengths {
		return fmt.Errorf("it never had a length of %d", len(data))
	}
	for at := 0; at < len(data); at += 512 {
		sector := data[at:min(at+512, len(data))]
		if !slices.ContainsFunc(h, func(version []byte) bool {
			was := make([]byte, len(sector))
			copy(was, version[min(at, len(version)):])
			return bytes.Equal(was, sector)
		}) {
			return fmt.Errorf("the sector at %d never was %.40q", at, sector)
		}
	}
	return nil
}

func TestCrashLaw(t *testing.T) {
	differ := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		m := fault.NewMemory(seed)
		f, err := m.Create("a")
		must(t, err)
		must(t, m.SyncDir("."))
		now, past := []byte{}, history{{}}
		for range 30 {
			at, data := random.Int64N(12000), bytes.Repeat([]byte{byte(random.IntN(255) + 1)}, 1+random.IntN(5000))
			switch random.IntN(6) {
			case 0:
				must(t, f.Truncate(at))
				now = append(now[:min(int(at), len(now)):min(int(at), len(now))], make([]byte, max(0, int(at)-len(now)))...)
			case 1:
				must(t, f.Allocate(at+1))
				now = append(slices.Clone(now), make([]byte, max(0, int(at)+1-len(now)))...)
			case 2:
				must(t, f.Sync())
				past = nil
			default:
				write(t, f, at, string(data))
				now = append(slices.Clone(now), make([]byte, max(0, int(at)+len(data)-len(now)))...)
				copy(now[at:], data)
			}
			past = append(past, now)
			for range 3 {
				left, ok := read(t, m.Image(), "a")
				if !ok {
					t.Fatalf("seed %d: the file is gone", seed)
				}
				if err := past.explains([]byte(left)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if left != string(now) {
					differ++
				}
			}
		}
	}
	if differ < 5000 {
		t.Errorf("only %d of 27000 cuts lost anything", differ)
	}
}

func TestConcurrentUseAndCrash(t *testing.T) {
	for seed := range uint64(10) {
		m := fault.NewMemory(seed)
		for _, dir := range []string{"d/e", "f"} {
			must(t, m.MkdirAll(dir))
		}
		var done sync.WaitGroup
		for i := range uint64(4) {
			done.Go(func() {
				random := rand.New(rand.NewPCG(seed, i))
				var open []disk.File
				for !strings.Contains(step(random, m, &open), fault.ErrDead.Error()) {
				}
			})
		}
		for range 5 {
			time.Sleep(time.Millisecond) // let them get on; any moment is good
			m.Image()
		}
		after := m.Crash()
		done.Wait()
		if _, err := after.ReadDir("."); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkCrash is a run as tests of the engine do it: some files, some synced,
// cut, found again.
func BenchmarkCrash(b *testing.B) {
	data := make([]byte, 64<<10)
	for seed := range b.N {
		m := fault.NewMemory(uint64(seed))
		f, _ := m.Create("pack")
		f.Allocate(256 << 20)
		m.SyncDir(".")
		for i := range int64(20) {
			f.WriteAt(data, i*int64(len(data)))
			if i%3 == 0 {
				f.Sync()
			}
		}
		after := m.Crash()
		g, _ := after.Open("pack")
		g.ReadAt(data, 0)
	}
}
