package pack_test

import (
	"fmt"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// checkAfterCut scans what a power cut left: a prefix of the log that holds all
// that was synced. It returns how many records there are and where they end.
func (l *log) checkAfterCut(t testing.TB, fsys disk.FS, synced int64) (n int, end int64) {
	t.Helper()
	f, err := pack.Open(fsys, 1, secret)
	must(t, err)
	defer f.Close()
	visited, res := l.scan(t, f, pack.ScanOptions{})
	for i, v := range visited {
		if i != v {
			t.Fatalf("visited %v", visited)
		}
	}
	if len(res.Damage) > 0 || res.End < synced {
		t.Fatalf("%+v, synced to %d", res, synced)
	}
	for _, i := range visited {
		if _, _, err := f.Read(l.records[i].Location, nil); err != nil {
			t.Fatal(err)
		}
	}
	return len(visited), res.End
}

// TestPowerCuts writes a log in many lives: each ends with a cut of the power,
// and the next goes on where the log was found to end.
func TestPowerCuts(t *testing.T) {
	rnd := random(t)
	for range rounds(t, 150) {
		m := newMemory(t, rnd.Uint64())
		l := newLog(t, m, options(1))
		counter := uint64(0)
		for range 6 {
			for range rnd.IntN(12) {
				batch := make([]*pack.Draft, 1+rnd.IntN(4))
				synced := l.w.Synced()
				for i := range batch {
					counter++
					size := rnd.IntN(3000)
					if rnd.IntN(10) == 0 {
						size = 80_000
					}
					payload := make([]byte, size)
					for j := range payload {
						payload[j] = byte(counter)
					}
					batch[i] = draft(put(fmt.Sprint("k", counter), counter), payload)
					l.records = append(l.records, written{batch[i], payload, synced})
				}
				must(t, l.w.Append(batch...))
				if rnd.IntN(3) == 0 {
					l.sync()
				}
				l.checkAfterCut(t, m.Image(), l.w.Synced())
			}
			m = m.Crash()
			n, end := l.checkAfterCut(t, m, l.w.Synced())
			l.records = l.records[:n]
			var err error
			if l.w, err = pack.Resume(m, options(1), end); err != nil {
				t.Fatal(err)
			}
			checkMembers(t, contents(t, m, 1), n+1)
			l.checkAfterCut(t, m.Image(), end)
		}
		l.seal()
		m = m.Crash()
		data := contents(t, m, 1)
		l.checkWhole(t, open(t, data))
		checkMembers(t, data, len(l.records)+2)
	}
}

// TestPowerCutAtEveryStep cuts the power in place of each operation that makes,
// fills and seals a pack of moved records: it appears as a whole or not at all.
func TestPowerCutAtEveryStep(t *testing.T) {
	for n := int64(1); ; n++ {
		for seed := range uint64(40) {
			m := newMemory(t, seed)
			hook, left := fault.PowerCut(m, n, fault.Mutations)
			o := options(1)
			o.Moved = true
			l := &log{t: t}
			err := l.fill(fault.Inject(m, hook), o)
			cut := left()
			if cut == nil {
				must(t, err)
				l.checkWhole(t, open(t, contents(t, m.Crash(), 1))) // the name is durable too
				if n < 8 {
					t.Fatalf("only %d steps", n)
				}
				if seed > 20 {
					return
				}
				continue
			}
			if err == nil {
				t.Fatal("a dead drive went on")
			}
			m = cut
			names, err := m.ReadDir(pack.Dir)
			must(t, err)
			for _, name := range names {
				if pack.Leftover(name) {
					continue
				}
				f, err := pack.Open(m, 1, secret)
				must(t, err)
				l.checkWhole(t, f)
				if _, err := f.Directory(func(object.Name, pack.Stub) error { return nil }); err != nil {
					t.Fatal(err)
				}
				f.Close()
			}
		}
	}
}

// fill makes a sealed pack of some records, or stops at the first error.
func (l *log) fill(fsys disk.FS, o pack.Options) error {
	w, err := pack.Create(fsys, o)
	if err != nil {
		return err
	}
	l.w = w
	for i := range uint64(4) {
		payload := make([]byte, 30_000*i)
		d := draft(put(fmt.Sprint("k", i), i+1), payload)
		if err := w.Append(d); err != nil {
			w.Discard()
			return err
		}
		l.records = append(l.records, written{d, payload, w.Synced()})
		if i == 1 {
			if err := w.Sync(); err != nil {
				w.Discard()
				return err
			}
		}
	}
	return w.Seal()
}
