package httpapi

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the door's own. Each route's counters are looked up once; a request
// only adds to them.
type metrics struct {
	requests      *prometheus.CounterVec
	unrouted      *routeMetrics
	byRoute       map[*route]*routeMetrics
	refusedSlots  prometheus.Counter
	refusedAccess prometheus.Counter
	refusedConns  prometheus.Counter
	panics        prometheus.Counter
	collectors    []prometheus.Collector
}

type routeMetrics struct {
	name     string
	byStatus [600]atomic.Pointer[prometheus.Counter] // filled as statuses occur
	seconds  prometheus.Observer
	received prometheus.Counter
	sent     prometheus.Counter
	aborted  prometheus.Counter
}

func newMetrics(table []*route) *metrics {
	m := &metrics{byRoute: map[*route]*routeMetrics{}}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_http_requests_total", Help: "Requests answered by the native door.",
	}, []string{"route", "code"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "penstock_http_request_seconds", Help: "Time from a request's header to the end of its answer.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"route"})
	received := counterVec("penstock_http_received_bytes_total", "Bytes of request bodies.")
	sent := counterVec("penstock_http_sent_bytes_total", "Bytes of answers, without headers.")
	aborted := counterVec("penstock_http_aborted_total", "Answers that were cut off, because of the client or of damage.")
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_http_refused_total", Help: "Requests and connections refused before they reached a handler.",
	}, []string{"reason"})
	m.refusedSlots, m.refusedAccess, m.refusedConns = refused.WithLabelValues("slots"), refused.WithLabelValues("access"), refused.WithLabelValues("connections")
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "penstock_http_panics_total", Help: "Panics of request handlers. Each is a fault of Penstock.",
	})
	m.collectors = []prometheus.Collector{m.requests, seconds, received, sent, aborted, refused, m.panics}
	add := func(name string) *routeMetrics {
		return &routeMetrics{
			name: name, seconds: seconds.WithLabelValues(name),
			received: received.WithLabelValues(name), sent: sent.WithLabelValues(name), aborted: aborted.WithLabelValues(name),
		}
	}
	for _, r := range table {
		m.byRoute[r] = add(r.name)
	}
	m.unrouted = add("none")
	return m
}

func counterVec(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"route"})
}

// watch adds a value that is asked for only when the metrics are read.
func (m *metrics) watch(name, help string, labels prometheus.Labels, value func() float64) {
	m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

func (m *metrics) register(to prometheus.Registerer) error {
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

// observe accounts for one exchange.
func (m *metrics) observe(x *exchange, took time.Duration, aborted bool) {
	r := m.unrouted
	if x.route != nil {
		r = m.byRoute[x.route]
	}
	m.answered(r, x.Status).Inc()
	r.seconds.Observe(took.Seconds())
	if x.Written > 0 && x.R.Method != http.MethodHead {
		r.sent.Add(float64(x.Written))
	}
	if x.Received > 0 {
		r.received.Add(float64(x.Received))
	}
	if aborted {
		r.aborted.Inc()
	}
}

// answered returns the counter of a route's answers with a status.
func (m *metrics) answered(r *routeMetrics, status int) prometheus.Counter {
	if status < 0 || status >= len(r.byStatus) {
		status = 0 // a handler that is not ours invented one
	}
	if known := r.byStatus[status].Load(); known != nil {
		return *known
	}
	counter := m.requests.WithLabelValues(r.name, strconv.Itoa(status))
	r.byStatus[status].Store(&counter)
	return counter
}
