package httpapi

import (
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

const (
	segmentBytes = 1 << 20
	segmentItems = 4096

	// loneBytes is the size from which an item is rather a segment of its own than
	// copied behind others.
	loneBytes = 64 << 10

	streamHead  = 16
	segmentRoom = streamHead + 8 + 8*segmentItems
)

// frames assembles the answer to a batch. The bytes of a segment are gathered
// behind enough room for what stands before them and is known only when all are
// there: so a segment goes out in one write. Large items make segments of their
// own, and their bytes do not pass through here.
type frames struct {
	x       *exchange
	segment wire.Segment
	buf     []byte // the room, then the bytes
	sizes   []int64
	status  []wire.Status
	count   int
	begun   bool // the stream's own head is out
}

func newFrames() any {
	return &frames{buf: make([]byte, segmentRoom, segmentRoom+segmentBytes+128<<10)}
}

func (f *frames) begin(x *exchange, count int) {
	f.x, f.count, f.begun = x, count, false
	f.clear()
	h := x.w.Header()
	h["Content-Type"] = []string{wire.BatchType}
	h["X-Content-Type-Options"] = noSniff
}

func (f *frames) clear() {
	f.buf, f.sizes = f.buf[:segmentRoom], f.sizes[:0]
	clear(f.status)
	f.status = f.status[:0]
}

// add takes the next item.
func (f *frames) add(item *object.Item, err error) error {
	switch {
	case err == nil && item.Large != nil:
		return f.large(item.Large)
	case err == nil && len(item.Bytes) >= loneBytes:
		return f.lone(item)
	}
	if err != nil {
		err = f.x.api.itemError(f.x, err)
	} else {
		f.buf = append(f.buf, item.Bytes...)
	}
	f.sizes = append(f.sizes, int64(len(item.Bytes)))
	f.status = append(f.status, wire.Status{Err: err, CRC32: item.CRC32})
	if len(f.sizes) < segmentItems && len(f.buf) < segmentRoom+segmentBytes {
		return nil
	}
	return f.flush()
}

// flush sends the segment that was gathered.
func (f *frames) flush() error {
	if len(f.sizes) == 0 {
		return nil
	}
	start := segmentRoom - 8 - 8*len(f.sizes)
	f.segment.Begin(f.buf[start:start], f.sizes) // in place
	if !f.begun {
		f.begun = true
		start -= streamHead
		wire.AppendBatchHead(f.buf[start:start], f.count)
	}
	f.buf = f.segment.End(f.buf, f.status)
	_, err := f.x.Write(f.buf[start:])
	f.clear()
	return err
}

// large sends one item as a segment of its own. The kernel moves its bytes if its
// checksum is known and net/http lets it: in an answer that ends with the
// connection, not in one of chunks. So the answer is made that if a large item
// comes before anything was sent. The end mark tells whether it was whole.
func (f *frames) large(r object.Reader) error {
	if !f.x.sent {
		f.x.w.Header()["Transfer-Encoding"] = []string{"identity"}
	}
	_, length := r.Bounds()
	if err := f.open(length); err != nil {
		return err
	}
	status := wire.Status{CRC32: r.Info().CRC32}
	sent, err := f.pour(r, length, &status)
	if err != nil {
		if kind := object.KindOf(err); kind != object.Corrupt && kind != object.Unavailable {
			return err // the client is gone
		}
		status.Err = f.x.api.itemError(f.x, err)
		if _, err := io.CopyN(f.x, zeros{}, length-sent); err != nil {
			return err
		}
	}
	_, err = f.x.Write(f.segment.End(nil, []wire.Status{status}))
	return err
}

// lone sends one item from where it lies as a segment of its own. What stands
// around it is so short that net/http gathers it.
func (f *frames) lone(item *object.Item) error {
	if err := f.open(int64(len(item.Bytes))); err != nil {
		return err
	}
	if _, err := f.x.Write(item.Bytes); err != nil {
		return err
	}
	_, err := f.x.Write(f.segment.End(nil, []wire.Status{{CRC32: item.CRC32}}))
	return err
}

// open sends what was gathered, and the beginning of a segment of one item.
func (f *frames) open(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	var head []byte
	if !f.begun {
		f.begun = true
		head = wire.AppendBatchHead(head, f.count)
	}
	_, err := f.x.Write(f.segment.Begin(head, []int64{size}))
	return err
}

func (f *frames) pour(r object.Reader, length int64, status *wire.Status) (int64, error) {
	if length == r.Info().Size {
		return r.WriteTo(f.x)
	}
	sum := crc32.NewIEEE()
	n, err := io.Copy(struct{ io.Writer }{f.x}, io.TeeReader(struct{ io.Reader }{r}, sum))
	status.CRC32 = sum.Sum32()
	return n, err
}

// end sends what is left, and the end mark.
func (f *frames) end() error {
	if err := f.flush(); err != nil {
		return err
	}
	var tail []byte
	if !f.begun { // there were no references
		tail = wire.AppendBatchHead(tail, f.count)
	}
	_, err := f.x.Write(wire.AppendBatchEnd(tail))
	return err
}

// zeros fills up an item that broke off.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
