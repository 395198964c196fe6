package store_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// verdict returns what a reference to content must give: the bytes, or the kind of
// error.
func verdict(ref object.Ref, content []byte) ([]byte, object.Kind) {
	offset, length, err := ref.Range.Resolve(int64(len(content)))
	if err != nil {
		return nil, object.KindOf(err)
	}
	want := content[offset : offset+length]
	if ref.Checked && (crc32.ChecksumIEEE(want) != ref.CRC32 || (ref.Range.Length > 0 && ref.Range.Length != length)) {
		return nil, object.Stale
	}
	return want, 0
}

func randomRange(r *rand.Rand, size int) object.Range {
	n := int64(size) + 3
	switch r.IntN(6) {
	case 0:
		return object.Range{}
	case 1:
		return object.Range{Offset: -r.Int64N(n)}
	case 2:
		return object.Range{Offset: r.Int64N(n), Length: []int64{0, n, 1 << 60, math.MaxInt64}[r.IntN(4)]}
	case 3:
		return object.Range{Offset: -r.Int64N(n), Length: 1 + r.Int64N(n)}
	}
	offset := r.Int64N(n)
	return object.Range{Offset: offset, Length: 1 + r.Int64N(max(1, n-offset))}
}

// TestChecked asks for ranges of objects in packs and blobs together with the
// checksum that the bytes must have, right and wrong ones: on drives whose files the
// kernel has in memory, and on others.
func TestChecked(t *testing.T) {
	runs(t, "PENSTOCK_BATCHES", 4, func(t *testing.T, seed uint64) {
		r := random(seed, 112)
		options := quick(small(fault.NewMemory(seed), fault.NewMemory(seed+1)))
		if seed%2 == 0 {
			options = quick(small(disk.NewDir(t.TempDir())))
		}
		s, _ := start(t, options)
		contents := make(map[object.Name][]byte)
		var all []object.Name
		for i, size := range []int{0, 1, 100, 4095, 4096, 4097, 64 << 10, 64<<10 + 1, 300 << 10, 1<<20 + 5, 5 << 20} {
			for j := range 3 {
				k := fmt.Sprintf("%d.%d", i, j)
				if j == 2 {
					k += strings.Repeat("long", 100) // its head has several blocks
				}
				contents[key(k)] = bytesOf(k, size)
				put(t, s, k, contents[key(k)])
				all = append(all, key(k))
			}
		}
		for round := range 20 {
			var refs []object.Ref
			for range 1 + r.IntN(60) {
				name := all[r.IntN(len(all))]
				ref := object.Ref{Name: name, Range: randomRange(r, len(contents[name]))}
				if r.IntN(5) > 0 {
					ref.Checked = true
					if bytes, kind := verdict(object.Ref{Name: name, Range: ref.Range}, contents[name]); kind == 0 {
						ref.CRC32 = crc32.ChecksumIEEE(bytes)
					}
					if r.IntN(4) == 0 {
						ref.CRC32 ^= 1 << r.IntN(32)
					}
				}
				refs = append(refs, ref)
			}
			read := s.Batch
			if round%3 == 0 {
				read = s.BatchVerified
			}
			for _, x := range takeAll(t, read(ctx, refs), refs) {
				want, kind := verdict(x.ref, contents[x.ref.Name])
				switch {
				case kind != 0:
					wantKind(t, fmt.Sprintf("%v %+v", x.ref, x.ref), x.err, kind)
				case x.err != nil || !bytes.Equal(x.data, want):
					t.Fatalf("%v %+v: %d bytes, want %d: %v", x.ref, x.ref, len(x.data), len(want), x.err)
				}
			}
		}
	})
}

// TestCheckedAcrossVersions replaces an object: a reference that knows the checksum,
// but no version, is good for any version with the same bytes.
func TestCheckedAcrossVersions(t *testing.T) {
	s, _ := start(t, small(fault.NewMemory(1)))
	for _, size := range []int{1000, 100 << 10} {
		data := bytesOf("a", size)
		part := object.Range{Offset: int64(size) / 2, Length: 300}
		ref := object.Ref{Name: key("a"), Range: part, Checked: true, CRC32: crc32.ChecksumIEEE(data[part.Offset:][:part.Length])}
		for range 2 {
			put(t, s, "a", data)
			if x := batchOf(t, s, []object.Ref{ref})[0]; x.err != nil || len(x.data) != 300 {
				t.Errorf("%d bytes: %v", len(x.data), x.err)
			}
		}
		put(t, s, "a", bytesOf("b", size))
		x := batchOf(t, s, []object.Ref{ref})[0]
		wantKind(t, "replaced", x.err, object.Stale)
		if !strings.Contains(x.err.Error(), "bkt/a is not what was asked for") {
			t.Error(x.err)
		}
		put(t, s, "a", bytesOf("a", 10))
		wantKind(t, "cut", batchOf(t, s, []object.Ref{ref})[0].err, object.Invalid)
	}
}

// TestCheckedDamage tells bytes that have rotted from bytes that are not the ones
// asked for.
func TestCheckedDamage(t *testing.T) {
	mem := fault.NewMemory(1)
	s, stop := start(t, small(mem))
	inline, blob, large := bytesOf("inline", 3000), bytesOf("blob", 200<<10), bytesOf("large", 3<<20)
	put(t, s, "inline", inline)
	put(t, s, "blob", blob)
	put(t, s, "large", large)
	stop()
	for _, name := range tree(t, mem, ".") {
		data := load(t, mem, name)
		for _, content := range [][]byte{inline, blob, large} {
			if at := bytes.Index(data, content[100:200]); at >= 0 {
				data[at+50] ^= 1
				save(t, mem, name, data)
			}
		}
	}
	s, _ = start(t, small(mem))
	checked := func(k string, content []byte, offset, length int64, flip uint32) object.Ref {
		return object.Ref{
			Name: key(k), Range: object.Range{Offset: offset, Length: length},
			CRC32: crc32.ChecksumIEEE(content[offset:][:length]) ^ flip, Checked: true,
		}
	}
	for _, tt := range []struct {
		ref  object.Ref
		kind object.Kind // zero: the bytes come
	}{
		{checked("inline", inline, 50, 200, 0), object.Corrupt},
		{checked("inline", inline, 1000, 200, 0), object.Corrupt}, // a record is whole or not
		{checked("blob", blob, 50, 200, 0), object.Corrupt},
		{checked("blob", blob, 50, 70<<10, 0), object.Corrupt},
		{checked("blob", blob, 50, 200, 1), object.Corrupt},
		{checked("blob", blob, 300, 200, 0), 0}, // beside the damage, in the same block
		{checked("blob", blob, 300, 200, 1), object.Corrupt},
		{checked("blob", blob, 70<<10, 100<<10, 0), 0}, // across blocks
		{checked("blob", blob, 70<<10, 100<<10, 1), object.Stale},
		{checked("large", large, 50, 2<<20, 0), object.Corrupt},
		{checked("large", large, 50, 5<<19, 0), object.Corrupt}, // larger than a window
		{checked("large", large, 70<<10, 5<<19, 0), 0},
		{checked("large", large, 70<<10, 5<<19, 1), object.Stale},
		{object.Ref{Name: key("large"), CRC32: crc32.ChecksumIEEE(large), Checked: true}, object.Corrupt},
		{object.Ref{Name: key("large"), CRC32: 1, Checked: true}, object.Stale}, // said before a byte is read
	} {
		x := batchOf(t, s, []object.Ref{tt.ref})[0]
		what := fmt.Sprintf("%v %+v", tt.ref, tt.ref.Range)
		if tt.kind != 0 {
			wantKind(t, what, x.err, tt.kind)
		} else if x.err != nil || crc32.ChecksumIEEE(x.data) != tt.ref.CRC32 {
			t.Errorf("%s: %d bytes, %v", what, len(x.data), x.err)
		}
	}
}

// TestCheckedBounds asks for more than there is, a thousand times in one batch: it
// takes no more memory than a window.
func TestCheckedBounds(t *testing.T) {
	s, _ := start(t, store.Options{Disks: disks(t, 1)})
	put(t, s, "inline", bytesOf("inline", 100<<10))
	put(t, s, "blob", bytesOf("blob", 3<<20))
	var refs []object.Ref
	for i := range 1000 {
		for _, r := range []object.Range{
			{Length: 1 << 60},
			{Length: math.MaxInt64},
			{Offset: math.MaxInt64, Length: math.MaxInt64},
			{Offset: 1 << 60, Length: 1},
			{Offset: -1 << 63, Length: math.MaxInt64},
			{Offset: 5, Length: 4 << 20},
			{Offset: 3<<20 - 1, Length: 2 << 20},
			{Offset: -1, Length: 2 << 20},
		} {
			refs = append(refs, object.Ref{Name: key([]string{"inline", "blob"}[i%2]), Range: r, Checked: true, CRC32: 1})
		}
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for item, err := range s.Batch(ctx, refs) {
		if kind := object.KindOf(err); err == nil || (kind != object.Stale && kind != object.Invalid) {
			t.Fatalf("%v %+v: %v", item.Ref, item.Ref.Range, err)
		}
		if n++; n%1000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
				t.Fatalf("%d bytes are held after %d items", grown, n)
			}
		}
	}
	if n != len(refs) {
		t.Errorf("%d items of %d", n, len(refs))
	}
}

// BenchmarkBatchPieces reads pieces of 4 KiB of one object of 64 MiB, as a dataset's
// samples are read: verified by checksums that are known, and by those of blocks.
// TestManyBlobs asks for pieces of more blobs than a window keeps open.
func TestManyBlobs(t *testing.T) {
	s, _ := start(t, quick(small(disk.NewDir(t.TempDir()))))
	var refs []object.Ref
	var want [][]byte
	for i := range 150 {
		name := fmt.Sprintf("blob%d", i)
		content := bytesOf(name, 9000)
		put(t, s, name, content)
		for _, at := range []int{0, 8000} {
			piece := content[at : at+100]
			refs = append(refs, object.Ref{Name: key(name), Range: object.Range{Offset: int64(at), Length: 100}, Checked: true, CRC32: crc32.ChecksumIEEE(piece)})
			want = append(want, piece)
		}
	}
	for i, got := range batchOf(t, s, refs) {
		if got.err != nil || !bytes.Equal(got.data, want[i]) {
			t.Errorf("%v: %v", refs[i], got.err)
		}
	}
}

func BenchmarkBatchPieces(b *testing.B) {
	s := benchStore(b, 1, 64<<20)
	sum := crc32.ChecksumIEEE(bytes.Repeat([]byte("x"), 4<<10))
	r := rand.New(rand.NewPCG(1, 2))
	for _, checked := range []bool{true, false} {
		b.Run(fmt.Sprintf("checked=%v", checked), func(b *testing.B) {
			refs := make([]object.Ref, 256)
			for i := range refs {
				refs[i] = object.Ref{Name: benchName(0), Range: object.Range{Offset: r.Int64N(63 << 20), Length: 4 << 10}}
				if checked {
					refs[i].CRC32, refs[i].Checked = sum, true
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range s.Batch(ctx, refs) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/item")
		})
	}
}
