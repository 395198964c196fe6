package httpapi

import (
	"errors"
	"io"
	"net/http"

	"penstock.dev/penstock/internal/object"
)

// body returns the request's body with its bounds: size, pace, and errors that
// say whose fault they are.
func (x *exchange) body() io.Reader { return (*requestBody)(x) }

type requestBody exchange

func (b *requestBody) Read(p []byte) (int, error) {
	x := (*exchange)(b)
	if x.pace >= paceBytes {
		x.pace = 0
		x.paced = true
		http.NewResponseController(x.w).SetReadDeadline(x.api.clock().Add(x.api.limits.Pace))
	}
	n, err := x.r.Body.Read(p)
	x.received += int64(n)
	x.pace += int64(n)
	if x.received > x.api.limits.Body {
		x.bodyErr = tooLarge(x.api.limits.Body)
		return 0, x.bodyErr
	}
	switch {
	case err == io.EOF:
		x.drained = true
		if x.paced {
			x.lift() // what follows, such as syncing gigabytes, takes the time it takes
		}
	case err != nil:
		x.bodyErr = x.bodyError(err)
		err = x.bodyErr
	}
	return n, err
}

func (x *exchange) bodyError(err error) error {
	switch {
	case isTimeout(err):
		return &statusError{
			status: http.StatusRequestTimeout, close: true,
			err: object.Errorf(object.Canceled, "the body came too slowly: %d bytes in all", x.received),
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return object.Errorf(object.Invalid, "the body ended early, after %d bytes", x.received)
	case x.r.Context().Err() != nil || clientGone(err):
		return object.Errorf(object.Canceled, "the client left after %d bytes of the body", x.received)
	}
	return object.Errorf(object.Invalid, "the body cannot be read: %v", err)
}

// bodyDone begins the time for the answer anew: net/http counts it from the header,
// and a body may have taken longer than that.
func (x *exchange) bodyDone() {
	x.pace = 0
	if x.paced || x.api.clock().Sub(x.start) > x.api.limits.Pace/4 {
		x.extend()
	}
}

// readSmall reads a body that a handler needs as a whole.
func (x *exchange) readSmall() ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(x.body(), maxSmallBody+1))
	if err == nil && len(data) > maxSmallBody {
		err = object.Errorf(object.Invalid, "the body is longer than %d bytes", maxSmallBody)
	}
	return data, err
}

const maxSmallBody = 64 << 10
