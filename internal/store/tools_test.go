package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

var ctx = context.Background()

// runs calls test with different seeds: so many as the environment variable
// says, or a few, or the one of PENSTOCK_TEST_SEED.
func runs(t *testing.T, variable string, short int, test func(t *testing.T, seed uint64)) {
	t.Helper()
	count := short
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		count = n
	}
	first := rand.Uint64() % 1e9
	if n, err := strconv.ParseUint(os.Getenv("PENSTOCK_TEST_SEED"), 10, 64); err == nil {
		first, count = n, 1
	}
	for i := range uint64(count) {
		seed := first + i
		if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { test(t, seed) }) {
			t.Fatalf("PENSTOCK_TEST_SEED=%d repeats it", seed)
		}
	}
}

func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, what string, err error, kinds ...object.Kind) {
	t.Helper()
	if err == nil || !slices.Contains(kinds, object.KindOf(err)) {
		t.Fatalf("%s: %v, want %v", what, err, kinds)
	}
}

// until waits for something that background work brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting until %s", what)
		}
	}
}

// start opens a store with its background work and ends both with the test,
// unless stop was called before.
func start(t *testing.T, o store.Options) (s *store.Store, stop func()) {
	t.Helper()
	s, end, err := running(o)
	must(t, err)
	stopped := false
	stop = func() {
		t.Helper()
		if !stopped {
			stopped = true
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// still opens a store without background work: what it does follows from the
// calls alone.
func still(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(ctx, o)
	must(t, err)
	return s
}

func key(k string) object.Name { return object.Name{Bucket: "bkt", Key: k} }

func put(t *testing.T, s *store.Store, k string, data []byte) object.Info {
	t.Helper()
	info, err := s.Put(ctx, key(k), bytes.NewReader(data), object.PutOptions{SizeHint: int64(len(data))})
	if err != nil {
		t.Fatalf("put %s: %v", k, err)
	}
	return info
}

func del(t *testing.T, s *store.Store, k string) {
	t.Helper()
	if err := s.Delete(ctx, key(k), object.Condition{}); err != nil {
		t.Fatalf("delete %s: %v", k, err)
	}
}

func get(s *store.Store, k string) ([]byte, error) {
	r, err := s.Open(ctx, key(k), object.Range{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func holds(t *testing.T, s *store.Store, k string, want []byte) {
	t.Helper()
	got, err := get(s, k)
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes that are not the %d written", k, len(got), len(want))
	}
}

func missing(t *testing.T, s *store.Store, k string) {
	t.Helper()
	_, err := get(s, k)
	wantKind(t, "read of "+k, err, object.NotFound)
	_, err = s.Stat(ctx, key(k))
	wantKind(t, "stat of "+k, err, object.NotFound)
}

// names lists the keys of the bucket. An incomplete listing begins with a "?".
func names(t *testing.T, s *store.Store, o object.ListOptions) (keys []string) {
	t.Helper()
	for e, err := range s.List(ctx, "bkt", o) {
		switch {
		case err == object.ErrIncomplete:
			keys = append(keys, "?")
		case err != nil:
			t.Fatal(err)
		default:
			keys = append(keys, e.Mark())
		}
	}
	return keys
}

// bytesOf returns n bytes that depend on the label.
func bytesOf(label string, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32.32s", label))))
	r.Read(b) //nolint:errcheck // never fails
	return b
}

// tree returns the names of all files below a directory of a drive.
func tree(t *testing.T, fsys disk.FS, dir string) (files []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	slices.Sort(entries)
	for _, name := range entries {
		name = path.Join(dir, name)
		if _, err := fsys.ReadDir(name); err == nil {
			files = append(files, tree(t, fsys, name)...)
		} else {
			files = append(files, name)
		}
	}
	return files
}

func load(t *testing.T, fsys disk.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		t.Fatalf("%s: %v", name, err)
	}
	return data
}

// save replaces a file's content, whatever was there.
func save(t *testing.T, fsys disk.FS, name string, data []byte) {
	t.Helper()
	must(t, fsys.MkdirAll(path.Dir(name)))
	fsys.Remove(name) //nolint:errcheck // it need not be there
	f, err := fsys.Create(name)
	must(t, err)
	if len(data) > 0 {
		_, err = f.WriteAt(data, 0)
		must(t, err)
	}
	must(t, f.Sync())
	must(t, f.Close())
	must(t, fsys.SyncDir(path.Dir(name)))
}

// erase removes everything below a directory.
func erase(t *testing.T, fsys disk.FS, dir string) {
	t.Helper()
	for _, name := range tree(t, fsys, dir) {
		must(t, fsys.Remove(name))
	}
	must(t, fsys.SyncDir(dir))
}

// shot is a copy of files, by name.
type shot map[string][]byte

func take(t *testing.T, fsys disk.FS, dir string) shot {
	t.Helper()
	s := make(shot)
	for _, name := range tree(t, fsys, dir) {
		s[name] = load(t, fsys, name)
	}
	return s
}

// drive returns a new drive with these files.
func (s shot) drive(t *testing.T, seed uint64) *fault.Memory {
	t.Helper()
	m := fault.NewMemory(seed)
	for name, data := range s {
		save(t, m, name, data)
	}
	return m
}

func (s shot) size(under string) (sum int64) {
	for name, data := range s {
		if strings.HasPrefix(name, under) {
			sum += int64(len(data))
		}
	}
	return sum
}

// quick looks after disks all the time, so that nobody waits for it. With
// PENSTOCK_TEST_LOG set it tells what it does.
func quick(o store.Options) store.Options {
	o.MaintainEvery = 5 * time.Millisecond
	if os.Getenv("PENSTOCK_TEST_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return o
}

// gate is a hook that can be set and taken away while the drive is in use.
type gate struct{ hook chan fault.Hook }

func newGate() *gate {
	g := &gate{hook: make(chan fault.Hook, 1)}
	g.hook <- nil
	return g
}

func (g *gate) set(h fault.Hook) {
	<-g.hook
	g.hook <- h
}

func (g *gate) Hook(op fault.Op) error {
	h := <-g.hook
	g.hook <- h
	if h == nil {
		return nil
	}
	return h(op)
}
