package index

import "encoding/binary"

// blockBuilder puts entries, given in key order, into the form of a block.
type blockBuilder struct {
	buf      []byte
	restarts []uint16
	first    int // length of the first key, which begins at firstAt
	firstAt  int
	last     []byte
	count    int
}

func (b *blockBuilder) reset() {
	b.buf, b.restarts, b.last, b.count = b.buf[:0], b.restarts[:0], b.last[:0], 0
}

func (b *blockBuilder) add(key, value []byte, deleted bool) {
	shared := 0
	if b.count%restartEvery == 0 {
		if b.count > 0 {
			shared = commonPrefix(b.buf[b.firstAt:b.firstAt+b.first], key)
		}
		b.restarts = append(b.restarts, uint16(len(b.buf)))
	} else {
		shared = commonPrefix(b.last, key)
	}
	tag := uint64(0)
	if !deleted {
		tag = uint64(len(value)) + 1
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(shared))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)-shared))
	b.buf = binary.AppendUvarint(b.buf, tag)
	if b.count == 0 {
		b.firstAt, b.first = len(b.buf), len(key)
	}
	b.buf = append(b.buf, key[shared:]...)
	b.buf = append(b.buf, value...)
	b.last = append(b.last[:shared], key[shared:]...)
	b.count++
}

// finish appends the trailer and returns the block, valid until the next reset.
func (b *blockBuilder) finish() []byte {
	for _, r := range b.restarts {
		b.buf = little.AppendUint16(b.buf, r)
	}
	b.buf = little.AppendUint16(b.buf, uint16(b.count))
	return b.buf
}
