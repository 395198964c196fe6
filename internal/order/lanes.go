package order

import "math/big"

// lanes is the sequence of a window.
//
// The chunks are put in a random order, and the samples of each as well; so all
// samples stand in a line. The line is cut into equal lanes, one for each chunk that
// may be in use at a time. A row takes one sample from every lane, in a random order
// of the lanes, the next row the sample behind it. So a chunk gives one sample in each
// of as many rows as it has samples, and a row has as many different chunks as there
// are lanes, but for the few that are cut where one lane ends and the next begins.
//
//	line    |..chunk..|..chunk..|..chunk..|..chunk..|..chunk..|..chunk..|..chunk..|
//	lanes   +---------- 0 ----------+---------- 1 ----------+---------- 2 ---------+
//	row 5        ^                       ^                       ^
//
// Were all lanes at the same turn of their chunks, all of these would be read in one
// row and kept whole. So each lane begins at a turn of its own, and what it left out
// comes in the last rows. The turns are spread evenly: in every row as many chunks
// begin as end, and what has to be kept is half of their samples.
type lanes struct {
	samples uint64
	chunk   uint64 // samples of each but the last one
	last    uint64 // samples of the last one
	chunks  permutation
	short   uint64 // where the last chunk stands among the others

	count   uint64 // lanes
	rows    uint64 // samples of every lane, if there were no remainder
	longer  uint64 // the first so many lanes have one sample more, which is the last row
	stride  uint64 // of the turns at which lanes begin
	phase   uint64 // the first of them
	row     permutation
	lastRow permutation

	turns     permutation
	lastTurns permutation

	chunkKey, rowKey, turnKey uint64
}

// maxLanes keeps the products of two lanes' numbers below 2^64.
const maxLanes = 1<<32 - 1

func newLanes(spec Spec) *lanes {
	chunks := chunksOf(spec.Samples, spec.Chunk)
	key := spec.key()
	s := &lanes{
		samples:  spec.Samples,
		chunk:    spec.Chunk,
		last:     spec.Samples - (chunks-1)*spec.Chunk,
		chunks:   permutationOf(chunks),
		count:    laneCount(spec, chunks),
		chunkKey: derive(key, forChunks),
		rowKey:   derive(key, forRows),
		turnKey:  derive(key, forTurns),
	}
	s.short = s.chunks.of(s.chunkKey, chunks-1)
	s.rows, s.longer = s.samples/s.count, s.samples%s.count
	s.stride, s.phase = strideOf(s.count, chunks), derive(key, forPhase)%s.chunk
	s.row, s.lastRow = permutationOf(s.count), permutationOf(s.longer)
	s.turns, s.lastTurns = permutationOf(s.chunk), permutationOf(s.last)
	return s
}

// laneCount is the largest number of lanes of which a consumer needs to keep no
// more than the policy allows, with the samples of the next row already there: of a
// chunk's K samples K, K-1, ... 1 are still to come, on average (K+1)/2 in every lane.
// A lane has at least two chunks, so that the one it begins in and ends with need not
// be kept in between.
func laneCount(spec Spec, chunks uint64) uint64 {
	number := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	allowed := number(spec.Policy.resident)
	allowed.Mul(allowed, number(2*spec.Samples))
	lane := number(spec.Bytes)
	lane.Mul(lane, number(spec.Chunk+1))
	if most := max(min(chunks/2, maxLanes), 1); allowed.Quo(allowed, lane).Cmp(number(most)) > 0 {
		return most
	}
	return max(allowed.Uint64(), 1)
}

// strideOf is the smallest number from chunks on, taken modulo lanes, that has no
// divisor in common with lanes. Its multiples go through all lanes, so the turns
// at which lanes begin are as different as can be. And they are nearly the turns that
// cutting the line gives anyway: where a lane ends in a chunk, the next one goes on
// with it in the same row or soon, and it need not be read again.
func strideOf(lanes, chunks uint64) uint64 {
	for stride := chunks; ; stride++ {
		a, b := stride, lanes
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return stride % lanes
		}
	}
}

func (s *lanes) width() uint64 { return s.count }

func (s *lanes) at(position uint64) uint64 {
	row, place := position/s.count, position%s.count
	key := derive(s.rowKey, row)
	return s.sample(s.lane(s.inRow(row).at(key, place)).at(row))
}

func (s *lanes) read(dst []uint64, position uint64) {
	row, place := position/s.count, position%s.count
	for len(dst) > 0 {
		here := dst[:min(uint64(len(dst)), s.count-place, block)]
		s.readRow(here, row, place)
		dst = dst[len(here):]
		if place += uint64(len(here)); place == s.count {
			row, place = row+1, 0
		}
	}
}

// readRow reads up to block samples of one row: what at does, step by step for all
// of them.
func (s *lanes) readRow(dst []uint64, row, place uint64) {
	var keys, spots, turns [block]uint64
	key := derive(s.rowKey, row)
	for i := range dst {
		keys[i], dst[i] = key, place+uint64(i)
	}
	s.inRow(row).all(&keys, dst)
	for i, number := range dst {
		keys[i], spots[i] = s.chunkKey, s.lane(number).at(row)
		dst[i], turns[i] = s.rank(spots[i])
	}
	s.chunks.all(&keys, dst)
	for i, chunk := range dst {
		keys[i] = derive(s.turnKey, chunk)
	}
	s.turns.all(&keys, turns[:len(dst)])
	for i, chunk := range dst {
		if dst[i] = chunk*s.chunk + turns[i]; chunk == s.chunks.size-1 {
			dst[i] = s.sample(spots[i]) // its turns are another permutation
		}
	}
}

func (s *lanes) position(sample uint64) uint64 {
	chunk, offset := sample/s.chunk, sample%s.chunk
	turn := s.inChunk(chunk).of(derive(s.turnKey, chunk), offset)
	spot := s.begin(s.chunks.of(s.chunkKey, chunk)) + turn
	lane := s.laneOf(spot)
	return s.use(lane.number, lane.row(spot))
}

// use is the position of a lane's sample in a row.
func (s *lanes) use(lane, row uint64) uint64 {
	return row*s.count + s.inRow(row).of(derive(s.rowKey, row), lane)
}

// inRow is the permutation of a row's places. In the last one are only those lanes
// that have one sample more.
func (s *lanes) inRow(row uint64) permutation {
	if row == s.rows {
		return s.lastRow
	}
	return s.row
}

// inChunk is the permutation of a chunk's samples.
func (s *lanes) inChunk(chunk uint64) permutation {
	if chunk == s.chunks.size-1 {
		return s.lastTurns
	}
	return s.turns
}

// begin is where in the line the chunk of a rank begins.
func (s *lanes) begin(rank uint64) uint64 {
	if rank > s.short {
		return rank*s.chunk - (s.chunk - s.last)
	}
	return rank * s.chunk
}

// rank is the inverse: the chunk that a spot in the line belongs to, and the turn.
func (s *lanes) rank(spot uint64) (rank, turn uint64) {
	if spot >= s.short*s.chunk+s.last {
		spot += s.chunk - s.last
	}
	return spot / s.chunk, spot % s.chunk
}

// sample is the one that stands at a spot of the line.
func (s *lanes) sample(spot uint64) uint64 {
	rank, turn := s.rank(spot)
	chunk := s.chunks.at(s.chunkKey, rank)
	return chunk*s.chunk + s.inChunk(chunk).at(derive(s.turnKey, chunk), turn)
}

// lane is a piece of the line. Row 0 is at shift, the rows go on to the end and then
// from the beginning to shift.
type lane struct {
	number, begin, length, shift uint64
}

func (s *lanes) lane(number uint64) lane {
	l := lane{number: number, begin: number*s.rows + min(number, s.longer), length: s.rows}
	if number < s.longer {
		l.length++
	}
	_, begin := s.rank(l.begin)
	turn := number*s.stride%s.count*s.chunk/s.count + s.phase
	l.shift = (turn + s.chunk - begin) % s.chunk % l.length
	return l
}

// laneOf is the lane that a spot in the line belongs to.
func (s *lanes) laneOf(spot uint64) lane {
	if long := s.rows + 1; spot < s.longer*long {
		return s.lane(spot / long)
	}
	return s.lane((spot - s.longer) / s.rows)
}

// at is the spot in the line that a row takes from the lane.
func (l lane) at(row uint64) uint64 {
	offset := l.shift + row
	if offset >= l.length {
		offset -= l.length
	}
	return l.begin + offset
}

// row is the inverse of at.
func (l lane) row(spot uint64) uint64 {
	offset := spot - l.begin
	if offset < l.shift {
		offset += l.length
	}
	return offset - l.shift
}
