package index_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/index"
)

var benchKeys = flag.Int("index.keys", 1_000_000, "keys in the index that is measured")

// benchKey appends to buf[:0] the i-th name of an image set like ImageNet, with
// 1300 names to a class, as the store makes it a key.
func benchKey(buf []byte, i int) []byte {
	class := 1440764 + i/1300*733
	buf = append(buf[:0], "oimagenet\x00"...)
	buf = fmt.Appendf(buf, "train/n%08d/n%08d_%d.JPEG", class, class, i%1300*17+i%7)
	return append(buf, 0, 1)
}

func benchValue(buf []byte, i int) []byte {
	buf = buf[:0]
	for j := range 5 {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(i+j)*0x9e3779b97f4a7c15)
	}
	return buf
}

// processor counts the processor time of the whole process, the garbage collector
// included. Other work on the machine hardly touches it, as it does the clock.
type processor struct {
	b     *testing.B
	spent time.Duration
}

func (p *processor) now() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		p.b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// begin starts to measure, with a clean heap.
func (p *processor) begin() {
	p.b.StopTimer()
	runtime.GC()
	if p.spent == 0 {
		p.b.ResetTimer()
	}
	p.spent -= p.now()
	p.b.StartTimer()
}

func (p *processor) end() {
	p.b.StopTimer()
	p.spent += p.now()
}

// report says what each of n entries took.
func (p *processor) report(n int) {
	p.b.ReportMetric(float64(p.spent)/float64(n), "cpu-ns/entry")
	p.b.ReportMetric(0, "ns/op")
}

// large is an index of benchKeys keys that came in random order, checkpointed when
// full and merged as the store would; built once for all benchmarks.
var large struct {
	sync.Once
	dir   string // removed when all is done
	index *index.Index
}

func largeIndex(b *testing.B) *index.Index {
	large.Do(func() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var err error
		if large.dir, err = os.MkdirTemp("", "index"); err != nil {
			b.Fatal(err)
		}
		large.index = openBench(b, large.dir)
		fill(b, large.index, rand.New(rand.NewPCG(1, 2)).Perm(*benchKeys))
		runtime.GC()
		runtime.ReadMemStats(&after)
		s := large.index.Stats()
		fmt.Printf("%d keys in %d runs: %.1f bytes a key on disk, %.2f in memory beside %d of memtable\n", *benchKeys, s.Runs,
			float64(s.Bytes)/float64(s.Entries), float64(int64(after.HeapAlloc-before.HeapAlloc)-s.MemBytes)/float64(s.Entries), s.MemBytes)
	})
	b.ReportAllocs()
	return large.index
}

func openBench(b *testing.B, dir string) *index.Index {
	x, err := index.Open(disk.NewDir(dir), "index", index.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return x
}

func fill(b *testing.B, x *index.Index, order []int) {
	var batch index.Batch
	var key, value []byte
	for n, i := range order {
		key, value = benchKey(key, i), benchValue(value, i)
		batch.Set(key, value)
		if batch.Len() < 64 && n+1 < len(order) {
			continue
		}
		x.Apply(&batch)
		batch.Reset()
		if !x.Full() && n+1 < len(order) {
			continue
		}
		if err := x.Checkpoint(background, nil); err != nil {
			b.Fatal(err)
		}
		for did := true; did; {
			var err error
			if did, err = x.Merge(background); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// someKeys returns random keys of the large index, each with a suffix.
func someKeys(suffix string) [][]byte {
	random := rand.New(rand.NewPCG(3, 4))
	keys := make([][]byte, 1<<17)
	for i := range keys {
		keys[i] = append(benchKey(nil, random.IntN(*benchKeys)), suffix...)
	}
	return keys
}

func benchmarkGet(b *testing.B, suffix string, there bool) {
	x := largeIndex(b)
	keys := someKeys(suffix)
	buf := make([]byte, 0, 64)
	p := processor{b: b}
	p.begin()
	for i := range b.N {
		if _, ok, err := x.Get(keys[i%len(keys)], buf); ok != there || err != nil {
			b.Fatal(ok, err)
		}
	}
	p.end()
	p.report(b.N)
}

// BenchmarkPread is what a Get cannot be faster than: a read of 4 KiB from anywhere
// in the largest run.
func BenchmarkPread(b *testing.B) {
	largeIndex(b)
	names, err := filepath.Glob(filepath.Join(large.dir, "index", "*.run"))
	if err != nil {
		b.Fatal(err)
	}
	var file *os.File
	var size int64
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.Size() > size {
			file, size = f, st.Size()
		}
	}
	random := rand.New(rand.NewPCG(9, 9))
	buf := make([]byte, 4<<10)
	p := processor{b: b}
	p.begin()
	for range b.N {
		if _, err := file.ReadAt(buf, random.Int64N(size-int64(len(buf)))); err != nil {
			b.Fatal(err)
		}
	}
	p.end()
	p.report(b.N)
}

func BenchmarkGet(b *testing.B)       { benchmarkGet(b, "", true) }
func BenchmarkGetAbsent(b *testing.B) { benchmarkGet(b, "x", false) }

// BenchmarkGetParallel shows what readers cost each other.
func BenchmarkGetParallel(b *testing.B) {
	x := largeIndex(b)
	keys := someKeys("")
	p := processor{b: b}
	p.begin()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 0, 64)
		for i := 0; pb.Next(); i++ {
			if _, ok, err := x.Get(keys[i%len(keys)], buf); !ok || err != nil {
				b.Error(ok, err)
			}
		}
	})
	p.end()
	p.report(b.N)
}

func BenchmarkScan(b *testing.B) {
	x := largeIndex(b)
	n := 0
	p := processor{b: b}
	p.begin()
	for range b.N {
		it := x.Scan(nil, nil)
		for it.Next() {
			n++
		}
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
		it.Close()
	}
	p.end()
	p.report(n)
}

// BenchmarkSeek goes from class to class, as a listing with a delimiter does.
func BenchmarkSeek(b *testing.B) {
	x := largeIndex(b)
	it := x.Scan(nil, nil)
	defer it.Close()
	var key []byte
	p := processor{b: b}
	p.begin()
	for i := range b.N {
		key = benchKey(key, i*1300%*benchKeys)
		it.Seek(key)
		if !it.Next() {
			b.Fatal(it.Err())
		}
	}
	p.end()
	p.report(b.N)
}

// benchmarkApply fills one memtable after the other; an op is one of them.
func benchmarkApply(b *testing.B, order func(n int) []int) {
	const n = 1 << 18
	batches := make([]index.Batch, n/64)
	var key, value []byte
	for i, k := range order(n) {
		key, value = benchKey(key, k), benchValue(value, k)
		batches[i/64].Set(key, value)
	}
	x := openBench(b, b.TempDir())
	defer x.Close()
	b.ReportAllocs()
	p := processor{b: b}
	p.begin()
	for range b.N {
		for i := range batches {
			x.Apply(&batches[i])
		}
		index.Drop(x)
	}
	p.end()
	p.report(n * b.N)
}

func BenchmarkApplyRandom(b *testing.B) {
	benchmarkApply(b, rand.New(rand.NewPCG(5, 6)).Perm)
}

// BenchmarkApplyUpload has the keys come as an upload of a data set brings them:
// class by class.
func BenchmarkApplyUpload(b *testing.B) {
	benchmarkApply(b, func(n int) []int {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		return order
	})
}

// checkpoints makes four runs with a quarter of the keys each.
func checkpoints(b *testing.B, x *index.Index, write func()) {
	order := rand.New(rand.NewPCG(7, 8)).Perm(1 << 20)
	var batch index.Batch
	var key, value []byte
	for n, i := range order {
		key, value = benchKey(key, i), benchValue(value, i)
		batch.Set(key, value)
		if (n+1)%(len(order)/4) == 0 {
			x.Apply(&batch)
			batch.Reset()
			write()
		}
	}
}

// BenchmarkWrite writes memtables of 256 Ki entries; an op is four of them.
func BenchmarkWrite(b *testing.B) {
	p := processor{b: b}
	for range b.N {
		b.StopTimer()
		x := openBench(b, b.TempDir())
		checkpoints(b, x, func() {
			frozen := x.Freeze(nil)
			p.begin()
			if err := frozen.Write(background); err != nil {
				b.Fatal(err)
			}
			p.end()
		})
		x.Close()
	}
	b.ReportMetric(float64(b.N)*float64(1<<20)/b.Elapsed().Seconds()/1e6, "Mentries/s")
	p.report(b.N << 20)
}

// BenchmarkMerge makes one run of four; an op is a million entries.
func BenchmarkMerge(b *testing.B) {
	p := processor{b: b}
	for range b.N {
		b.StopTimer()
		x := openBench(b, b.TempDir())
		checkpoints(b, x, func() {
			if err := x.Checkpoint(background, nil); err != nil {
				b.Fatal(err)
			}
		})
		p.begin()
		if did, err := x.Merge(background); !did || err != nil {
			b.Fatal(did, err)
		}
		p.end()
		x.Close()
	}
	b.ReportMetric(float64(b.N)*float64(1<<20)/b.Elapsed().Seconds()/1e6, "Mentries/s")
	p.report(b.N << 20)
}

// BenchmarkVerify reads and checks everything.
func BenchmarkVerify(b *testing.B) {
	x := largeIndex(b)
	p := processor{b: b}
	p.begin()
	for range b.N {
		if err := x.Verify(background, func(string, int64, string) { b.Error("damage") }); err != nil {
			b.Fatal(err)
		}
	}
	p.end()
	p.report(b.N * *benchKeys)
}
