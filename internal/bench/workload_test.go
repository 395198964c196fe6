package bench_test

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"penstock.dev/penstock/internal/bench"
	"penstock.dev/penstock/internal/object"
)

func TestEpochHasEachKeyOnce(t *testing.T) {
	for _, keys := range []int64{1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097} {
		w := bench.Workload{Keys: keys, Pattern: bench.Epoch, Seed: 7}
		var orders [2][]int64
		for epoch := range orders {
			seen := make([]bool, keys)
			for i := range keys {
				key := w.At(int64(epoch)*keys + i)
				if key < 0 || key >= keys || seen[key] {
					t.Fatalf("%d keys, epoch %d: key %d is out of range or there twice", keys, epoch, key)
				}
				seen[key] = true
				orders[epoch] = append(orders[epoch], key)
			}
		}
		if keys > 60 && (slices.Equal(orders[0], orders[1]) || slices.IsSorted(orders[0])) {
			t.Errorf("%d keys: the order is not random", keys)
		}
	}
}

func TestPatternsFollowFromTheSeed(t *testing.T) {
	for _, pattern := range []bench.Pattern{bench.Epoch, bench.Random} {
		one := bench.Workload{Keys: 1000, Pattern: pattern, Seed: 1}
		again, other := one, one
		other.Seed = 2
		same := 0
		for i := range int64(1000) {
			if one.At(i) != again.At(i) {
				t.Fatalf("%s: position %d differs", pattern, i)
			}
			if one.At(i) == other.At(i) {
				same++
			}
		}
		if same > 20 {
			t.Errorf("%s: another seed gives the same key %d times of 1000", pattern, same)
		}
	}
	sequential := bench.Workload{Keys: 3, Pattern: bench.Sequential}
	if sequential.At(2) != 2 || sequential.At(3) != 0 {
		t.Error("sequential is not")
	}
}

func TestRandomIsEven(t *testing.T) {
	w := bench.Workload{Keys: 10, Pattern: bench.Random, Seed: 3, Writes: 0.25}
	counts, writes := make([]int, 10), 0
	for i := range int64(100_000) {
		counts[w.At(i)]++
		if w.WritesAt(i) {
			writes++
		}
	}
	for key, n := range counts {
		if n < 9500 || n > 10500 {
			t.Errorf("key %d was drawn %d times of 100,000", key, n)
		}
	}
	if writes < 24_000 || writes > 26_000 {
		t.Errorf("%d writes of 100,000, want about 25,000", writes)
	}
}

func TestSizes(t *testing.T) {
	fixed, _ := bench.Fixed(4096)
	uniform, _ := bench.Uniform(1<<10, 1<<20)
	narrow, _ := bench.Lognormal(100<<10, 0.5)
	wide, _ := bench.Lognormal(100<<10, 2)
	for _, sizes := range []bench.Sizes{fixed, uniform, narrow, wide} {
		w := bench.Workload{Sizes: sizes, Keys: 200_000, Seed: 11}
		sum, low, high := 0.0, int64(math.MaxInt64), int64(0)
		for i := range w.Keys {
			size := w.Content(w.Key(i)).Size()
			sum, low, high = sum+float64(size), min(low, size), max(high, size)
		}
		mean := sum / float64(w.Keys)
		if math.Abs(mean/sizes.Mean()-1) > 0.03 || low < 0 || high > sizes.Max() {
			t.Errorf("%s: mean %.0f, want %.0f; from %d to %d, at most %d", sizes, mean, sizes.Mean(), low, high, sizes.Max())
		}
	}
	if m := narrow.Mean() / (100 << 10); math.Abs(m-1) > 0.001 {
		t.Errorf("the mean of a narrow lognormal is %g times what was asked for", m)
	}
}

func TestContentIsTheSameInPieces(t *testing.T) {
	sizes, _ := bench.Uniform(0, 300)
	w := bench.Workload{Sizes: sizes, Seed: rand.Uint64()}
	t.Logf("seed %d", w.Seed)
	for i := range int64(200) {
		content := w.Content(w.Key(i))
		whole := make([]byte, content.Size()+10)
		if n := content.Read(whole, 0); int64(n) != content.Size() {
			t.Fatalf("%d bytes instead of %d", n, content.Size())
		}
		from := rand.Int64N(content.Size() + 1)
		piece := make([]byte, rand.IntN(100))
		n := content.Read(piece, from)
		if want := whole[from:content.Size()]; !bytes.Equal(piece[:n], want[:min(len(want), len(piece))]) {
			t.Fatalf("key %d of %d bytes: the piece at %d differs", i, content.Size(), from)
		}
	}
	if bench.Workload(w).Content("a") == w.Content("b") {
		t.Error("two keys have the same content")
	}
}

func TestVerificationFindsWhatIsWrong(t *testing.T) {
	sizes, _ := bench.Fixed(10_000)
	w := bench.Workload{Sizes: sizes, Seed: 5}
	content, right := w.Content("k"), make([]byte, 10_000)
	content.Read(right, 0)
	check := func(verify bool, data []byte) error {
		var c bench.Checker
		c.Begin(verify, "k", content)
		n, err := io.Copy(&c, iotest.HalfReader(bytes.NewReader(data)))
		if err != nil || n != int64(len(data)) {
			t.Fatalf("took %d of %d bytes, %v", n, len(data), err)
		}
		came, err := c.End()
		if came != n {
			t.Fatalf("counted %d of %d bytes", came, n)
		}
		return err
	}
	if err := check(true, right); err != nil {
		t.Error(err)
	}
	for _, at := range []int{0, 7, 8, 15, 16, 4095, 4096, 9999} {
		wrong := slices.Clone(right)
		wrong[at] ^= 1
		if err := check(true, wrong); !object.Is(err, object.Corrupt) {
			t.Errorf("a flipped bit at %d: %v", at, err)
		}
		if err := check(false, wrong); err != nil {
			t.Errorf("without verification: %v", err)
		}
	}
	for _, data := range [][]byte{nil, right[:9999], append(slices.Clone(right), 0)} {
		if err := check(true, data); !object.Is(err, object.Corrupt) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
	}
}

func TestHistogramIsPrecise(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var parts [3]bench.Histogram
	samples := make([]time.Duration, 50_000)
	for i := range samples {
		samples[i] = time.Duration(math.Exp(random.NormFloat64()*3 + 11))
		parts[i%3].Add(samples[i])
	}
	var h bench.Histogram
	for i := range parts {
		h.Merge(&parts[i])
	}
	slices.Sort(samples)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
		want := samples[max(0, int(math.Ceil(q*float64(len(samples))))-1)]
		if got := h.Quantile(q); math.Abs(float64(got)/float64(want)-1) > 0.01 {
			t.Errorf("quantile %g is %s, want %s", q, got, want)
		}
	}
	var edge bench.Histogram
	for _, d := range []time.Duration{-1, 0, 1, 24 * time.Hour, math.MaxInt64} {
		edge.Add(d)
	}
	if edge.Quantile(0.1) != 0 || edge.Quantile(0.5) != 1 {
		t.Error("times at the edges are counted in the wrong place")
	}
}

func TestWrongWorkloads(t *testing.T) {
	good := bench.Workload{Op: bench.Get, Count: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	large, _ := bench.Fixed(1 << 30)
	for name, change := range map[string]func(*bench.Workload){
		"op":       func(w *bench.Workload) { w.Op = "delete" },
		"pattern":  func(w *bench.Workload) { w.Pattern = "zipf" },
		"keys":     func(w *bench.Workload) { w.Keys = -1 },
		"workers":  func(w *bench.Workload) { w.Workers = bench.MaxWorkers + 1 },
		"batch":    func(w *bench.Workload) { w.Op, w.Batch = bench.Batch, bench.MaxBatch+1 },
		"share":    func(w *bench.Workload) { w.Op, w.Writes = bench.Mixed, 1.5 },
		"end":      func(w *bench.Workload) { w.Count = 0 },
		"rate":     func(w *bench.Workload) { w.Rate = math.NaN() },
		"negative": func(w *bench.Workload) { w.Warmup = -1 },
		"key":      func(w *bench.Workload) { w.Prefix = strings.Repeat("k", object.MaxKey) },
		"memory":   func(w *bench.Workload) { w.Op, w.Sizes = bench.Put, large },
	} {
		w := good
		change(&w)
		if err := w.Validate(); !object.Is(err, object.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkContent(b *testing.B) {
	sizes, _ := bench.Fixed(1 << 20)
	content, p := bench.Workload{Sizes: sizes}.Content("k"), make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		content.Read(p, 0)
	}
}
