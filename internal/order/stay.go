package order

import (
	"cmp"
	"iter"
	"slices"
)

// Stay is a stretch of positions over which a consumer should keep a chunk, because
// its samples are used now and again. In a window the chunks that are in use when the
// epoch begins have another stay when it ends.
type Stay struct {
	Chunk uint64
	First uint64 // position of the first use
	Last  uint64 // position of the last one
}

// Stays yields every stay that has a use in the positions from up to, not including,
// to, in the order of its first use there: what a prefetcher should read, in the
// order it is needed. So it begins with the stays that a consumer which resumes at
// from has missed the beginning of. In a full shuffle every use is a stay by itself.
func (o *Order) Stays(from, to uint64) iter.Seq[Stay] {
	return func(yield func(Stay) bool) {
		if to := min(to, o.samples); from < to {
			o.sequence.stays(from, to, yield)
		}
	}
}

// Next returns the first position, from the given one on, at which a sample of a
// chunk is used, if there is one. In a full shuffle that takes a step for each sample
// of the chunk, otherwise only a few. It panics if there is no such chunk.
func (o *Order) Next(chunk, from uint64) (position uint64, ok bool) {
	o.check(chunk, o.Chunks())
	if position, ok = o.sequence.next(chunk, from); !ok {
		return 0, false
	}
	return position, true
}

// run is some rows in which a lane gives samples of one chunk.
type run struct {
	lane        uint64
	first, last uint64 // rows
	end         uint64 // the spot of the line behind it
}

// run returns the one that a spot of the line belongs to. It is cut off at the ends
// of the lane, and where its rows begin.
func (s *lanes) run(l lane, spot uint64) run {
	rank, _ := s.rank(spot)
	begin, end := max(s.begin(rank), l.begin), min(s.begin(rank+1), l.begin+l.length)
	if row0 := l.begin + l.shift; spot < row0 {
		end = min(end, row0)
	} else {
		begin = max(begin, row0)
	}
	return run{lane: l.number, first: l.row(begin), last: l.row(end - 1), end: end}
}

// runs returns those of the chunk of a rank, by their first rows.
func (s *lanes) runs(rank uint64) []run {
	runs := make([]run, 0, 4)
	for spot := s.begin(rank); spot < s.begin(rank+1); spot = runs[len(runs)-1].end {
		runs = append(runs, s.run(s.laneOf(spot), spot))
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	return runs
}

// together returns those runs of a chunk that are one stay with the one that has a
// use in a row: between them is at most one row without. Where a lane ends and the
// next goes on with its chunk, they mostly overlap.
func together(runs []run, row uint64) []run {
	begin, last := 0, runs[0].last
	for i, r := range runs {
		if r.first > last+2 {
			if row <= last {
				return runs[begin:i]
			}
			begin = i
		}
		last = max(last, r.last)
	}
	return runs[begin:]
}

func (s *lanes) stays(from, to uint64, yield func(Stay) bool) {
	for position := from; position < to; position++ {
		row, place := position/s.count, position%s.count
		l := s.lane(s.inRow(row).at(derive(s.rowKey, row), place))
		spot := l.at(row)
		if row > from/s.count+1 && row > s.run(l, spot).first {
			continue // there was a use in the row before: the stay has been yielded
		}
		rank, _ := s.rank(spot)
		runs := together(s.runs(rank), row)
		if first, _ := s.firstUse(runs, from); first != position {
			continue
		}
		stay := Stay{Chunk: s.chunks.at(s.chunkKey, rank)}
		stay.First, _ = s.firstUse(runs, 0)
		for _, r := range runs {
			stay.Last = max(stay.Last, s.use(r.lane, r.last))
		}
		if !yield(stay) {
			return
		}
	}
}

func (s *lanes) next(chunk, from uint64) (uint64, bool) {
	return s.firstUse(s.runs(s.chunks.of(s.chunkKey, chunk)), from)
}

// firstUse returns the first position, from the given one on, in any of the runs.
func (s *lanes) firstUse(runs []run, from uint64) (first uint64, found bool) {
	for _, r := range runs {
		for row := max(r.first, from/s.count); row <= r.last; row++ {
			use := s.use(r.lane, row)
			if use < from {
				continue // then the next row has one
			}
			if !found || use < first {
				first, found = use, true
			}
			break
		}
	}
	return first, found
}
