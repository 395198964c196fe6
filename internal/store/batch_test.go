package store_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// taken is an item with its bytes read out.
type taken struct {
	ref  object.Ref
	data []byte
	err  error
}

// batchOf reads a batch, and makes sure of what holds for every one: one item for
// each reference, in order, with the right checksum.
func batchOf(t *testing.T, s *store.Store, refs []object.Ref) []taken {
	t.Helper()
	return takeAll(t, s.Batch(ctx, refs), refs)
}

func takeAll(t *testing.T, items iter.Seq2[object.Item, error], refs []object.Ref) []taken {
	t.Helper()
	var all []taken
	var held [][]byte // bytes of items that must still be there
	for item, err := range items {
		x := taken{ref: item.Ref, data: bytes.Clone(item.Bytes), err: err}
		switch {
		case err != nil:
		case item.Large != nil:
			x.data, x.err = io.ReadAll(item.Large)
		case crc32.ChecksumIEEE(item.Bytes) != item.CRC32:
			t.Errorf("%v: checksum", item.Ref)
		}
		held = append(held, item.Bytes)
		if i := len(all); i >= len(refs) || refs[i] != item.Ref {
			t.Fatalf("item %d is %v", i, item.Ref)
		}
		all = append(all, x)
		if item.Last {
			for i, b := range held {
				if x := &all[len(all)-len(held)+i]; len(b) > 0 && !bytes.Equal(b, x.data) {
					t.Errorf("%v: its memory was used again too early", x.ref)
				}
			}
			held = held[:0]
		}
	}
	if len(all) != len(refs) {
		t.Fatalf("%d items for %d references", len(all), len(refs))
	}
	return all
}

// TestBatch asks for random references, while others write, and compares with
// what single reads give.
func TestBatch(t *testing.T) {
	runs(t, "PENSTOCK_BATCHES", 4, func(t *testing.T, seed uint64) {
		r := random(seed, 111)
		s, _ := start(t, quick(small(fault.NewMemory(seed), fault.NewMemory(seed+1))))
		sizes := []int{0, 1, 100, 4095, 4096, 4097, 70 << 10, 3 << 20}
		for i := range 200 {
			put(t, s, fmt.Sprintf("fixed%d", i), bytesOf(fmt.Sprintf("fixed%d", i), sizes[i%7]))
		}
		put(t, s, "fixed200", bytesOf("fixed200", 3<<20)) // larger than a window
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { // so that packs are compacted meanwhile
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if _, err := s.Put(ctx, key(fmt.Sprintf("waste%d", i%5)), bytes.NewReader(make([]byte, 3000)), object.PutOptions{}); err != nil {
					t.Errorf("put: %v", err)
					return
				}
			}
		})
		defer wg.Wait()
		defer close(done)
		for range 30 {
			var refs []object.Ref
			for range 1 + r.IntN(300) {
				ref := object.Ref{Name: key(fmt.Sprintf("fixed%d", r.IntN(205)))}
				if r.IntN(3) == 0 {
					ref.Range = object.Range{Offset: r.Int64N(5000) - 100, Length: r.Int64N(5000)}
				}
				refs = append(refs, ref)
			}
			for _, x := range batchOf(t, s, refs) {
				want, err := readRange(s, x.ref.Name, x.ref.Range, false)
				if (err == nil) != (x.err == nil) || object.KindOf(err) != object.KindOf(x.err) {
					t.Fatalf("%v: %v, alone %v", x.ref, x.err, err)
				}
				if err == nil && !bytes.Equal(want, x.data) {
					t.Fatalf("%v: %d bytes differ from %d", x.ref, len(x.data), len(want))
				}
			}
		}
	})
}

// TestBatchNames has names that cannot be served: each is an error in its place.
func TestBatchNames(t *testing.T) {
	s, _ := start(t, small(fault.NewMemory(1)))
	put(t, s, "a", []byte("A"))
	odd := []string{"../up", "with\nnewline", strings.Repeat("long/", 200), "ünïcode", "trailing/"}
	for _, k := range odd {
		put(t, s, k, []byte(k))
	}
	refs := []object.Ref{{Name: key("a")}, {Name: key("")}, {Name: key("gone")}, {Name: object.Name{Bucket: "other", Key: "a"}}, {Name: key("a"), Range: object.Range{Offset: 1}}, {Name: key("a")}}
	for _, k := range odd {
		refs = append(refs, object.Ref{Name: key(k)})
	}
	items := batchOf(t, s, refs)
	for i, kind := range []object.Kind{1: object.Invalid, 2: object.NotFound, 3: object.NotFound, 4: object.Invalid} {
		if i > 0 {
			wantKind(t, fmt.Sprint(i), items[i].err, kind)
		}
	}
	for i, k := range odd {
		if x := items[6+i]; x.err != nil || string(x.data) != k {
			t.Errorf("%q: %q, %v", k, x.data, x.err)
		}
	}
	if string(items[0].data) != "A" || string(items[5].data) != "A" {
		t.Errorf("%q and %q", items[0].data, items[5].data)
	}
}

// TestBatchDamage damages one record in the middle of its neighbours, and lets
// reads fail: the others are served.
func TestBatchDamage(t *testing.T) {
	mem := fault.NewMemory(1)
	s, stop := start(t, small(mem))
	var refs []object.Ref
	for i := range 20 {
		put(t, s, fmt.Sprintf("k%02d", i), bytesOf(fmt.Sprint(i), 1000))
		refs = append(refs, object.Ref{Name: key(fmt.Sprintf("k%02d", i))})
	}
	stop()
	first := packsOf(t, mem)[0]
	data := load(t, mem, first)
	at := bytes.Index(data, bytesOf("7", 1000))
	data[at+500] ^= 1
	at = bytes.Index(data, []byte("bkt/k09"))
	data[at+5] = 'x'
	save(t, mem, first, data)
	g := newGate()
	s, _ = start(t, small(fault.Inject(mem, g.Hook)))
	for i, x := range batchOf(t, s, refs) {
		switch i {
		case 7, 9:
			wantKind(t, x.ref.String(), x.err, object.Corrupt)
		default:
			if x.err != nil || !bytes.Equal(x.data, bytesOf(fmt.Sprint(i), 1000)) {
				t.Errorf("%v: %v", x.ref, x.err)
			}
		}
	}
	g.set(always(syscall.EIO, fault.OpRead, "packs/"))
	for _, x := range batchOf(t, s, refs) {
		wantKind(t, x.ref.String(), x.err, object.Unavailable)
	}
}

// TestBatchLeft leaves the loop early, and cancels.
func TestBatchLeft(t *testing.T) {
	s, _ := start(t, small(fault.NewMemory(1)))
	put(t, s, "a", bytesOf("a", 3<<20))
	refs := make([]object.Ref, 100)
	for i := range refs {
		refs[i] = object.Ref{Name: key("a")}
	}
	for range s.Batch(ctx, refs) {
		break
	}
	canceled, cancel := context.WithCancel(ctx)
	defer cancel()
	n := 0
	for _, err := range s.Batch(canceled, refs) {
		if n++; n == 5 {
			cancel()
		} else if n > 5 {
			wantKind(t, "after the cancel", err, object.Canceled)
		}
	}
	if n != len(refs) {
		t.Errorf("%d items", n)
	}
}

func BenchmarkBatch4KiB(b *testing.B) {
	const objects = 20000
	s := benchStore(b, objects, 4<<10)
	r := rand.New(rand.NewPCG(1, 2))
	refs := make([]object.Ref, 256)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for i := range refs {
			refs[i] = object.Ref{Name: benchName(r.IntN(objects))}
		}
		b.StartTimer()
		for _, err := range s.Batch(context.Background(), refs) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/item")
}
