package pack

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Our fields stand in base64 in the link name, which tar ignores in a regular
// file: 60 bytes of facts and 15 of check. All numbers are little-endian.
const (
	factsLen = 60

	factFormat   = 0
	factKind     = 1
	factFlags    = 2
	factType     = 3
	factCRC      = 4
	factMap      = 8
	factCounter  = 12
	factModified = 20
	factSynced   = 28 // blocks
	factMD5      = 32
	factID       = 48 // as the version

	posCheck = posLink + lenLink - checkText // behind the 80 characters of facts
)

const (
	flagMD5     = 1 << 0 // the ETag is the 16 bytes at factMD5
	flagExtents = 1 << 1 // the content is in blobs
	flagID      = 1 << 2 // the name has the ID at factID
	flagsKnown  = flagMD5 | flagExtents | flagID
)

var encoding = base64.RawURLEncoding

// errNoRecord says that the bytes at a place are not a record of this pack.
var errNoRecord = errors.New("no record here")

// contentTypes lists types frequent enough to stand in one byte of the head.
// Part of the format: append only.
var contentTypes = [...]string{
	"", "application/octet-stream", "binary/octet-stream", "image/jpeg", "image/png", "image/webp", "image/gif",
	"image/tiff", "image/bmp", "text/plain", "text/plain; charset=utf-8", "application/json", "application/x-tar",
	"application/gzip", "application/zip", "text/csv", "audio/mpeg", "audio/wav", "audio/flac", "video/mp4",
	"application/x-www-form-urlencoded", "text/html", "application/xml", "application/x-ndjson", "audio/ogg",
	"application/pdf", "application/x-npy",
}

func contentTypeCode(s string) (code byte, ok bool) {
	for i, t := range contentTypes {
		if t == s {
			return byte(i), true
		}
	}
	return 0, false
}

// headLen returns how many bytes of head the record needs.
func headLen(r *Record) int64 {
	pax := paxLen(r)
	if pax == 0 {
		return Block
	}
	return 2*Block + padded(int64(pax))
}

// encodeHead fills dst, which has headLen bytes, and facts, except for what
// depends on the record's place in the log: see finishHead.
func encodeHead(dst []byte, facts *[factsLen]byte, r *Record, payload int64, crc uint32) {
	clear(dst)
	var buf [maxPath]byte
	path, _ := appendTarName(buf[:0], r)
	if len(dst) > Block {
		n := appendPAX(dst[Block:Block], r)
		ustar(dst[:Block], 'x', []byte(nameExtended), int64(len(n)), r.Modified.Unix())
		if !fitsUstar(path) {
			path = append(path[:0], nameLong...)
		}
	}
	ustar(dst[len(dst)-Block:], '0', path, payload, r.Modified.Unix())

	facts[factFormat] = Format
	facts[factKind] = byte(r.Kind)
	facts[factType], _ = contentTypeCode(r.ContentType)
	binary.LittleEndian.PutUint32(facts[factCRC:], crc)
	putVersion(facts[factMap:], r.Version)
	if r.Name.ID != (object.Version{}) {
		facts[factFlags] |= flagID
		putVersion(facts[factID:], r.Name.ID)
	}
	binary.LittleEndian.PutUint64(facts[factModified:], uint64(nanoseconds(r.Modified)))
	if isMD5(r.ETag) {
		facts[factFlags] |= flagMD5
		putHex(facts[factMD5:factMD5+16], r.ETag)
	}
	if len(r.Extents) > 0 {
		facts[factFlags] |= flagExtents
	}
}

// finishHead sets what is known only when the record gets its place: how far the
// pack was synced then, the checks, and tar's checksums.
func finishHead(h []byte, facts *[factsLen]byte, key *Key, offset, synced int64) {
	if len(h) > Block {
		// The extended block has a check of its own, so that a scan does not have to
		// believe the length of anything it meets.
		sign(h[:Block], h[:Block], key, offset)
	}
	binary.LittleEndian.PutUint32(facts[factSynced:], uint32(synced/Block))
	block := h[len(h)-Block:]
	encoding.Encode(block[posLink:posCheck], facts[:])
	sign(block, h, key, offset)
}

func sign(block, h []byte, key *Key, offset int64) {
	text := key.check(h, offset)
	copy(block[posCheck:], text[:])
	putSum(block)
}

// header is a decoded head.
type header struct {
	Record
	Location
	crc    uint32 // of the payload
	synced int64  // how far the pack was synced when this was written
}

// headSize returns the length of the head that begins with block at offset: more
// than one block if that announces extended fields.
func headSize(block []byte, key *Key, offset int64) (int64, error) {
	if block[posType] != 'x' {
		return Block, nil
	}
	n, ok := octal(block[posSize : posSize+lenNumber])
	if !ok || n == 0 || n > maxPAX || !genuine(block, 'x', block, key, offset) {
		return 0, errNoRecord
	}
	return 2*Block + padded(n), nil
}

// genuine reports whether the block, the last of a head, was made by us for this
// place. A nil key leaves the check out, for the first record of a pack, which
// tells the key.
func genuine(block []byte, typeflag byte, h []byte, key *Key, offset int64) bool {
	return block[posType] == typeflag && string(block[posMagic:posMagic+len(magic)]) == magic && sumOK(block) &&
		(key == nil || key.verify(h, offset))
}

// decodeHead parses and verifies the head of the record at offset.
func decodeHead(h []byte, key *Key, offset int64) (*header, error) {
	block := h[len(h)-Block:]
	if !genuine(block, '0', h, key, offset) {
		return nil, errNoRecord
	}
	var facts [factsLen]byte
	if n, err := encoding.Decode(facts[:], block[posLink:posCheck]); err != nil || n != factsLen {
		return nil, errNoRecord
	}
	kind, flags := Kind(facts[factKind]), facts[factFlags]
	if facts[factFormat] != Format || kind == 0 || kind > directory || flags&^flagsKnown != 0 || int(facts[factType]) >= len(contentTypes) {
		return nil, object.Errorf(object.Invalid, "record of format %d, kind %d, flags %#x and type %d: made by a newer version",
			facts[factFormat], kind, flags, facts[factType])
	}
	payload, ok := octal(block[posSize : posSize+lenNumber])
	if !ok {
		return nil, errNoRecord
	}
	r := &header{
		Location: Location{Offset: offset, Head: int64(len(h)), Payload: payload},
		crc:      binary.LittleEndian.Uint32(facts[factCRC:]),
		synced:   int64(binary.LittleEndian.Uint32(facts[factSynced:])) * Block,
	}
	r.Kind = kind
	r.Version = getVersion(facts[factMap:])
	r.Modified = time.Unix(0, int64(binary.LittleEndian.Uint64(facts[factModified:]))).UTC()
	r.ContentType = contentTypes[facts[factType]]
	r.Size, r.CRC32 = payload, r.crc

	// Path and ETag share one string: this is the way of every small read.
	var text [lenPrefix + 1 + lenName + 32]byte
	b := appendUstarPath(text[:0], block)
	n := len(b)
	if flags&flagMD5 != 0 {
		b = hex.AppendEncode(b, facts[factMD5:factMD5+16])
	}
	s := string(b)
	r.ETag = s[n:]
	if flags&flagID != 0 {
		if r.Name.ID = getVersion(facts[factID:]); r.Name.ID == (object.Version{}) {
			return nil, errNoRecord
		}
	}
	return r, r.decodeName(h[:len(h)-Block], s[:n], flags&flagExtents != 0)
}

func putVersion(b []byte, v object.Version) {
	binary.LittleEndian.PutUint32(b, v.Map)
	binary.LittleEndian.PutUint64(b[4:], v.Counter)
}

func getVersion(b []byte) object.Version {
	return object.Version{Map: binary.LittleEndian.Uint32(b), Counter: binary.LittleEndian.Uint64(b[4:])}
}

func (r *header) decodeName(pax []byte, path string, large bool) (err error) {
	named := false
	if len(pax) > 0 {
		n, ok := octal(pax[posSize : posSize+lenNumber])
		if !ok || int64(len(pax)) != Block+padded(n) {
			return errNoRecord
		}
		if path, named, err = parsePAX(pax[Block:Block+n], &r.Record, path); err != nil {
			return err
		}
	}
	switch {
	case large != (len(r.Extents) > 0):
		return errNoRecord
	case r.Kind == head || r.Kind == directory:
		return nil
	case named:
		r.Hidden = ordinary(r.Name.Key)
		return nil
	}
	var ok bool
	if r.Name, ok = trueName(r.Kind, large, r.Name.ID, path); !ok {
		return errNoRecord
	}
	return nil
}

// The range of times that a record can hold, from the year 1677 to 2262.
var (
	earliest = time.Unix(0, math.MinInt64)
	latest   = time.Unix(0, math.MaxInt64)
)

// nanoseconds is t.UnixNano, except that times out of range are taken for its
// bounds.
func nanoseconds(t time.Time) int64 {
	switch {
	case t.Before(earliest):
		return math.MinInt64
	case t.After(latest):
		return math.MaxInt64
	}
	return t.UnixNano()
}

func isMD5(etag string) bool {
	if len(etag) != 32 {
		return false
	}
	for i := 0; i < len(etag); i++ {
		if c := etag[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// putHex decodes the lower-case hexadecimal digits s, which isMD5 has seen, and
// spares the copy that package hex would need.
func putHex(dst []byte, s string) {
	digit := func(c byte) byte {
		if c >= 'a' {
			return c - 'a' + 10
		}
		return c - '0'
	}
	for i := range dst {
		dst[i] = digit(s[2*i])<<4 | digit(s[2*i+1])
	}
}
