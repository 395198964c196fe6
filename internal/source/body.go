package source

import (
	"context"
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Body is the answer of a server as an object.Reader: exactly the bytes that were
// announced, or an error. It fails with Corrupt when the body ends early or goes on, with
// Unavailable when the connection breaks or nothing comes for too long.
type Body struct {
	object Whole
	from   io.ReadCloser
	left   int64
	err    error
	exact  bool

	unknown bool // how long it is

	idle   time.Duration
	timer  *time.Timer
	cancel context.CancelFunc
	gone   func() error // why the caller is gone, if it is
	late   atomic.Bool
}

// Whole is what a Body is a range of. A Length of -1 is one that nobody announced: what
// comes up to the end of the answer.
type Whole struct {
	Info           object.Info
	Offset, Length int64
}

// BodyOptions say how a body is watched.
type BodyOptions struct {
	// Idle is how long nothing may come; zero means a minute.
	Idle time.Duration
	// Cancel breaks the request off; it is called at Close at the latest. It must make
	// a Read that waits return.
	Cancel context.CancelFunc
	// Open says that the server may have more to send than the range.
	Open bool
}

// NewBody reads a range from an answer. The context is the caller's, and the one the
// request was made with is below it.
func NewBody(ctx context.Context, whole Whole, from io.ReadCloser, opts BodyOptions) *Body {
	b := &Body{object: whole, from: from, left: whole.Length, exact: !opts.Open, idle: opts.Idle, cancel: opts.Cancel}
	b.gone = func() error { return context.Cause(ctx) }
	if b.left < 0 {
		b.left, b.unknown = math.MaxInt64, true
	}
	if b.idle == 0 {
		b.idle = time.Minute
	}
	if b.cancel == nil {
		b.cancel = func() {}
	}
	return b
}

// Info describes the whole object.
func (b *Body) Info() object.Info { return b.object.Info }

// Bounds returns the range.
func (b *Body) Bounds() (offset, length int64) { return b.object.Offset, b.object.Length }

// Skip passes over n bytes that come before the range.
func (b *Body) Skip(n int64) error {
	left := b.left
	b.left += n
	_, err := io.CopyN(io.Discard, struct{ io.Reader }{b}, n)
	if err == nil {
		b.left = left
	}
	return err
}

func (b *Body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	case b.left == 0:
		b.err = b.end()
		return 0, b.err
	}
	n, err := b.read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case err == nil:
	case b.unknown && errors.Is(err, io.EOF):
		b.err = io.EOF
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if b.left > 0 {
			b.err = object.Errorf(object.Corrupt, "the source sent %d bytes too few of %d", b.left, b.object.Length)
		}
	default:
		b.err = b.broken(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// read waits no longer than it may. The time in which nobody reads does not count.
func (b *Body) read(p []byte) (int, error) {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.idle, func() {
			b.late.Store(true)
			b.cancel()
		})
	} else {
		b.timer.Reset(b.idle)
	}
	n, err := b.from.Read(p)
	b.timer.Stop()
	return n, err
}

// end looks whether the body is at its end where it should be.
func (b *Body) end() error {
	if !b.exact {
		return io.EOF
	}
	var more [1]byte
	for {
		n, err := b.read(more[:])
		switch {
		case n > 0:
			return object.Errorf(object.Corrupt, "the source sent more than the %d bytes it announced", b.object.Length)
		case err == nil:
		case errors.Is(err, io.EOF):
			return io.EOF
		default:
			return b.broken(err)
		}
	}
}

func (b *Body) broken(err error) error {
	var kind *object.Error
	switch {
	case b.gone() != nil:
		return object.Errorf(object.Canceled, "reading from the source: %w", b.gone())
	case b.late.Load():
		return object.Errorf(object.Unavailable, "the source sent nothing for %v", b.idle)
	case errors.As(err, &kind):
		return err
	}
	return object.Errorf(object.Unavailable, "the source broke off: %w", notContext(err))
}

// WriteTo copies what is left.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	buf := make([]byte, min(max(b.left, 512), 128<<10))
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{b}, buf)
}

// Close breaks off what was not read.
func (b *Body) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.from.Close() //nolint:errcheck // what is not wanted any more cannot fail
	b.cancel()
	if b.err == nil || errors.Is(b.err, io.EOF) {
		b.err = object.Errorf(object.Invalid, "the reader is closed")
	}
	return nil
}
