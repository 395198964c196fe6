package pack

import (
	"hash/crc32"
	"io"
)

// window reads a pack from front to back through a buffer.
type window struct {
	file  *File
	limit int64 // where the scan ends
	size  int64 // of the file
	buf   []byte
	at    int64 // of buf
}

const windowSize = 1 << 20

// bytes returns n bytes at offset, or nil if they reach beyond the limit.
func (w *window) bytes(offset, n int64) ([]byte, error) {
	if offset+n > w.limit {
		return nil, nil
	}
	if offset < w.at || offset+n > w.at+int64(len(w.buf)) {
		want := min(max(n, windowSize), w.limit-offset)
		if int64(cap(w.buf)) < want {
			w.buf = make([]byte, want)
		}
		w.buf = w.buf[:want]
		w.at = offset
		if got, err := w.file.file.ReadAt(w.buf, offset); int64(got) < want {
			w.buf = w.buf[:0]
			if err == io.EOF {
				return nil, nil // cut while we look
			}
			return nil, w.file.ioError(err)
		}
	}
	return w.buf[offset-w.at:][:n], nil
}

// crc computes the checksum of a payload, in pieces: it may be large.
func (w *window) crc(offset, n int64) (crc uint32, err error) {
	for n > 0 {
		piece := min(n, windowSize)
		b, err := w.bytes(offset, piece)
		if err != nil {
			return 0, err
		}
		if b == nil {
			return 0, w.file.damaged(offset, "file ends too early")
		}
		crc = crc32.Update(crc, crc32.IEEETable, b)
		offset, n = offset+piece, n-piece
	}
	return crc, nil
}
