package penstock

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Kind is the class of an error: what the caller can do about it.
type Kind = object.Kind

// The kinds of error.
const (
	Internal    = object.Internal    // a fault of Penstock's
	NotFound    = object.NotFound    // there is no such bucket, object or member
	Exists      = object.Exists      // it is there already, and that was ruled out
	Stale       = object.Stale       // the condition on version or ETag does not hold
	Denied      = object.Denied      // the token gives no right to it
	Invalid     = object.Invalid     // the request makes no sense; repeating it will not help
	Busy        = object.Busy        // too much is going on; repeat later
	Corrupt     = object.Corrupt     // the bytes are not the ones that were written
	Unavailable = object.Unavailable // a node or disk that is needed cannot be used now
	Canceled    = object.Canceled    // the context ended
)

// Error is an error with a kind.
type Error = object.Error

// RangeError, found in an error's chain, says that a Range lies outside an object.
type RangeError = object.RangeError

// ErrIncomplete is what a listing yields, once, when the node cannot ask one of
// its disks: entries may be missing. A caller may note it and go on.
var ErrIncomplete = object.ErrIncomplete

// KindOf returns the kind of an error of this package.
func KindOf(err error) Kind { return object.KindOf(err) }

// Is reports whether err is of the given kind. A nil error is of none.
func Is(err error, kind Kind) bool { return object.Is(err, kind) }

// failure is one attempt of a request that did not succeed.
type failure struct {
	err   error         // what the caller gets if there is no further attempt
	again bool          // a further attempt may help
	after time.Duration // how long the node asks us to wait before it
}

// statusKinds serves where an answer does not name the kind: those of proxies on
// the way.
var statusKinds = map[int]Kind{
	http.StatusBadRequest:                   Invalid,
	http.StatusUnauthorized:                 Denied,
	http.StatusForbidden:                    Denied,
	http.StatusNotFound:                     NotFound,
	http.StatusMethodNotAllowed:             Invalid,
	http.StatusRequestTimeout:               Unavailable,
	http.StatusConflict:                     Exists,
	http.StatusPreconditionFailed:           Stale,
	http.StatusRequestEntityTooLarge:        Invalid,
	http.StatusRequestedRangeNotSatisfiable: Invalid,
	http.StatusTooManyRequests:              Busy,
	http.StatusBadGateway:                   Unavailable,
	http.StatusServiceUnavailable:           Unavailable,
	http.StatusGatewayTimeout:               Unavailable,
	http.StatusInsufficientStorage:          Unavailable,
}

// refused turns an answer that is not a success into a failure, and closes it.
func (c *Client) refused(resp *http.Response, call call) *failure {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		text, _ := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes */")
		if size, err := strconv.ParseInt(text, 10, 64); err == nil {
			return &failure{err: c.errorf(Invalid, "%s: %w", call.what, &RangeError{Range: call.piece, Size: size})}
		}
	}
	var answer struct {
		Error struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	kind, message := Internal, ""
	if json.Unmarshal(body, &answer) == nil && answer.Error.Kind != "" {
		kind, message = object.ParseKind(answer.Error.Kind), answer.Error.Message
	} else {
		said, why, explained := strings.Cut(resp.Header.Get("X-Penstock-Error"), ": ") // HEAD has no body to say it in
		if said != "" {
			kind = object.ParseKind(said)
		} else if k, ok := statusKinds[resp.StatusCode]; ok {
			kind = k
		}
		message = call.what + ": " + strings.ToLower(http.StatusText(resp.StatusCode))
		if kind == NotFound {
			message = call.what + " does not exist"
		}
		if explained {
			message = why
		} else if resp.StatusCode < 400 || http.StatusText(resp.StatusCode) == "" {
			message = fmt.Sprintf("%s: unexpected answer %s; is this a Penstock node?", call.what, resp.Status)
		}
	}
	f := &failure{err: c.errorf(kind, "%s", message)}
	if kind == Busy || kind == Unavailable {
		f.again = true
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
			f.after = time.Duration(min(seconds, 3600)) * time.Second
		}
	}
	return f
}

// broken turns an error of the connection into a failure.
func (c *Client) broken(ctx context.Context, err error) *failure {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the method and the URL, which we name ourselves
	}
	switch {
	case ctx.Err() != nil:
		return &failure{err: c.errorf(Canceled, "%w", context.Cause(ctx))}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &failure{err: object.Errorf(Unavailable, "no node at %s: start one with `penstock serve`", c.endpoint)}
	}
	return &failure{err: c.errorf(Unavailable, "%w", err), again: !lasting(err)}
}

// lasting reports whether an error of the connection would come again at once:
// the node cannot be reached or trusted, or was waited for long enough. What is
// left is a connection that broke.
func lasting(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// errorf makes an error that names the endpoint.
func (c *Client) errorf(kind Kind, format string, args ...any) error {
	return object.Errorf(kind, format+" (%s)", append(args, c.endpoint)...)
}
