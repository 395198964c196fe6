// Package misbehave is a server between a source and the real place, for tests: it passes
// requests on, and does to some of them what networks and servers do on a bad day. It is
// no product's proxy: it knows neither TLS nor much of HTTP.
//
// A test gives it a plan, which says for each request which Fault it meets; nil passes it
// on unharmed. The plan is called concurrently. Whatever hangs ends when its client leaves
// or the proxy is closed.
package misbehave

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
)

// Plan says what happens to a request: the n-th, counted from zero.
type Plan func(r *http.Request, n int) Fault

// Fault answers a request, with or without the real server's answer, which forward
// fetches.
type Fault func(w http.ResponseWriter, r *http.Request, forward Forward)

// Forward sends a request on to the real server. The caller closes the answer's body.
type Forward func(r *http.Request) (*http.Response, error)

// Proxy is a running proxy.
type Proxy struct {
	URL string // of the proxy, without a path

	target    string
	server    *httptest.Server
	transport *http.Transport
	plan      atomic.Pointer[Plan]
	count     atomic.Int64
	closing   chan struct{}
}

// New starts a proxy before the server at a URL such as http://127.0.0.1:8080. The caller
// closes it.
func New(target string) *Proxy {
	p := &Proxy{target: strings.TrimSuffix(target, "/"), closing: make(chan struct{})}
	p.transport = &http.Transport{DisableCompression: true}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.Config.BaseContext = func(net.Listener) context.Context { return context.Background() }
	p.server.Start()
	p.URL = p.server.URL
	return p
}

// Set makes a plan the one for all requests that come, and begins to count anew. Nil
// passes everything on.
func (p *Proxy) Set(plan Plan) {
	p.count.Store(0)
	if plan == nil {
		p.plan.Store(nil)
		return
	}
	p.plan.Store(&plan)
}

// Always makes every request meet the same fault.
func (p *Proxy) Always(f Fault) { p.Set(func(*http.Request, int) Fault { return f }) }

// Count returns how many requests came since the plan was set.
func (p *Proxy) Count() int { return int(p.count.Load()) }

// Close ends what hangs, and the proxy.
func (p *Proxy) Close() {
	close(p.closing)
	p.server.CloseClientConnections()
	p.server.Close()
	p.transport.CloseIdleConnections()
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.closing:
			cancel()
		case <-stop:
		}
	}()
	r = r.WithContext(ctx)
	fault := Pass
	n := int(p.count.Add(1)) - 1
	if plan := p.plan.Load(); plan != nil {
		if f := (*plan)(r, n); f != nil {
			fault = f
		}
	}
	fault(w, r, p.forward)
}

func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.RequestURI(), r.Body)
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	req.Host = r.Host // signatures are over it
	req.ContentLength = r.ContentLength
	return p.transport.RoundTrip(req)
}
