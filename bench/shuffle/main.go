// Shuffle measures how well shuffles mix that keep only a part of a dataset: the ones of
// package order, and others that were considered. It prints the table of
// docs/internals/order.md.
//
// With -all it instead goes through one whole epoch of each policy, on all processors,
// and checks that every sample is there once. 2^33 samples need 1 GiB of memory.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"

	"penstock.dev/penstock/internal/order"
)

func main() {
	log.SetFlags(0)
	var d data
	flag.Uint64Var(&d.samples, "samples", 1_281_167, "number of samples, sorted by class")
	flag.Uint64Var(&d.classes, "classes", 1000, "number of classes")
	flag.Uint64Var(&d.bytes, "bytes", 110_000, "size of a sample")
	flag.Uint64Var(&d.chunk, "chunk", 38, "samples in a chunk")
	batch := flag.Uint64("batch", 256, "samples in a batch")
	seeds := flag.Uint64("seeds", 5, "how many epochs, each with a seed of its own")
	resident := flag.Uint64("resident", 2<<30, "bytes kept by the shuffles that are compared")
	all := flag.Bool("all", false, "check that every sample is there once")
	flag.Parse()

	if *all {
		if err := everySampleOnce(d, *resident); err != nil {
			log.Fatal(err)
		}
		return
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "shuffle\tkept\tmean\tworst\tworst of first 20\t\n")
	row := func(name string, kept uint64, sequence func(seed uint64) []uint64) {
		t := newTally(d, *batch)
		for seed := range *seeds {
			t.add(sequence(seed))
		}
		fmt.Fprintf(out, "%s\t%d MiB\t%.1f\t%d\t%d\t\n", name, kept>>20, t.mean(), t.worst, t.worstFirst)
	}
	row("full", d.samples*d.bytes, func(seed uint64) []uint64 { return d.read(order.Full(), seed) })
	for _, kept := range []uint64{4 * *resident, 2 * *resident, *resident, *resident / 2, *resident / 4, *resident / 8} {
		row("window", kept, func(seed uint64) []uint64 { return d.read(order.Window(kept), seed) })
	}
	row("sorted keys", *resident, func(seed uint64) []uint64 { return d.sortedKeys(seed, *resident, true) })
	row("sorted keys, no wrapping", *resident, func(seed uint64) []uint64 { return d.sortedKeys(seed, *resident, false) })
	row("buffer", *resident, func(seed uint64) []uint64 { return d.buffer(seed, *resident) })
	row("groups", 2**resident, func(seed uint64) []uint64 { return d.groups(seed, 2**resident) })
	row("groups", *resident, func(seed uint64) []uint64 { return d.groups(seed, *resident) })
	row("none", d.chunk*d.bytes, func(seed uint64) []uint64 { return d.read(order.None(), seed) })
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// data is a dataset sorted by class.
type data struct {
	samples, classes, bytes, chunk uint64
}

func (d data) order(policy order.Policy, seed uint64) *order.Order {
	o, err := order.New(order.Spec{Samples: d.samples, Bytes: d.samples * d.bytes, Chunk: d.chunk, Seed: seed, Policy: policy})
	if err != nil {
		log.Fatal(err)
	}
	return o
}

func (d data) read(policy order.Policy, seed uint64) []uint64 {
	all := make([]uint64, d.samples)
	d.order(policy, seed).Read(all, 0)
	return all
}

// line is the samples with their chunks in a random order.
func (d data) line(r *rand.Rand) []uint64 {
	line := make([]uint64, 0, d.samples)
	for _, chunk := range r.Perm(int((d.samples + d.chunk - 1) / d.chunk)) {
		first := uint64(chunk) * d.chunk
		for sample := first; sample < min(first+d.chunk, d.samples); sample++ {
			line = append(line, sample)
		}
	}
	return line
}

// sortedKeys is the window the design began with: each sample's key is its chunk's
// place in the line plus a random part of twice the window, and all are sorted by it.
func (d data) sortedKeys(seed, resident uint64, wrap bool) []uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	type keyed struct{ key, sample uint64 }
	all := make([]keyed, 0, d.samples)
	for i, sample := range d.line(r) {
		key := uint64(i)/d.chunk*d.chunk + r.Uint64N(2*resident/d.bytes)
		if wrap {
			key %= d.samples
		}
		all = append(all, keyed{key, sample})
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return int(a.key) - int(b.key) })
	sequence := make([]uint64, len(all))
	for i, k := range all {
		sequence[i] = k.sample
	}
	return sequence
}

// buffer is WebDataset's: read on, and give any of those that are in the buffer.
func (d data) buffer(seed, resident uint64) []uint64 {
	r := rand.New(rand.NewPCG(seed, 2))
	var buffer []uint64
	sequence := make([]uint64, 0, d.samples)
	give := func() {
		i := r.IntN(len(buffer))
		sequence = append(sequence, buffer[i])
		buffer[i] = buffer[len(buffer)-1]
		buffer = buffer[:len(buffer)-1]
	}
	for _, sample := range d.line(r) {
		if buffer = append(buffer, sample); uint64(len(buffer)) > resident/d.bytes {
			give()
		}
	}
	for len(buffer) > 0 {
		give()
	}
	return sequence
}

// groups is DIESEL's: so many chunks are mixed, then the next ones. Half of what is
// kept is the group in use, half the one that is being read.
func (d data) groups(seed, resident uint64) []uint64 {
	r := rand.New(rand.NewPCG(seed, 3))
	line := d.line(r)
	for group := range slices.Chunk(line, int(max(resident/2/(d.chunk*d.bytes), 1)*d.chunk)) {
		r.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	return line
}

// tally counts the classes of batches.
type tally struct {
	classes           order.Classes
	batch             uint64
	sum, batches      uint64
	worst, worstFirst uint64
}

func newTally(d data, batch uint64) *tally {
	return &tally{classes: order.Ranges(d.samples, d.classes), batch: batch, worst: batch, worstFirst: batch}
}

func (t *tally) add(sequence []uint64) {
	seen := make([]uint64, len(t.classes.Sizes))
	for i := uint64(1); i*t.batch <= uint64(len(sequence)); i++ {
		distinct := uint64(0)
		for _, sample := range sequence[(i-1)*t.batch : i*t.batch] {
			if class := t.classes.Of(sample); seen[class] != i {
				seen[class] = i
				distinct++
			}
		}
		t.sum += distinct
		t.batches++
		t.worst = min(t.worst, distinct)
		if i <= 20 {
			t.worstFirst = min(t.worstFirst, distinct)
		}
	}
}

func (t *tally) mean() float64 { return float64(t.sum) / float64(max(t.batches, 1)) }
