package bench

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"penstock.dev/penstock/internal/object"
)

// Content is the bytes of one object, as a function and not as memory: any piece
// can be made at any time. The first eight bytes are a hash of seed and key, the
// next eight the size, so that a mixed-up answer shows at once; the rest looks
// random and does not compress.
//
// Of an object that exists only size and CRC-32 are known, and nothing is read.
type Content struct {
	hash  uint64
	size  int64
	known bool // it exists, with this CRC-32
	crc   uint32
}

// Size returns how many bytes there are.
func (c Content) Size() int64 { return c.size }

// Read fills p with the bytes from offset on, as many as there are, and returns
// how many.
func (c Content) Read(p []byte, offset int64) int {
	p = p[:max(0, min(int64(len(p)), c.size-offset))]
	n := len(p)
	if skip := offset % 8; skip > 0 && n > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], c.word(offset/8))
		took := copy(p, word[skip:])
		p, offset = p[took:], offset+int64(took)
	}
	at := offset / 8
	for ; len(p) >= 8; p, at = p[8:], at+1 {
		binary.LittleEndian.PutUint64(p, c.word(at))
	}
	if len(p) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], c.word(at))
		copy(p, word[:])
	}
	return n
}

func (c Content) word(at int64) uint64 {
	switch at {
	case 0:
		return c.hash
	case 1:
		return uint64(c.size)
	}
	return mix(c.hash^uint64(c.size), uint64(at))
}

// hashKey is FNV-1a of the key, mixed with the seed.
func hashKey(seed uint64, key string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for i := range len(key) {
		hash = (hash ^ uint64(key[i])) * 0x100000001b3
	}
	return mix(seed, hash)
}

// checker is where the bytes of an object go that is read: it counts and, if it
// is to verify, compares them. It takes all of them even if they are wrong, so
// that a connection is left as after any other answer.
type checker struct {
	verify  bool
	key     string
	content Content
	offset  int64
	wrong   int64 // the first byte that differs, -1 if none does
	crc     uint32
	scratch [4096]byte
}

// begin expects an object.
func (c *checker) begin(key string, content Content) {
	c.key, c.content, c.offset, c.wrong, c.crc = key, content, 0, -1, 0
}

// Write takes the next bytes.
func (c *checker) Write(p []byte) (int, error) {
	n := len(p)
	if c.verify && c.content.known {
		c.crc = crc32.Update(c.crc, crc32.IEEETable, p)
	}
	if !c.verify || c.content.known || c.wrong >= 0 {
		c.offset += int64(n)
		return n, nil
	}
	for len(p) > 0 {
		piece := p[:min(len(p), len(c.scratch))]
		want := c.scratch[:c.content.Read(c.scratch[:len(piece)], c.offset)]
		if !bytes.Equal(piece, want) && c.wrong < 0 {
			c.wrong = c.offset + int64(common(piece, want))
		}
		c.offset += int64(len(piece))
		p = p[len(piece):]
	}
	return n, nil
}

// end says how many bytes came, and whether they were right.
func (c *checker) end() (int64, error) {
	switch {
	case !c.verify && !c.content.known:
	case c.wrong >= 0 && c.wrong < c.content.size:
		return c.offset, object.Errorf(object.Corrupt, "%s: byte %d is not the one that was stored", c.key, c.wrong)
	case c.offset != c.content.size:
		return c.offset, object.Errorf(object.Corrupt, "%s: %d bytes instead of %d", c.key, c.offset, c.content.size)
	case c.verify && c.content.known && c.crc != c.content.crc:
		return c.offset, object.Errorf(object.Corrupt, "%s: its CRC-32 is %08x, and %08x was listed", c.key, c.crc, c.content.crc)
	}
	return c.offset, nil
}

// common returns how many bytes two slices have in common at their beginning.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
