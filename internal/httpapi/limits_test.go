package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	bounds "penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

// held is a store whose opens wait.
type held struct {
	*nodetest.Store
	entered, leave chan struct{}
}

func (h *held) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	h.entered <- struct{}{}
	<-h.leave
	return h.Store.Open(ctx, name, r)
}

func TestSlots(t *testing.T) {
	store := &held{nodetest.NewStore(), make(chan struct{}), make(chan struct{})}
	d := open(t, config{store: store, options: httpapi.Options{Limits: httpapi.Limits{Requests: 3}}})
	d.put(t, "k", "data")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { d.want(t, 200, "GET", "/v1/objects/bucket/k", "") })
		<-store.entered
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
		body, h := d.want(t, 503, method, "/v1/objects/bucket/k", "")
		if h.Get("Retry-After") == "" || !strings.HasPrefix(h.Get("X-Penstock-Error"), "Busy") {
			t.Errorf("503 without Retry-After: %v", h)
		}
		if method != "HEAD" {
			wantError(t, body, "Busy", "too many requests")
		}
	}
	// A large body that nobody will read does not delay the answer.
	answer, _ := d.raw(t, "PUT /v1/objects/bucket/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc", false)
	if answer.StatusCode != 503 || !answer.Close {
		t.Errorf("a large body beyond the slots: %d, close %v", answer.StatusCode, answer.Close)
	}
	if got := d.metric(t, "penstock_http_requests_in_flight", "class", "data"); got != 3 {
		t.Errorf("%v requests are said to be in flight, want 3", got)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/buckets", "/metrics"} { // operators get in
		d.want(t, 200, "GET", path, "")
	}
	close(store.leave)
	wg.Wait()
	go func() {
		for range store.entered {
		}
	}()
	defer close(store.entered)
	d.want(t, 200, "GET", "/v1/objects/bucket/k", "")
	if got := d.metric(t, "penstock_http_refused_total", "reason", "slots"); got != 5 {
		t.Errorf("%v refusals are counted, want 5", got)
	}
}

func TestConnections(t *testing.T) {
	d := open(t, config{options: httpapi.Options{Limits: httpapi.Limits{Limits: bounds.Limits{Connections: 2}}}})
	var idle []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v, %v", answer, err)
		}
		idle = append(idle, c)
	}
	for range 3 {
		answer, body := d.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", false)
		if answer.StatusCode != 503 || answer.Header.Get("Retry-After") == "" || body != httpapi.RefusalBody {
			t.Errorf("a connection too many: %d %q", answer.StatusCode, body)
		}
		wantError(t, body, "Busy", "connections")
	}
	idle[0].Close() // and its place is free, as soon as the server has noticed
	for {
		answer, _ := d.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", false)
		if answer.StatusCode == 200 {
			break
		}
	}
}

func TestBodyLimit(t *testing.T) {
	d := open(t, config{options: httpapi.Options{Limits: httpapi.Limits{Limits: bounds.Limits{Body: 1000}}}})
	d.put(t, "k", strings.Repeat("x", 1000))
	body, _ := d.want(t, 413, "PUT", "/v1/objects/bucket/l", strings.Repeat("x", 1001))
	wantError(t, body, "Invalid", "limit of 1000 bytes")
	answer := d.request(t, "PUT", "/v1/objects/bucket/l", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001)))) // of unknown length
	answer.Body.Close()
	if answer.StatusCode != 413 {
		t.Errorf("a body of unknown length, too large: %d", answer.StatusCode)
	}
	d.want(t, 404, "GET", "/v1/objects/bucket/l", "")
	d = open(t, config{})
	large := `{"quota":` + strings.Repeat(" ", 100<<10) + `1}`
	body, _ = d.want(t, 400, "PATCH", "/v1/buckets/bucket", large)
	wantError(t, body, "Invalid", "longer than")
}

// TestSlowBody begins a body and does not go on.
func TestSlowBody(t *testing.T) {
	d := open(t, config{options: httpapi.Options{Limits: httpapi.Limits{Limits: bounds.Limits{Pace: 100 * time.Millisecond, HeaderTimeout: 500 * time.Millisecond}}}})
	for _, head := range []string{"Content-Length: 100\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc"} {
		answer, body := d.raw(t, "PUT /v1/objects/bucket/k HTTP/1.1\r\nHost: localhost\r\n"+head, false)
		if answer.StatusCode != http.StatusRequestTimeout || !answer.Close {
			t.Errorf("%d %s, close %v", answer.StatusCode, body, answer.Close)
		}
		wantError(t, body, "Canceled", "too slowly")
	}
	d.want(t, 404, "GET", "/v1/objects/bucket/k", "")
}

// closing is a store whose readers tell when they are closed.
type closing struct {
	*nodetest.Store
	closed chan struct{}
}

func (s closing) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	reader, err := s.Store.Open(ctx, name, r)
	if err != nil {
		return nil, err
	}
	return closingReader{reader, s.closed}, nil
}

type closingReader struct {
	object.Reader
	closed chan struct{}
}

func (r closingReader) Close() error {
	close(r.closed)
	return r.Reader.Close()
}

// WriteTo writes in pieces, as a reader does that checks what it gives.
func (r closingReader) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r.Reader}, make([]byte, 64<<10))
}

// TestSlowReader asks for much and takes nothing: the request must end by itself.
func TestSlowReader(t *testing.T) {
	store := closing{nodetest.NewStore(), make(chan struct{})}
	d := open(t, config{store: store, options: httpapi.Options{Limits: httpapi.Limits{Limits: bounds.Limits{Pace: 20 * time.Millisecond}}}})
	if _, err := d.node.Put(t.Context(), object.Name{Bucket: "bucket", Key: "k"}, bytes.NewReader(make([]byte, 32<<20)), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/objects/bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-store.closed
}

// deadlines is a listener whose connections tell, when they are closed, how often
// their deadlines were moved.
type deadlines struct {
	net.Listener
	closed chan *deadlineConn
}

type deadlineConn struct {
	net.Conn
	closed      chan *deadlineConn
	once        sync.Once
	mu          sync.Mutex
	read, write int
	reading     bool // there is a deadline for reading
	lifted      bool // there was none when that for writing was moved last
}

func (l *deadlines) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &deadlineConn{Conn: c, closed: l.closed}, nil
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	if c.reading = !t.IsZero(); c.reading {
		c.read++
	}
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	if !t.IsZero() {
		c.write++
		c.lifted = !c.reading
	}
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(t)
}

func (c *deadlineConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.closed <- c })
	return err
}

// TestDeadlinesFollow shows that deadlines move with the bytes, once a MiB, and
// that small requests cost nothing beyond what net/http does.
func TestDeadlinesFollow(t *testing.T) {
	l := &deadlines{closed: make(chan *deadlineConn, 1)}
	d := open(t, config{listener: func(inner net.Listener) net.Listener {
		l.Listener = inner
		return l
	}})
	count := func(method, key, body string) *deadlineConn {
		t.Helper()
		answer, _ := d.raw(t, fmt.Sprintf("%s /v1/objects/bucket/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			method, key, len(body), body), false)
		if answer.StatusCode != 200 {
			t.Fatalf("%s %s: %d", method, key, answer.StatusCode)
		}
		return <-l.closed
	}
	put := count("PUT", "small", "data")
	get := count("GET", "small", "")
	if put.write != 1 || get.write != 1 {
		t.Errorf("small requests move their deadlines for writing %d and %d times, net/http does it once", put.write, get.write)
	}
	large := strings.Repeat("x", 10<<20)
	if c := count("PUT", "large", large); c.read < put.read+2 || c.write != 2 || !c.lifted {
		t.Errorf("a PUT of 10 MiB moves its deadlines %d and %d times, a small one %d and %d; lifted: %v", c.read, c.write, put.read, put.write, c.lifted)
	}
	if c := count("GET", "large", ""); c.write < 10 || !c.lifted {
		t.Errorf("a GET of 10 MiB moves its deadline for writing %d times; that for reading is lifted: %v", c.write, c.lifted)
	}
}

// TestLeaving lets clients leave in the middle of everything: what they began is
// given up, and nothing is left.
func TestLeaving(t *testing.T) {
	store := nodetest.NewStore()
	scrubbing, left := make(chan struct{}), make(chan struct{})
	store.ScrubAll = func(ctx context.Context, _ node.ScrubOptions, found func(node.Finding)) (node.ScrubReport, error) {
		found(node.Finding{Kind: "record"})
		close(scrubbing)
		<-ctx.Done()
		close(left)
		return node.ScrubReport{}, ctx.Err()
	}
	d := open(t, config{store: store})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+d.addr+"/v1/scrub", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := d.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	<-scrubbing
	cancel()
	answer.Body.Close()
	<-left
}

func TestPanics(t *testing.T) {
	var log bytes.Buffer
	d := open(t, config{options: httpapi.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	d.api.SetHandler("getMap", func() { panic("a bug") })
	body, _ := d.want(t, 500, "GET", "/v1/map", "")
	wantError(t, body, "Internal", "internal error")
	if strings.Contains(body, "a bug") {
		t.Error("the client is shown the panic")
	}
	d.want(t, 200, "GET", "/healthz", "")
	if d.metric(t, "penstock_http_panics_total") != 1 || d.metric(t, "penstock_http_requests_total", "route", "getMap", "code", "500") != 1 {
		t.Error("the panic is not counted")
	}
	if n := strings.Count(log.String(), "a bug"); n != 1 {
		t.Errorf("the panic is logged %d times: %s", n, log.String())
	}
}

// halfway is a store that fails when it has read 2 MiB.
type halfway struct{ *nodetest.Store }

func (h halfway) Put(_ context.Context, _ object.Name, r io.Reader, _ object.PutOptions) (object.Info, error) {
	if _, err := io.CopyN(io.Discard, r, 2<<20); err != nil {
		return object.Info{}, err
	}
	return object.Info{}, object.Errorf(object.Unavailable, "the disk is full")
}

// TestUnwantedBody stops a little before the end of a body that nobody wants any
// more. net/http waits for the rest; that must end by itself.
func TestUnwantedBody(t *testing.T) {
	d := open(t, config{
		store:   halfway{nodetest.NewStore()},
		options: httpapi.Options{Limits: httpapi.Limits{Limits: bounds.Limits{Pace: time.Second, HeaderTimeout: time.Second}}},
	})
	answer, body := d.raw(t, "PUT /v1/objects/bucket/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2097252\r\n\r\n"+strings.Repeat("x", 2<<20), false)
	if answer.StatusCode != 503 {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	wantError(t, body, "Unavailable", "full")
}
