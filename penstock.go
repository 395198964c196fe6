// Package penstock is the Go client of Penstock, the storage and cache tier for
// machine learning.
//
//	client, err := penstock.New(penstock.OptionsFromEnv())
//	_, err = client.Put(ctx, penstock.Name{Bucket: "photos", Key: "cat.jpg"}, file, penstock.PutOptions{})
//	data, err := client.Get(ctx, penstock.Name{Bucket: "photos", Key: "cat.jpg"})
//
// A Client speaks the native HTTP protocol to one node. It has the same face as
// everything else in Penstock that holds objects: Stat and Open give them out,
// Put and Delete take them in and away, List enumerates them. Whole objects are
// checked against their CRC-32 when they are read and when they are written.
//
// Requests that may be repeated without harm are, a few times and with growing
// pauses, when the node is busy or the connection breaks before an answer. A
// body that breaks off is never continued silently: its reader fails. A write
// that fails with Unavailable or Canceled may have happened all the same.
//
// Errors have a Kind and name the endpoint. A Client may be used by many
// goroutines at once. The package links nothing of the server.
package penstock

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// DefaultEndpoint is where `penstock serve` listens when it is told nothing else.
const DefaultEndpoint = "http://127.0.0.1:7400"

// The nouns, shared with everything else in Penstock that holds objects.
type (
	// Name says which object is meant: a key in a bucket.
	Name = object.Name
	// Info is what is known about an object without reading it.
	Info = object.Info
	// Version orders the writes of an object.
	Version = object.Version
	// Range is a piece of an object; the zero Range is the whole of it.
	Range = object.Range
	// Reader gives the bytes of one range of one state of an object.
	Reader = object.Reader
	// PutOptions go with a Put; the zero value stores unconditionally.
	PutOptions = object.PutOptions
	// Condition makes a write depend on what is there.
	Condition = object.Condition
	// ListOptions narrow a listing; the zero value lists everything.
	ListOptions = object.ListOptions
	// Entry is one line of a listing: an object, or a common prefix of several.
	Entry = object.Entry
)

// ParseName splits "bucket/key" at the first slash and validates both.
func ParseName(s string) (Name, error) { return object.ParseName(s) }

// Options say how to reach a node. The zero value means a node on this machine
// that asks for no token.
type Options struct {
	Endpoint string      // http://host:port or https://host:port; DefaultEndpoint if empty
	Token    string      // sent as a bearer token if not empty
	TLS      *tls.Config // for https; nil trusts the system's certificates

	// HTTP replaces the client's own connection pool, and TLS with it.
	HTTP *http.Client

	// Attempts is how often a request that may be repeated is sent in all, 5 if
	// zero. 1 turns repeating off.
	Attempts int

	// Agent is what the client calls itself to the node, "penstock-go" if empty.
	Agent string
}

// OptionsFromEnv returns options with PENSTOCK_ENDPOINT and PENSTOCK_TOKEN filled
// in from the environment.
func OptionsFromEnv() Options {
	return Options{Endpoint: os.Getenv("PENSTOCK_ENDPOINT"), Token: os.Getenv("PENSTOCK_TOKEN")}
}

// Client talks to one node. All methods may be called concurrently.
type Client struct {
	base     *url.URL // the endpoint; Path without a slash at its end
	endpoint string   // the same, for messages
	token    string
	agent    string
	http     *http.Client
	attempts int
	buffers  sync.Pool // of *[]byte, for copying bodies
	batches  sync.Pool // of *wire.BatchReader
	uploads  sync.Pool // of *[]byte, for the bodies of put-batches

	// pause waits between attempts; tests replace it.
	pause func(ctx context.Context, wait time.Duration) error
}

// New returns a client. It connects to nothing yet.
func New(opts Options) (*Client, error) {
	base, err := parseEndpoint(opts.Endpoint)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(opts.Token, "\r\n\x00") {
		return nil, object.Errorf(Invalid, "the token holds a line break")
	}
	c := &Client{
		base: base, endpoint: base.String(), token: opts.Token, agent: opts.Agent, http: opts.HTTP,
		attempts: opts.Attempts, pause: pause,
	}
	if c.agent == "" {
		c.agent = "penstock-go"
	}
	if c.attempts <= 0 {
		c.attempts = 5
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(opts.TLS)}
	}
	if c.http.CheckRedirect == nil {
		// No node redirects. Something in between that does must not be given the
		// token, nor turn a PUT into a GET.
		own := *c.http
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.http = &own
	}
	c.buffers.New = func() any { b := make([]byte, 128<<10); return &b }
	c.uploads.New = func() any { return new([]byte) }
	c.batches.New = func() any { return wire.NewBatchReader(nil, 0, 0) }
	return c, nil
}

// Endpoint returns where the client connects to.
func (c *Client) Endpoint() string { return c.endpoint }

// Close drops idle connections. Requests under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func parseEndpoint(s string) (*url.URL, error) {
	if s == "" {
		s = DefaultEndpoint
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, object.Errorf(Invalid, "endpoint %q is not a URL", s)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, object.Errorf(Invalid, "endpoint %q must begin with http:// or https://", s)
	case u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, object.Errorf(Invalid, "endpoint %q must be a scheme, a host and a port", s)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// newTransport returns a pool for many parallel requests to one host. HTTP/2 is
// off: one connection with flow control of its own costs several times the
// processor time of plain HTTP/1.1 for bulk data. Compression is off because it
// would hide the length of what is sent.
func newTransport(config *tls.Config) *http.Transport {
	var plain http.Protocols
	plain.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		Protocols:              &plain,
		DisableCompression:     true,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		ResponseHeaderTimeout:  5 * time.Minute, // a node that hangs is not waited for without end
		ExpectContinueTimeout:  2 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         64 << 10,
	}
}

// backoff returns how long to wait after the n-th failed attempt, n from 0: a
// random time up to a bound that doubles, so that many clients do not come back
// together.
func backoff(n int) time.Duration {
	bound := min(50*time.Millisecond<<min(n, 10), 3*time.Second)
	return time.Duration(rand.Int64N(int64(bound))) + time.Millisecond
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
