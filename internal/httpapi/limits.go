package httpapi

import (
	"context"
	"net"
	"net/http"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// Limits bound what clients can make the door spend. The zero value of each
// field means the default given with it.
type Limits struct {
	door.Limits
	Requests        int // data requests at once: 1024; one more is answered 503
	Batches         int // batches, in and out, at once, beside the others: 64
	ControlRequests int // requests of operators at once, beside the others: 32
}

// Validate fills in the defaults and reports as Invalid what makes no sense.
func (l *Limits) Validate() error {
	if l.Requests < 0 || l.Batches < 0 || l.ControlRequests < 0 {
		return object.Errorf(object.Invalid, "a limit of the native door is negative")
	}
	door.OrDefault(&l.Requests, 1024)
	door.OrDefault(&l.Batches, 64)
	door.OrDefault(&l.ControlRequests, 32)
	return l.Limits.Validate()
}

// maxSmallBody bounds a body that a handler needs as a whole.
const maxSmallBody = 64 << 10

// refusal is what a connection beyond the bound is told.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nX-Penstock-Error: Busy\r\n" +
	"Content-Type: application/json\r\nContent-Length: 68\r\n\r\n" + refusalBody

const refusalBody = `{"error":{"kind":"Busy","message":"too many connections are open"}}` + "\n"

// Server returns a http.Server with the door's handler and limits.
func (a *API) Server() *http.Server { return a.door.Server(a) }

// Listen returns a listener with the door's bound on connections. Set plain if no
// TLS is spoken on it. The caller closes it.
func (a *API) Listen(inner net.Listener, plain bool) *door.Listener {
	return a.door.Listen(inner, plain)
}

// Stop refuses requests from now on, and returns when none is under way any more,
// or the context ends. It may be called once.
func (a *API) Stop(ctx context.Context) error { return a.door.Stop(ctx) }
