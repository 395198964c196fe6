package index

import (
	"context"
	"math/bits"
	"slices"
)

const (
	mergeWidth = 4       // so many runs of like size become one
	smallRun   = 4 << 20 // runs below this count as of like size
	maxRuns    = 24      // beyond this the cheapest neighbours are merged, alike or not
)

// Merge replaces some neighbouring runs by one if that is worth the work, and
// reports whether it did; a caller repeats it while it does. It blocks neither
// readers nor Apply nor Freeze nor Write, and a second Merge waits for the first.
// It needs free space for the runs it merges. If it fails or ctx ends, everything
// is as it was.
func (x *Index) Merge(ctx context.Context) (bool, error) {
	x.merging.Lock()
	defer x.merging.Unlock()
	defer x.tidy()
	v := x.acquire()
	if v == nil {
		return false, errClosed
	}
	defer x.release(v)
	from, to := pickMerge(v.runs)
	if from == to {
		return false, nil
	}
	if err := canceled(ctx); err != nil {
		return false, err
	}
	if err := x.settle(); err != nil {
		return false, err
	}
	group := v.runs[from:to]
	var sources []source
	var entries, size int64
	for _, r := range group {
		sources = append(sources, newRunSource(r, &x.buffers))
		entries += int64(r.footer.entries)
		size += r.size - int64(len(r.filter))
	}
	// Deletes hide nothing once the oldest run is part of the new one.
	merged, err := x.writeRun(ctx, sources, entries, size, to == len(v.runs))
	if err != nil {
		return false, err
	}
	err = x.installRuns(merged, func(runs []*run) []*run {
		at := slices.Index(runs, group[0]) // newer ones may have come meanwhile
		next := slices.Clone(runs[:at])
		if merged != nil {
			next = append(next, merged)
		}
		return append(next, runs[at+len(group):]...)
	}, nil)
	return err == nil, err
}

// pickMerge chooses which runs, given newest first, to merge: runs[from:to], or
// none if from equals to.
func pickMerge(runs []*run) (from, to int) {
	var entries, deletes uint64
	for _, r := range runs {
		entries += r.footer.entries
		deletes += r.footer.deletes
	}
	// A quarter of deletes: scans stumble over them, and what they hide takes room.
	if deletes > 0 && deletes*4 >= entries && len(runs) > 1 {
		return 0, len(runs)
	}
	for tier := range 64 {
		if from, to := pickTier(runs, tier); from < to {
			return from, to
		}
	}
	if len(runs) > maxRuns {
		return pickCheapest(runs)
	}
	return 0, 0
}

// tierOf returns 0 for a small run, and one more for each factor of mergeWidth.
func tierOf(r *run) int { return (bits.Len64(uint64(r.size/smallRun)) + 1) / 2 }

// pickTier looks for runs of a tier with none of a higher tier between them. If
// there are enough, it takes them and the smaller ones among and below them.
func pickTier(runs []*run, tier int) (from, to int) {
	count := 0
	for i, r := range runs {
		switch t := tierOf(r); {
		case t > tier:
			if count >= mergeWidth {
				return from, i
			}
			count = 0
		case t == tier:
			if count == 0 {
				from = i
			}
			count++
		}
	}
	if count >= mergeWidth {
		return from, len(runs)
	}
	return 0, 0
}

// pickCheapest returns the mergeWidth neighbours with the fewest bytes.
func pickCheapest(runs []*run) (from, to int) {
	best := int64(-1)
	for i := 0; i+mergeWidth <= len(runs); i++ {
		sum := int64(0)
		for _, r := range runs[i : i+mergeWidth] {
			sum += r.size
		}
		if best < 0 || sum < best {
			best, from = sum, i
		}
	}
	return from, from + mergeWidth
}
