package manifest

import (
	"io"
	"os"
)

const spoolChunk = 64 << 10

// spool is a temporary file that many streams grow in at a time, chunk by chunk:
// a manifest is written field after field, and comes sample after sample. Each
// stream has one chunk in memory, so what a Writer needs does not depend on how
// many samples there are. The first failure stays.
type spool struct {
	file   *os.File
	name   string // to be removed at the end; empty: it was removed at once
	chunks uint32
	err    error
}

func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, ".manifest-*.spool")
	if err != nil {
		return nil, failed("write manifest", err)
	}
	s := &spool{file: file, name: file.Name()}
	// Where an open file can be removed nothing is left of it even after a crash.
	if os.Remove(s.name) == nil {
		s.name = ""
	}
	return s, nil
}

func (s *spool) close() {
	s.file.Close()
	if s.name != "" {
		os.Remove(s.name)
	}
}

func (s *spool) stream() *stream { return &stream{spool: s} }

// stream is a sequence of bytes that is first written and then read.
type stream struct {
	spool  *spool
	chunks []uint32 // where full chunks lie in the spool
	tail   []byte   // what is behind them
	length int64
}

func (t *stream) append(p []byte) {
	t.length += int64(len(p))
	for len(p) > 0 {
		n := min(len(p), spoolChunk-len(t.tail))
		t.tail = append(t.tail, p[:n]...)
		p = p[n:]
		t.flush()
	}
}

func (t *stream) string(s string) {
	for len(s) > 0 {
		n := min(len(s), spoolChunk-len(t.tail))
		t.tail = append(t.tail, s[:n]...)
		s = s[n:]
		t.length += int64(n)
		t.flush()
	}
}

func (t *stream) byte(v byte) {
	t.tail = append(t.tail, v)
	t.length++
	t.flush()
}

func (t *stream) uint32(v uint32) { t.append(little.AppendUint32(make([]byte, 0, 4), v)) }
func (t *stream) uint64(v uint64) { t.append(little.AppendUint64(make([]byte, 0, 8), v)) }

// flush moves a full chunk to the spool.
func (t *stream) flush() {
	if len(t.tail) < spoolChunk {
		return
	}
	if t.spool.err == nil {
		if _, err := t.spool.file.WriteAt(t.tail, int64(t.spool.chunks)*spoolChunk); err != nil {
			t.spool.err = failed("write manifest", err)
		}
	}
	t.chunks = append(t.chunks, t.spool.chunks)
	t.spool.chunks++
	t.tail = t.tail[:0]
}

// reader reads the stream from its beginning. Nothing may be appended meanwhile.
func (t *stream) reader() *streamReader { return &streamReader{stream: t} }

type streamReader struct {
	stream *stream
	next   int    // chunk
	buffer []byte // of a chunk
	rest   []byte // of it, or of the tail
}

// fill makes sure that some bytes are there, or returns io.EOF.
func (r *streamReader) fill() error {
	t := r.stream
	switch {
	case len(r.rest) > 0:
		return nil
	case t.spool.err != nil:
		return t.spool.err
	case r.next < len(t.chunks):
		if r.buffer == nil {
			r.buffer = make([]byte, spoolChunk)
		}
		if _, err := t.spool.file.ReadAt(r.buffer, int64(t.chunks[r.next])*spoolChunk); err != nil {
			return failed("write manifest", err)
		}
		r.rest = r.buffer
	case r.next == len(t.chunks) && len(t.tail) > 0:
		r.rest = t.tail
	default:
		return io.EOF
	}
	r.next++
	return nil
}

func (r *streamReader) Read(p []byte) (int, error) {
	if err := r.fill(); err != nil {
		return 0, err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// take reads exactly into p. That the stream ends before is io.ErrUnexpectedEOF,
// or io.EOF if nothing was left.
func (r *streamReader) take(p []byte) error {
	if len(r.rest) >= len(p) {
		copy(p, r.rest)
		r.rest = r.rest[len(p):]
		return nil
	}
	_, err := io.ReadFull(r, p)
	return err
}

func (r *streamReader) uint32() (uint32, error) {
	var b [4]byte
	err := r.take(b[:])
	return little.Uint32(b[:]), err
}

func (r *streamReader) uint64() (uint64, error) {
	var b [8]byte
	err := r.take(b[:])
	return little.Uint64(b[:]), err
}

// part is a section on its way into a file.
type part struct {
	id
	length int64
	write  func(io.Writer) error
}

// as makes a section of the stream as it is.
func (t *stream) as(k kind, item int) part {
	return part{id: id{kind: k, item: uint16(item)}, length: t.length, write: func(w io.Writer) error {
		r := t.reader()
		for {
			if err := r.fill(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if _, err := w.Write(r.rest); err != nil {
				return err
			}
			r.rest = nil
		}
	}}
}

// converted makes a section of count numbers of the given width out of a stream of
// numbers of from bytes.
func (t *stream) converted(k kind, item int, from, width int, convert func(uint64) uint64) part {
	count := t.length / int64(from)
	return part{id: id{kind: k, item: uint16(item)}, length: count * int64(width), write: func(w io.Writer) error {
		r := t.reader()
		var in, out [8]byte
		buffer := make([]byte, 0, spoolChunk)
		for range count {
			if err := r.take(in[:from]); err != nil {
				return err
			}
			little.PutUint64(out[:], convert(little.Uint64(in[:])))
			if buffer = append(buffer, out[:width]...); len(buffer) == cap(buffer) {
				if _, err := w.Write(buffer); err != nil {
					return err
				}
				buffer = buffer[:0]
			}
		}
		_, err := w.Write(buffer)
		return err
	}}
}
