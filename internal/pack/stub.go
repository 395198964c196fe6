package pack

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Stub is what an index and a pack's directory keep of a record: where it lies,
// and what a listing shows. The rest is in the record's head.
type Stub struct {
	Location
	Kind     Kind
	Extents  bool // the content is in blobs
	Hidden   bool // see Record; the store rebuilds what it knows of tar names from it
	Version  object.Version
	Modified int64 // nanoseconds
	Size     int64
	CRC32    uint32
	ETag     string // empty: native
	ID       object.Version
}

const (
	stubExtents = 1 << 0
	stubETag    = 1 << 1
	stubMD5     = 1 << 2 // the ETag is an MD5, in 16 bytes
	stubHidden  = 1 << 3
	stubID      = 1 << 4 // the name has an ID
	stubKnown   = stubExtents | stubETag | stubMD5 | stubHidden | stubID
)

func stubOf(r *Record, l Location) Stub {
	return Stub{
		Location: l, Kind: r.Kind, Extents: len(r.Extents) > 0, Hidden: r.Hidden, Version: r.Version,
		Modified: nanoseconds(r.Modified), Size: r.Size, CRC32: r.CRC32, ETag: r.ETag, ID: r.Name.ID,
	}
}

// Info describes the object, without what only the head knows.
func (s *Stub) Info(name object.Name) object.Info {
	info := object.Info{Name: name, Size: s.Size, Version: s.Version, ETag: s.ETag, Modified: time.Unix(0, s.Modified).UTC(), CRC32: s.CRC32, Marker: s.Kind == Marker}
	if info.ETag == "" {
		info.ETag = object.NativeETag(s.Version, s.CRC32)
	}
	return info
}

// Append appends the stub's bytes to b.
func (s *Stub) Append(b []byte) []byte {
	var flags byte
	if s.Extents {
		flags |= stubExtents
	}
	if s.Hidden {
		flags |= stubHidden
	}
	if s.ID != (object.Version{}) {
		flags |= stubID
	}
	switch {
	case isMD5(s.ETag):
		flags |= stubMD5
	case s.ETag != "":
		flags |= stubETag
	}
	b = append(b, byte(s.Kind), flags)
	b = binary.AppendUvarint(b, uint64(s.Version.Map))
	b = binary.AppendUvarint(b, s.Version.Counter)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Modified))
	b = binary.LittleEndian.AppendUint32(b, s.CRC32)
	b = binary.AppendUvarint(b, uint64(s.Size))
	b = binary.AppendUvarint(b, uint64(s.Offset/Block))
	b = binary.AppendUvarint(b, uint64(s.Head/Block))
	b = binary.AppendUvarint(b, uint64(s.Payload))
	switch {
	case flags&stubMD5 != 0:
		n := len(b)
		b = append(b, zeros[:16]...)
		putHex(b[n:], s.ETag)
	case flags&stubETag != 0:
		b = binary.AppendUvarint(b, uint64(len(s.ETag)))
		b = append(b, s.ETag...)
	}
	if flags&stubID != 0 {
		b = binary.AppendUvarint(b, uint64(s.ID.Map))
		b = binary.AppendUvarint(b, s.ID.Counter)
	}
	return b
}

// ParseStub is the inverse of Append; it returns what follows the stub, and
// Corrupt for anything that is none.
func ParseStub(b []byte) (s Stub, rest []byte, err error) {
	r := stubReader{b: b}
	s.Kind = Kind(r.byte())
	flags := r.byte()
	s.Extents = flags&stubExtents != 0
	s.Hidden = flags&stubHidden != 0
	s.Version.Map = uint32(r.number(math.MaxUint32))
	s.Version.Counter = r.number(math.MaxUint64)
	if fixed := r.take(12); fixed != nil {
		s.Modified = int64(binary.LittleEndian.Uint64(fixed))
		s.CRC32 = binary.LittleEndian.Uint32(fixed[8:])
	}
	s.Size = int64(r.number(math.MaxInt64))
	s.Offset = int64(r.number(math.MaxUint32)) * Block // as in a head's facts
	s.Head = int64(r.number(2+maxPAX/Block)) * Block
	s.Payload = int64(r.number(maxOctal))
	switch flags & (stubETag | stubMD5) {
	case stubMD5:
		s.ETag = hex.EncodeToString(r.take(16))
	case stubETag:
		s.ETag = string(r.take(r.number(math.MaxInt32)))
	}
	if flags&stubID != 0 {
		s.ID.Map = uint32(r.number(math.MaxUint32))
		s.ID.Counter = r.number(math.MaxUint64)
	}
	if r.bad || s.Head == 0 || flags&^stubKnown != 0 || (flags&(stubETag|stubMD5) != 0) != (s.ETag != "") ||
		(flags&stubID != 0) != (s.ID != object.Version{}) {
		return Stub{}, nil, object.Errorf(object.Corrupt, "malformed index entry")
	}
	return s, r.b, nil
}

// stubReader takes numbers off the front of b. After the first that is not there
// it gives zeros.
type stubReader struct {
	b   []byte
	bad bool
}

func (r *stubReader) number(limit uint64) uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > limit {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *stubReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *stubReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}
