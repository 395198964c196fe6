package order_test

import (
	"fmt"
	"math"
	"testing"

	"penstock.dev/penstock/internal/order"
)

// deviation says by how many standard deviations a table of counts, all of which
// should be alike, is more uneven than chance. Seeds here are fixed: what passes once
// passes always, and 4.5 would come by chance once in 300,000 tables.
func deviation(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	expected, sum := float64(total)/float64(len(counts)), 0.0
	for _, n := range counts {
		sum += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	freedom := float64(len(counts) - 1)
	return (sum - freedom) / math.Sqrt(2*freedom)
}

const tooMuch = 4.5

func even(t *testing.T, what string, counts []int) {
	t.Helper()
	if d := deviation(counts); d > tooMuch {
		t.Errorf("%s: %.1f standard deviations from even", what, d)
	}
}

// shuffles are a full shuffle, windows of few and many lanes, and one that has lanes
// of two chunks.
func shuffles(samples uint64) []order.Spec {
	base := order.Spec{Samples: samples, Bytes: samples * 1000, Chunk: 10, Seed: 42}
	specs := []order.Spec{base, base, base, base}
	for i, policy := range []order.Policy{order.Full(), order.Window(20_000), order.Window(60_000), order.Window(samples * 600)} {
		specs[i].Policy = policy
	}
	return specs
}

// TestASampleMayBeAnywhere counts where single samples stand in many epochs.
func TestASampleMayBeAnywhere(t *testing.T) {
	const samples, epochs = 337, 20_000 // the last chunk has 7
	for _, spec := range shuffles(samples) {
		for _, sample := range []uint64{0, 1, 170, 329, 330, 336} {
			counts := make([]int, samples)
			for epoch := range uint64(epochs) {
				spec.Epoch = epoch
				counts[must(t, spec).Position(sample)]++
			}
			even(t, fmt.Sprintf("%v: positions of sample %d", spec.Policy, sample), counts)
		}
	}
}

// TestAnySampleMayBeFirst is the same seen from the positions: the beginning and the
// end of an epoch are no special places.
func TestAnySampleMayBeFirst(t *testing.T) {
	const samples, epochs = 337, 20_000
	for _, spec := range shuffles(samples) {
		for _, position := range []uint64{0, 1, 168, 335, 336} {
			counts := make([]int, samples)
			for seed := range uint64(epochs) {
				spec.Seed = seed
				counts[must(t, spec).At(position)]++
			}
			even(t, fmt.Sprintf("%v: samples at position %d", spec.Policy, position), counts)
		}
	}
}

// TestAllOrdersOfAFew counts all orders of a few samples.
func TestAllOrdersOfAFew(t *testing.T) {
	for samples, orders := range map[uint64]int{2: 2, 3: 6, 4: 24, 5: 120, 6: 720} {
		counts := make(map[string]int)
		for seed := range uint64(40_000) {
			o := must(t, order.Spec{Samples: samples, Chunk: 1, Seed: seed, Policy: order.Full()})
			counts[fmt.Sprint(whole(o))]++
		}
		if len(counts) != orders {
			t.Errorf("%d samples came in %d orders, want %d", samples, len(counts), orders)
		}
		list := make([]int, 0, orders)
		for _, n := range counts {
			list = append(list, n)
		}
		even(t, fmt.Sprintf("orders of %d samples", samples), list)
	}
}

// TestNeighboursPart: in a full shuffle of any size, what stands beside each other in
// the dataset has any distance in the epoch.
func TestNeighboursPart(t *testing.T) {
	const bins, pairs = 15, 30_000
	for _, samples := range []uint64{16, 31, 46, 1006, 1_281_166, 1 << 33} { // distances, one less, fill bins evenly
		for _, apart := range []uint64{1, 2, order.Side(samples), samples / 2} {
			counts := make([]int, bins)
			for i := range uint64(pairs) {
				o := must(t, order.Spec{Samples: samples, Chunk: 1, Seed: i, Policy: order.Full()})
				a := order.Mix(i) % (samples - apart)
				distance := (o.Position(a+apart) + samples - o.Position(a)) % samples
				counts[(distance-1)*bins/(samples-1)]++
			}
			even(t, fmt.Sprintf("%d samples: distances of those %d apart", samples, apart), counts)
		}
	}
}

// TestEpochsHaveNothingInCommon: where a sample stood says nothing about where it
// will stand, with the next epoch, seed or dataset.
func TestEpochsHaveNothingInCommon(t *testing.T) {
	const samples = 30_000
	for _, spec := range shuffles(samples) {
		before := must(t, spec)
		for name, change := range map[string]func(*order.Spec){
			"epoch":   func(s *order.Spec) { s.Epoch++ },
			"seed":    func(s *order.Spec) { s.Seed++ },
			"dataset": func(s *order.Spec) { s.Dataset++ },
		} {
			spec := spec
			change(&spec)
			after := must(t, spec)
			var sum float64
			for position, sample := range whole(before) {
				sum += (float64(position)/samples - 0.5) * (float64(after.Position(sample))/samples - 0.5)
			}
			// Samples of a chunk move together in a window: there are as many
			// independent ones as chunks.
			correlation := sum / samples * 12
			if limit := tooMuch / math.Sqrt(samples/10); math.Abs(correlation) > limit {
				t.Errorf("%v, next %s: correlation %f", spec.Policy, name, correlation)
			}
		}
	}
}

// TestLanesChangePlaces: which of the batches of a row a lane is in is drawn anew in
// every row, so that chunks which are in use together do not share every batch.
func TestLanesChangePlaces(t *testing.T) {
	const samples, epochs, rows, batches = 4000, 300, 10, 4
	spec := order.Spec{Samples: samples, Bytes: samples * 1000, Chunk: rows, Policy: order.Window(220_000)}
	var counts [rows + 1]int // chunks, by how many of their ten samples are in the first batch of a row
	for seed := range uint64(epochs) {
		spec.Seed = seed
		o := must(t, spec)
		if o.Width() != 40 {
			t.Fatalf("%d lanes", o.Width())
		}
		first := make([]int, samples/rows)
		for position, sample := range whole(o) {
			if position%40 < 40/batches {
				first[sample/rows]++
			}
		}
		for _, n := range first {
			counts[n]++
		}
	}
	chance, sum := math.Pow(1-1.0/batches, rows), 0.0
	for n := range 9 { // of more there are too few to count
		expected := chance * epochs * samples / rows
		sum += (float64(counts[n]) - expected) * (float64(counts[n]) - expected) / expected
		chance *= float64(rows-n) / float64(n+1) / (batches - 1)
	}
	if d := (sum - 8) / 4; d > tooMuch {
		t.Errorf("%v: %.1f standard deviations from chance", counts, d)
	}
}
