// Package order says which sample of a dataset comes when. An order is a pure
// function of what a Spec holds: the dataset, a seed, an epoch and a policy. It reads
// nothing, keeps nothing and starts nothing, so that clients, nodes and prefetchers
// come to the same sequence by themselves, and a run resumes from one integer.
//
// Every position is computed by itself, in a fraction of a microsecond, whatever the
// policy and the size: there is no seeking. The inverse costs the same: Position says
// when a sample is used.
//
// The words: a position is a place in the sequence of an epoch; a chunk is so many
// consecutive samples, the unit of reading; a stay is a run of positions over which a
// consumer keeps a chunk. In a window there are lanes, each of which goes through
// chunk after chunk, and rows: in each row every lane gives one sample.
// docs/internals/order.md has the algorithm to the last bit.
//
// What is computed here is a format. Training state names it (Algorithm), runs resume
// by it years later, python/src/penstock/order.py computes the same: it can never
// change, there can only be another one beside it. testdata/vectors/order holds what
// it is.
//
// An Order is immutable and may be used by many goroutines at once.
package order

// Algorithm names the function from Spec to sequence, for training state.
const Algorithm = "penstock-1"

// MaxSamples is the largest number of samples, in a dataset and in a chunk.
const MaxSamples = 1 << 48

// Spec is everything an order depends on.
type Spec struct {
	Dataset uint64 // identity of the version, so that two datasets of one size differ; 0 will do
	Samples uint64 // in the dataset
	Bytes   uint64 // of all samples together, as the version's manifest has them; only a window asks
	Chunk   uint64 // samples in a chunk; the last one may have fewer
	Seed    uint64
	Epoch   uint64
	Policy  Policy
}

// Order is the sequence of samples of one epoch.
type Order struct {
	samples  uint64
	chunk    uint64
	sequence sequence
}

// sequence is what the policies do differently. Its methods get positions, samples
// and chunks that exist.
type sequence interface {
	width() uint64
	at(position uint64) uint64
	read(dst []uint64, position uint64)
	position(sample uint64) uint64
	stays(from, to uint64, yield func(Stay) bool)
	next(chunk, from uint64) (uint64, bool)
}

// New returns the order of a spec. It costs a microsecond: an epoch more is a spec
// more.
func New(spec Spec) (*Order, error) {
	switch {
	case spec.Samples > MaxSamples:
		return nil, invalid("an order of %d samples: %d are the most", spec.Samples, uint64(MaxSamples))
	case spec.Chunk > MaxSamples:
		return nil, invalid("chunks of %d samples: %d are the most", spec.Chunk, uint64(MaxSamples))
	case spec.Chunk == 0:
		return nil, invalid("chunks of 0 samples: 1 is the least")
	}
	o := &Order{samples: spec.Samples, chunk: spec.Chunk}
	switch {
	case spec.Policy.kind == none || spec.Samples == 0:
		o.sequence = written{spec.Samples, spec.Chunk}
	case spec.Policy.kind == full || spec.Policy.resident >= spec.Bytes:
		// A consumer that may keep everything needs no window.
		o.sequence = mixed{permutationOf(spec.Samples), derive(spec.key(), forSamples), spec.Chunk}
	default:
		o.sequence = newLanes(spec)
	}
	return o, nil
}

// The purposes of keys.
const (
	forSamples = iota + 1
	forChunks
	forRows
	forTurns
	forPhase
)

func (s Spec) key() uint64 {
	return derive(derive(derive(root, s.Dataset), s.Seed), s.Epoch)
}

// Len returns the number of positions, which is that of samples.
func (o *Order) Len() uint64 { return o.samples }

// At returns the sample at a position. It panics if there is no such position, as
// an index into a slice does.
func (o *Order) At(position uint64) uint64 {
	o.check(position, o.samples)
	return o.sequence.at(position)
}

// Read fills dst with the samples from a position on and returns how many there
// were: fewer than asked for at the end of the epoch, none behind it.
func (o *Order) Read(dst []uint64, position uint64) int {
	if position >= o.samples {
		return 0
	}
	dst = dst[:min(uint64(len(dst)), o.samples-position)]
	o.sequence.read(dst, position)
	return len(dst)
}

// Position returns where in the epoch a sample is used, which is once. It panics if
// there is no such sample.
func (o *Order) Position(sample uint64) uint64 {
	o.check(sample, o.samples)
	return o.sequence.position(sample)
}

// Chunks returns the number of chunks.
func (o *Order) Chunks() uint64 { return chunksOf(o.samples, o.chunk) }

// Width returns the number of chunks that are in use at a time: one without
// shuffling, all of them in a full shuffle. A batch of a quarter of it has 99 % of the
// classes of a full shuffle, even if every chunk is of one class; one of half of it
// 96 %, one as large as it 85 %.
func (o *Order) Width() uint64 { return o.sequence.width() }

func chunksOf(samples, chunk uint64) uint64 { return (samples + chunk - 1) / chunk }

func (o *Order) check(number, end uint64) {
	if number >= end {
		panic(invalid("%d is not below %d: no such position, sample or chunk in this order", number, end))
	}
}
