package order_test

import (
	"slices"
	"testing"

	"penstock.dev/penstock/internal/order"
)

func TestStaysAreWhatIsNeededInTheOrderItIsNeeded(t *testing.T) {
	r := seeds(t)
	for range 1000 {
		spec := random(r, 1500)
		o := must(t, spec)
		all := whole(o)
		from, to := r.Uint64N(spec.Samples+1), r.Uint64N(spec.Samples+2)
		if r.IntN(3) == 0 {
			from, to = 0, spec.Samples+10
		}
		var uses []uint64 // chunks in the order of their first use
		if from < to {
			for _, sample := range all[from:min(to, spec.Samples)] {
				if chunk := sample / spec.Chunk; !slices.Contains(uses, chunk) {
					uses = append(uses, chunk)
				}
			}
		}
		var got []uint64
		covered := make([]bool, spec.Samples)
		before := uint64(0)
		for stay := range o.Stays(from, to) {
			if !slices.Contains(got, stay.Chunk) {
				got = append(got, stay.Chunk)
			}
			if first := max(stay.First, from); first < before && stay.First >= from {
				t.Fatalf("%+v: stay %+v comes behind one that begins at %d", spec, stay, before)
			} else if stay.First >= from {
				before = first
			}
			if stay.First > stay.Last || all[stay.First]/spec.Chunk != stay.Chunk || all[stay.Last]/spec.Chunk != stay.Chunk {
				t.Fatalf("%+v: stay %+v does not begin and end with a use", spec, stay)
			}
			for position := stay.First; position <= stay.Last; position++ {
				if all[position]/spec.Chunk == stay.Chunk {
					covered[position] = true
				}
			}
		}
		if !slices.Equal(got, uses) {
			t.Fatalf("%+v: from %d to %d chunks %v are needed, stays are of %v", spec, from, to, uses, got)
		}
		for position := from; position < min(to, spec.Samples); position++ {
			if !covered[position] {
				t.Fatalf("%+v: position %d is in no stay", spec, position)
			}
		}
	}
}

// TestFewStays bounds what is read beyond every chunk once: in a window each lane
// may cut one chunk where it begins and one where its rows do.
func TestFewStays(t *testing.T) {
	r := seeds(t)
	for range 300 {
		spec := random(r, 3000)
		o := must(t, spec)
		if o.Width() == o.Chunks() { // a full shuffle has as many as samples
			continue
		}
		stays := uint64(0)
		for range o.Stays(0, spec.Samples) {
			stays++
		}
		if most := o.Chunks() + 2*o.Width(); stays > most {
			t.Fatalf("%+v: %d stays of %d chunks in %d lanes, %d are the most", spec, stays, o.Chunks(), o.Width(), most)
		}
	}
}

func TestStaysStopWhenAsked(t *testing.T) {
	for _, policy := range []order.Policy{order.None(), order.Full(), order.Window(300)} {
		o := must(t, order.Spec{Samples: 100, Bytes: 10_000, Chunk: 4, Policy: policy})
		n := 0
		for range o.Stays(0, 100) {
			if n++; n == 3 {
				break
			}
		}
		if n != 3 {
			t.Errorf("%v: %d stays", policy, n)
		}
	}
}

func TestNext(t *testing.T) {
	r := seeds(t)
	for range 300 {
		spec := random(r, 400)
		o := must(t, spec)
		all := whole(o)
		for chunk := range o.Chunks() {
			from := r.Uint64N(spec.Samples + 2)
			want := slices.IndexFunc(all[min(from, spec.Samples):], func(sample uint64) bool { return sample/spec.Chunk == chunk })
			got, ok := o.Next(chunk, from)
			if ok != (want >= 0) || ok && got != from+uint64(want) {
				t.Fatalf("%+v: chunk %d is used %d behind %d; Next says %d, %v", spec, chunk, want, from, got, ok)
			}
		}
	}
}

// TestWindowKeepsToItsSize plays a consumer that reads a chunk when it is first
// needed and drops each sample when it was used. Chunks come whole, so for a moment
// there can be a little more than the window allows: two of them, however many lanes.
func TestWindowKeepsToItsSize(t *testing.T) {
	for _, c := range []struct {
		samples, chunk uint64
		resident       uint64 // samples, here of one byte
	}{
		{401_167, 38, 20_000},   // the window of the design: 2 GiB
		{128_117, 38, 30_000},   // a quarter of all: lanes of two chunks
		{128_117, 38, 100_000},  // most of all
		{128_117, 1, 1000},      // samples larger than a chunk
		{401_167, 4096, 50_000}, // small ones: 24 lanes
		{120_000, 1000, 3000},   // all lanes would begin with a chunk, if they did not begin at a turn of their own
		{120_000, 1000, 3550},   // the same
	} {
		spec := order.Spec{Samples: c.samples, Bytes: c.samples, Chunk: c.chunk, Seed: 5, Policy: order.Window(c.resident)}
		o := must(t, spec)
		stays, change := uint64(0), make([]int, spec.Samples+1) // of what is kept, by position
		last := make(map[uint64]uint64)
		for stay := range o.Stays(0, spec.Samples) {
			if before, again := last[stay.Chunk]; again && stay.First <= before {
				t.Fatalf("stay %+v begins before another of its chunk ends at %d", stay, before)
			}
			last[stay.Chunk] = stay.Last
			stays++
			for sample := stay.Chunk * c.chunk; sample < min((stay.Chunk+1)*c.chunk, c.samples); sample++ {
				if use := o.Position(sample); stay.First <= use && use <= stay.Last {
					change[stay.First]++
					change[use+1]--
				}
			}
		}
		now, peak, sum := 0, 0, 0.0
		for _, c := range change {
			now += c
			peak = max(peak, now)
			sum += float64(now)
		}
		mean, again := sum/float64(c.samples), float64(stays-o.Chunks())/float64(o.Width())
		t.Logf("chunks of %d, %d in use: %.0f samples kept on average, %d at most, %d allowed; %.2f windows read twice",
			c.chunk, o.Width(), mean, peak, c.resident, again)
		if mean > float64(c.resident) || float64(peak) > float64(c.resident+2*c.chunk) {
			t.Errorf("chunks of %d: %.0f samples kept on average, %d at most, %d allowed", c.chunk, mean, peak, c.resident)
		}
		if c.samples > 10*c.resident && c.chunk > 1 && mean < float64(c.resident)*0.8 {
			t.Errorf("chunks of %d: only %.0f samples kept on average, %d allowed", c.chunk, mean, c.resident)
		}
		if twice := stays - o.Chunks(); float64(twice) > 1.02*float64(o.Width())+4 {
			t.Errorf("chunks of %d: %.2f windows read twice", c.chunk, again)
		}
	}
}
