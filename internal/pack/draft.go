package pack

import (
	"hash/crc32"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Draft is a record laid out for the log: head and payload, so that the bytes of an
// object are written from where they were read to. It lacks only what depends on its
// place; one that was not written because the disk was full may be appended again, or
// to another pack.
type Draft struct {
	Record
	Location // set when the record is appended
	head     []byte
	payload  []byte
	facts    [factsLen]byte
}

// HeadLen returns how many bytes a draft of r needs before its payload. It does
// not depend on the version, size or checksum, which are known later, nor on which
// ID there is, if there is one, nor on the ETag as long as that is empty or an MD5.
func HeadLen(r *Record) int64 { return headLen(r) }

var zeros [Block]byte

// NewDraft lays out a record. buf holds room for HeadLen bytes and then the payload.
// The draft owns it from now on. Size and checksum of a record without extents are
// those of the payload.
func NewDraft(r Record, buf []byte) *Draft {
	n := headLen(&r)
	d := new(Draft)
	d.Lay(r, buf[:n], buf[n:], crc32.ChecksumIEEE(buf[n:]))
	return d
}

// Lay lays out a record of which the payload lies somewhere else in memory than the
// HeadLen bytes of room for its head, and has the given checksum.
func (d *Draft) Lay(r Record, head, payload []byte, crc uint32) {
	*d = Draft{Record: r, head: head, payload: payload}
	d.Head, d.Payload = int64(len(head)), int64(len(payload))
	if len(r.Extents) == 0 {
		d.Size, d.CRC32 = d.Payload, crc
	}
	// As it will be read.
	d.Modified = time.Unix(0, nanoseconds(r.Modified)).UTC()
	d.Hidden = r.Hidden && ordinary(r.Name.Key)
	encodeHead(head, &d.facts, &d.Record, d.Payload, crc)
}

// appendPieces appends what is to be written, the padding included.
func (d *Draft) appendPieces(to [][]byte) [][]byte {
	if end := len(d.head); cap(d.head)-end >= len(d.payload) && len(d.payload) > 0 && &d.head[:end+1][end] == &d.payload[0] {
		to = append(to, d.head[:end+len(d.payload)])
	} else {
		to = append(to, d.head, d.payload)
	}
	if padding := d.Len() - d.Head - d.Payload; padding > 0 {
		to = append(to, zeros[:padding])
	}
	return to
}

// Stub returns what an index keeps of the record.
func (d *Draft) Stub() Stub { return stubOf(&d.Record, d.Location) }

// place settles where the record lies.
func (d *Draft) place(key *Key, offset, synced int64) {
	d.Offset = offset
	finishHead(d.head, &d.facts, key, offset, synced)
}

// Validate reports as Invalid what could be written but not read again: names
// that are none, extended fields of more than 1 MiB. Append refuses such a draft
// and all that come with it.
func (d *Draft) Validate() error {
	switch d.Kind {
	case head, directory:
		return nil
	case Object, Tombstone, Marker:
	default:
		return object.Errorf(object.Invalid, "record of unknown kind %d", d.Kind)
	}
	if err := d.Name.ValidateStored(); err != nil {
		return err
	}
	if len(d.Name.Bucket) > maxBucket || strings.ContainsAny(d.Name.Bucket, "/\x00") {
		return object.Errorf(object.Invalid, "%q cannot lie beside a bucket", d.Name.Bucket)
	}
	if d.Head > 2*Block+maxPAX || d.Payload > maxOctal || d.Size < 0 {
		return object.Errorf(object.Invalid, "%s: record is too large: %d bytes of head, %d of payload, %d of content", d.Name, d.Head, d.Payload, d.Size)
	}
	for _, e := range d.Extents {
		if e.Offset < 0 || e.Length < 0 {
			return object.Errorf(object.Invalid, "%s: impossible extent of %d bytes at %d", d.Name, e.Length, e.Offset)
		}
	}
	return nil
}
