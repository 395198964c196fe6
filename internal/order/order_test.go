package order_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/order"
)

func must(t testing.TB, spec order.Spec) *order.Order {
	t.Helper()
	o, err := order.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// whole reads all of an order.
func whole(o *order.Order) []uint64 {
	all := make([]uint64, o.Len())
	o.Read(all, 0)
	return all
}

// seeds prints the seed of a test's random choices, so that a failure can be seen again.
func seeds(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// random returns a spec of any policy, with up to so many samples.
func random(r *rand.Rand, samples uint64) order.Spec {
	spec := order.Spec{
		Dataset: r.Uint64(), Seed: r.Uint64(), Epoch: r.Uint64N(100),
		Samples: r.Uint64N(samples + 1),
		Chunk:   1 + r.Uint64N(1+r.Uint64N(100)),
	}
	spec.Bytes = spec.Samples * (1 + r.Uint64N(1000))
	switch r.IntN(8) {
	case 0:
		spec.Policy = order.None()
	case 1:
		spec.Policy = order.Full()
	default: // of one lane, of a few, of many, of more than there are chunks
		spec.Policy = order.Window(uint64(float64(spec.Bytes) * r.Float64() * r.Float64()))
	}
	return spec
}

func TestEverySampleIsThereOnce(t *testing.T) {
	r := seeds(t)
	for i := range 2000 {
		spec := random(r, 1<<r.Uint64N(12))
		if i == 0 {
			spec = order.Spec{Samples: 1 << 19, Bytes: 1 << 39, Chunk: 37, Policy: order.Window(1 << 33)}
		}
		o := must(t, spec)
		seen := make([]bool, spec.Samples)
		for position, sample := range whole(o) {
			if sample >= spec.Samples || seen[sample] {
				t.Fatalf("%+v: sample %d at position %d is out of range or was there before", spec, sample, position)
			}
			seen[sample] = true
			if got := o.Position(sample); got != uint64(position) {
				t.Fatalf("%+v: sample %d is at position %d, Position says %d", spec, sample, position, got)
			}
		}
	}
}

// TestLargeOrdersHaveAnInverse stands for once-and-once-only where not every sample
// can be looked at: two positions with one sample would give one of them back.
func TestLargeOrdersHaveAnInverse(t *testing.T) {
	r := seeds(t)
	for _, samples := range []uint64{1<<33 - 1, 1 << 33, 1<<33 + 1, 1e12 + 39, order.MaxSamples} {
		for _, chunk := range []uint64{1, 2, 38, 4096, 1<<20 + 7, samples - 1, samples, order.MaxSamples} {
			for _, policy := range []order.Policy{order.None(), order.Full(), order.Window(1), order.Window(1e6), order.Window(2 << 30), order.Window(samples * 3 / 5)} {
				spec := order.Spec{Samples: samples, Bytes: samples, Chunk: chunk, Seed: r.Uint64(), Policy: policy}
				o := must(t, spec)
				for i := range uint64(100) {
					n := r.Uint64N(samples)
					switch i {
					case 0:
						n = 0
					case 1:
						n = samples - 1
					}
					if sample := o.At(n); sample >= samples || o.Position(sample) != n {
						t.Fatalf("%+v: position %d has sample %d, which is at %d", spec, n, sample, o.Position(sample))
					}
					if position := o.Position(n); position >= samples || o.At(position) != n {
						t.Fatalf("%+v: sample %d is at position %d, which has %d", spec, n, position, o.At(position))
					}
				}
			}
		}
	}
}

func TestReadIsAtFromAnyPosition(t *testing.T) {
	r := seeds(t)
	for range 500 {
		spec := random(r, 1500)
		o := must(t, spec)
		all := whole(o)
		from := r.Uint64N(spec.Samples + 3)
		dst := make([]uint64, r.IntN(700))
		n := o.Read(dst, from)
		tail := all[min(from, spec.Samples):]
		if want := min(len(tail), len(dst)); n != want || !slices.Equal(dst[:n], tail[:want]) {
			t.Fatalf("%+v: %d samples from %d are not those of the whole", spec, len(dst), from)
		}
		for i := range n {
			if o.At(from+uint64(i)) != dst[i] {
				t.Fatalf("%+v: At and Read differ at %d", spec, from+uint64(i))
			}
		}
	}
}

func TestPolicies(t *testing.T) {
	spec := order.Spec{Samples: 1000, Bytes: 100_000, Chunk: 10, Seed: 3}
	for i, sample := range whole(must(t, spec)) {
		if sample != uint64(i) {
			t.Fatalf("without a policy position %d has sample %d", i, sample)
		}
	}

	spec.Policy = order.Full()
	full := whole(must(t, spec))
	for _, policy := range []order.Policy{order.Window(100_000), order.Window(1 << 62)} {
		spec.Policy = policy
		if !slices.Equal(whole(must(t, spec)), full) {
			t.Errorf("%v holds all 100,000 bytes, but is not the full shuffle", policy)
		}
	}

	// Of ten samples 5.5 are kept on average: 550 bytes for each lane.
	for resident, width := range map[uint64]uint64{0: 1, 549: 1, 550: 1, 1099: 1, 1100: 2, 27_499: 49, 27_500: 50, 99_999: 50} {
		spec.Policy = order.Window(resident)
		if got := must(t, spec).Width(); got != width {
			t.Errorf("a window of %d bytes has %d chunks in use, want %d", resident, got, width)
		}
	}

	spec.Policy, spec.Bytes = order.Window(1), 0
	if !slices.Equal(whole(must(t, spec)), full) {
		t.Error("samples without bytes fit into any window, but the order is not the full shuffle")
	}
}

func TestEverythingOfTheSpecCounts(t *testing.T) {
	for _, policy := range []order.Policy{order.Full(), order.Window(3000)} {
		base := order.Spec{Samples: 1000, Bytes: 100_000, Chunk: 10, Seed: 3, Policy: policy}
		all := whole(must(t, base))
		for name, change := range map[string]func(*order.Spec){
			"dataset": func(s *order.Spec) { s.Dataset++ },
			"seed":    func(s *order.Spec) { s.Seed++ },
			"epoch":   func(s *order.Spec) { s.Epoch++ },
			"swapped": func(s *order.Spec) { s.Seed, s.Epoch = s.Epoch, s.Seed },
			"high":    func(s *order.Spec) { s.Seed += 1 << 63 },
		} {
			spec := base
			change(&spec)
			same := 0
			for i, sample := range whole(must(t, spec)) {
				if sample == all[i] {
					same++
				}
			}
			if same > 8 { // one is to be expected; more than 8 come once in a million
				t.Errorf("%v, %s: %d of 1000 samples stand where they stood", policy, name, same)
			}
		}
	}
}

func TestWrongUse(t *testing.T) {
	for _, spec := range []order.Spec{
		{Samples: order.MaxSamples + 1, Chunk: 1},
		{Samples: 10, Chunk: order.MaxSamples + 1},
		{Samples: 10},
		{},
	} {
		if _, err := order.New(spec); !object.Is(err, object.Invalid) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	o := must(t, order.Spec{Samples: 10, Chunk: 3, Policy: order.Full()})
	for name, call := range map[string]func(){
		"At":       func() { o.At(10) },
		"Position": func() { o.Position(10) },
		"Next":     func() { o.Next(4, 0) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got == "<nil>" {
					t.Errorf("%s behind the end did not panic", name)
				}
			}()
			call()
		}()
	}
	if n := o.Read(make([]uint64, 3), 10); n != 0 {
		t.Errorf("%d samples behind the end", n)
	}
}
