package door

import (
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Exchange is one request and its answer. It is the writer that handlers and readers
// write to; the header goes out with the first byte. Exchanges are used again, so
// nobody may keep one.
//
// It deliberately is the only wrapper around net/http's writer, and has ReadFrom: one
// that hides it would make every large read cost four times as much.
type Exchange struct {
	W     http.ResponseWriter
	R     *http.Request
	Start time.Time

	Status   int   // of the answer
	Sent     bool  // its header is out
	Written  int64 // bytes of it
	Received int64 // bytes of the request
	BodyErr  error // why the body could not be read

	door    *Door
	body    io.Reader // as it came, whatever R.Body becomes
	pace    int64     // bytes since the deadline was moved
	paced   bool      // the deadline for reading was moved
	lifted  bool      // and taken away
	drained bool      // the body was read to its end

	values [16]string // room for header values, so that they need no slices of their own
	used   int
	Text   []byte // room to format them in; kept from one exchange to the next
}

// Begin makes the exchange that of a request.
func (x *Exchange) Begin(d *Door, w http.ResponseWriter, r *http.Request) {
	*x = Exchange{door: d, W: w, R: r, body: r.Body, Status: http.StatusOK, Start: d.clock(), Text: x.Text[:0]}
}

// End drops what must not live on in a pool.
func (x *Exchange) End() { *x = Exchange{Text: x.Text} }

// Header implements http.ResponseWriter.
func (x *Exchange) Header() http.Header { return x.W.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *Exchange) WriteHeader(status int) {
	x.Status = status
	x.SendHeader()
}

// SendHeader sends the header, unless it is out.
func (x *Exchange) SendHeader() {
	if !x.Sent {
		x.Sent = true
		x.W.WriteHeader(x.Status)
	}
}

// Unwrap lets http.ResponseController find the connection.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.W }

// Value returns a slice that holds v. It lives in the exchange: net/http copies the
// header when it is sent, which is before the exchange ends.
func (x *Exchange) Value(v string) []string {
	i := x.used
	if i == len(x.values) {
		return []string{v}
	}
	x.used++
	x.values[i] = v
	return x.values[i : i+1 : i+1]
}

// Measure sets Content-Length, and for a part Content-Range and the status.
func (x *Exchange) Measure(offset, length, size int64, part bool) {
	b := strconv.AppendInt(x.Text[:0], length, 10)
	n := len(b)
	if part {
		b = append(b, "bytes "...)
		b = strconv.AppendInt(b, offset, 10)
		b = append(b, '-')
		b = strconv.AppendInt(b, offset+length-1, 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, size, 10)
	}
	x.Text = b
	s := string(b)
	h := x.W.Header()
	h["Content-Length"] = x.Value(s[:n])
	if part {
		h["Content-Range"] = x.Value(s[n:])
		x.Status = http.StatusPartialContent
	}
}

// Write implements io.Writer.
func (x *Exchange) Write(p []byte) (total int, err error) {
	if c := x.whole(p); c != nil {
		// If p does not fit net/http's buffer with the header, what of them does is
		// written now and the rest later, when the buffer is full again or the
		// handler has returned. If it fits, nothing is written now.
		c.holds = true
		defer func() { c.holds = false }()
	}
	x.SendHeader()
	for {
		piece := p[:min(len(p), paceBytes)]
		x.moved(int64(len(piece)))
		n, err := x.W.Write(piece)
		x.Written += int64(n)
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
	}
}

// whole returns the connection if p is the whole body of the answer and not small.
func (x *Exchange) whole(p []byte) *tcpConn {
	if x.Sent || len(p) < 2<<10 || len(p) > paceBytes {
		return nil
	}
	length := x.W.Header()["Content-Length"]
	if len(length) != 1 {
		return nil
	}
	if n, err := strconv.Atoi(length[0]); err != nil || n != len(p) {
		return nil
	}
	c, _ := x.R.Context().Value(connKey{}).(*tcpConn)
	return c
}

// ReadFrom sends what src has. If it is a file, or a part of one, the kernel moves
// the bytes. They go in pieces, so that the deadline can follow them.
func (x *Exchange) ReadFrom(src io.Reader) (int64, error) {
	to, ok := x.W.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{x}, src)
	}
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: src, N: math.MaxInt64}
	}
	piece := io.LimitedReader{R: whole.R}
	var total int64
	for whole.N > 0 {
		x.SendHeader()
		size := min(whole.N, paceBytes)
		x.moved(size)
		piece.N = size
		n, err := to.ReadFrom(&piece)
		whole.N -= n
		total += n
		x.Written += n
		if err != nil || n < size {
			return total, err
		}
	}
	return total, nil
}

// paceBytes is how much a client has to take or give within Limits.Pace.
const paceBytes = 1 << 20

// moved notes bytes that are about to go out. The deadline that net/http sets at the
// header is enough for the first piece; a longer answer moves it on, piece by piece.
// That is no system call, only a timer.
func (x *Exchange) moved(n int64) {
	x.pace += n
	if x.pace <= paceBytes {
		return
	}
	x.pace = n
	x.Extend()
}

// Extend gives the client anew the time to take the next piece.
func (x *Exchange) Extend() {
	x.lift()
	pace := x.door.limits.Pace
	if !x.lifted {
		pace *= 2 // net/http waits for the rest of the body first, until the deadline for reading
	}
	http.NewResponseController(x.W).SetWriteDeadline(x.door.clock().Add(pace)) //nolint:errcheck // without one it is as before
}

// lift takes the deadline for reading away, once the request is in: net/http goes on
// reading, to notice when the client leaves, and would take a deadline for that.
// While there is something left to read it stays, or a client that stops in the
// middle of a body nobody wants could keep its slot for ever.
func (x *Exchange) lift() {
	if !x.lifted && (x.drained || x.R.ContentLength == 0) {
		x.lifted = true
		http.NewResponseController(x.W).SetReadDeadline(time.Time{}) //nolint:errcheck // without one it is as before
	}
}

// Body returns the request's body with its bounds: size, pace, and errors that say
// whose fault they are.
//
// To close it does nothing: net/http closes what it is made of.
func (x *Exchange) Body() io.ReadCloser { return (*requestBody)(x) }

type requestBody Exchange

func (*requestBody) Close() error { return nil }

func (b *requestBody) Read(p []byte) (int, error) {
	x := (*Exchange)(b)
	if x.pace >= paceBytes {
		x.pace = 0
		x.paced = true
		http.NewResponseController(x.W).SetReadDeadline(x.door.clock().Add(x.door.limits.Pace)) //nolint:errcheck // without one it is as before
	}
	n, err := x.body.Read(p)
	x.Received += int64(n)
	x.pace += int64(n)
	if x.Received > x.door.limits.Body {
		x.BodyErr = TooLarge(x.door.limits.Body)
		return 0, x.BodyErr
	}
	switch {
	case err == io.EOF:
		x.drained = true
		if x.paced {
			x.lift() // what follows, such as syncing gigabytes, takes the time it takes
		}
	case err != nil:
		x.BodyErr = x.bodyError(err)
		err = x.BodyErr
	}
	return n, err
}

// BodyError is what is wrong with a body, with the status that says so.
type BodyError struct {
	Status int
	Close  bool // the connection cannot go on
	Err    error
}

func (e *BodyError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BodyError) Unwrap() error { return e.Err }

// TooLarge refuses a body.
func TooLarge(limit int64) error {
	return &BodyError{
		Status: http.StatusRequestEntityTooLarge, Close: true,
		Err: object.Errorf(object.Invalid, "the body is larger than the limit of %d bytes", limit),
	}
}

func (x *Exchange) bodyError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &BodyError{
			Status: http.StatusRequestTimeout, Close: true,
			Err: object.Errorf(object.Canceled, "the body came too slowly: %d bytes in all", x.Received),
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &BodyError{
			Status: http.StatusBadRequest,
			Err:    object.Errorf(object.Invalid, "the body ended early, after %d bytes", x.Received),
		}
	case x.R.Context().Err() != nil || ClientGone(err):
		return object.Errorf(object.Canceled, "the client left after %d bytes of the body", x.Received)
	}
	return object.Errorf(object.Invalid, "the body cannot be read: %v", err)
}

// BodyDone begins the time for the answer anew: net/http counts it from the header,
// and a body may have taken longer than that.
func (x *Exchange) BodyDone() {
	x.pace = 0
	if x.paced || x.door.clock().Sub(x.Start) > x.door.limits.Pace/4 {
		x.Extend()
	}
}

// ReadSmall reads a body that a handler needs as a whole.
func (x *Exchange) ReadSmall(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = object.Errorf(object.Invalid, "the body is %w than %d bytes", ErrLonger, limit)
	}
	return data, err
}

// ErrLonger is in the chain of ReadSmall's error about a body that is.
var ErrLonger = errors.New("longer")

// BodyWaits reports whether more of the body is still to come than it is sensible to
// take in only to keep the connection: net/http would wait for it before it answers. A
// client that waits to be told to send it, and is not, may never do so.
func (x *Exchange) BodyWaits() bool {
	if x.R.ContentLength != 0 && x.Received == 0 && x.R.Header["Expect"] != nil {
		return !x.drained
	}
	return !x.drained && (x.R.ContentLength < 0 || x.R.ContentLength-x.Received > maxLeftover)
}

const maxLeftover = 64 << 10

// ClientGone reports whether an error is of the connection and not of ours. sendfile
// reports what is wrong with the file as an error of the connection.
func ClientGone(err error) bool {
	if errors.Is(err, syscall.EIO) {
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || object.Is(err, object.Canceled)
}
