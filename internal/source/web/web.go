// Package web is the source of http:// and https:// URLs: a tree of files on a web
// server, read-only. A key is a path below the URL.
//
// It asks with HEAD and GET only, and takes nothing on trust: an answer must say how long
// the object is and which state of it this is, by an ETag or a Last-Modified; a range must
// be the one that was asked for. A server without ranges is read from the start, up to a
// bound. An object without an ETag is told apart by size and second of change, which is as
// much as such a server knows.
//
// Redirects are followed a few times, never to another scheme, and each connection is
// shown to the Guard. Proxies of the environment are not used unless asked for.
//
// Listings come from a list file on the server, or from index pages as nginx, Apache and
// Python write them; objects whose size and ETag the list does not tell are asked for by
// HEAD, some at a time. Keys that would be another path for a server are NotFound.
//
// Everything may be called concurrently, except one reader.
package web

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

// Options of a tree on a web server. The zero value is good, and goes to any address.
type Options struct {
	// Guard refuses addresses; nil allows all. See source.Dialer.
	Guard func(netip.Addr) error
	// Lookup resolves names; nil asks the system.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// SameHost refuses redirects to other hosts.
	SameHost bool
	// ProxyFromEnvironment uses the proxies that HTTP_PROXY and its kin name; Guard
	// then sees the proxy's address.
	ProxyFromEnvironment bool
	// TLS for https, nil for the system's roots.
	TLS *tls.Config

	ConnectTimeout time.Duration // zero: 10 s
	HeaderTimeout  time.Duration // from the request to the answer's header; zero: 30 s
	IdleTimeout    time.Duration // without a byte of the body; zero: one minute

	// MaxSkip is how many bytes are read and dropped to reach a range on a server
	// without ranges; zero means 64 MiB.
	MaxSkip int64
	// MaxIndex bounds a list file or index page in bytes; zero means 256 MiB.
	MaxIndex int64
	// Parallel is how many objects a listing asks about at once; zero means 16.
	Parallel int
	// Clock is for Retry-After dates; nil means time.Now.
	Clock func() time.Time
}

// Source is a tree on a web server.
type Source struct {
	opts Options
	base string // URL of the tree, with a slash behind it
	list string // key of the list file, empty: index pages

	client    *http.Client
	transport *http.Transport
	listed    atomic.Pointer[list]
}

var _ source.Source = (*Source)(nil)

// Opener opens the trees that http and https URLs name.
func Opener(opts Options) source.OpenFunc {
	return func(_ context.Context, u source.URL) (source.Source, error) { return New(u, opts) }
}

// New returns the tree at a URL, and asks nothing yet.
func New(u source.URL, opts Options) (*Source, error) {
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, object.Errorf(object.Invalid, "%s is not on a web server", u)
	}
	opts.fill()
	s := &Source{opts: opts, base: u.Scheme + "://" + u.Host + "/" + escape(u.Prefix())}
	if index := u.Option("index"); index != "" && index != "auto" {
		s.list, _ = strings.CutPrefix(index, "list:")
	}
	dialer := source.Dialer{Guard: opts.Guard, Timeout: opts.ConnectTimeout, Lookup: opts.Lookup}
	s.transport = &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: opts.TLS,
		TLSHandshakeTimeout: opts.ConnectTimeout, ResponseHeaderTimeout: opts.HeaderTimeout,
		DisableCompression:  true, // sizes and ranges are those of the object
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if opts.ProxyFromEnvironment {
		s.transport.Proxy = http.ProxyFromEnvironment
	}
	s.client = &http.Client{Transport: s.transport, CheckRedirect: s.redirect}
	return s, nil
}

func (o *Options) fill() {
	defaults := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	defaults(&o.ConnectTimeout, 10*time.Second)
	defaults(&o.HeaderTimeout, 30*time.Second)
	defaults(&o.IdleTimeout, time.Minute)
	if o.MaxSkip <= 0 {
		o.MaxSkip = 64 << 20
	}
	if o.MaxIndex <= 0 {
		o.MaxIndex = 256 << 20
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Close closes the connections that nobody uses.
func (s *Source) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Put refuses: web servers are read.
func (s *Source) Put(context.Context, object.Name, io.Reader, object.PutOptions) (object.Info, error) {
	return object.Info{}, readOnly()
}

// Delete refuses: web servers are read.
func (s *Source) Delete(context.Context, object.Name, object.Condition) error { return readOnly() }

func readOnly() error {
	return object.Errorf(object.Denied, "a source on a web server is read-only")
}

// Possible reports whether a valid key can be asked of a web server.
func Possible(key string) bool { return source.PathKey(key) }

// escape writes a path so that every server reads it as the same one.
func escape(path string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/-_.~", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}
