// Package door is what the doors of a node that speak HTTP share: bounds on
// connections, headers and bodies; deadlines that follow the bytes; a writer that
// keeps the way from a file to the socket open; stopping without losing an answer;
// the grammar of ranges and conditions.
//
// It knows no routes, no users and no objects beyond their names: httpapi and s3api
// do. A Door may be used concurrently; an Exchange belongs to one request.
package door

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Limits bound what clients can make a door spend. The zero value of each field
// means the default given with it.
type Limits struct {
	Header        int           // bytes of a request's header: 64 KiB
	Body          int64         // bytes of a request's body: 1 TiB
	Connections   int           // connections at once: 4096; one more is answered 503 and closed
	HeaderTimeout time.Duration // for the header to arrive: 10 s
	IdleTimeout   time.Duration // between requests: 2 min
	Pace          time.Duration // for each MiB, in either direction: 1 min
}

// Validate fills in the defaults and reports as Invalid what makes no sense.
func (l *Limits) Validate() error {
	if l.Header < 0 || l.Body < 0 || l.Connections < 0 || l.HeaderTimeout < 0 || l.IdleTimeout < 0 || l.Pace < 0 {
		return object.Errorf(object.Invalid, "a limit of a door is negative")
	}
	OrDefault(&l.Header, 64<<10)
	OrDefault(&l.Body, 1<<40)
	OrDefault(&l.Connections, 4096)
	OrDefault(&l.HeaderTimeout, 10*time.Second)
	OrDefault(&l.IdleTimeout, 2*time.Minute)
	OrDefault(&l.Pace, time.Minute)
	return nil
}

// OrDefault sets a limit that was not given.
func OrDefault[T int | int64 | time.Duration](p *T, value T) {
	if *p == 0 {
		*p = value
	}
}

// Options configure a Door. The zero value is useful.
type Options struct {
	Limits  Limits
	Refusal string           // what a connection beyond the bound is told: a whole answer in HTTP; empty for nothing
	Refused func()           // called for each of them; may be nil
	Clock   func() time.Time // nil means time.Now
	Logger  *slog.Logger     // of net/http's complaints; nil means silence
}

// Door keeps the bounds.
type Door struct {
	limits  Limits
	refusal string
	refused func()
	clock   func() time.Time
	log     *slog.Logger
	conns   atomic.Int64 // open connections of all listeners
	waiters sync.Pool    // of them: see tcpConn

	present atomic.Int64 // requests under way; and away, once nobody may come in any more
	once    sync.Once
	empty   chan struct{}
}

const away = 1 << 62

// New makes a door.
func New(o Options) (*Door, error) {
	if err := o.Limits.Validate(); err != nil {
		return nil, err
	}
	d := &Door{limits: o.Limits, refusal: o.Refusal, refused: o.Refused, clock: o.Clock, log: o.Logger, empty: make(chan struct{})}
	if d.clock == nil {
		d.clock = time.Now
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.refused == nil {
		d.refused = func() {}
	}
	return d, nil
}

// Limits returns the bounds, with their defaults.
func (d *Door) Limits() Limits { return d.limits }

// Connections returns how many are open.
func (d *Door) Connections() int64 { return d.conns.Load() }

// Server returns a http.Server with the door's limits. HTTP/2 is off: it cannot use
// sendfile.
//
// ReadTimeout and WriteTimeout cover the header and the first piece of a body; long
// bodies move the deadlines on as they flow (Exchange).
func (d *Door) Server(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		MaxHeaderBytes:    d.limits.Header,
		ReadHeaderTimeout: d.limits.HeaderTimeout,
		ReadTimeout:       d.limits.HeaderTimeout + d.limits.Pace,
		WriteTimeout:      d.limits.Pace,
		IdleTimeout:       d.limits.IdleTimeout,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
		ConnContext:       withConn,

		DisableGeneralOptionsHandler: true,
	}
}

// Enter lets a request in, unless the door is being stopped.
func (d *Door) Enter() bool {
	if d.present.Add(1) < away {
		return true
	}
	d.Leave()
	return false
}

// Leave lets it out again.
func (d *Door) Leave() {
	if d.present.Add(-1) == away {
		d.once.Do(func() { close(d.empty) })
	}
}

// Stop refuses requests from now on, and returns when none is under way any more, or
// the context ends: net/http waits only as long as it is polite. It may be called
// once.
func (d *Door) Stop(ctx context.Context) error {
	d.present.Add(away + 1)
	d.Leave()
	select {
	case <-d.empty:
		return nil
	case <-ctx.Done():
		return object.Errorf(object.Busy, "%d requests do not end", d.present.Load()-away)
	}
}

// Slots bound the requests of a class. There is no queue: who finds none is told to
// come again, at once, and nothing piles up.
type Slots struct {
	max  int64
	used atomic.Int64
}

// NewSlots returns n of them.
func NewSlots(n int) *Slots { return &Slots{max: int64(n)} }

// Take takes a slot, if one is free.
func (s *Slots) Take() bool {
	if s.used.Add(1) > s.max {
		s.used.Add(-1)
		return false
	}
	return true
}

// Release gives it back.
func (s *Slots) Release() { s.used.Add(-1) }

// Used returns how many are taken.
func (s *Slots) Used() int64 { return s.used.Load() }
