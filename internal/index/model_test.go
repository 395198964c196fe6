package index_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/index"
)

const dir = "disk/index"

var background = context.Background()

var seedFlag = flag.Uint64("index.seed", 0, "repeat a test with the seed it printed")

// seeded returns a random source whose seed a failing test prints.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test -run '^%s$' -index.seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func open(t testing.TB, fsys disk.FS) *index.Index {
	t.Helper()
	x, err := index.Open(fsys, dir, index.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// model is an index and what it must hold.
type model struct {
	t      testing.TB
	random *rand.Rand
	fsys   disk.FS
	index  *index.Index
	want   map[string]string
	states map[string]map[string]string // what a checkpoint with that state must hold
	last   string                       // the last state that was written for sure
	batch  index.Batch
	count  int
}

func newModel(t testing.TB, random *rand.Rand, fsys disk.FS) *model {
	m := &model{t: t, random: random, fsys: fsys, want: map[string]string{}, states: map[string]map[string]string{"": {}}}
	m.index = open(t, fsys)
	if m.index.State() != nil {
		t.Fatalf("an empty directory has state %q", m.index.State())
	}
	return m
}

// key returns one of not too many keys, so that they meet again; some are long,
// some prefixes of others, one is empty.
func (m *model) key() string {
	r := m.random
	switch r.IntN(20) {
	case 0:
		return strings.Repeat("k", r.IntN(1200))
	case 1:
		return ""
	case 2:
		return string([]byte{byte(r.IntN(256))})
	case 3:
		return fmt.Sprintf("b%c%c", r.IntN(4), r.IntN(256))
	}
	class := r.IntN(20)
	return fmt.Sprintf("oimages\x00train/n%04d/n%04d_%d.JPEG\x00\x01", class, class, r.IntN(100))
}

func (m *model) value() string {
	m.count++
	switch m.random.IntN(40) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("v", m.random.IntN(1<<m.random.IntN(17)))
	}
	return fmt.Sprintf("value %d %d", m.count, m.random.Uint64())
}

// apply makes some random changes.
func (m *model) apply() {
	m.batch.Reset()
	n := 1 + m.random.IntN(100)
	for range n {
		key := m.key()
		if m.random.IntN(4) == 0 {
			m.batch.Delete([]byte(key))
			delete(m.want, key)
			continue
		}
		value := m.value()
		m.batch.Set([]byte(key), []byte(value))
		m.want[key] = value
	}
	if m.batch.Len() != n {
		m.t.Fatalf("a batch of %d has %d changes", n, m.batch.Len())
	}
	m.index.Apply(&m.batch)
}

// freeze remembers what the checkpoint must hold.
func (m *model) freeze() (*index.Frozen, string) {
	m.count++
	state := fmt.Sprintf("state %d", m.count)
	m.states[state] = maps.Clone(m.want)
	return m.index.Freeze([]byte(state)), state
}

func (m *model) checkpoint() error {
	f, state := m.freeze()
	if err := f.Write(background); err != nil {
		return err
	}
	m.last = state
	return nil
}

// reopen closes the index and goes on with what the last checkpoint held.
func (m *model) reopen() {
	m.t.Helper()
	m.close()
	m.index = open(m.t, m.fsys)
	if string(m.index.State()) != m.last {
		m.t.Fatalf("opened with state %q, the last one written was %q", m.index.State(), m.last)
	}
	m.want = maps.Clone(m.states[m.last])
}

func (m *model) close() {
	m.t.Helper()
	if err := m.index.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// check compares everything.
func (m *model) check() {
	m.t.Helper()
	checkScan(m.t, m.index, m.want, nil, nil)
	checkGet(m.t, m.index, m.want)
	for range 5 {
		m.checkGetRandom()
	}
}

func (m *model) checkGetRandom() {
	m.t.Helper()
	key := m.key()
	value, ok, err := m.index.Get([]byte(key), nil)
	if want, there := m.want[key]; err != nil || ok != there || string(value) != want {
		m.t.Fatalf("Get(%.40q) = %.40q, %v, %v; want %.40q, %v", key, value, ok, err, want, there)
	}
}

func checkGet(t testing.TB, x *index.Index, want map[string]string) {
	t.Helper()
	buf := make([]byte, 0, 64)
	for key, value := range want {
		got, ok, err := x.Get([]byte(key), buf)
		if !ok || err != nil || string(got) != value {
			t.Fatalf("Get(%.40q) = %.40q, %v, %v; want %.40q", key, got, ok, err, value)
		}
	}
}

func checkScan(t testing.TB, x *index.Index, want map[string]string, start, end []byte) {
	t.Helper()
	it := x.Scan(start, end)
	defer it.Close()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if key < string(start) || end != nil && key >= string(end) {
			continue
		}
		if !it.Next() {
			t.Fatalf("the scan ends before %.40q: %v", key, it.Err())
		}
		if string(it.Key()) != key || string(it.Value()) != want[key] {
			t.Fatalf("the scan gives %.40q = %.40q; want %.40q = %.40q", it.Key(), it.Value(), key, want[key])
		}
	}
	if it.Next() {
		t.Fatalf("the scan goes on with %.40q", it.Key())
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
}

// checkSeeks walks about with one iterator.
func (m *model) checkSeeks() {
	m.t.Helper()
	keys := slices.Sorted(maps.Keys(m.want))
	var start, end []byte
	if m.random.IntN(2) == 0 {
		start = []byte(m.key())
	}
	if m.random.IntN(2) == 0 {
		end = []byte(m.key())
	}
	it := m.index.Scan(start, end)
	defer it.Close()
	at := slices.IndexFunc(keys, func(k string) bool { return k >= string(start) })
	for range 30 {
		if m.random.IntN(3) == 0 {
			target := m.key()
			it.Seek([]byte(target))
			at = slices.IndexFunc(keys, func(k string) bool { return k >= target && k >= string(start) })
		}
		there := at >= 0 && at < len(keys) && (end == nil || keys[at] < string(end))
		if it.Next() != there {
			m.t.Fatalf("Next says %v, want %v: %v", !there, there, it.Err())
		}
		if !there {
			continue
		}
		if string(it.Key()) != keys[at] || string(it.Value()) != m.want[keys[at]] {
			m.t.Fatalf("the iterator is at %.40q, want %.40q", it.Key(), keys[at])
		}
		at++
	}
}

// TestModel does everything at random and compares with a map.
func TestModel(t *testing.T) {
	random := seeded(t)
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		fsys := fault.NewMemory(random.Uint64())
		m := newModel(t, random, fsys)
		for range 20 + random.IntN(100) {
			m.step()
		}
		m.check()
		m.close()
		checkFiles(t, fsys)
	}
}

func (m *model) step() {
	m.t.Helper()
	switch m.random.IntN(12) {
	case 0, 1, 2, 3, 4:
		m.apply()
	case 5, 6:
		if err := m.checkpoint(); err != nil {
			m.t.Fatal(err)
		}
	case 7:
		if _, err := m.index.Merge(background); err != nil {
			m.t.Fatal(err)
		}
	case 8:
		m.overtake()
	case 9:
		m.checkSeeks()
	case 10:
		m.check()
		m.verify()
	case 11:
		m.reopen()
	}
}

// overtake writes two freezes in the wrong order, or only one of them.
func (m *model) overtake() {
	first, _ := m.freeze()
	m.apply()
	second, state := m.freeze()
	m.apply()
	order := []*index.Frozen{first, second}
	if m.random.IntN(2) == 0 {
		order = []*index.Frozen{second, first}
	}
	for _, f := range order {
		if err := f.Write(background); err != nil {
			m.t.Fatal(err)
		}
	}
	m.last = state
}

func (m *model) verify() {
	m.t.Helper()
	err := m.index.Verify(background, func(file string, offset int64, detail string) {
		m.t.Fatalf("%s at %d: %s", file, offset, detail)
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// checkFiles says whether a closed index left files that no checkpoint names.
func checkFiles(t testing.TB, fsys *fault.Memory) {
	t.Helper()
	names, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fsys.Files() != len(names)+2 { // two directories
		t.Fatalf("%d files and directories are there or held open, %d listed", fsys.Files(), len(names))
	}
	x := open(t, fsys)
	defer x.Close()
	runs := slices.DeleteFunc(names, func(name string) bool { return name == "checkpoint" })
	if len(runs) != x.Stats().Runs {
		t.Fatalf("files %q, but %d runs", names, x.Stats().Runs)
	}
}

func TestValueGoesIntoTheBuffer(t *testing.T) {
	x := open(t, fault.NewMemory(1))
	defer x.Close()
	var b index.Batch
	b.Set([]byte("a"), []byte("one"))
	x.Apply(&b)
	buf := make([]byte, 5, 100)
	for range 2 {
		value, ok, err := x.Get([]byte("a"), buf)
		if !ok || err != nil || string(value) != "one" || &value[0] != &buf[0] {
			t.Fatalf("%q %v %v", value, ok, err)
		}
		if err := x.Checkpoint(background, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(x.State(), nil) {
		t.Fatal("State is that of the checkpoint that was opened")
	}
}
