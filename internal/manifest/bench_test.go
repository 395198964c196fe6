package manifest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/manifest"
)

// The benchmarks share one manifest of a million samples, with keys as ImageNet has
// them, in random order. PENSTOCK_MANIFEST_SAMPLES=10000000 asks for another number,
// PENSTOCK_MANIFEST_FILE=path keeps the file, or uses the one that is there:
//
//	PENSTOCK_MANIFEST_SAMPLES=10000000 go test -run '^$' -bench 'Find|Piece|Key' -benchtime 2000000x ./internal/manifest
var large = sync.OnceValues(func() (string, error) {
	path := os.Getenv("PENSTOCK_MANIFEST_FILE")
	if path == "" {
		path = filepath.Join(largeDir, "manifest")
	} else if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, writeLarge(path, largeCount())
})

// largeDir is removed when all is done.
var largeDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "manifest")
	if err != nil {
		panic(err)
	}
	largeDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func largeCount() int {
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_MANIFEST_SAMPLES")); err == nil {
		return n
	}
	return 1_000_000
}

func largeKey(b []byte, i int) []byte {
	class := int64(101440000 + i/1300*7)
	b = strconv.AppendInt(append(b, "train/n"...), class, 10)
	b = strconv.AppendInt(append(b, "/n"...), class, 10)
	return strconv.AppendInt(append(b, '_'), int64(i%1300*13), 10)
}

func largeOptions() manifest.Options {
	o := manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}}}
	o.ChunkSamples = 40
	return o
}

func writeLarge(path string, n int) error {
	w, err := manifest.Create(path, largeOptions())
	if err != nil {
		return err
	}
	defer w.Abort()
	const perShard = 640
	var key []byte
	pieces := make([]manifest.Piece, 1)
	for i, number := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		key = largeKey(key[:0], number)
		pieces[0] = manifest.Piece{Shard: uint32(i / perShard), Offset: int64(i%perShard) * 110 << 10, Size: 100000 + int64(number%10000), CRC32: uint32(number) * 2654435761}
		if err := w.Add(&manifest.Sample{Key: string(key), Pieces: pieces}); err != nil {
			return err
		}
	}
	for i := range (n + perShard - 1) / perShard {
		if _, err := w.AddShard(manifest.Shard{Name: fmt.Sprintf("shards/%06d.tar", i), Size: perShard * 110 << 10, Format: manifest.Tar, Tag: fmt.Sprintf("%032x", i)}); err != nil {
			return err
		}
	}
	return w.Finish()
}

func openLarge(b *testing.B) *manifest.Manifest {
	path, err := large()
	must(b, err)
	m, err := manifest.Open(path)
	must(b, err)
	return m
}

// BenchmarkWrite makes the manifest once for each round: use -benchtime 1x.
func BenchmarkWrite(b *testing.B) {
	n := largeCount()
	path := filepath.Join(b.TempDir(), "manifest")
	done := measure(b)
	for b.Loop() {
		must(b, writeLarge(path, n))
	}
	done(n, "sample")
	stat, err := os.Stat(path)
	must(b, err)
	var keys int
	for i := range n {
		keys += len(largeKey(nil, i))
	}
	b.ReportMetric(float64(stat.Size())/float64(n), "file-B/sample")
	b.ReportMetric(float64(stat.Size()-int64(keys))/float64(n), "beside-key-B/sample")
	b.ReportMetric(peak()/1e6, "peak-MB")
}

// BenchmarkOpen opens it and looks up one key.
func BenchmarkOpen(b *testing.B) {
	path, err := large()
	must(b, err)
	before := private()
	done := measure(b)
	for b.Loop() {
		m, err := manifest.Open(path)
		must(b, err)
		_, err = m.Find(string(largeKey(nil, 77)))
		must(b, err)
	}
	done(1, "op")
	b.ReportMetric((private()-before)/1e6, "private-MB")
}

func BenchmarkFind(b *testing.B) {
	m := openLarge(b)
	probes := make([]string, 100_000)
	for i := range probes {
		probes[i] = string(largeKey(nil, rand.IntN(m.Len())))
	}
	before := private()
	done := measure(b)
	i := 0
	for b.Loop() {
		_, err := m.Find(probes[i%len(probes)])
		must(b, err)
		i++
	}
	done(1, "op")
	b.ReportMetric((private()-before)/1e6, "private-MB")
}

// BenchmarkRange is what a binary search over the order by key costs, twice.
func BenchmarkRange(b *testing.B) {
	m := openLarge(b)
	done := measure(b)
	for b.Loop() {
		_, _, err := m.Range(string(largeKey(nil, rand.IntN(m.Len()))))
		must(b, err)
	}
	done(1, "op")
}

func BenchmarkPiece(b *testing.B) {
	m := openLarge(b)
	done := measure(b)
	for b.Loop() {
		_, err := m.Piece(rand.IntN(m.Len()), 0)
		must(b, err)
	}
	done(1, "op")
}

func BenchmarkKey(b *testing.B) {
	m := openLarge(b)
	done := measure(b)
	for b.Loop() {
		_, err := m.Key(rand.IntN(m.Len()))
		must(b, err)
	}
	done(1, "op")
}

// BenchmarkVerify checks everything: use -benchtime 1x.
func BenchmarkVerify(b *testing.B) {
	m := openLarge(b)
	done := measure(b)
	for b.Loop() {
		must(b, m.Verify(context.Background()))
	}
	done(m.Len(), "sample")
}

// measure reports what a benchmark computes: begin it, and call what it returns at
// the end.
func measure(b *testing.B) func(per int, unit string) {
	before := cpu()
	return func(per int, unit string) {
		b.ReportMetric(float64(cpu()-before)/float64(per*b.N), "cpu-ns/"+unit)
	}
}

// cpu returns how many nanoseconds this process has computed so far: on a machine
// that is shared it says more than the clock.
func cpu() int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// private returns the bytes of memory that are this process's own, which leaves out
// pages of mapped files: these belong to the page cache. peak is the most it ever had.
func private() float64 { return proc("/proc/self/smaps_rollup", "Anonymous:") }
func peak() float64    { return proc("/proc/self/status", "VmHWM:") }

// mappings counts how often a file is mapped.
func mappings(path string) int {
	text, _ := os.ReadFile("/proc/self/maps")
	return strings.Count(string(text), path)
}

func proc(file, field string) (sum float64) {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && strings.HasPrefix(f[0], field) {
			kib, _ := strconv.ParseFloat(f[1], 64)
			sum += kib * 1024
		}
	}
	return sum
}
