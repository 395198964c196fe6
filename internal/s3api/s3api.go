// Package s3api is the S3 door of a node: what clients of Amazon's S3 speak, over
// HTTP/1.1. It parses, calls the node once, and writes; it knows no disks, and what it
// cannot do it says, without doing half of it.
//
// A request passes, in this order: the bound on connections; its signature (package
// sigv4), for every way to authenticate and every form of body; the table of operations
// (operations.go); the caller's rights (admit.go); a slot; its handler. The table is
// the only list of operations: the router, the documentation and the tests of
// authentication are all made from it, so that a new operation cannot escape them.
//
// Handlers are grouped by what they are about, one file each. They work on a call, and
// return errors: those below are turned into S3's codes by one table (fault.go).
//
// All methods of API may be called concurrently.
package s3api

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/sigv4"
)

// Limits bound what clients can make the door spend. The zero value of each field
// means the default given with it.
type Limits struct {
	door.Limits
	Requests int // at once: 1024; one more is answered 503
}

// Options configure the door. Node and Authority are needed.
type Options struct {
	Node      *node.Node
	Authority *auth.Authority

	// Region is the one clients are told; they may sign for any. Empty: us-east-1.
	Region string
	// Domains are the host names of the door: in bucket.DOMAIN the bucket is in the
	// host. Those of loopback need not be named.
	Domains []string
	// Secure says that TLS is spoken.
	Secure bool

	Limits   Limits
	Registry prometheus.Registerer // for the door's own metrics; nil means none are kept
	Logger   *slog.Logger          // nil means silence
	Clock    func() time.Time      // nil means time.Now
}

// API serves the S3 door.
type API struct {
	node      *node.Node
	authority *auth.Authority
	verifier  *sigv4.Verifier
	door      *door.Door
	slots     *door.Slots
	strangers *door.Slots // for those without credentials, so that they leave room for others
	region    string
	domains   []string
	secure    bool
	clock     func() time.Time
	log       *slog.Logger
	logRate   *rate.Limiter
	metrics   *door.Metrics
	table     table
	calls     sync.Pool
	pieces    sync.Pool // of digesters
	prefix    uint64    // of the numbers of requests
	number    atomic.Uint64
}

// New makes a door.
func New(o Options) (*API, error) {
	a := &API{
		node: o.Node, authority: o.Authority, region: o.Region, secure: o.Secure, clock: o.Clock, log: o.Logger,
		logRate: rate.NewLimiter(1, 10), table: newTable(),
	}
	if a.region == "" {
		a.region = "us-east-1"
	}
	if a.clock == nil {
		a.clock = time.Now
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	for _, d := range append([]string{"localhost"}, o.Domains...) {
		a.domains = append(a.domains, "."+strings.ToLower(d))
	}
	door.OrDefault(&o.Limits.Requests, 1024)
	a.slots = door.NewSlots(o.Limits.Requests)
	a.strangers = door.NewSlots(max(1, o.Limits.Requests/4))
	var names []string
	for _, op := range a.table.operations {
		names = append(names, op.name)
	}
	a.metrics = door.NewMetrics("S3", "penstock_s3_", "operation", names)
	a.verifier = sigv4.New(sigv4.Options{Secret: a.secret, Bucket: a.hostBucket, Clock: a.clock})
	a.calls.New = func() any { return new(call) }
	var seed [8]byte
	rand.Read(seed[:]) //nolint:errcheck // never fails
	a.prefix = binary.LittleEndian.Uint64(seed[:])
	var err error
	a.door, err = door.New(door.Options{
		Limits: o.Limits.Limits, Refusal: refusal, Refused: a.metrics.RefusedConns.Inc, Clock: a.clock, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.metrics.Watch("connections", "Connections open now.", nil, func() float64 { return float64(a.door.Connections()) })
	a.metrics.Watch("requests_in_flight", "Requests that take up a slot now.", nil, func() float64 { return float64(a.slots.Used() + a.strangers.Used()) })
	return a, a.metrics.Register(o.Registry)
}

// secret is what a signature is checked with.
func (a *API) secret(accessKey string) (string, bool) {
	_, secret, ok := a.authority.Key(accessKey)
	return secret.Reveal(), ok
}

// Server returns a http.Server with the door's handler and limits.
func (a *API) Server() *http.Server { return a.door.Server(a) }

// Listen returns a listener with the door's bound on connections. Set plain if no TLS
// is spoken on it. The caller closes it.
func (a *API) Listen(inner net.Listener, plain bool) *door.Listener {
	return a.door.Listen(inner, plain)
}

// Stop refuses requests from now on, and returns when none is under way any more, or
// the context ends. It may be called once.
func (a *API) Stop(ctx context.Context) error { return a.door.Stop(ctx) }
