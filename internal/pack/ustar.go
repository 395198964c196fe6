package pack

import (
	"bytes"
	"encoding/binary"
)

// Positions in a ustar block.
const (
	lenName   = 100
	posMode   = 100
	posUID    = 108
	posGID    = 116
	posSize   = 124
	posTime   = 136
	posSum    = 148
	lenSum    = 8
	posType   = 156
	posLink   = 157
	lenLink   = 100
	posMagic  = 257
	posOwners = 265 // names of user and group and more, all left empty
	posPrefix = 345
	lenPrefix = 155

	lenNumber = 12 // of size and time
	magic     = "ustar\x0000"
)

// ustar fills one header block, which is zero before, except for its checksum.
// The path fits, see fitsUstar.
func ustar(block []byte, typeflag byte, path []byte, size, mtime int64) {
	prefix, name, _ := splitUstar(path)
	copy(block[:lenName], name)
	copy(block[posPrefix:posPrefix+lenPrefix], prefix)
	putOctal(block[posMode:posMode+8], 0o644)
	putOctal(block[posUID:posUID+8], 0)
	putOctal(block[posGID:posGID+8], 0)
	putOctal(block[posSize:posSize+lenNumber], size)
	putOctal(block[posTime:posTime+lenNumber], min(max(0, mtime), maxOctal))
	block[posType] = typeflag
	copy(block[posMagic:], magic)
}

// fitsUstar reports whether a path can stand in a ustar block without loss.
func fitsUstar(path []byte) bool {
	_, _, ok := splitUstar(path)
	return ok
}

// splitUstar cuts a path at a slash so that both parts fit their fields.
func splitUstar(path []byte) (prefix, name []byte, ok bool) {
	for _, c := range path {
		if c >= 0x80 {
			return nil, nil, false
		}
	}
	if len(path) <= lenName {
		return nil, path, true
	}
	if len(path) > lenPrefix+1+lenName {
		return nil, nil, false
	}
	// The prefix must reach far enough for the name to fit, and no further than
	// its own field.
	for i := len(path) - lenName - 1; i <= lenPrefix && i < len(path)-1; i++ {
		if path[i] == '/' && i > 0 {
			return path[:i], path[i+1:], true
		}
	}
	return nil, nil, false
}

func appendUstarPath(dst, block []byte) []byte {
	if prefix := untilNUL(block[posPrefix : posPrefix+lenPrefix]); len(prefix) > 0 {
		dst = append(dst, prefix...)
		dst = append(dst, '/')
	}
	return append(dst, untilNUL(block[:lenName])...)
}

func untilNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// maxOctal is the largest number in eleven octal digits: as a size, 8 GiB less
// one byte; as a time, in the year 2242.
const maxOctal = 1<<33 - 1

// putOctal writes n in octal digits with a final NUL.
func putOctal(field []byte, n int64) {
	last := len(field) - 1
	field[last] = 0
	for i := last - 1; i >= 0; i-- {
		field[i] = byte('0' + n&7)
		n >>= 3
	}
}

// octal reads what putOctal wrote, and nothing else.
func octal(field []byte) (n int64, ok bool) {
	last := len(field) - 1
	for _, c := range field[:last] {
		if c < '0' || c > '7' {
			return 0, false
		}
		n = n<<3 | int64(c-'0')
	}
	return n, field[last] == 0
}

// sum adds the bytes of a block, eight at a time, its checksum taken for spaces.
// The lanes of 16 bits hold 64 times two bytes.
func sum(block []byte) int64 {
	const even = 0x00ff00ff00ff00ff
	var lanes uint64
	for b := block[:Block]; len(b) >= 8; b = b[8:] {
		v := binary.LittleEndian.Uint64(b)
		lanes += v&even + v>>8&even
	}
	lanes = lanes&0x0000ffff0000ffff + lanes>>16&0x0000ffff0000ffff
	n := int64(uint32(lanes)) + int64(lanes>>32)
	for _, c := range block[posSum : posSum+lenSum] {
		n += ' ' - int64(c)
	}
	return n
}

func putSum(block []byte) {
	putOctal(block[posSum:posSum+lenSum-1], sum(block))
	block[posSum+lenSum-1] = ' '
}

// sumOK reports whether the checksum is the one putSum writes.
func sumOK(block []byte) bool {
	n, ok := octal(block[posSum : posSum+lenSum-1])
	return ok && block[posSum+lenSum-1] == ' ' && n == sum(block)
}
