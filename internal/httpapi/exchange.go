package httpapi

import (
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	"penstock.dev/penstock/internal/object"
)

// exchange is one request and its answer. It is the writer that handlers and
// readers write to; the header goes out with the first byte. Exchanges are used
// again, so nobody may keep one.
//
// It deliberately is the only wrapper around net/http's writer, and has ReadFrom:
// one that hides it would make every large read cost four times as much.
type exchange struct {
	api   *API
	w     http.ResponseWriter
	r     *http.Request
	route *route // nil if there is none
	allow string // methods of the path, if only the method was wrong
	name  object.Name
	start time.Time

	dataset string
	version int64 // of the dataset

	status   int
	sent     bool  // the header is out
	written  int64 // bytes of the answer
	received int64 // bytes of the request
	pace     int64 // bytes since the deadline was moved
	paced    bool  // the deadline for reading was moved
	lifted   bool  // and taken away
	drained  bool  // the body was read to its end
	bodyErr  error // why it could not be

	values [16]string // room for header values, so that they need no slices of their own
	used   int
	text   []byte // room to format them in
}

func (x *exchange) begin(a *API, w http.ResponseWriter, r *http.Request) {
	text := x.text[:0]
	*x = exchange{api: a, w: w, r: r, status: http.StatusOK, start: a.clock(), text: text}
}

// end drops what must not live on in the pool.
func (x *exchange) end() {
	text := x.text
	*x = exchange{text: text}
}

func (x *exchange) routeName() string {
	if x.route == nil {
		return "none"
	}
	return x.route.name
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	x.status = status
	x.sendHeader()
}

func (x *exchange) sendHeader() {
	if !x.sent {
		x.sent = true
		x.w.WriteHeader(x.status)
	}
}

// Unwrap lets http.ResponseController find the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// Write implements io.Writer.
func (x *exchange) Write(p []byte) (total int, err error) {
	x.sendHeader()
	for {
		piece := p[:min(len(p), paceBytes)]
		x.moved(int64(len(piece)))
		n, err := x.w.Write(piece)
		x.written += int64(n)
		total += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return total, err
		}
	}
}

// ReadFrom sends what src has. If it is a file, or a part of one, the kernel
// moves the bytes. They go in pieces, so that the deadline can follow them.
func (x *exchange) ReadFrom(src io.Reader) (int64, error) {
	to, ok := x.w.(io.ReaderFrom)
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
		x.sendHeader()
		size := min(whole.N, paceBytes)
		x.moved(size)
		piece.N = size
		n, err := to.ReadFrom(&piece)
		whole.N -= n
		total += n
		x.written += n
		if err != nil || n < size {
			return total, err
		}
	}
	return total, nil
}

// paceBytes is how much a client has to take or give within Limits.Pace.
const paceBytes = 1 << 20

// moved notes bytes that are about to go out. The deadline that net/http sets at
// the header is enough for the first piece; a longer answer moves it on, piece by
// piece. That is no system call, only a timer.
func (x *exchange) moved(n int64) {
	x.pace += n
	if x.pace <= paceBytes {
		return
	}
	x.pace = n
	x.extend()
}

// extend gives the client anew the time to take the next piece.
func (x *exchange) extend() {
	x.lift()
	pace := x.api.limits.Pace
	if !x.lifted {
		pace *= 2 // net/http waits for the rest of the body first, until the deadline for reading
	}
	http.NewResponseController(x.w).SetWriteDeadline(x.api.clock().Add(pace))
}

// lift takes the deadline for reading away, once the request is in: net/http goes
// on reading, to notice when the client leaves, and would take a deadline for that.
// While there is something left to read it stays, or a client that stops in the
// middle of a body nobody wants could keep its slot for ever.
func (x *exchange) lift() {
	if !x.lifted && (x.drained || x.r.ContentLength == 0) {
		x.lifted = true
		http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	}
}

// cut ends the connection, so that the client cannot take what it has for the
// whole answer.
func (x *exchange) cut(err error) {
	if !clientGone(err) {
		x.api.logError(x, err)
	}
	panic(http.ErrAbortHandler)
}

func stack() string {
	s := debug.Stack()
	return string(s[:min(len(s), 8<<10)])
}
