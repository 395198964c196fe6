package wire

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// step is how much memory a reader takes on the word of the other side alone.
const step = 1 << 20

// BatchReader reads the answer to a batch. It holds one segment in memory, and
// gives out only items of segments that have come as a whole.
type BatchReader struct {
	r      *bufio.Reader
	count  int
	max    int64
	begun  bool
	done   bool // the end mark was there
	broken error

	read int    // items of all segments so far
	n, i int    // items in this segment; the next one
	meta []byte // the segment but for the items' bytes and its checksum
	data []byte // the items' bytes
	from int    // where in data the next item begins
	text int    // where in meta the next message begins
}

// NewBatchReader reads an answer with count items from r. A segment whose items
// have more than max bytes is refused.
func NewBatchReader(r io.Reader, count int, max int64) *BatchReader {
	b := &BatchReader{r: bufio.NewReader(nil)}
	b.Reset(r, count, max)
	return b
}

// Reset makes b read another answer, and keeps its memory.
func (b *BatchReader) Reset(r io.Reader, count int, max int64) {
	b.r.Reset(r)
	*b = BatchReader{r: b.r, count: count, max: max, meta: b.meta[:0], data: b.data[:0]}
}

// Next returns the next item's bytes and their checksum, which was verified. They
// are valid until Next is called again. If the item failed, err has its kind, and
// Next goes on with the item behind it; bytes that do not have their checksum are
// Corrupt. If the answer is broken, err is what Broken says, now and from then on.
// At the end of a whole answer err is io.EOF.
func (b *BatchReader) Next() (data []byte, crc uint32, err error) {
	for b.i == b.n {
		if b.broken == nil && !b.done {
			b.broken = b.segment()
		}
		if b.broken != nil {
			b.i, b.n = 0, 0
			return nil, 0, b.broken
		}
		if b.done {
			return nil, 0, io.EOF
		}
	}
	to := b.from + int(b.size(b.i))
	data = b.data[b.from:to:to]
	status, crc := b.status(b.i)
	b.from = to
	b.i++
	if status != 0 {
		kind := kindOf(status)
		return nil, 0, object.Errorf(kind, "%s", cmp.Or(b.message(), kind.String()))
	}
	if got := crc32.ChecksumIEEE(data); got != crc {
		return nil, 0, object.Errorf(object.Corrupt, "item %d has checksum %08x, not %08x: it was damaged on the way", b.read-b.n+b.i-1, got, crc)
	}
	return data, crc, nil
}

// Broken returns why the answer cannot be read on, nil if it can. Items that Next
// gave before are good, all others have not come. It is Unavailable if the answer
// broke off, Corrupt if it is malformed, Invalid if a segment is too large.
func (b *BatchReader) Broken() error { return b.broken }

// segment reads the next segment, or the end of the answer.
func (b *BatchReader) segment() (err error) {
	if !b.begun {
		if err := b.head(); err != nil {
			return err
		}
		b.begun = true
	}
	b.n, b.i, b.from = 0, 0, 0
	if b.meta, err = b.fill(b.meta[:0], segmentHead); err != nil {
		return err
	}
	n, zero := binary.LittleEndian.Uint32(b.meta), binary.LittleEndian.Uint32(b.meta[4:])
	switch {
	case n == 0:
		return b.end()
	case zero != 0 || uint64(n) > uint64(b.count-b.read):
		return malformed("a segment of %d items begins behind item %d of %d", n, b.read, b.count)
	}
	b.n = int(n)
	if b.meta, err = b.fill(b.meta, 8*b.n); err != nil {
		return err
	}
	var total int64
	for i := range b.n {
		size := b.size(i)
		if size < 0 || size > b.max-total {
			return invalid("the items from %d on do not fit into %d bytes", b.read, b.max)
		}
		total += size
	}
	if b.data, err = b.fill(b.data[:0], int(total)); err != nil {
		return err
	}
	if err := b.tail(); err != nil {
		return err
	}
	b.read += b.n
	return nil
}

// tail reads what stands behind the items' bytes, and verifies the segment.
func (b *BatchReader) tail() (err error) {
	if b.meta, err = b.fill(b.meta, 8*b.n); err != nil {
		return err
	}
	b.text = len(b.meta)
	for i := range b.n {
		if status, _ := b.status(i); status == 0 {
			continue
		}
		at := len(b.meta)
		if b.meta, err = b.fill(b.meta, 2); err != nil {
			return err
		}
		length := binary.LittleEndian.Uint16(b.meta[at:])
		if length > maxMessage {
			return malformed("the message of item %d has %d bytes", b.read+i, length)
		}
		if b.meta, err = b.fill(b.meta, int(length)); err != nil {
			return err
		}
	}
	crc := crc32.ChecksumIEEE(b.meta)
	end := len(b.meta)
	if b.meta, err = b.fill(b.meta, 4); err != nil {
		return err
	}
	if want := binary.LittleEndian.Uint32(b.meta[end:]); crc != want {
		return malformed("the segment from item %d on has checksum %08x, not %08x", b.read, crc, want)
	}
	return nil
}

func (b *BatchReader) head() (err error) {
	if b.meta, err = b.fill(b.meta[:0], 16); err != nil {
		return err
	}
	if string(b.meta[:8]) != batchMagic || binary.LittleEndian.Uint32(b.meta[12:]) != 0 {
		return malformed("the answer does not begin with %q", batchMagic)
	}
	if count := binary.LittleEndian.Uint32(b.meta[8:]); uint64(count) != uint64(b.count) {
		return malformed("the answer has %d items, %d were asked for", count, b.count)
	}
	return nil
}

// end looks at the end mark, which is in meta.
func (b *BatchReader) end() error {
	if string(b.meta) != batchEnd || b.read != b.count {
		return malformed("the answer ends behind item %d of %d", b.read, b.count)
	}
	// Reading the end lets net/http use the connection again. That it cannot be
	// read does not matter: everything has come.
	if _, err := b.r.ReadByte(); err == nil {
		return malformed("something follows the end of the answer")
	}
	b.done = true
	return nil
}

func (b *BatchReader) size(i int) int64 {
	return int64(binary.LittleEndian.Uint64(b.meta[segmentHead+8*i:]))
}

func (b *BatchReader) status(i int) (status, crc uint32) {
	at := segmentHead + 8*b.n + 8*i
	return binary.LittleEndian.Uint32(b.meta[at:]), binary.LittleEndian.Uint32(b.meta[at+4:])
}

// message takes the next message.
func (b *BatchReader) message() string {
	from := b.text + 2
	b.text = from + int(binary.LittleEndian.Uint16(b.meta[b.text:]))
	return string(b.meta[from:b.text])
}

// fill appends the next n bytes to buf. It takes memory as they come, so that a
// lying size costs its author more than us.
func (b *BatchReader) fill(buf []byte, n int) ([]byte, error) {
	for n > 0 {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, min(n, max(len(buf), step)))
		}
		part := min(n, cap(buf)-len(buf))
		if _, err := io.ReadFull(b.r, buf[len(buf):len(buf)+part]); err != nil {
			return buf, b.short(err)
		}
		buf = buf[:len(buf)+part]
		n -= part
	}
	return buf, nil
}

// short says that the answer broke off. A cause that has a kind keeps it.
func (b *BatchReader) short(err error) error {
	kind := object.KindOf(err)
	if kind == object.Internal {
		kind = object.Unavailable
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return object.Errorf(kind, "the answer breaks off behind item %d of %d: %w", b.read, b.count, err)
}

func malformed(format string, args ...any) error {
	return object.Errorf(object.Corrupt, format, args...)
}
