package index

import (
	"bytes"
	"encoding/binary"
	"math"
)

// blockIndex says which block of a run a key would be in. It is loaded when the
// run is opened and takes, for each block, its separator and 17 bytes.
//
// The separator of a block is a short key that is after everything in the block
// before and not after anything in the block itself. The block's checksum is kept
// here, not in the block: a whole block that was swapped for another one, or for
// an older self, is found as surely as a flipped bit.
type blockIndex struct {
	keys   []byte // the separators, one after the other
	blocks []blockRef
	end    int64  // where the last block ends
	fences fences // every 64th separator: few enough to stay in the processor's cache
}

const fenceEvery = 64

type blockRef struct {
	offset int64
	crc    uint32
	key    uint32 // where the separator begins in keys
}

func (x *blockIndex) len() int { return len(x.blocks) }

func (x *blockIndex) separator(i int) []byte {
	end := uint32(len(x.keys))
	if i+1 < len(x.blocks) {
		end = x.blocks[i+1].key
	}
	return x.keys[x.blocks[i].key:end]
}

// extent returns where a block begins and how long it is.
func (x *blockIndex) extent(i int) (offset, length int64) {
	end := x.end
	if i+1 < len(x.blocks) {
		end = x.blocks[i+1].offset
	}
	return x.blocks[i].offset, end - x.blocks[i].offset
}

// find returns the only block that key can be in, -1 if it is before all.
func (x *blockIndex) find(key []byte) int {
	low := x.fences.find(key) * fenceEvery
	high := min(low+fenceEvery, len(x.blocks))
	for low < high {
		mid := int(uint(low+high) >> 1)
		if bytes.Compare(x.separator(mid), key) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

// On disk the index is, for each block:
//
//	shared(uvarint) unshared(uvarint) separator-suffix length(uvarint) crc(u32)

// appendBlockIndex appends the line of one block, whose separator follows last.
func appendBlockIndex(buf, last, separator []byte, length int, crc uint32) []byte {
	shared := commonPrefix(last, separator)
	buf = binary.AppendUvarint(buf, uint64(shared))
	buf = binary.AppendUvarint(buf, uint64(len(separator)-shared))
	buf = append(buf, separator[shared:]...)
	buf = binary.AppendUvarint(buf, uint64(length))
	return little.AppendUint32(buf, crc)
}

// parseBlockIndex reads the index of a run whose n blocks lie between start and
// end. It is safe on any bytes.
func parseBlockIndex(b []byte, n int, start, end int64) (x blockIndex, ok bool) {
	if n <= 0 || n > len(b)/7 { // a line has at least seven bytes
		return x, false
	}
	x = blockIndex{blocks: make([]blockRef, 0, n), end: end}
	var last []byte
	for range n {
		var v [2]uint64
		for i := range v {
			size := 0
			if v[i], size = binary.Uvarint(b); size <= 0 {
				return x, false
			}
			b = b[size:]
		}
		if v[0] > uint64(len(last)) || v[1] > uint64(len(b)) || uint64(len(x.keys))+v[0]+v[1] > math.MaxUint32 {
			return x, false
		}
		at := len(x.keys)
		x.keys = append(append(x.keys, last[:v[0]]...), b[:v[1]]...)
		b = b[v[1]:]
		if separator := x.keys[at:]; len(x.blocks) > 0 && bytes.Compare(last, separator) >= 0 {
			return x, false
		}
		last = x.keys[at:]
		length, size := binary.Uvarint(b)
		if size <= 0 || len(b) < size+4 || length == 0 || length > uint64(end-start) {
			return x, false
		}
		x.blocks = append(x.blocks, blockRef{offset: start, crc: little.Uint32(b[size:]), key: uint32(at)})
		start += int64(length)
		b = b[size+4:]
	}
	x.keys = bytes.Clone(x.keys) // give back what append took too much
	var every [][]byte
	for i := 0; i < n; i += fenceEvery {
		every = append(every, x.separator(i))
	}
	x.fences = newFences(every)
	return x, len(b) == 0 && start == end
}

// separate appends to dst[:0] a short key that is after last and not after key.
func separate(dst, last, key []byte) []byte {
	return append(dst[:0], key[:min(commonPrefix(last, key)+1, len(key))]...)
}
