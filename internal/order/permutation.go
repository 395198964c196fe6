package order

import "math"

const (
	// golden is 2^64 divided by the golden ratio: it keeps mix away from its fixed
	// point at 0 and words apart that differ little.
	golden = 0x9e3779b97f4a7c15

	// root is "penstock", its first letter lowest. Another algorithm takes another.
	root = 0x6b636f74736e6570

	// rounds of the network. Each takes the bias of pairs down by a factor of side:
	// eight are enough for squares of 16 and more, ten leave nothing to be seen in
	// the smallest. docs/internals/order.md has the measurement.
	rounds = 10
)

// mix is the finalizer of SplitMix64: a bijection of 64 bits in which every bit of
// the result depends on every bit of z.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// derive makes of a key another one, for the purpose or thing that word names.
func derive(key, word uint64) uint64 { return mix(key + word + golden) }

// permutation is a family of bijections of the numbers below size, one for each
// key. It needs no memory and takes the same few steps for every number.
//
// A number below side*side is written as two digits to the base side, which go
// through a Feistel network that adds where others use exclusive or. So side can
// fit size closely, and a result that is not below size, which is sent through
// again, is rare: a network of bits would see up to three of four fall outside.
type permutation struct {
	size uint64
	side uint64 // the smallest even number whose square is at least size
}

// permutationOf takes sizes up to MaxSamples, for which a float64 is exact enough.
// With an odd side every round would be an even permutation, and of a handful of
// samples only half the orders could come.
func permutationOf(size uint64) permutation {
	side := uint64(math.Sqrt(float64(size)))
	for side > 0 && (side-1)*(side-1) >= size {
		side--
	}
	for side*side < size {
		side++
	}
	return permutation{size: size, side: side + side%2}
}

// step is what a round adds to the one digit, given the other.
func (p permutation) step(key, round, digit uint64) uint64 {
	high := mix(key+round<<32+digit) >> 32
	return high * p.side >> 32
}

// at returns where v, which is below size, goes under the key.
func (p permutation) at(key, v uint64) uint64 {
	for {
		left, right := v/p.side, v%p.side
		for round := range uint64(rounds) {
			left += p.step(key, round, right)
			if left >= p.side {
				left -= p.side
			}
			left, right = right, left
		}
		if v = left*p.side + right; v < p.size {
			return v
		}
	}
}

// block is how many numbers all takes at once.
const block = 64

// all replaces each of up to block values by where it goes under the key beside it.
// The rounds of one value wait for each other; those of many values do not, and a
// processor works on several at a time.
func (p permutation) all(keys *[block]uint64, values []uint64) {
	var left, right, key [block]uint64
	var index [block]uint8
	for i := range values {
		key[i], index[i] = keys[i], uint8(i)
		left[i], right[i] = values[i]/p.side, values[i]%p.side
	}
	for n := len(values); n > 0; {
		l, r, k := left[:n], right[:n], key[:n]
		for round := range uint64(rounds) {
			for i := range l {
				sum := l[i] + p.step(k[i], round, r[i])
				if sum >= p.side {
					sum -= p.side
				}
				l[i] = sum
			}
			l, r = r, l // back where they were behind the last round: rounds is even
		}
		outside := 0
		for i := range n {
			if v := left[i]*p.side + right[i]; v < p.size {
				values[index[i]] = v
			} else {
				key[outside], index[outside] = key[i], index[i]
				left[outside], right[outside] = left[i], right[i]
				outside++
			}
		}
		n = outside
	}
}

// of is the inverse of at: what goes to v.
func (p permutation) of(key, v uint64) uint64 {
	for {
		left, right := v/p.side, v%p.side
		for round := uint64(rounds); round > 0; round-- {
			left, right = right, left
			if back := p.step(key, round-1, right); left >= back {
				left -= back
			} else {
				left += p.side - back
			}
		}
		if v = left*p.side + right; v < p.size {
			return v
		}
	}
}
