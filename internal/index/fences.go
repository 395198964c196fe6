package index

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// fences is a sorted, immutable list of keys that divide a range; the first stands
// for the beginning and counts as before everything. For all others the eight
// bytes that follow what they have in common are kept side by side: a search looks
// at those, and nearly always at only one or two of the keys themselves.
type fences struct {
	keys   [][]byte
	common int      // how many bytes keys[1:] share
	leads  []uint64 // of keys[1:]; leads[0] is unused
}

func newFences(keys [][]byte) fences {
	f := fences{keys: keys, leads: make([]uint64, len(keys))}
	if len(keys) > 1 {
		f.common = commonPrefix(keys[1], keys[len(keys)-1]) // they are sorted
	}
	for i := 1; i < len(keys); i++ {
		f.leads[i] = lead(keys[i][f.common:])
	}
	return f
}

// insert returns the list with one more key, at i > 0.
func (f *fences) insert(i int, key []byte) fences {
	keys := slices.Insert(slices.Clip(f.keys), i, key)
	if commonPrefix(keys[1], keys[len(keys)-1]) != f.common {
		return newFences(keys)
	}
	leads := slices.Insert(slices.Clip(f.leads), i, lead(key[f.common:]))
	return fences{keys: keys, common: f.common, leads: leads}
}

// find returns the last fence that is not after key.
func (f *fences) find(key []byte) int {
	if len(f.keys) == 1 {
		return 0
	}
	common := f.keys[1][:f.common]
	if !bytes.HasPrefix(key, common) {
		if bytes.Compare(key, common) < 0 {
			return 0
		}
		return len(f.keys) - 1
	}
	h := lead(key[f.common:])
	low, high := 1, len(f.keys)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if f.leads[mid] < h || f.leads[mid] == h && bytes.Compare(f.keys[mid], key) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

// lead returns the first eight bytes of a key, as a number that compares alike.
func lead(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
