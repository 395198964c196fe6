package dataset

import "penstock.dev/penstock/internal/order"

// plan says which samples are written to which shard. It follows from the listing
// and the options alone, so that a run that was killed and the one after it have the
// same.
type plan struct {
	chosen []uint32     // samples that are written, by number; nil: all
	order  *order.Order // of them; nil: as they are
	starts []uint32     // the position of each shard's first sample, and where the last one ends
}

// newPlan plans for the chosen samples of a listing, or all if chosen is nil.
func newPlan(l *listing, chosen []uint32, opts *Options) (*plan, error) {
	p := &plan{chosen: chosen}
	samples := l.len()
	if chosen != nil {
		samples = len(chosen)
	}
	if !opts.KeepOrder && samples > 0 {
		var err error
		if p.order, err = order.New(order.Spec{Samples: uint64(samples), Chunk: 1, Seed: opts.Seed, Policy: order.Full()}); err != nil {
			return nil, err
		}
	}
	// A shard ends before the sample that would take it beyond its size.
	size := int64(0)
	for position, sample := range p.all(0, uint32(samples)) {
		weight := l.weights[sample]
		if position == 0 || size+weight > opts.ShardSize {
			p.starts = append(p.starts, position)
			size = 0
		}
		size += weight
	}
	p.starts = append(p.starts, uint32(samples))
	return p, nil
}

func (p *plan) shards() int { return len(p.starts) - 1 }

// all yields the positions from up to, not including, to, and their samples.
func (p *plan) all(from, to uint32) func(yield func(position, sample uint32) bool) {
	return func(yield func(position, sample uint32) bool) {
		var numbers [256]uint64
		for from < to {
			n := min(to-from, uint32(len(numbers)))
			if p.order != nil {
				p.order.Read(numbers[:n], uint64(from))
			}
			for i := range n {
				number := from + i
				if p.order != nil {
					number = uint32(numbers[i])
				}
				if p.chosen != nil {
					number = p.chosen[number]
				}
				if !yield(from+i, number) {
					return
				}
			}
			from += n
		}
	}
}

// shard yields the samples of a shard.
func (p *plan) shard(s int) func(yield func(sample uint32) bool) {
	return func(yield func(sample uint32) bool) {
		for _, sample := range p.all(p.starts[s], p.starts[s+1]) {
			if !yield(sample) {
				return
			}
		}
	}
}
