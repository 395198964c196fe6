package penstock

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
)

// body is what a request sends, perhaps in several attempts.
type body struct {
	over   func() error // why the request's context has ended, nil if it has not
	src    io.Reader
	seeker io.Seeker // nil if src cannot be rewound
	start  int64     // where src stood
	size   int64     // -1 if not known
	last   *stream   // of the last attempt

	unsummed bool // nobody asks for its CRC-32
}

// newBody returns a body of the next size bytes of src, or of all it gives if
// size is -1.
func newBody(ctx context.Context, src io.Reader, size int64) *body {
	b := &body{over: func() error { return context.Cause(ctx) }, src: src, size: size}
	if seeker, ok := src.(io.Seeker); ok && size >= 0 {
		if at, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			b.seeker, b.start = seeker, at
		}
	}
	return b
}

// measure returns how many bytes src has left, or -1 if it cannot say. A pipe
// that is an *os.File has a Seek that fails.
func measure(src io.Reader) int64 {
	seeker, ok := src.(io.Seeker)
	if !ok {
		return -1
	}
	at, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return -1
	}
	if _, err := seeker.Seek(at, io.SeekStart); err != nil {
		return -1
	}
	return max(0, end-at)
}

// attach makes b the body of one attempt.
func (b *body) attach(req *http.Request) {
	b.last = &stream{body: b, ended: b.size == 0}
	if b.size == 0 {
		req.Body = http.NoBody
		return
	}
	req.Body, req.ContentLength = b.last, b.size
}

// stop keeps the transport off the reader from now on, and waits for a Read that
// is under way. It returns the reader's own error. b may be nil.
func (b *body) stop() error {
	if b == nil {
		return nil
	}
	b.last.mu.Lock()
	defer b.last.mu.Unlock()
	b.last.stopped = true
	return b.last.err
}

// rewindable reports whether the body can be sent again. b may be nil.
func (b *body) rewindable() bool { return b == nil || b.seeker != nil }

// rewind goes back to where the body began. b may be nil.
func (b *body) rewind() error {
	if b == nil {
		return nil
	}
	_, err := b.seeker.Seek(b.start, io.SeekStart)
	return err
}

// stream is a body in one attempt. The transport may go on reading after it has
// answered, while the next attempt runs; each has its own stream, which can be
// stopped, so that no attempt takes another's bytes and a Put does not keep its
// reader.
type stream struct {
	*body

	mu      sync.Mutex // held during a Read of the reader
	sent    int64
	crc     uint32
	ended   bool // all is sent
	stopped bool
	err     error // of the reader
}

var errStopped = errors.New("the request is over")

// Read gives the transport the next bytes.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return 0, io.EOF // also when stopped: the transport asks once more than it needs
	case s.stopped:
		return 0, errStopped
	}
	if s.size >= 0 && int64(len(p)) > s.size-s.sent {
		p = p[:s.size-s.sent]
	}
	n, err := s.src.Read(p)
	s.sent += int64(n)
	if !s.unsummed {
		s.crc = crc32.Update(s.crc, crc32.IEEETable, p[:n])
	}
	if err == io.EOF && s.sent < s.size {
		err = io.ErrUnexpectedEOF // it was longer when it was measured
	}
	switch {
	case s.over() != nil:
		// The transport looks only now and then. Whoever cancels before the last
		// byte is given must not find the object stored.
		s.err = s.over()
		return n, s.err
	case s.sent == s.size || err == io.EOF:
		s.ended = true
		return n, io.EOF
	}
	s.err = err
	return n, err
}

// Close is the transport's; the reader belongs to the caller and stays open.
func (s *stream) Close() error { return nil }
