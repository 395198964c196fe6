package pack_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// TestConcurrentReads: one File serves many readers while the pack grows.
func TestConcurrentReads(t *testing.T) {
	d := newDisk(t)
	l := newLog(t, d, options(1))
	for i := range 50 {
		l.append(put(fmt.Sprint("k", i), uint64(i+1)), bytes.Repeat([]byte{byte(i)}, i*100))
	}
	l.sync()
	f, err := pack.Open(d, 1, secret)
	must(t, err)
	defer f.Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var buf []byte
			for i := range 400 {
				w := l.records[(i*7+g)%len(l.records)]
				r, payload, err := f.Read(w.Location, buf)
				if err != nil || !same(r, &w.Record) || !bytes.Equal(payload, w.payload) {
					t.Error(r, err)
					return
				}
				buf = payload
			}
			n := 0
			if _, err := f.Scan(pack.ScanOptions{}, func(*pack.Record, pack.Location) error { n++; return nil }); err != nil || n < 50 {
				t.Error(n, err)
			}
		})
	}
	for i := range 200 {
		must(t, l.w.Append(draft(put("more", uint64(100+i)), make([]byte, 300))))
	}
	wg.Wait()
	must(t, l.w.Discard())
}

// TestReadFails: a drive that cannot read makes neither damage nor an end.
func TestReadFails(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range 10 {
		l.append(put(fmt.Sprint("k", i), uint64(i+1)), make([]byte, 300_000))
	}
	l.seal()
	bad := l.records[7]
	on := false
	fsys := fault.InjectOn(m, fault.OpRead, fault.FailMatching(func(op fault.Op) bool {
		return on && op.Offset < bad.End() && bad.Offset < op.Offset+op.Length
	}, syscall.EIO))
	f, err := pack.Open(fsys, 1, secret)
	must(t, err)
	on = true
	n := 0
	_, scan := f.Scan(pack.ScanOptions{}, func(*pack.Record, pack.Location) error { n++; return nil })
	_, _, read := f.Read(bad.Location, nil)
	_, head := f.Head(bad.Location)
	for _, err := range []error{scan, read, head} {
		if !object.Is(err, object.Unavailable) || !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
	}
	if n >= 7 {
		t.Errorf("%d records before the one that cannot be read", n)
	}
	if _, _, err := f.Read(l.records[8].Location, nil); err != nil {
		t.Error(err)
	}
	if _, err := f.Directory(func(object.Name, pack.Stub) error { return nil }); err != nil {
		t.Error(err)
	}
	if _, err := pack.Open(fault.Inject(m, fault.FailNth(2, fault.AnyOp, syscall.EIO)), 1, secret); !object.Is(err, object.Unavailable) {
		t.Error(err)
	}

	// What the caller of Scan and Directory says ends them.
	stop := errors.New("enough")
	on = false
	if _, err := f.Scan(pack.ScanOptions{}, func(*pack.Record, pack.Location) error { return stop }); err != stop {
		t.Error(err)
	}
	if _, err := f.Directory(func(object.Name, pack.Stub) error { return stop }); err != stop {
		t.Error(err)
	}
}

// TestScanPart scans between a record and a limit, as a start does that has an
// index.
func TestScanPart(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range 10 {
		l.append(put(fmt.Sprint("k", i), uint64(i+1)), make([]byte, 100*i))
	}
	l.sync()
	f := open(t, contents(t, m, 1))
	for from := range 10 {
		for limit := from; limit < 10; limit++ {
			end := l.records[limit].Offset
			visited, res := l.scan(t, f, pack.ScanOptions{From: l.records[from].Offset, Limit: end, Floor: end})
			if len(visited) != limit-from || res.End != end || len(res.Damage) > 0 {
				t.Fatalf("from %d to %d: %v, %+v", from, limit, visited, res)
			}
			// A limit inside a record: it is not visited.
			if l.records[limit].Len() > pack.Block {
				visited, _ := l.scan(t, f, pack.ScanOptions{From: l.records[from].Offset, Limit: end + pack.Block})
				if len(visited) != limit-from {
					t.Fatalf("from %d into %d: %v", from, limit, visited)
				}
			}
		}
	}
}

// TestFloorAnywhere: a floor need not be where a record begins.
func TestFloorAnywhere(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range 4 {
		l.append(put(fmt.Sprint("k", i), uint64(i+1)), make([]byte, 2000))
	}
	l.sync()
	data := contents(t, m, 1)
	data[l.records[1].Offset] ^= 1
	for floor := l.records[1].Offset + 1; floor < l.records[2].Offset; floor += 99 {
		visited, res := l.scan(t, open(t, data), pack.ScanOptions{Floor: floor})
		if len(visited) != 1 && len(visited) != 3 || len(res.Damage) == 0 {
			t.Fatalf("floor %d: %v, %+v", floor, visited, res)
		}
	}
}
