// Package checksum has the additional checksums of S3: their names and headers, the
// hashes, their text form, and how the checksums of parts become that of the whole.
// It knows nothing of requests and objects; which checksum is asked for, and what it
// is compared with, is the caller's matter.
//
// A checksum is handled as its bytes, most significant first, as S3 writes it in
// base64. Everything here may be called by many goroutines at once, except the
// hashes, each of which belongs to one.
package checksum

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"
)

// Algorithm is one of the checksums S3 knows. The list is closed.
type Algorithm uint8

// The algorithms. The zero value stands for no checksum at all.
const (
	None Algorithm = iota
	CRC32
	CRC32C
	CRC64NVME
	SHA1
	SHA256
)

// HeaderPrefix is what the name of a header begins with that holds a checksum. Such
// names are not all checksums: x-amz-checksum-mode, -type and -algorithm are not.
const HeaderPrefix = "x-amz-checksum-"

type properties struct {
	name   string // as in the API
	header string // as in trailers, in lower case
	key    string // as in an http.Header
	size   int    // bytes of the checksum
	text   int    // bytes of its base64 form
}

var known = [...]properties{
	None:      {name: "NONE"},
	CRC32:     {"CRC32", "x-amz-checksum-crc32", "X-Amz-Checksum-Crc32", 4, 8},
	CRC32C:    {"CRC32C", "x-amz-checksum-crc32c", "X-Amz-Checksum-Crc32c", 4, 8},
	CRC64NVME: {"CRC64NVME", "x-amz-checksum-crc64nvme", "X-Amz-Checksum-Crc64nvme", 8, 12},
	SHA1:      {"SHA1", "x-amz-checksum-sha1", "X-Amz-Checksum-Sha1", sha1.Size, 28},
	SHA256:    {"SHA256", "x-amz-checksum-sha256", "X-Amz-Checksum-Sha256", sha256.Size, 44},
}

// Algorithms returns all algorithms but None, for tables that must be complete.
func Algorithms() []Algorithm { return []Algorithm{CRC32, CRC32C, CRC64NVME, SHA1, SHA256} }

// Parse returns the algorithm of that name; upper and lower case are the same.
func Parse(name string) (Algorithm, bool) {
	for _, a := range Algorithms() {
		if strings.EqualFold(known[a].name, name) {
			return a, true
		}
	}
	return None, false
}

// ParseHeader returns the algorithm whose checksum is in the header or trailer of
// that name; upper and lower case are the same.
func ParseHeader(name string) (Algorithm, bool) {
	if len(name) < len(HeaderPrefix) || !strings.EqualFold(name[:len(HeaderPrefix)], HeaderPrefix) {
		return None, false
	}
	return Parse(name[len(HeaderPrefix):])
}

func (a Algorithm) is() *properties {
	if int(a) < len(known) {
		return &known[a]
	}
	return &known[None]
}

// String returns the algorithm's name as it stands in the API.
func (a Algorithm) String() string { return a.is().name }

// Header returns the name of the header with the checksum, in lower case, as in
// trailers and in what is signed.
func (a Algorithm) Header() string { return a.is().header }

// Key returns the name of the header with the checksum as an http.Header has it.
func (a Algorithm) Key() string { return a.is().key }

// Size returns the length of the checksum in bytes, 0 for None.
func (a Algorithm) Size() int { return a.is().size }

// IsCRC reports whether the checksum of a whole can be had from those of its parts.
func (a Algorithm) IsCRC() bool { return a == CRC32 || a == CRC32C || a == CRC64NVME }

// New returns a new hash of the algorithm. For None it panics.
func (a Algorithm) New() hash.Hash {
	switch a {
	case CRC32:
		return crc32.NewIEEE()
	case CRC32C:
		return crc32.New(castagnoli)
	case CRC64NVME:
		return new(nvme)
	case SHA1:
		return sha1.New()
	case SHA256:
		return sha256.New()
	}
	panic("checksum: no algorithm to make a hash of")
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the text form of a checksum.
func Encode(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// Decode is the inverse of Encode. Only the one text form that S3 writes is taken:
// the exact length, padded, without line breaks.
func (a Algorithm) Decode(text string) ([]byte, error) {
	p := a.is()
	if p.size == 0 || len(text) != p.text || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("not the base64 form of a %s", p.name)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != p.size {
		return nil, fmt.Errorf("not the base64 form of a %s", p.name)
	}
	return sum, nil
}
