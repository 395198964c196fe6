package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// HTTP measures a plain HTTP server, such as nginx over a directory: GET, and PUT
// if the server takes it. There are no batches in HTTP: a batch is its requests
// one after the other.
type HTTP struct {
	// Prefix is what all keys begin with and paths do not, as in Files.
	Prefix string

	base   string // ends in a slash
	client *http.Client
}

// NewHTTP returns a driver for what lies below a URL.
func NewHTTP(base string) (*HTTP, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, object.Errorf(object.Invalid, "%q is not a URL such as http://127.0.0.1:8080/", base)
	}
	// The same settings as the Penstock client has: it is the servers that are
	// compared.
	var plain http.Protocols
	plain.SetHTTP1(true)
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		Protocols:             &plain,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   MaxWorkers,
		ResponseHeaderTimeout: 5 * time.Minute,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
	}
	return &HTTP{base: strings.TrimRight(base, "/") + "/", client: &http.Client{Transport: transport}}, nil
}

// Connect promises nothing: connections are made when they are needed.
func (d *HTTP) Connect(context.Context) (Conn, error) {
	return &httpConn{driver: d, buffer: make([]byte, 128<<10)}, nil
}

// Close drops idle connections.
func (d *HTTP) Close() { d.client.CloseIdleConnections() }

type httpConn struct {
	driver *HTTP
	buffer []byte
	item   collector
}

func (c *httpConn) Put(ctx context.Context, key string, content []byte) error {
	return c.do(ctx, http.MethodPut, key, bytes.NewReader(content), io.Discard)
}

func (c *httpConn) PutBatch(ctx context.Context, keys []string, contents [][]byte) error {
	for i, key := range keys {
		if err := c.Put(ctx, key, contents[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *httpConn) Get(ctx context.Context, key string, w io.Writer) error {
	return c.do(ctx, http.MethodGet, key, nil, w)
}

func (c *httpConn) Batch(ctx context.Context, keys []string, item func(content []byte, err error)) error {
	return oneByOne(ctx, c, keys, &c.item, item)
}

// do makes one request and copies the body of a good answer to w.
func (c *httpConn) do(ctx context.Context, method, key string, body io.Reader, w io.Writer) error {
	target := c.driver.base + (&url.URL{Path: strings.TrimPrefix(key, c.driver.Prefix)}).EscapedPath()
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return object.Errorf(object.Invalid, "%w", err)
	}
	resp, err := c.driver.client.Do(req)
	if err != nil {
		return classify(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && (method == http.MethodGet || resp.StatusCode/100 != 2) {
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be kept
		return object.Errorf(statusKind(resp.StatusCode), "%s %s: %s", method, target, resp.Status)
	}
	if _, err := io.CopyBuffer(w, onlyReader{resp.Body}, c.buffer); err != nil {
		return classify(ctx, fmt.Errorf("%s %s: %w", method, target, err))
	}
	return nil
}

// statusKind returns the kind of error a status means.
func statusKind(status int) object.Kind {
	switch {
	case status == http.StatusNotFound:
		return object.NotFound
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return object.Denied
	case status == http.StatusTooManyRequests:
		return object.Busy
	case status == http.StatusServiceUnavailable || status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return object.Unavailable
	case status/100 == 4:
		return object.Invalid
	}
	return object.Internal
}

func (c *httpConn) Close() error { return nil }
