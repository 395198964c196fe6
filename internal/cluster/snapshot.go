package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"penstock.dev/penstock/internal/object"
)

// The snapshot file. docs/internals/control.md draws it.
const (
	snapshotMagic  = "PenstCtl"
	formatVersion  = 1
	knownFeatures  = 0 // no bit has a meaning yet
	headSize       = 96
	recordHeadSize = 24

	// MaxTotal is the most that all records of an Alone may take, in bytes as they
	// are stored, leased ones included.
	MaxTotal = 64 << 20
	// MaxDisks is the most disks an Alone can have.
	MaxDisks = 256

	maxBody = MaxTotal + 8*MaxDisks
)

var little = binary.LittleEndian

// setID names the copies that belong together; diskID one of them.
type (
	setID  [16]byte
	diskID uint64
)

// number says which write made the records of a snapshot. Of two copies the one
// with the higher number has the newer records.
type number struct {
	start uint64 // how often the records had been opened
	write uint64 // how often they had been written since
}

func (n number) newer(than number) bool {
	return n.start > than.start || n.start == than.start && n.write > than.write
}

func (n number) String() string { return fmt.Sprintf("%d.%d", n.start, n.write) }

// head is what a snapshot says about itself.
type head struct {
	set      setID
	disk     diskID // the one that holds this copy
	start    uint64 // in which the copy was made; no write of an earlier one may follow
	number   number // of the records
	revision int64
	members  []diskID // the disks whose absence must be noticed: those known to hold a copy
}

// snapshot is a decoded file.
type snapshot struct {
	head
	records []*Record
	raw     []byte // the records as they are stored
}

// recordSize is what a record takes in a snapshot.
func recordSize(r *Record) int64 { return int64(recordHeadSize + len(r.Key) + len(r.Value)) }

// appendBody appends what all copies of a snapshot share, and returns how many
// records it holds: the leased ones are left out.
func appendBody(buf []byte, members []diskID, records []*Record) ([]byte, uint32) {
	for _, id := range members {
		buf = little.AppendUint64(buf, uint64(id))
	}
	count := uint32(0)
	for _, r := range records {
		if r.Lease != 0 {
			continue
		}
		count++
		buf = little.AppendUint32(buf, uint32(len(r.Key)))
		buf = little.AppendUint32(buf, uint32(len(r.Value)))
		buf = little.AppendUint64(buf, uint64(r.Created))
		buf = little.AppendUint64(buf, uint64(r.Modified))
		buf = append(buf, r.Key...)
		buf = append(buf, r.Value...)
	}
	return buf, count
}

// appendHead appends the head of the copy on h.disk, for a body with the given
// checksum.
func appendHead(buf []byte, h *head, records uint32, length int, crc uint32) []byte {
	begin := len(buf)
	buf = append(buf, snapshotMagic...)
	buf = little.AppendUint32(buf, formatVersion)
	buf = little.AppendUint32(buf, knownFeatures)
	buf = append(buf, h.set[:]...)
	buf = little.AppendUint64(buf, uint64(h.disk))
	buf = little.AppendUint64(buf, h.start)
	buf = little.AppendUint64(buf, h.number.start)
	buf = little.AppendUint64(buf, h.number.write)
	buf = little.AppendUint64(buf, uint64(h.revision))
	buf = little.AppendUint32(buf, uint32(len(h.members)))
	buf = little.AppendUint32(buf, records)
	buf = little.AppendUint64(buf, uint64(length))
	buf = little.AppendUint32(buf, crc)
	return little.AppendUint32(buf, crc32.ChecksumIEEE(buf[begin:]))
}

// errUnknownFormat is what decoding answers about a sound file of a kind we do not
// know: newer software wrote it, and it is not to be touched.
var errUnknownFormat = errors.New("it was written by a newer version of penstock")

// decodeHead checks the first headSize bytes and returns the length of the body
// that must follow. This part of a file is the same in all format versions, so
// that damage is never taken for a newer version, nor the reverse.
func decodeHead(b []byte) (int64, error) {
	switch {
	case len(b) < headSize:
		return 0, damagef("%d bytes are too few for a head", len(b))
	case string(b[:8]) != snapshotMagic:
		return 0, damagef("it begins with %q, not %q", b[:8], snapshotMagic)
	case crc32.ChecksumIEEE(b[:headSize-4]) != little.Uint32(b[headSize-4:]):
		return 0, damagef("the checksum of its head is wrong")
	}
	if version := little.Uint32(b[8:]); version != formatVersion {
		return 0, object.Errorf(object.Invalid, "its format version is %d, not %d: %w", version, formatVersion, errUnknownFormat)
	}
	if features := little.Uint32(b[12:]); features&^knownFeatures != 0 {
		return 0, object.Errorf(object.Invalid, "it has unknown feature bits %#x: %w", features, errUnknownFormat)
	}
	length := little.Uint64(b[80:])
	if length > maxBody {
		return 0, damagef("its length of %d bytes is larger than %d", length, maxBody)
	}
	return int64(length), nil
}

// decode reads a whole file. What it returns shares no memory with b, but for raw.
// The error is of kind Corrupt, or Invalid if the format is unknown.
func decode(b []byte) (*snapshot, error) {
	length, err := decodeHead(b)
	if err != nil {
		return nil, err
	}
	body := b[headSize:]
	switch {
	case int64(len(body)) != length:
		return nil, damagef("it has %d bytes after its head, not %d", len(body), length)
	case crc32.ChecksumIEEE(body) != little.Uint32(b[88:]):
		return nil, damagef("its checksum is wrong")
	}
	s := &snapshot{head: head{
		set:      setID(b[16:32]),
		disk:     diskID(little.Uint64(b[32:])),
		start:    little.Uint64(b[40:]),
		number:   number{little.Uint64(b[48:]), little.Uint64(b[56:])},
		revision: int64(little.Uint64(b[64:])),
	}}
	members := int64(little.Uint32(b[72:]))
	if members > MaxDisks || 8*members > length {
		return nil, damagef("it cannot have %d members", members)
	}
	for i := range members {
		s.members = append(s.members, diskID(little.Uint64(body[8*i:])))
	}
	s.raw = body[8*members:]
	if s.revision < 1 || s.revision > math.MaxInt64/2 {
		return nil, damagef("its revision %d is impossible", s.revision)
	}
	s.records, err = decodeRecords(s.raw, little.Uint32(b[76:]), s.revision)
	return s, err
}

func decodeRecords(b []byte, count uint32, revision int64) ([]*Record, error) {
	var records []*Record
	last := ""
	for len(b) > 0 {
		if len(b) < recordHeadSize {
			return nil, damagef("%d bytes are left after record %d", len(b), len(records))
		}
		key, value := uint64(little.Uint32(b)), uint64(little.Uint32(b[4:]))
		if key == 0 || key > MaxKey || value > MaxValue || key+value > uint64(len(b)-recordHeadSize) {
			return nil, damagef("record %d cannot have %d and %d bytes", len(records), key, value)
		}
		r := &Record{Created: int64(little.Uint64(b[8:])), Modified: int64(little.Uint64(b[16:]))}
		b = b[recordHeadSize:]
		r.Key, r.Value = string(b[:key]), bytes.Clone(b[key:key+value])
		b = b[key+value:]
		if r.Key <= last || r.Created < 1 || r.Created > r.Modified || r.Modified > revision {
			return nil, damagef("record %d is out of order", len(records))
		}
		last = r.Key
		records = append(records, r)
	}
	if len(records) != int(count) {
		return nil, damagef("it has %d records, not %d", len(records), count)
	}
	return records, nil
}

func damagef(format string, args ...any) error {
	return object.Errorf(object.Corrupt, format, args...)
}
