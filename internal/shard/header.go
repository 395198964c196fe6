package shard

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

type format uint8

const (
	formatV7 format = iota
	formatUSTAR
	formatGNU
	formatSTAR
)

// header is what a header block says about itself, name aside.
type header struct {
	kind   byte
	format format
	size   int64
	prefix []byte // of the name
}

// parse reads a header as archive/tar does. Numbers that do not matter here are
// looked at as well: a block with rubbish in them is not a header.
func parse(b []byte, at int64) (header, error) {
	b = b[:block:block]
	if !checked(b) {
		return header{}, malformed(at, "not a tar header: its checksum is wrong")
	}
	h := header{kind: b[156]}
	switch {
	case string(b[257:263]) == "ustar\x00" && string(b[508:512]) == "tar\x00":
		h.format = formatSTAR
	case string(b[257:263]) == "ustar\x00":
		h.format = formatUSTAR
	case string(b[257:265]) == "ustar  \x00":
		h.format = formatGNU
	}
	size, ok := number(b[124:136])
	ok = ok && small(b[100:108]) && small(b[108:116]) && small(b[116:124]) && large(b[136:148])
	if h.format != formatV7 {
		ok = ok && small(b[329:337]) && small(b[337:345])
	}
	switch h.format {
	case formatUSTAR:
		h.prefix = cString(b[345:500])
	case formatSTAR:
		h.prefix = cString(b[345:476])
		ok = ok && large(b[476:488]) && large(b[488:500])
	case formatGNU:
		// Go before 1.8 wrote a prefix where this format has two times.
		if (b[345] != 0 && !large(b[345:357])) || (b[357] != 0 && !large(b[357:369])) {
			if prefix := cString(b[345:500]); ascii(prefix) {
				h.prefix = prefix
			}
		}
	}
	if !ok {
		return header{}, malformed(at, "not a tar header: a number in it is none")
	}
	h.size = size
	return h, nil
}

// checked reports whether the checksum of a header is right: the sum of its bytes,
// taken as unsigned or, by old programs, as signed ones.
func checked(b []byte) bool {
	want, ok := octal(b[148:156])
	if !ok {
		return false
	}
	const lanes = 0x00ff00ff00ff00ff
	var sum uint64 // four sums of 16 bits; 128 bytes fit into each
	for i := 0; i < block; i += 8 {
		v := binary.LittleEndian.Uint64(b[i : i+8])
		sum += v&lanes + v>>8&lanes
	}
	total := int64(sum&0xffff + sum>>16&0xffff + sum>>32&0xffff + sum>>48)
	field := b[148:156]
	for _, c := range field {
		total += ' ' - int64(c)
	}
	if total == want {
		return true
	}
	for _, c := range b {
		if c >= 0x80 {
			total -= 256
		}
	}
	for _, c := range field {
		if c >= 0x80 {
			total += 256
		}
	}
	return total == want
}

func zero(b []byte) bool {
	for i := 0; i < len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:i+8]) != 0 {
			return false
		}
	}
	return true
}

// small reports whether 8 bytes are a number: mostly seven digits and an end.
func small(b []byte) bool {
	v := binary.LittleEndian.Uint64(b)
	if v&0xdff8f8f8f8f8f8f8 == 0x0030303030303030 {
		return true
	}
	_, ok := number(b)
	return ok
}

// large reports whether 12 bytes are a number: mostly eleven digits and an end.
func large(b []byte) bool {
	if binary.LittleEndian.Uint64(b)&0xf8f8f8f8f8f8f8f8 == 0x3030303030303030 &&
		binary.LittleEndian.Uint32(b[8:])&0xdff8f8f8 == 0x00303030 {
		return true
	}
	_, ok := number(b)
	return ok
}

// number reads a field in octal digits, or in base 256 if its first bit is set: a
// big-endian number in two's complement, of which that bit is no part.
func number(b []byte) (int64, bool) {
	if b[0]&0x80 == 0 {
		return octal(b)
	}
	var invert byte
	if b[0]&0x40 != 0 {
		invert = 0xff
	}
	var x uint64
	for i, c := range b {
		c ^= invert
		if i == 0 {
			c &= 0x7f
		}
		if x>>56 > 0 {
			return 0, false
		}
		x = x<<8 | uint64(c)
	}
	if x>>63 > 0 {
		return 0, false
	}
	if invert != 0 {
		return ^int64(x), true
	}
	return int64(x), true
}

// octal reads digits with any zeros and spaces around them. Nothing is 0; behind a
// NUL anything may stand.
func octal(b []byte) (int64, bool) {
	for len(b) > 0 && (b[0] == ' ' || b[0] == 0) {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == 0) {
		b = b[:len(b)-1]
	}
	var x int64 // a field has at most 12 digits: 36 bits
	for _, c := range b {
		if c == 0 {
			break
		}
		if c < '0' || c > '7' {
			return 0, false
		}
		x = x<<3 | int64(c-'0')
	}
	return x, true
}

func cString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// The records of an extended header that are looked at.
const (
	paxPath = iota
	paxSize
	paxUID
	paxGID
	paxModified
	paxAccessed
	paxChanged
	paxCount
)

// extended is the content of a PAX header. Of records with the same key the last
// one counts; an empty one counts as none.
type extended struct {
	value      [paxCount][]byte
	sparse     bool
	sparseName []byte
}

// decides reports whether the header says where something begins, ends or belongs.
func (x *extended) decides() bool {
	return len(x.value[paxPath]) > 0 || len(x.value[paxSize]) > 0 || x.sparse
}

// parseExtended reads records of the form "LENGTH KEY=VALUE\n".
func parseExtended(b []byte, at int64) (extended, error) {
	var x extended
	for len(b) > 0 {
		record, rest, ok := cutRecord(b)
		key, value, found := bytes.Cut(record, []byte("="))
		if !ok || !found || !x.set(key, value) {
			return x, malformed(at, "an extended header with a broken record")
		}
		at += int64(len(b) - len(rest))
		b = rest
	}
	return x, nil
}

func cutRecord(b []byte) (record, rest []byte, ok bool) {
	length, after, ok := bytes.Cut(b, []byte(" "))
	if !ok {
		return nil, nil, false
	}
	n, err := strconv.ParseInt(string(length), 10, 64)
	if err != nil || n < 5 || n > int64(len(b)) {
		return nil, nil, false
	}
	n -= int64(len(length) + 1)
	if n <= 0 || after[n-1] != '\n' {
		return nil, nil, false
	}
	return after[:n-1], after[n:], true
}

// set takes in one record, and reports whether there may be such a one.
func (x *extended) set(key, value []byte) bool {
	switch string(key) {
	case "path":
		x.value[paxPath] = value
		return bytes.IndexByte(value, 0) < 0
	case "linkpath", "uname", "gname":
		return bytes.IndexByte(value, 0) < 0
	case "size":
		x.value[paxSize] = value
	case "uid":
		x.value[paxUID] = value
	case "gid":
		x.value[paxGID] = value
	case "mtime":
		x.value[paxModified] = value
	case "atime":
		x.value[paxAccessed] = value
	case "ctime":
		x.value[paxChanged] = value
	case "GNU.sparse.name":
		x.sparse, x.sparseName = true, value
	default:
		x.sparse = x.sparse || bytes.HasPrefix(key, []byte("GNU.sparse."))
	}
	return len(key) > 0 && bytes.IndexByte(key, 0) < 0
}

// apply returns the size of the entry that x belongs to, which says size itself.
func (x *extended) apply(size, at int64) (int64, error) {
	for i, v := range x.value {
		if len(v) == 0 || i == paxPath {
			continue
		}
		whole, fraction := v, []byte(nil)
		if i >= paxModified {
			whole, fraction, _ = bytes.Cut(v, []byte("."))
		}
		n, err := strconv.ParseInt(string(whole), 10, 64)
		if err != nil || bytes.ContainsFunc(fraction, func(r rune) bool { return r < '0' || r > '9' }) {
			return 0, malformed(at, "an extended header says %q where a number belongs", v)
		}
		if i == paxSize {
			size = n
		}
	}
	return size, nil
}
