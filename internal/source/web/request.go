package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

// answer is what a server said, with the means to break it off.
type answer struct {
	*http.Response
	cancel context.CancelFunc
}

// drop gives an answer up. A little of what is left is read, so that the connection can
// be used again, and not for long.
func (a *answer) drop() {
	if a.ContentLength >= 0 && a.ContentLength <= 16<<10 {
		timer := time.AfterFunc(dropTime, a.cancel)
		defer timer.Stop()
		io.CopyN(io.Discard, a.Body, 16<<10) //nolint:errcheck // only to keep the connection
	}
	a.Body.Close()
	a.cancel()
}

// dropTime is how long the rest of an answer that nobody wants may take.
const dropTime = 100 * time.Millisecond

// ask sends a request for a path below the tree and returns the answer, whatever its
// status. Its errors have kinds, and do not show where redirects led, which may be
// secret.
func (s *Source) ask(ctx context.Context, method, path string, header http.Header) (*answer, error) {
	request, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(request, method, s.base+escape(path), nil)
	if err != nil {
		cancel()
		return nil, object.Errorf(object.Invalid, "%q cannot be asked for", path)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "penstock")
	resp, err := s.client.Do(req)
	if err != nil {
		cancel()
		return nil, s.failed(ctx, path, err)
	}
	return &answer{Response: resp, cancel: cancel}, nil
}

// failed gives a request without an answer its kind.
func (s *Source) failed(ctx context.Context, path string, err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var kind *object.Error
	switch {
	case ctx.Err() != nil:
		return object.Errorf(object.Canceled, "asking for %q: %w", path, context.Cause(ctx))
	case errors.As(err, &kind):
		return object.Errorf(kind.Kind, "asking for %q: %w", path, err)
	case object.Is(err, object.Canceled):
		return object.Errorf(object.Unavailable, "asking for %q: it took too long", path)
	}
	return object.Errorf(object.Unavailable, "asking for %q: %w", path, err)
}

const maxRedirects = 5

// redirect is asked before each redirect is followed.
func (s *Source) redirect(req *http.Request, via []*http.Request) error {
	first, last := via[0].URL, via[len(via)-1].URL
	switch {
	case req.URL.Path == last.Path+"/":
		return object.Errorf(object.NotFound, "it is a directory")
	case len(via) > maxRedirects:
		return object.Errorf(object.Invalid, "the source redirects more than %d times", maxRedirects)
	case req.URL.Scheme != first.Scheme:
		return object.Errorf(object.Denied, "the source redirects from %s to another scheme", first.Scheme)
	case req.URL.User != nil:
		return object.Errorf(object.Denied, "the source redirects to a URL with a name or password")
	case s.opts.SameHost && req.URL.Host != first.Host:
		return object.Errorf(object.Denied, "the source redirects to another host")
	}
	return nil
}

// refusal gives a status that is no success its kind.
func (s *Source) refusal(path string, a *answer) error {
	kind := object.Invalid
	switch code := a.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		kind = object.NotFound
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		kind = object.Denied
	case code == http.StatusPreconditionFailed:
		kind = object.Stale
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return source.Busy(source.ParseRetryAfter(a.Header.Get("Retry-After"), s.opts.Clock()), "asking for %q: the source answers %d", path, code)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500 && code != http.StatusNotImplemented:
		kind = object.Unavailable
	}
	return object.Errorf(kind, "asking for %q: the source answers %d", path, a.StatusCode)
}
