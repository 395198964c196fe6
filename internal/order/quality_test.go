package order_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"penstock.dev/penstock/internal/order"
)

// imagenet is the case of the design: samples sorted by class, chunks of 4 MiB.
func imagenet(policy order.Policy) order.Spec {
	return order.Spec{Samples: 1_281_167, Bytes: 1_281_167 * 110_000, Chunk: 38, Seed: 1, Policy: policy}
}

// TestFiguresOfTheDesign: 1000 classes, a batch of 256, 2 GiB kept. The issue asks
// for 200 different classes in the mean and 180 in the worst batch.
func TestFiguresOfTheDesign(t *testing.T) {
	classes := order.Ranges(1_281_167, 1000)
	for _, c := range []struct {
		policy      order.Policy
		mean, worst float64
	}{
		{order.None(), 1, 1},
		{order.Full(), 225.5, 200},
		{order.Window(2 << 30), 220, 190},
		{order.Window(1 << 30), 210, 170},
	} {
		q := must(t, imagenet(c.policy)).Quality(classes, 256, 0)
		t.Logf("%v: %.1f classes in the mean and %d in the worst of %d batches; %.1f expected of a full shuffle",
			c.policy, q.Mean, q.Worst, q.Batches, q.Full)
		if q.Batches != 1_281_167/256 || q.Mean < c.mean || float64(q.Worst) < c.worst {
			t.Errorf("%v: %+v, want at least %+v", c.policy, q, c)
		}
		if math.Abs(q.Full-225.977) > 0.001 {
			t.Errorf("a full shuffle has %f classes in a batch, want 225.977", q.Full)
		}
	}
}

func TestQualityOfSomeBatches(t *testing.T) {
	o := must(t, imagenet(order.Window(2<<30)))
	classes := order.Ranges(1_281_167, 1000)
	all, some := o.Quality(classes, 256, 0), o.Quality(classes, 256, 500)
	if some.Batches != 500 || math.Abs(some.Mean-all.Mean) > 1.5 || some.Worst < all.Worst {
		t.Errorf("500 batches: %+v; all of them: %+v", some, all)
	}
	huge := must(t, order.Spec{Samples: 1 << 33, Bytes: 1 << 43, Chunk: 4096, Policy: order.Window(2 << 30)})
	if q := huge.Quality(order.Ranges(1<<33, 1000), 256, 100); q.Batches != 100 || q.Mean < 200 {
		t.Errorf("2^33 samples: %+v", q)
	}
}

// TestQualityCounts compares with counting in the plainest way.
func TestQualityCounts(t *testing.T) {
	r := seeds(t)
	for range 200 {
		spec := random(r, 500)
		o := must(t, spec)
		labels := order.Classes{Sizes: make([]uint64, 1+r.IntN(20))}
		of := make([]uint64, spec.Samples)
		for i := range of {
			of[i] = r.Uint64N(uint64(len(labels.Sizes)))
			labels.Sizes[of[i]]++
		}
		labels.Of = func(sample uint64) uint64 { return of[sample] }
		batch := 1 + r.Uint64N(60)
		got := o.Quality(labels, batch, 0)

		var want order.Quality
		sum, all := 0, whole(o)
		batch = min(batch, spec.Samples)
		for ; batch > 0 && uint64(len(all)) >= batch; all = all[batch:] {
			distinct := make(map[uint64]bool)
			for _, sample := range all[:batch] {
				distinct[of[sample]] = true
			}
			sum += len(distinct)
			if n := uint64(len(distinct)); want.Batches == 0 || n < want.Worst {
				want.Worst = n
			}
			want.Batches++
		}
		if want.Batches > 0 {
			want.Mean = float64(sum) / float64(want.Batches)
		}
		if got.Batches != want.Batches || got.Mean != want.Mean || got.Worst != want.Worst {
			t.Fatalf("%+v, batches of %d: %+v, want %+v", spec, batch, got, want)
		}
	}
}

func TestExpectedOfAFullShuffle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []uint64{1, 2, 3, 10, 84, 0}
	of := func(sample uint64) (class uint64) {
		for sample >= sizes[class] {
			sample -= sizes[class]
			class++
		}
		return class
	}
	o := must(t, order.Spec{Samples: 100, Chunk: 1, Policy: order.Full()})
	for _, batch := range []uint64{1, 7, 50, 99, 100, 1000} {
		const draws = 5000
		sum := 0
		for range draws {
			distinct := make(map[uint64]bool)
			for _, sample := range r.Perm(100)[:min(batch, 100)] {
				distinct[of(uint64(sample))] = true
			}
			sum += len(distinct)
		}
		got := o.Quality(order.Classes{Of: of, Sizes: sizes}, batch, 0).Full
		if want := float64(sum) / draws; math.Abs(got-want) > 0.06 {
			t.Errorf("batches of %d: %f classes expected, %f drawn", batch, got, want)
		}
	}
}

func TestRanges(t *testing.T) {
	for samples := range uint64(40) {
		for classes := range uint64(45) {
			ranges := order.Ranges(samples, classes)
			counted := make([]uint64, len(ranges.Sizes))
			classes := max(classes, 1) // no class is one
			before := uint64(0)
			for sample := range samples {
				class := ranges.Of(sample)
				if class < before || class > before+1 {
					t.Fatalf("%d samples, %d classes: sample %d is of class %d", samples, classes, sample, class)
				}
				counted[class]++
				before = class
			}
			for class, size := range ranges.Sizes {
				if counted[class] != size || size < samples/classes || size > samples/classes+1 {
					t.Fatalf("%d samples, %d classes: class %d has %d, counted %d", samples, classes, class, size, counted[class])
				}
			}
		}
	}
}
