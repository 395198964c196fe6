// Package httpapi is the native door of a node: HTTP/1.1 under /v1, health,
// metrics, profiles and the description of itself. It parses, calls the node
// once, and writes; it knows no disks and makes no decisions about data.
//
// A request passes, in this order: the bound on connections (Listener), the
// table of routes (routes.go), authentication (access.go), the slots of its class,
// what its user may do (permit.go), its handler. The table is the only list of routes: the router, the OpenAPI document
// and the tests of authentication are all made from it, so a new route cannot
// escape them. A route is root's unless it says otherwise.
//
// Handlers work on an exchange, not on a http.ResponseWriter. The exchange keeps
// the way from a file to the socket open (ReadFrom, and thereby sendfile), sends
// the header as late as possible, so that damage found before the first byte is
// an ordinary error, and cuts the connection when damage is found later.
//
// All methods of API may be called concurrently.
package httpapi

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// Options configure the door. Node and Authority are needed.
type Options struct {
	Node      *node.Node
	Authority *auth.Authority

	// Loopback says that the listener is bound to a loopback address. Only then,
	// and only while root is the only user, is a request without a token served.
	Loopback bool
	// Address is where the door listens, host:port: besides loopback names the
	// only Host that a request without a token may have.
	Address string

	Version  string // of the program, for the description
	Limits   Limits
	Registry prometheus.Registerer // for the door's own metrics; nil means none are kept
	Gatherer prometheus.Gatherer   // what /metrics shows
	Logger   *slog.Logger          // nil means silence
	Clock    func() time.Time      // nil means time.Now
}

// API serves the native door.
type API struct {
	node      *node.Node
	authority *auth.Authority
	loopback  bool
	address   string
	log       *slog.Logger
	logRate   *rate.Limiter
	clock     func() time.Time
	door      *door.Door
	gatherer  prometheus.Gatherer
	metrics   *door.Metrics
	router    router
	document  []byte
	exchanges sync.Pool
	frames    sync.Pool // of *frames
	bodies    sync.Pool // of *[]byte, for requests that are held in memory
	rounds    sync.Pool // of *[]byte of roundBytes
	ready     atomic.Bool
}

// New makes a door. It is not ready until SetReady.
func New(o Options) (*API, error) {
	if err := o.Limits.Validate(); err != nil {
		return nil, err
	}
	a := &API{
		node: o.Node, authority: o.Authority, loopback: o.Loopback, address: o.Address,
		log: o.Logger, logRate: rate.NewLimiter(1, 10), clock: o.Clock, gatherer: o.Gatherer,
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.clock == nil {
		a.clock = time.Now
	}
	if a.gatherer == nil {
		a.gatherer = prometheus.NewRegistry()
	}
	a.exchanges.New = func() any { return new(exchange) }
	a.frames.New = newFrames
	a.bodies.New = func() any { return new([]byte) }
	a.rounds.New = func() any {
		b := make([]byte, 0, roundBytes)
		return &b
	}
	table := routes()
	slots := map[class]*door.Slots{
		dataClass: door.NewSlots(o.Limits.Requests), batchClass: door.NewSlots(o.Limits.Batches), controlClass: door.NewSlots(o.Limits.ControlRequests),
	}
	a.router = newRouter(table, slots)
	var names []string
	for _, r := range table {
		names = append(names, r.name)
	}
	a.metrics = door.NewMetrics("native", "penstock_http_", "route", names)
	var err error
	a.door, err = door.New(door.Options{
		Limits: o.Limits.Limits, Refusal: refusal, Refused: a.metrics.RefusedConns.Inc, Clock: a.clock, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	for class, name := range map[class]string{dataClass: "data", batchClass: "batch", controlClass: "control"} {
		a.metrics.Watch("requests_in_flight", "Requests that take up a slot now.",
			prometheus.Labels{"class": name}, func() float64 { return float64(slots[class].Used()) })
	}
	a.metrics.Watch("connections", "Connections open now.", nil, func() float64 { return float64(a.door.Connections()) })
	if err := a.metrics.Register(o.Registry); err != nil {
		return nil, err
	}
	a.document, err = document(table, o.Version)
	return a, err
}

// SetReady makes /readyz answer 200, or 503 while the node starts or drains.
func (a *API) SetReady(ready bool) { a.ready.Store(ready) }

// ServeHTTP takes one request through the door.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := a.exchanges.Get().(*exchange)
	x.begin(a, w, r)
	defer a.finish(x)
	if !a.door.Enter() {
		x.fail(errStopping)
		return
	}
	defer a.door.Leave()
	if err := a.serve(x); err != nil {
		x.fail(err)
	}
}

func (a *API) serve(x *exchange) error {
	rest, escaped := a.router.match(x)
	if err := a.admit(x); err != nil {
		return err
	}
	if x.route == nil {
		return x.unrouted()
	}
	if !x.route.slots.Take() {
		a.metrics.RefusedSlots.Inc()
		return errSlots
	}
	defer x.route.slots.Release()
	if x.route.split != nil {
		if err := x.route.split(x, rest, escaped); err != nil {
			return err
		}
	}
	if x.route.access == forAllowed {
		if err := x.route.permit(a, x); err != nil {
			if object.Is(err, object.Denied) {
				a.metrics.RefusedAccess.Inc()
			}
			return err
		}
	}
	if err := x.route.handle(a, x); err != nil {
		return err
	}
	x.SendHeader()
	return nil
}

var (
	errSlots    = object.Errorf(object.Busy, "too many requests are going on")
	errInternal = object.Errorf(object.Internal, "internal error; the node's log says more") // it may name files, which are not the client's business
	errStopping = object.Errorf(object.Busy, "the node is stopping")
)

// finish accounts for the exchange, whatever way it ended. A panic of a handler
// ends here: answered if it still can be, counted and logged. ErrAbortHandler is
// how an exchange cuts the connection, and goes on to net/http.
func (a *API) finish(x *exchange) {
	failure := recover()
	abort := failure == http.ErrAbortHandler
	if failure != nil && !abort {
		a.metrics.Panics.Inc()
		a.log.Error("a request handler panicked", "route", x.routeName(), "panic", failure, "stack", stack())
		if abort = x.Sent; !abort {
			x.fail(object.Errorf(object.Internal, "a request handler panicked"))
		}
	}
	a.metrics.Observe(x.routeName(), &x.Exchange, a.clock().Sub(x.Start), abort)
	x.end()
	a.exchanges.Put(x)
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// itemError accounts for one of many items of a request that failed, and returns
// what the client is told.
func (a *API) itemError(x *exchange, err error) error {
	kind := object.KindOf(err)
	if answers[kind].ours {
		a.logError(x, err)
	}
	if kind == object.Internal {
		return errInternal
	}
	return err
}

// logError reports an error that ends at the door and is ours, not the client's.
// A damaged object that many ask for must not fill the disk with its story.
func (a *API) logError(x *exchange, err error) {
	if a.logRate.Allow() {
		a.log.Error("a request failed", "route", x.routeName(), "bucket", x.name.Bucket, "key", x.name.Key, "kind", object.KindOf(err).String(), "error", err)
	}
}
