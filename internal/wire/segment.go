package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// maxMessage is the largest length of the message of an item that failed.
const maxMessage = 512

// segmentHead is what stands before the sizes.
const segmentHead = 8

// AppendBatchHead appends what stands before the first segment of an answer with
// count items.
func AppendBatchHead(b []byte, count int) []byte {
	b = append(b, batchMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(count))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// AppendBatchEnd appends the end mark. Without it the answer is not whole.
func AppendBatchEnd(b []byte) []byte { return append(b, batchEnd...) }

// Status says how an item of a segment came out.
type Status struct {
	Err   error  // nil: good. Otherwise its kind goes out, and the first 512 bytes of its message
	CRC32 uint32 // of the item's bytes; not used if Err is set
}

// Segment writes one segment after the other. Between Begin and End the items'
// bytes go out, exactly as many as Begin was told: the caller appends them to the
// same buffer, or sends them to the socket by other means. The zero Segment is
// ready for use.
type Segment struct {
	crc   uint32 // of what Begin appended
	items int
}

// Begin appends what stands before the bytes of at least one item. An item that
// is known to fail has size 0.
func (s *Segment) Begin(b []byte, sizes []int64) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(sizes)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, size := range sizes {
		b = binary.LittleEndian.AppendUint64(b, uint64(size))
	}
	s.crc, s.items = crc32.ChecksumIEEE(b[from:]), len(sizes)
	return b
}

// End appends what stands behind the bytes. There must be as many items as Begin
// had sizes. An item that failed on the way still needs all its bytes; zeros will
// do.
func (s *Segment) End(b []byte, items []Status) []byte {
	if len(items) != s.items {
		panic(fmt.Sprintf("wire: a segment of %d items ends with %d", s.items, len(items)))
	}
	from := len(b)
	for i := range items {
		if err := items[i].Err; err != nil {
			b = binary.LittleEndian.AppendUint32(b, statusOf(object.KindOf(err)))
			b = binary.LittleEndian.AppendUint32(b, 0)
			continue
		}
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint32(b, items[i].CRC32)
	}
	for i := range items {
		if items[i].Err != nil {
			b = appendString(b, message(items[i].Err))
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Update(s.crc, crc32.IEEETable, b[from:]))
}

// statusOf is the kind's number on the wire; 0 stands for no error there.
func statusOf(kind object.Kind) uint32 { return uint32(kind) + 1 }

// kindOf is the inverse of statusOf. A status that a later version has added is
// Internal, as an unknown name of a kind is.
func kindOf(status uint32) object.Kind {
	if status > statusOf(object.Canceled) {
		return object.Internal
	}
	return object.Kind(status - 1)
}

// message returns what err says as valid UTF-8, cut between two characters.
func message(err error) string {
	text := err.Error()
	if len(text) > maxMessage {
		end := maxMessage
		for end > maxMessage-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(text, "?")
}
