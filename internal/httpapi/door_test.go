package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-good-token"

// door is a native door on a real socket.
type door struct {
	api      *httpapi.API
	node     *node.Node
	store    *nodetest.Store
	addr     string
	registry *prometheus.Registry
	client   *http.Client

	control   cluster.Control
	authority *auth.Authority
}

type config struct {
	options  httpapi.Options
	store    node.Store // instead of a plain nodetest.Store
	network  bool       // pretend to listen beyond loopback
	listener func(net.Listener) net.Listener
}

func open(t testing.TB, c config) *door {
	t.Helper()
	d := &door{store: nodetest.NewStore(), registry: prometheus.NewRegistry()}
	if c.store == nil {
		c.store = d.store
	}
	control := nodetest.Control(t)
	d.node = nodetest.Open(t, node.Options{Name: "test-node", Address: "127.0.0.1:1", Store: c.store, Control: control}, "bucket")
	authority, _, err := auth.Open(context.Background(), control, auth.Options{Given: auth.Credentials{Token: token}})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, authority.Run)
	d.control, d.authority = control, authority
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.addr = inner.Addr().String()
	o := c.options
	o.Node, o.Authority, o.Loopback, o.Address = d.node, authority, !c.network, d.addr
	o.Registry, o.Gatherer = d.registry, d.registry
	if d.api, err = httpapi.New(o); err != nil {
		t.Fatal(err)
	}
	d.api.SetReady(true)
	var listener net.Listener = d.api.Listen(inner, true)
	if c.listener != nil {
		listener = c.listener(listener)
	}
	d.serve(t, listener)
	return d
}

func (d *door) serve(t testing.TB, l net.Listener) {
	server := d.api.Server()
	transport := &http.Transport{DisableCompression: true}
	d.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// request sends a request; headers are "Name: value".
func (d *door) request(t testing.TB, method, path string, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+d.addr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	answer, err := d.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// do sends a request and returns the status and the body.
func (d *door) do(t testing.TB, method, path, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	answer := d.request(t, method, path, strings.NewReader(body), headers...)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer.StatusCode, string(data), answer.Header
}

// want sends a request and checks its status.
func (d *door) want(t testing.TB, status int, method, path, body string, headers ...string) (string, http.Header) {
	t.Helper()
	got, data, h := d.do(t, method, path, body, headers...)
	if got != status {
		t.Errorf("%s %s %v: %d %s, want %d", method, path, headers, got, data, status)
	}
	return data, h
}

// wantError checks an answer's error.
func wantError(t testing.TB, body, kind, words string) {
	t.Helper()
	var e struct {
		Error struct{ Kind, Message string }
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Kind != kind || !strings.Contains(e.Error.Message, words) {
		t.Errorf("the answer is %q, want an error of kind %s that says %q", body, kind, words)
	}
}

// raw sends bytes as they are and returns what comes back, after the write side
// was closed if cut is set.
func (d *door) raw(t testing.TB, request string, cut bool) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Logf("write: %v", err) // the server may answer before it has read everything
	}
	if cut {
		c.(*net.TCPConn).CloseWrite()
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.100q: %v", request, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%.100q: %v", request, err)
	}
	return answer, string(body)
}

// put stores an object.
func (d *door) put(t testing.TB, key, data string, headers ...string) http.Header {
	t.Helper()
	_, h := d.want(t, 200, "PUT", "/v1/objects/bucket/"+key, data, headers...)
	return h
}

// metric returns the value of a counter or gauge, or the count of a histogram.
func (d *door) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.GetMetric() {
			for i := 0; i < len(labels); i += 2 {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !found {
					continue metrics
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return 0
}
