package pack_test

import (
	"bytes"
	"slices"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// expected says what a scan must find in the bytes of a pack that were data when
// it was written and are damaged now, by the letter of the format alone.
type expected struct {
	visited []int // records, by their numbers
	damaged []int // those of them and of the others before the end that are not whole
}

func (l *log) expect(data, now []byte, floor int64) (e expected) {
	whole := make([]bool, len(l.records))
	headed := make([]bool, len(l.records))
	vouched := floor
	at := func(b []byte, from, to int64) []byte {
		size := int64(len(b))
		return b[min(from, size):min(to, size)]
	}
	for i, r := range l.records {
		headed[i] = bytes.Equal(at(data, r.Offset, r.Offset+r.Head), at(now, r.Offset, r.Offset+r.Head))
		whole[i] = headed[i] && bytes.Equal(at(data, r.Offset, r.End()-r.Len()+r.Head+r.Payload), at(now, r.Offset, r.Offset+r.Head+r.Payload)) && r.End() <= int64(len(now))
		if headed[i] {
			vouched = max(vouched, r.synced)
		}
	}
	for i, r := range l.records {
		if !whole[i] {
			if r.Offset >= vouched {
				return e
			}
			e.damaged = append(e.damaged, i)
		}
		if headed[i] {
			e.visited = append(e.visited, i)
		}
	}
	return e
}

// checkScan scans a pack and compares what is found with what must be.
func (l *log) checkScan(t testing.TB, data, now []byte, floor int64) {
	t.Helper()
	want := l.expect(data, now, floor)
	for _, payloads := range []bool{false, true} {
		f := open(t, now)
		visited, res := l.scan(t, f, pack.ScanOptions{Floor: floor, Payloads: payloads})
		if !slices.Equal(visited, want.visited) {
			t.Fatalf("payloads %t: visited %v, not %v", payloads, visited, want.visited)
		}
		if !payloads {
			continue
		}
		for i, r := range l.records {
			covered := false
			for _, s := range res.Damage {
				covered = covered || s.Offset < r.End() && r.Offset < s.Offset+s.Length
			}
			if covered != slices.Contains(want.damaged, i) {
				t.Fatalf("record %d at %d: damage %v, want %v", i, r.Offset, res.Damage, want.damaged)
			}
		}
	}
}

// scan returns the numbers of the records visited. It fails the test if one was
// not written, or if the payload read for it is another.
func (l *log) scan(t testing.TB, f *pack.File, o pack.ScanOptions) (visited []int, res pack.ScanResult) {
	t.Helper()
	res, err := f.Scan(o, func(r *pack.Record, at pack.Location) error {
		i := slices.IndexFunc(l.records, func(w written) bool { return w.Location == at })
		if i < 0 || !same(r, &l.records[i].Record) {
			t.Fatalf("a record that was never written, at %+v: %+v", at, r)
		}
		visited = append(visited, i)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return visited, res
}

// checkReads reads every record, which must succeed with what was written or be
// Corrupt, and the directory, which must not lie.
func (l *log) checkReads(t testing.TB, f *pack.File) (good int) {
	t.Helper()
	for i, w := range l.records {
		r, payload, err := f.Read(w.Location, nil)
		switch {
		case err == nil && same(r, &w.Record) && bytes.Equal(payload, w.payload):
			good++
		case !object.Is(err, object.Corrupt):
			t.Fatalf("record %d: %+v, %v", i, r, err)
		}
		if r, err := f.Head(w.Location); err == nil && !same(r, &w.Record) || err != nil && !object.Is(err, object.Corrupt) {
			t.Fatalf("head %d: %+v, %v", i, r, err)
		}
	}
	n := 0
	_, err := f.Directory(func(name object.Name, s pack.Stub) error {
		if n == len(l.records) || name != l.records[n].Name || s != l.records[n].Stub() {
			t.Fatalf("entry %d of the directory: %v %+v", n, name, s)
		}
		n++
		return nil
	})
	if err == nil && n != len(l.records) || err != nil && !object.Is(err, object.Corrupt) && !object.Is(err, object.NotFound) {
		t.Fatalf("directory of %d entries: %v", n, err)
	}
	return good
}

// checkWhole expects an undamaged pack.
func (l *log) checkWhole(t testing.TB, f *pack.File) {
	t.Helper()
	visited, res := l.scan(t, f, pack.ScanOptions{Payloads: true})
	if len(visited) != len(l.records) || len(res.Damage) > 0 || !slices.IsSorted(visited) {
		t.Fatalf("visited %d of %d, damage %v", len(visited), len(l.records), res.Damage)
	}
	if good := l.checkReads(t, f); good != len(l.records) {
		t.Fatalf("read %d of %d", good, len(l.records))
	}
}
