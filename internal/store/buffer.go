package store

import (
	"math/bits"
	"sync"
)

// buffers are pools of memory by size, for records on their way in or out.
type buffers struct {
	pools [maxBufferBits + 1]sync.Pool
}

const (
	minBufferBits = 13 // 8 KiB
	maxBufferBits = 21 // 2 MiB; larger ones are not kept
)

// get returns an empty buffer with room for n bytes.
func (b *buffers) get(n int64) []byte {
	size := max(minBufferBits, bits.Len64(uint64(max(n, 1)-1)))
	if size > maxBufferBits {
		return make([]byte, 0, n)
	}
	if p, ok := b.pools[size].Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, 1<<size)
}

// put takes back a buffer that nobody uses any more.
func (b *buffers) put(buf []byte) {
	c := cap(buf)
	if c == 0 || c&(c-1) != 0 {
		return
	}
	if size := bits.Len(uint(c)) - 1; size >= minBufferBits && size <= maxBufferBits {
		buf = buf[:0]
		b.pools[size].Put(&buf)
	}
}
