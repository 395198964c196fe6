package pack_test

import (
	"fmt"
	"testing"

	"penstock.dev/penstock/internal/pack"
)

// TestEveryBit flips every single bit of a small pack. No record may appear that
// was not written, none may be lost beside the one hit, and the damage must be
// told wherever it matters.
func TestEveryBit(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(put("plain", 1), []byte("some bytes"))
	l.append(with(put("md5", 2), func(r *pack.Record) { r.ETag = "0123456789abcdef0123456789abcdef" }), nil)
	l.sync()
	l.append(with(put("../long", 3), func(r *pack.Record) { r.Metadata = map[string]string{"k": "v"} }), []byte{0})
	l.append(remove("plain", 4), nil)
	l.append(with(put("large", 5), func(r *pack.Record) { r.Extents, r.Size = extents(2), 77 }), []byte("sums"))
	l.seal()
	data := contents(t, m, 1)
	l.checkWhole(t, open(t, data))
	end := l.records[len(l.records)-1].End()

	matters := make([]bool, end)
	for _, r := range l.records {
		for i := r.Offset; i < r.Offset+r.Head+r.Payload; i++ {
			matters[i] = true
		}
	}
	step := 1
	if testing.Short() {
		step = 11
	}
	for bit := 0; bit < len(data)*8; bit += step {
		at := int64(bit / 8)
		data[at] ^= 1 << (bit % 8)
		f := open(t, data)
		visited, res := l.scan(t, f, pack.ScanOptions{Floor: end, Payloads: true})
		good := l.checkReads(t, f)
		lost, damaged := 0, false
		if at < end {
			damaged = matters[at]
		}
		if damaged {
			lost = 1
		}
		told := false
		for _, s := range res.Damage {
			told = told || s.Offset <= at && at < s.Offset+s.Length
		}
		if good != len(l.records)-lost || len(visited) < good || damaged != (told && at >= l.records[0].Offset) {
			t.Fatalf("bit %d of byte %d: read %d, visited %v, damage %v", bit%8, at, good, visited, res.Damage)
		}
		data[at] ^= 1 << (bit % 8)
	}
}

// TestEveryCut cuts a sealed pack to every length.
func TestEveryCut(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range 4 {
		l.append(put(fmt.Sprint("k", i), uint64(i+1)), make([]byte, 300*i))
		l.sync()
	}
	l.seal()
	data := contents(t, m, 1)
	for n := range len(data) {
		now := data[:n]
		l.checkScan(t, data, now, 0)
		l.checkScan(t, data, now, l.records[3].End())
		l.checkReads(t, open(t, now))
	}
}
