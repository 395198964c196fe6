package shard

import (
	"strconv"
	"strings"
)

// EndSize is the number of zero bytes that end a tar.
const EndSize = 2 * block

// HeaderSize returns how many bytes AppendHeader writes for a name.
func HeaderSize(name string) int64 {
	if _, _, ok := splitName(name); ok {
		return block
	}
	return 2*block + padded(int64(len(paxRecord(name))))
}

// Padding returns how many zero bytes follow content of that size.
func Padding(size int64) int64 { return -size & (block - 1) }

func padded(size int64) int64 { return size + Padding(size) }

// AppendHeader appends the header of a file. It depends on nothing else: no owner,
// no time, so that equal files make equal shards. A name that ustar has no room for,
// or that is not ASCII, stands in a PAX header before it. size is below 8 GiB.
func AppendHeader(b []byte, name string, size int64) []byte {
	prefix, base, ok := splitName(name)
	if !ok {
		record := paxRecord(name)
		b = appendBlock(b, 'x', "", "PaxHeaders.0/"+plainASCII(name, 80), int64(len(record)))
		b = append(b, record...)
		b = append(b, zeros[:Padding(int64(len(record)))]...)
		base = plainASCII(name, 100)
	}
	return appendBlock(b, TypeFile, prefix, base, size)
}

var zeros [block]byte

// emptyHeader is a header with everything in it that is always the same.
var emptyHeader = func() (h [block]byte) {
	copy(h[100:], "0000644\x000000000\x000000000\x00") // mode, uid, gid
	copy(h[136:], "00000000000\x00")                   // time
	copy(h[148:], "        ")                          // checksum, as it counts in itself
	copy(h[257:], "ustar\x0000")
	copy(h[329:], "0000000\x000000000\x00") // device
	return h
}()

var emptySum = func() (sum uint32) {
	for _, c := range emptyHeader {
		sum += uint32(c)
	}
	return sum
}()

func appendBlock(b []byte, kind byte, prefix, name string, size int64) []byte {
	at := len(b)
	b = append(b, emptyHeader[:]...)
	h := b[at:]
	sum := emptySum + put(h, name) + put(h[345:], prefix) + uint32(kind)
	h[156] = kind
	for i := 134; i >= 124; i-- {
		h[i] = '0' + byte(size&7)
		sum += uint32(h[i])
		size >>= 3
	}
	for i := 153; i >= 148; i-- {
		h[i] = '0' + byte(sum&7)
		sum >>= 3
	}
	h[154], h[155] = 0, ' '
	return b
}

// put copies text and returns the sum of its bytes.
func put(h []byte, text string) (sum uint32) {
	for i := range len(text) {
		h[i] = text[i]
		sum += uint32(text[i])
	}
	return sum
}

// splitName divides a name as ustar does, at a slash, if it can.
func splitName(name string) (prefix, base string, ok bool) {
	if !isASCII(name) {
		return "", "", false
	}
	if len(name) <= 100 {
		return "", name, true
	}
	if len(name) > 256 {
		return "", "", false
	}
	at := strings.LastIndexByte(name[:min(156, len(name))], '/')
	if at <= 0 || len(name)-at-1 > 100 || len(name)-at-1 == 0 {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}

func isASCII(name string) bool {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return false
		}
	}
	return true
}

// plainASCII is what programs see that do not know PAX: the end of the name, which
// tells more than its beginning.
func plainASCII(name string, most int) string {
	name = name[max(0, len(name)-most):]
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
}

// paxRecord is "LENGTH path=NAME\n", where the length counts itself.
func paxRecord(name string) string {
	rest := " path=" + name + "\n"
	length := len(rest) + 1
	for length != len(rest)+len(strconv.Itoa(length)) {
		length = len(rest) + len(strconv.Itoa(length))
	}
	return strconv.Itoa(length) + rest
}
