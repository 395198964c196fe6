package httpapi

import (
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

const (
	segmentBytes = 4 << 20 // more than a Batcher keeps in memory
	segmentItems = 4096

	// loneBytes is the size of runs, on average, from which they are rather sent one
	// by one than gathered first.
	loneBytes = 32 << 10
)

// frames assembles the answer to a batch. Items are not copied but noted, as runs of
// memory, until the Batcher is about to use that memory again; a whole segment
// mostly is one run. Large items make segments of their own, and their bytes do not
// pass through here.
type frames struct {
	x       *exchange
	segment wire.Segment
	buf     []byte
	runs    [][]byte
	bytes   int
	sizes   []int64
	status  []wire.Status
	left    int  // items to come
	count   int  // of the stream
	begun   bool // the stream's own head is out
}

func newFrames() any { return &frames{} }

func (f *frames) begin(x *exchange, count int) {
	f.x, f.count, f.left, f.begun = x, count, count, false
	f.clear()
	h := x.W.Header()
	h["Content-Type"] = []string{wire.BatchType}
	h["X-Content-Type-Options"] = noSniff
}

func (f *frames) clear() {
	f.sizes, f.bytes = f.sizes[:0], 0
	clear(f.runs)
	f.runs = f.runs[:0]
	clear(f.status)
	f.status = f.status[:0]
}

// release forgets the exchange, since frames are used again.
func (f *frames) release() {
	f.x = nil
	f.clear()
}

// add takes the next item. After the last one everything is sent: its memory is the
// Batcher's.
func (f *frames) add(item *object.Item, err error) error {
	f.left--
	switch {
	case err == nil && item.Large != nil:
		if err := f.large(item.Large); err != nil || f.left > 0 {
			return err
		}
		return f.end()
	case err != nil:
		err = f.x.api.itemError(f.x, err)
		f.sizes = append(f.sizes, 0)
	default:
		f.note(item.Bytes)
		f.sizes = append(f.sizes, int64(len(item.Bytes)))
	}
	f.status = append(f.status, wire.Status{Err: err, CRC32: item.CRC32})
	switch {
	case f.left == 0:
		return f.end()
	case item.Last || len(f.sizes) == segmentItems || f.bytes >= segmentBytes:
		return f.flush(nil)
	}
	return nil
}

// note adds bytes to the run they lie behind, or begins another.
func (f *frames) note(b []byte) {
	f.bytes += len(b)
	if len(b) == 0 {
		return
	}
	if n := len(f.runs); n > 0 {
		run := f.runs[n-1]
		if end := len(run); cap(run)-end >= len(b) && &run[:end+1][end] == &b[0] {
			f.runs[n-1] = run[:end+len(b)]
			return
		}
	}
	f.runs = append(f.runs, b)
}

// flush sends the segment that was noted, and what follows it.
func (f *frames) flush(tail []byte) error {
	b := f.buf[:0]
	if !f.begun {
		f.begun = true
		b = wire.AppendBatchHead(b, f.count)
	}
	if len(f.sizes) > 0 {
		b = f.segment.Begin(b, f.sizes)
		if apart := len(f.runs) > 0 && f.bytes/len(f.runs) >= loneBytes; apart {
			if _, err := f.x.Write(b); err != nil {
				return err
			}
			b = b[:0]
			for _, run := range f.runs {
				if _, err := f.x.Write(run); err != nil {
					return err
				}
			}
		} else {
			for _, run := range f.runs {
				b = append(b, run...)
			}
		}
		b = f.segment.End(b, f.status)
	}
	f.clear()
	b = append(b, tail...)
	if cap(b) <= 1<<20 {
		f.buf = b
	}
	_, err := f.x.Write(b)
	return err
}

// large sends one item as a segment of its own. The kernel moves its bytes if its
// checksum is known and net/http lets it: in an answer that ends with the
// connection, not in one of chunks. So the answer is made that if a large item
// comes before anything was sent. The end mark tells whether it was whole.
func (f *frames) large(r object.Reader) error {
	if !f.x.Sent {
		f.x.W.Header()["Transfer-Encoding"] = []string{"identity"}
	}
	_, length := r.Bounds()
	if err := f.open(length); err != nil {
		return err
	}
	status := wire.Status{CRC32: r.Info().CRC32}
	sent, err := f.pour(r, length, &status)
	if err != nil {
		switch object.KindOf(err) {
		case object.Corrupt, object.Unavailable, object.Stale:
		default:
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

// open sends what was noted, and the beginning of a segment of one item.
func (f *frames) open(size int64) error {
	if len(f.sizes) > 0 {
		if err := f.flush(nil); err != nil {
			return err
		}
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

// end sends what was noted, and the end mark.
func (f *frames) end() error { return f.flush(wire.AppendBatchEnd(nil)) }

// zeros fills up an item that broke off.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
