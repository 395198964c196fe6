package order

// written is the sequence without shuffling.
type written struct{ samples, chunk uint64 }

func (s written) width() uint64 { return min(s.samples, 1) }

func (s written) at(position uint64) uint64 { return position }

func (s written) position(sample uint64) uint64 { return sample }

func (s written) read(dst []uint64, position uint64) {
	for i := range dst {
		dst[i] = position + uint64(i)
	}
}

func (s written) stay(chunk uint64) Stay {
	first := chunk * s.chunk
	return Stay{Chunk: chunk, First: first, Last: min(first+s.chunk, s.samples) - 1}
}

func (s written) stays(from, to uint64, yield func(Stay) bool) {
	for chunk := from / s.chunk; chunk*s.chunk < to; chunk++ {
		if !yield(s.stay(chunk)) {
			return
		}
	}
}

func (s written) next(chunk, from uint64) (uint64, bool) {
	stay := s.stay(chunk)
	return max(from, stay.First), from <= stay.Last
}

// mixed is the full shuffle: one permutation of all samples.
type mixed struct {
	samples permutation
	key     uint64
	chunk   uint64
}

func (s mixed) width() uint64 { return chunksOf(s.samples.size, s.chunk) }

func (s mixed) at(position uint64) uint64 { return s.samples.at(s.key, position) }

func (s mixed) position(sample uint64) uint64 { return s.samples.of(s.key, sample) }

func (s mixed) read(dst []uint64, position uint64) {
	var keys [block]uint64
	for i := range keys {
		keys[i] = s.key
	}
	for len(dst) > 0 {
		here := dst[:min(len(dst), block)]
		for i := range here {
			here[i] = position + uint64(i)
		}
		s.samples.all(&keys, here)
		dst, position = dst[len(here):], position+block
	}
}

// stays has one for every position: the next use of a chunk is anywhere, and who
// cannot keep everything had better not keep this.
func (s mixed) stays(from, to uint64, yield func(Stay) bool) {
	for position := from; position < to; position++ {
		if !yield(Stay{Chunk: s.at(position) / s.chunk, First: position, Last: position}) {
			return
		}
	}
}

func (s mixed) next(chunk, from uint64) (first uint64, found bool) {
	for sample := chunk * s.chunk; sample < min((chunk+1)*s.chunk, s.samples.size); sample++ {
		if p := s.position(sample); p >= from && (!found || p < first) {
			first, found = p, true
		}
	}
	return first, found
}
