package bench

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Op is what a request does.
type Op string

// The operations of a load.
const (
	Put      Op = "put"       // store one object
	Get      Op = "get"       // read one object
	Batch    Op = "batch"     // read many objects in one request
	PutBatch Op = "put-batch" // store many objects in one request
	Mixed    Op = "mixed"     // read one object or, now and then, store one
)

// Pattern is the order in which keys are asked for.
type Pattern string

// The patterns.
const (
	Epoch      Pattern = "epoch"      // each key once, in random order, and again in another one
	Random     Pattern = "random"     // each time any key
	Sequential Pattern = "sequential" // one after the other, and from the beginning again
)

// Workload is a load: which objects are asked for, how, and how fast. Everything
// about the objects follows from Seed, Prefix, Keys, Sizes and a position; it is
// the same in every run. With Existing, their keys and sizes are given instead.
type Workload struct {
	Op      Op      `json:"op"`
	Prefix  string  `json:"prefix"`  // what all keys begin with
	Keys    int64   `json:"keys"`    // how many there are, 1000 if zero
	Sizes   Sizes   `json:"size"`    // how large they are
	Pattern Pattern `json:"pattern"` // Epoch if empty
	Seed    uint64  `json:"seed"`
	Batch   int     `json:"batch,omitempty"`     // objects in a request of Batch and PutBatch, 256 if zero; no more than Keys in a PutBatch
	Writes  float64 `json:"put_share,omitempty"` // share of Puts in Mixed
	Verify  bool    `json:"verify"`              // compare every byte read

	// Existing objects are read instead of made-up ones. They take the place of
	// Keys and Sizes; Prefix is what they were listed with. They are verified
	// against their size and CRC-32.
	Existing *Existing `json:"-"`

	Workers  int           `json:"workers"`               // requests at once, 8 if zero
	Duration time.Duration `json:"duration_ns,omitempty"` // how long to begin new requests; 0: until Count
	Count    int64         `json:"count,omitempty"`       // objects to ask for; 0: until Duration
	Rate     float64       `json:"rate,omitempty"`        // objects per second in an open loop; 0: as fast as they are answered
	Warmup   time.Duration `json:"warmup_ns,omitempty"`   // the same load before, not measured
	Grace    time.Duration `json:"-"`                     // how long requests may go on after Duration, 30 s if zero
}

// What a load may take of the machine it runs on.
const (
	MaxWorkers = 4096
	MaxBatch   = 65536
	MaxMemory  = 4 << 30 // of what workers hold in their hands
)

func (w Workload) withDefaults() Workload {
	if w.Existing != nil {
		w.Keys, w.Sizes = int64(len(w.Existing.objects)), w.Existing.sizes
	}
	if w.Keys == 0 {
		w.Keys = 1000
	}
	if w.Pattern == "" {
		w.Pattern = Epoch
	}
	if w.Workers == 0 {
		w.Workers = 8
	}
	if w.Grace == 0 {
		w.Grace = 30 * time.Second
	}
	switch {
	case w.Op != Batch && w.Op != PutBatch:
		w.Batch = 1
	case w.Batch == 0:
		w.Batch = 256
	}
	if w.Op == PutBatch && w.Keys > 0 {
		w.Batch = int(min(int64(w.Batch), w.Keys))
	}
	if w.Op != Mixed {
		w.Writes = 0
	}
	return w
}

// Validate reports as Invalid what makes no sense, or would take more memory than
// MaxMemory.
func (w Workload) Validate() error {
	w = w.withDefaults()
	invalid := func(format string, args ...any) error { return object.Errorf(object.Invalid, format, args...) }
	switch w.Op {
	case Put, Get, Batch, PutBatch, Mixed:
	default:
		return invalid("%q is no operation", w.Op)
	}
	switch w.Pattern {
	case Epoch, Random, Sequential:
	default:
		return invalid("%q is no pattern", w.Pattern)
	}
	switch {
	case w.Keys < 1 || w.Keys > 1e12:
		return invalid("%d keys are not between 1 and 10^12", w.Keys)
	case w.Workers < 1 || w.Workers > MaxWorkers:
		return invalid("%d workers are not between 1 and %d", w.Workers, MaxWorkers)
	case w.Batch < 1 || w.Batch > MaxBatch:
		return invalid("a batch of %d is not between 1 and %d", w.Batch, MaxBatch)
	case w.Writes < 0 || w.Writes > 1:
		return invalid("a share of %g is not between 0 and 1", w.Writes)
	case w.Duration < 0 || w.Warmup < 0 || w.Count < 0 || w.Rate < 0:
		return invalid("a duration, count or rate is negative")
	case w.Duration == 0 && w.Count == 0:
		return invalid("neither a duration nor a count is given")
	case w.Rate > 1e9 || w.Rate != w.Rate:
		return invalid("a rate of %g is not between 0 and 10^9", w.Rate)
	}
	if w.Existing != nil {
		if err := w.Existing.check(w.Op); err != nil {
			return err
		}
	}
	if err := object.ValidateKey(w.Key(w.Keys - 1)); err != nil {
		return err
	}
	return w.checkMemory()
}

// checkMemory bounds what workers hold: one object each that is being written or
// received as part of a batch, and all objects of a batch that is being sent.
func (w Workload) checkMemory() error {
	each := float64(w.Sizes.Max())
	if w.Op == Get {
		each = 0 // streamed
	}
	if w.Op == PutBatch {
		each += float64(w.Batch) * w.Sizes.Mean()
	}
	if total := each * float64(w.Workers); total > MaxMemory {
		return object.Errorf(object.Invalid, "%d workers would hold about %.1f GiB of objects, more than %d: take fewer workers or smaller batches",
			w.Workers, total/(1<<30), MaxMemory>>30)
	}
	return nil
}

// Key returns the name of a key, its index from 0.
func (w Workload) Key(index int64) string {
	if w.Existing != nil {
		return w.Existing.objects[index].key
	}
	digits := strconv.FormatInt(index, 10)
	return w.Prefix + strings.Repeat("0", max(0, 8-len(digits))) + digits
}

// At returns the index of the key that a position of the sequence asks for.
func (w Workload) At(position int64) int64 {
	switch w.Pattern {
	case Sequential:
		return position % w.Keys
	case Random:
		high, _ := bits.Mul64(mix(w.Seed^saltRandom, uint64(position)), uint64(w.Keys))
		return int64(high)
	}
	epoch, place := position/w.Keys, position%w.Keys
	return permute(place, w.Keys, mix(w.Seed^saltEpoch, uint64(epoch)))
}

// WritesAt reports whether a position of a Mixed load stores its object.
func (w Workload) WritesAt(position int64) bool {
	return unit(mix(w.Seed^saltWrites, uint64(position))) < w.Writes
}

// Content returns what is stored under a key that is made up.
func (w Workload) Content(key string) Content {
	hash := hashKey(w.Seed, key)
	return Content{hash: hash, size: w.Sizes.of(mix(hash, saltSize))}
}

// content returns what a key holds.
func (w Workload) content(index int64, key string) Content {
	if w.Existing != nil {
		return w.Existing.content(index)
	}
	return w.Content(key)
}

// Salts keep the draws of a workload independent of each other.
const (
	saltRandom = 0x72616e646f6d
	saltEpoch  = 0x65706f6368
	saltWrites = 0x777269746573
	saltSize   = 0x73697a65
)

// mix returns a number that looks random: the finish of splitmix64, at step n.
func mix(seed, n uint64) uint64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit turns a random number into one strictly between 0 and 1.
func unit(random uint64) float64 { return (float64(random>>12) + 0.5) / (1 << 52) }

// permute returns the place-th element of a random order of 0 to n-1, without
// making a list of them: four Feistel rounds on the next larger power of four,
// repeated until the result is in range.
func permute(place, n int64, seed uint64) int64 {
	half := (bits.Len64(uint64(n-1)) + 1) / 2
	mask := uint64(1)<<half - 1
	x := uint64(place)
	for {
		left, right := x>>half, x&mask
		for round := range uint64(4) {
			left, right = right, left^(mix(seed^round, right)&mask)
		}
		if x = left<<half | right; x < uint64(n) {
			return int64(x)
		}
	}
}
