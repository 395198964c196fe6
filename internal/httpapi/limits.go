package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Limits bound what clients can make the door spend. The zero value of each
// field means the default given with it.
type Limits struct {
	Header          int           // bytes of a request's header: 64 KiB
	Body            int64         // bytes of a request's body: 1 TiB
	Requests        int           // data requests at once: 1024; one more is answered 503
	Batches         int           // batches, in and out, at once, beside the others: 64
	ControlRequests int           // requests of operators at once, beside the others: 32
	Connections     int           // connections at once: 4096; one more is answered 503 and closed
	HeaderTimeout   time.Duration // for the header to arrive: 10 s
	IdleTimeout     time.Duration // between requests: 2 min
	Pace            time.Duration // for each MiB, in either direction: 1 min
}

// Validate fills in the defaults and reports as Invalid what makes no sense.
func (l *Limits) Validate() error {
	if l.Header < 0 || l.Body < 0 || l.Requests < 0 || l.Batches < 0 || l.ControlRequests < 0 || l.Connections < 0 ||
		l.HeaderTimeout < 0 || l.IdleTimeout < 0 || l.Pace < 0 {
		return object.Errorf(object.Invalid, "a limit of the native door is negative")
	}
	orDefault(&l.Header, 64<<10)
	orDefault(&l.Body, 1<<40)
	orDefault(&l.Requests, 1024)
	orDefault(&l.Batches, 64)
	orDefault(&l.ControlRequests, 32)
	orDefault(&l.Connections, 4096)
	orDefault(&l.HeaderTimeout, 10*time.Second)
	orDefault(&l.IdleTimeout, 2*time.Minute)
	orDefault(&l.Pace, time.Minute)
	return nil
}

func orDefault[T int | int64 | time.Duration](p *T, value T) {
	if *p == 0 {
		*p = value
	}
}

// Server returns a http.Server with the door's handler and limits. HTTP/2 is off:
// it cannot use sendfile.
//
// ReadTimeout and WriteTimeout cover the header and the first piece of a body;
// long bodies move the deadlines on as they flow (exchange.go).
func (a *API) Server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           a,
		Protocols:         protocols,
		MaxHeaderBytes:    a.limits.Header,
		ReadHeaderTimeout: a.limits.HeaderTimeout,
		ReadTimeout:       a.limits.HeaderTimeout + a.limits.Pace,
		WriteTimeout:      a.limits.Pace,
		IdleTimeout:       a.limits.IdleTimeout,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),

		DisableGeneralOptionsHandler: true,
	}
}

// presence counts the requests under way, so that a stop can wait for the last one.
// net/http waits only as long as it is polite.
type presence struct {
	count atomic.Int64 // and away, once nobody may come in any more
	once  sync.Once
	empty chan struct{}
}

const away = 1 << 62

func (p *presence) enter() bool {
	if p.count.Add(1) < away {
		return true
	}
	p.leave()
	return false
}

func (p *presence) leave() {
	if p.count.Add(-1) == away {
		p.once.Do(func() { close(p.empty) })
	}
}

// Stop refuses requests from now on, and returns when none is under way any more,
// or the context ends. It may be called once.
func (a *API) Stop(ctx context.Context) error {
	a.presence.count.Add(away + 1)
	a.presence.leave()
	select {
	case <-a.presence.empty:
		return nil
	case <-ctx.Done():
		return object.Errorf(object.Busy, "%d requests do not end", a.presence.count.Load()-away)
	}
}

// slots bound the requests of a class. There is no queue: who finds none is told
// to come again, at once, and nothing piles up.
type slots struct {
	max  int64
	used atomic.Int64
}

func newSlots(n int) *slots { return &slots{max: int64(n)} }

func (s *slots) take() bool {
	if s.used.Add(1) > s.max {
		s.used.Add(-1)
		return false
	}
	return true
}

func (s *slots) release() { s.used.Add(-1) }
