package index

import "github.com/zeebo/xxh3"

// A filter says of a key that it is surely not in a run, or that it may be. It is
// a Bloom filter in pieces of one cache line: all bits of a key lie in the same
// 64 bytes, so that asking costs one miss of the processor's cache. With 10 bits a
// key and 6 probes about 1 in 80 absent keys passes.
type filter []byte

const (
	filterLine   = 64
	filterProbes = 6
	filterBits   = 10 // per key
)

// newFilter returns an empty filter with room for n keys.
func newFilter(n int64) filter {
	return make(filter, filterLine*max(1, (n*filterBits+filterLine*8-1)/(filterLine*8)))
}

// filterHash is the hash the filters on disk are made with. XXH3 will not change.
func filterHash(key []byte) uint64 { return xxh3.Hash(key) }

// place returns the line of a hash, and the probes: 9 bits each, from the top of
// a product that depends on all bits of the hash.
func (f filter) place(hash uint64) (line []byte, probes uint64) {
	i := (hash >> 32) * uint64(len(f)/filterLine) >> 32 * filterLine
	return f[i : i+filterLine : i+filterLine], (hash * 0x9e3779b97f4a7c15) >> 10
}

func (f filter) add(hash uint64) {
	line, probes := f.place(hash)
	for range filterProbes {
		line[probes>>3&63] |= 1 << (probes & 7)
		probes >>= 9
	}
}

func (f filter) has(hash uint64) bool {
	line, probes := f.place(hash)
	for range filterProbes {
		if line[probes>>3&63]&(1<<(probes&7)) == 0 {
			return false
		}
		probes >>= 9
	}
	return true
}
