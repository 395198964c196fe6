package pack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// randomLog writes records of all kinds, synced in groups; the last group may
// not be.
func randomLog(t testing.TB, rnd *rand.Rand, n int) (l *log, data []byte) {
	t.Helper()
	m := newMemory(t, rnd.Uint64())
	l = newLog(t, m, options(1))
	samples := sampleRecords()
	for i := range n {
		r := samples[rnd.IntN(len(samples))]
		r.Version = object.Version{Map: 1, Counter: uint64(i + 1)}
		if len(r.Extents) > 100 {
			r.Extents = r.Extents[:100]
		}
		payload := make([]byte, rnd.IntN(3)*rnd.IntN(1500))
		if rnd.IntN(4) > 0 {
			for j := range payload {
				payload[j] = byte(rnd.Uint32())
			}
		}
		l.append(r, payload)
		if rnd.IntN(4) == 0 {
			l.sync()
		}
	}
	return l, contents(t, m, 1)
}

// spoil changes some bytes of [from, to): a bit, or a stretch of zeros, garbage
// or other parts of the pack.
func spoil(rnd *rand.Rand, data []byte, from, to int64) {
	if from >= to {
		return
	}
	at := from + rnd.Int64N(to-from)
	n := min(to-at, 1+rnd.Int64N(3000))
	if rnd.IntN(2) == 0 { // whole blocks, as drives lose them
		at = max(from, at/pack.Block*pack.Block)
		n = min(to-at, (n/pack.Block+1)*pack.Block)
	}
	piece := data[at : at+n]
	switch rnd.IntN(4) {
	case 0:
		piece[0] ^= 1 << rnd.IntN(8)
	case 1:
		clear(piece)
	case 2:
		for i := range piece {
			piece[i] = byte(rnd.Uint32())
		}
	case 3:
		copy(piece, data[rnd.Int64N(int64(len(data))):])
	}
}

// TestScanUnfinishedEnd: whatever becomes of the bytes behind the last sync, a
// scan finds the synced records and perhaps some of the next, in their order.
func TestScanUnfinishedEnd(t *testing.T) {
	rnd := random(t)
	for range rounds(t, 700) {
		l, data := randomLog(t, rnd, 1+rnd.IntN(30))
		synced := l.w.Synced()
		now := slices.Clone(data)
		for range rnd.IntN(4) {
			spoil(rnd, now, synced, int64(len(now)))
		}
		if rnd.IntN(3) == 0 {
			now = now[:synced+rnd.Int64N(int64(len(now))-synced+1)]
		}
		l.checkScan(t, data, now, 0)
		l.checkScan(t, data, now, synced)

		visited, res := l.scan(t, open(t, now), pack.ScanOptions{})
		for i, v := range visited {
			if i != v {
				t.Fatalf("visited %v", visited)
			}
		}
		if res.End < synced || len(res.Damage) > 0 {
			t.Fatalf("%+v, synced to %d", res, synced)
		}
	}
}

// TestScanDamage: damage below what was synced is told, and costs no record that
// is not damaged itself.
func TestScanDamage(t *testing.T) {
	rnd := random(t)
	for range rounds(t, 700) {
		l, data := randomLog(t, rnd, 1+rnd.IntN(30))
		synced := l.w.Synced()
		now := slices.Clone(data)
		for range 1 + rnd.IntN(3) {
			spoil(rnd, now, 0, synced)
		}
		if rnd.IntN(2) == 0 {
			spoil(rnd, now, synced, int64(len(now)))
		}
		if rnd.IntN(5) == 0 {
			now = now[:rnd.Int64N(int64(len(now)))]
		}
		l.checkScan(t, data, now, synced)
		l.checkScan(t, data, now, 0) // as far as the records that are left vouch
		l.checkReads(t, open(t, now))
	}
}

// TestScanLarge has records and holes larger than what a scan reads at a time.
func TestScanLarge(t *testing.T) {
	rnd := random(t)
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i, size := range []int{3 << 20, 10, 700 << 10, 400 << 10, 1<<20 - pack.Block, 1 << 20, 0, 5 << 20, 100} {
		r := put(fmt.Sprint("k", i), uint64(i+1))
		if i%2 == 1 {
			r.Extents = extents(10_000)
		}
		l.append(r, bytes.Repeat([]byte{byte(i + 1)}, size))
	}
	l.sync()
	l.append(put("last", 100), nil)
	data := contents(t, m, 1)
	for range rounds(t, 60) {
		now := slices.Clone(data)
		for range 1 + rnd.IntN(3) {
			r := l.records[rnd.IntN(len(l.records))]
			at := r.Offset
			switch rnd.IntN(3) {
			case 0:
				at += rnd.Int64N(r.Head)
			case 1:
				at += rnd.Int64N(r.Len())
			}
			now[at] ^= 0x10
		}
		l.checkScan(t, data, now, 0)
		l.checkScan(t, data, now, l.w.Synced())
	}
}

// TestDamagedPayloadKeepsName: a record of which only the payload is damaged is
// visited without a hint of the floor, as long as something behind vouches.
func TestDamagedPayloadKeepsName(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(put("first", 1), bytes.Repeat([]byte{1}, 2000))
	l.append(put("second", 2), bytes.Repeat([]byte{2}, 2000))
	l.sync()
	l.append(put("third", 3), nil)
	data := contents(t, m, 1)
	data[l.records[1].Offset+pack.Block+100] ^= 4
	f := open(t, data)
	visited, res := l.scan(t, f, pack.ScanOptions{})
	if !slices.Equal(visited, []int{0, 1, 2}) || len(res.Damage) != 1 || res.Damage[0] != (pack.Span{Offset: l.records[1].Offset, Length: l.records[1].Len()}) {
		t.Fatal(visited, res)
	}
	if _, _, err := f.Read(l.records[1].Location, nil); !object.Is(err, object.Corrupt) {
		t.Fatal(err)
	}
}

// TestSealedVouches: a directory vouches for every record before it, also for
// those that no Sync was asked for.
func TestSealedVouches(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range 5 {
		l.append(put(fmt.Sprint("k", i), uint64(i+1)), []byte("x"))
	}
	l.seal()
	data := contents(t, m, 1)
	clear(data[l.records[3].Offset:][:pack.Block])
	visited, res := l.scan(t, open(t, data), pack.ScanOptions{})
	if !slices.Equal(visited, []int{0, 1, 2, 4}) || len(res.Damage) != 1 {
		t.Fatal(visited, res)
	}
	n := 0
	_, err := open(t, data).Directory(func(object.Name, pack.Stub) error { n++; return nil })
	if err != nil || n != 5 {
		t.Fatal(n, err)
	}
}

// TestSwappedRecords: records of one length that changed places are damage.
func TestSwappedRecords(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range 6 {
		r := put(fmt.Sprint("k", i), uint64(i+1))
		if i > 2 {
			r.Metadata = map[string]string{"a": "b"}
		}
		l.append(r, bytes.Repeat([]byte{byte(i)}, 700))
	}
	l.sync()
	data := contents(t, m, 1)
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {3, 5}} {
		now := slices.Clone(data)
		a, b := l.records[pair[0]], l.records[pair[1]]
		copy(now[a.Offset:a.End()], data[b.Offset:])
		copy(now[b.Offset:b.End()], data[a.Offset:])
		l.checkScan(t, data, now, l.w.Synced())
		if good := l.checkReads(t, open(t, now)); good != 4 {
			t.Errorf("read %d of 4", good)
		}
	}
}

func rounds(t testing.TB, n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}
