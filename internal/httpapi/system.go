package httpapi

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"penstock.dev/penstock/internal/object"
)

func (a *API) getMap(x *exchange) error {
	m := a.node.Map()
	answer := mapJSON{Number: m.Number}
	for _, n := range m.Nodes {
		answer.Nodes = append(answer.Nodes, memberJSON(n))
	}
	return x.respond(http.StatusOK, answer)
}

func (a *API) getDisks(x *exchange) error {
	return x.respond(http.StatusOK, disksJSON{Disks: a.node.Disks()})
}

// healthy says that the process answers, nothing more.
func (a *API) healthy(x *exchange) error { return x.text200("ok\n") }

// readiness says whether the node should be sent requests.
func (a *API) readiness(x *exchange) error {
	if !a.ready.Load() {
		return object.Errorf(object.Busy, "the node is starting or stopping")
	}
	return x.text200("ready\n")
}

func (a *API) home(x *exchange) error {
	return x.text200("This is the Penstock node " + a.node.Name() + ".\n\n" +
		"/v1/openapi.json describes what it does, /metrics says how it is.\n")
}

func (x *exchange) text200(s string) error {
	h := x.Header()
	h["Content-Type"] = plainText
	h["X-Content-Type-Options"] = noSniff
	_, err := x.Write([]byte(s))
	return ignoreGone(err)
}

func (a *API) openapi(x *exchange) error {
	x.Header()["Content-Type"] = jsonType
	_, err := x.Write(a.document)
	return ignoreGone(err)
}

func (a *API) showMetrics(x *exchange) error {
	promhttp.HandlerFor(a.gatherer, promhttp.HandlerOpts{}).ServeHTTP(x, x.R)
	return nil
}

// profile hands over to net/http/pprof, under its own names.
func (a *API) profile(x *exchange) error {
	handler := pprof.Index
	switch strings.TrimPrefix(x.R.URL.Path, "/debug/pprof/") {
	case "cmdline":
		// The command line is not for the network, in case somebody put a secret there.
		return object.Errorf(object.NotFound, "the command line is not shown")
	case "profile":
		handler = pprof.Profile
	case "symbol":
		handler = pprof.Symbol
	case "trace":
		handler = pprof.Trace
	}
	handler(x, x.R)
	return nil
}
