package index_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
)

// TestConcurrent lets readers, a writer, checkpoints, merges and Verify run at
// once. Key i holds a number that only grows; what a reader sees must never be
// older than what was applied before it began, and a scan must see every key.
func TestConcurrent(t *testing.T) {
	const keys, rounds = 300, 120
	x, err := index.Open(disk.NewDir(t.TempDir()), dir, index.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "oset\x00%06d\x00\x01", i) }
	var applied [keys]atomic.Uint64
	var apply sync.Mutex
	put := func(i int, n uint64, b *index.Batch) {
		apply.Lock()
		defer apply.Unlock()
		b.Reset()
		b.Set(key(i), binary.BigEndian.AppendUint64(nil, n))
		b.Set(fmt.Appendf(nil, "p%d", n%1000), nil)
		b.Delete(fmt.Appendf(nil, "p%d", (n+500)%1000))
		x.Apply(b)
		applied[i].Store(n)
	}
	var b index.Batch
	for i := range keys {
		put(i, 1, &b)
	}

	var working, reading sync.WaitGroup
	var done atomic.Bool
	working.Go(func() {
		var b index.Batch
		for n := range rounds {
			for i := range keys {
				put(i, uint64(n+2), &b)
			}
		}
	})
	freeze := func() *index.Frozen {
		apply.Lock()
		defer apply.Unlock()
		return x.Freeze([]byte("state"))
	}
	working.Go(func() {
		for range 30 {
			if err := freeze().Write(background); err != nil {
				t.Error(err)
			}
		}
	})
	loop := func(f func()) {
		reading.Go(func() {
			for !done.Load() {
				f()
			}
		})
	}
	loop(func() {
		if _, err := x.Merge(background); err != nil {
			t.Error(err)
		}
	})
	loop(func() {
		for i := range keys {
			before := applied[i].Load()
			value, ok, err := x.Get(key(i), nil)
			if err != nil || !ok || binary.BigEndian.Uint64(value) < before {
				t.Errorf("Get: %x %v %v, applied was %d", value, ok, err, before)
			}
		}
	})
	loop(func() {
		var before [keys]uint64
		for i := range before {
			before[i] = applied[i].Load()
		}
		it := x.Scan([]byte("o"), []byte("p"))
		defer it.Close()
		for i := range keys {
			if !it.Next() || string(it.Key()) != string(key(i)) || binary.BigEndian.Uint64(it.Value()) < before[i] {
				t.Errorf("Scan: key %d is missing or old: %v", i, it.Err())
				return
			}
			if i%50 == 49 {
				it.Seek(key(i - 40))
				if !it.Next() || string(it.Key()) != string(key(i-40)) {
					t.Error("Seek")
				}
				it.Seek(key(i + 1))
			}
		}
		if it.Next() {
			t.Errorf("Scan: %q is too much", it.Key())
		}
	})
	loop(func() {
		if err := x.Verify(background, func(file string, at int64, detail string) { t.Error(file, at, detail) }); err != nil {
			t.Error(err)
		}
		x.Stats()
		x.Full()
	})
	working.Wait()
	done.Store(true)
	reading.Wait()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCloseWaits closes while an iterator is still at work.
func TestCloseWaits(t *testing.T) {
	memory := fault.NewMemory(1)
	m := newModel(t, seeded(t), memory)
	m.runs(6)
	it := m.index.Scan(nil, nil)
	if !it.Next() {
		t.Fatal(it.Err())
	}
	for {
		did, err := m.index.Merge(background)
		m.must(err)
		if !did {
			break
		}
	}
	closed := make(chan error)
	go func() { closed <- m.index.Close() }()
	n := 1
	for it.Next() { // over runs that are merged away, of an index that is closing
		n++
	}
	if it.Err() != nil || n != len(m.want) {
		t.Fatalf("%d of %d keys: %v", n, len(m.want), it.Err())
	}
	select {
	case <-closed:
		t.Fatal("Close did not wait for the iterator")
	default:
	}
	it.Close()
	it.Close()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	checkFiles(t, memory)
	checkClosed(t, m.index)
}

// checkClosed calls everything on a closed index.
func checkClosed(t *testing.T, x *index.Index) {
	t.Helper()
	unavailable := func(err error) {
		t.Helper()
		if !object.Is(err, object.Unavailable) {
			t.Fatalf("%v of kind %v", err, object.KindOf(err))
		}
	}
	_, _, err := x.Get([]byte("k"), nil)
	unavailable(err)
	unavailable(x.Checkpoint(background, nil))
	_, err = x.Merge(background)
	unavailable(err)
	unavailable(x.Verify(background, nil))
	it := x.Scan(nil, nil)
	if it.Next() {
		t.Fatal("a closed index has keys")
	}
	it.Seek(nil)
	unavailable(it.Err())
	it.Close()
	var b index.Batch
	b.Set([]byte("k"), nil)
	x.Apply(&b)
	if x.Full() || x.Stats() != (index.Stats{}) {
		t.Fatal("a closed index has figures")
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOldIndexLeavesNewFiles keeps an index open over a Reset of its directory, as
// a store may while readers still use it: closing it must not harm the next one.
func TestOldIndexLeavesNewFiles(t *testing.T) {
	memory := fault.NewMemory(1)
	old := newModel(t, seeded(t), memory)
	old.runs(5)
	it := old.index.Scan(nil, nil)
	if did, err := old.index.Merge(background); !did || err != nil {
		t.Fatal(did, err)
	}
	if err := index.Reset(memory, dir); err != nil {
		t.Fatal(err)
	}
	next := newModel(t, old.random, memory)
	next.runs(20)
	it.Close()
	old.close()
	next.check()
	next.reopen()
	next.check()
	next.close()
}

func TestFull(t *testing.T) {
	x, err := index.Open(fault.NewMemory(1), dir, index.Options{MemBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var b index.Batch
	n := int64(0)
	for ; !x.Full(); n++ {
		b.Reset()
		b.Set(fmt.Appendf(nil, "key %d", n), make([]byte, 40))
		x.Apply(&b)
	}
	if s := x.Stats(); s.Entries != n || s.MemBytes < 1<<20 || s.MemBytes > 2<<20 || n*48 < 1<<18 || s.Runs != 0 || s.Bytes != 0 {
		t.Fatalf("%d keys, %+v", n, s)
	}
	f := x.Freeze(nil)
	if x.Full() {
		t.Fatal("full after Freeze")
	}
	if s := x.Stats(); s.Entries != n || s.MemBytes < 1<<20 {
		t.Fatalf("what waits to be written does not count: %+v", s)
	}
	if err := f.Write(background); err != nil {
		t.Fatal(err)
	}
	if s := x.Stats(); s.Entries != n || s.MemBytes > 1<<18 || s.Runs != 1 || s.Bytes < n*40 {
		t.Fatalf("%d keys, %+v", n, s)
	}
}

// TestFullAgain lets a memtable grow far beyond its size, as when the disk is full:
// the next one must not look full before it is.
func TestFullAgain(t *testing.T) {
	x, err := index.Open(fault.NewMemory(1), dir, index.Options{MemBytes: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var b index.Batch
	for i := range 50000 {
		b.Set(fmt.Appendf(nil, "key %d", i), nil)
	}
	x.Apply(&b)
	for range 3 {
		if err := x.Checkpoint(background, nil); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		b.Set([]byte("one more"), nil)
		x.Apply(&b)
		if x.Full() {
			t.Fatalf("full with one key: %+v", x.Stats())
		}
	}
}

// TestCrowded applies more than one memtable has addresses for.
func TestCrowded(t *testing.T) {
	m := newModel(t, seeded(t), fault.NewMemory(1))
	m.apply()
	for range 3 {
		index.Crowd(m.index)
		for before := index.Memtables(m.index); index.Memtables(m.index) == before; {
			m.batch.Reset()
			for range 5 {
				key, value := m.key(), strings.Repeat("v", 300<<10)
				m.batch.Set([]byte(key), []byte(value))
				m.want[key] = value
			}
			m.index.Apply(&m.batch)
		}
		m.check()
	}
	m.must(m.checkpoint())
	if n := index.Memtables(m.index); n != 1 {
		t.Fatalf("%d memtables after a checkpoint", n)
	}
	m.reopen()
	m.check()
	m.close()
}
