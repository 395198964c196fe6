package door

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are a door's own. What belongs to each kind of request is looked up once; a
// request only adds to it.
type Metrics struct {
	RefusedSlots, RefusedAccess, RefusedConns, Panics prometheus.Counter

	prefix     string
	accounts   map[string]*account
	requests   *prometheus.CounterVec
	collectors []prometheus.Collector
}

// account is the metrics of one kind of request.
type account struct {
	name     string
	byStatus [600]atomic.Pointer[prometheus.Counter] // filled as statuses occur
	seconds  prometheus.Observer
	received prometheus.Counter
	sent     prometheus.Counter
	aborted  prometheus.Counter
}

// unnamed is the kind of request that is of none of the known ones.
const unnamed = "none"

// NewMetrics returns the metrics of the door that people call so, all of whose names
// begin with prefix, for requests that are told apart by label.
func NewMetrics(door, prefix, label string, names []string) *Metrics {
	m := &Metrics{prefix: prefix, accounts: make(map[string]*account, len(names)+1)}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
		m.collectors = append(m.collectors, c)
		return c
	}
	m.requests = counter("requests_total", "Requests answered by the "+door+" door.", label, "code")
	received := counter("received_bytes_total", "Bytes of request bodies.", label)
	sent := counter("sent_bytes_total", "Bytes of answers, without headers.", label)
	aborted := counter("aborted_total", "Answers that were cut off, because of the client or of damage.", label)
	refused := counter("refused_total", "Requests and connections refused before they reached a handler.", "reason")
	m.RefusedSlots, m.RefusedAccess, m.RefusedConns = refused.WithLabelValues("slots"), refused.WithLabelValues("access"), refused.WithLabelValues("connections")
	m.Panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "panics_total", Help: "Panics of request handlers. Each is a fault of Penstock.",
	})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: prefix + "request_seconds", Help: "Time from a request's header to the end of its answer.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{label})
	m.collectors = append(m.collectors, seconds, m.Panics)
	for _, name := range append([]string{unnamed}, names...) {
		m.accounts[name] = &account{
			name: name, seconds: seconds.WithLabelValues(name),
			received: received.WithLabelValues(name), sent: sent.WithLabelValues(name), aborted: aborted.WithLabelValues(name),
		}
	}
	return m
}

// Watch adds a value that is asked for only when the metrics are read. The name is what
// follows the prefix.
func (m *Metrics) Watch(name, help string, labels prometheus.Labels, value func() float64) {
	m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.prefix + name, Help: help, ConstLabels: labels}, value))
}

// Register has the metrics shown, unless there is nowhere to.
func (m *Metrics) Register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	for _, c := range m.collectors {
		if err := to.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Observe accounts for one exchange of the named kind; an unknown one is of none.
func (m *Metrics) Observe(name string, x *Exchange, took time.Duration, aborted bool) {
	a := m.accounts[name]
	if a == nil {
		a = m.accounts[unnamed]
	}
	m.answered(a, x.Status).Inc()
	a.seconds.Observe(took.Seconds())
	if x.Written > 0 && x.R.Method != http.MethodHead {
		a.sent.Add(float64(x.Written))
	}
	if x.Received > 0 {
		a.received.Add(float64(x.Received))
	}
	if aborted {
		a.aborted.Inc()
	}
}

// answered returns the counter of answers with a status.
func (m *Metrics) answered(a *account, status int) prometheus.Counter {
	if status < 0 || status >= len(a.byStatus) {
		status = 0 // a handler that is not ours invented one
	}
	if known := a.byStatus[status].Load(); known != nil {
		return *known
	}
	counter := m.requests.WithLabelValues(a.name, strconv.Itoa(status))
	a.byStatus[status].Store(&counter)
	return counter
}
