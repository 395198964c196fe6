package s3api

import (
	"io"
	"net/http"
	"net/url"
	"runtime/debug"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/sigv4"
)

// call is one request and its answer, on their way through the door. Calls are used
// again, so nobody may keep one.
type call struct {
	door.Exchange
	api    *API
	id     uint64     // of the request
	op     *operation // nil until it is known
	bucket string
	key    string
	query  url.Values
	signed *sigv4.Request
	user   auth.User
	form   string            // how the form was signed that the request is
	tags   map[string]string // that came in the body; nil if none did
	about  node.Bucket       // the bucket, if the operation is about one that must exist
}

// ServeHTTP takes one request through the door.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := a.calls.Get().(*call)
	c.Begin(a.door, w, r)
	c.api, c.id = a, a.prefix+a.number.Add(1)
	// net/http looks at its own body to see whether to wait for the rest of it, so that
	// a client that is still sending gets the answer and not a reset.
	body := r.Body
	defer func() { r.Body = body }()
	defer a.finish(c)
	if !a.door.Enter() {
		c.fail(errStopping)
		return
	}
	defer a.door.Leave()
	if err := a.serve(c); err != nil {
		c.fail(err)
	}
}

// serve is the way of every request. Nothing before the handler reads the body, and
// nothing in a handler reads it but through the signature's checks.
func (a *API) serve(c *call) (err error) {
	c.R.Body = c.Body()
	if c.R.Method == http.MethodOptions {
		return c.preflight()
	}
	if c.signed, err = a.verifier.Verify(c.R); err != nil {
		a.metrics.RefusedAccess.Inc()
		return err
	}
	if err := a.aim(c); err != nil {
		return err
	}
	if c.op, err = a.table.find(c); err != nil {
		return err
	}
	slots := a.slots
	if c.signed.Anonymous {
		slots = a.strangers
	}
	if !slots.Take() {
		a.metrics.RefusedSlots.Inc()
		return errSlots
	}
	defer slots.Release()
	if err := a.admit(c); err != nil {
		return err
	}
	if c.op.bodiless() {
		if err := c.checkBody(); err != nil {
			return err
		}
	}
	if err := c.op.handle(a, c); err != nil {
		return err
	}
	c.stamp()
	c.SendHeader()
	return nil
}

// preflight answers a browser that asks what other sites may do here: nothing. It cannot
// sign that, and so is told the same of everything.
func (c *call) preflight() error {
	if c.R.Header["Origin"] == nil {
		return fault(badRequest)
	}
	return fault(corsForbidden)
}

// checkBody reads a body that means nothing to the operation, since its digest may be
// signed all the same.
func (c *call) checkBody() error {
	if c.R.ContentLength == 0 {
		return nil
	}
	_, err := c.ReadSmall(c.R.Body, maxSmallXML)
	return err
}

// finish accounts for the call, whatever way it ended. A panic of a handler ends
// here: answered if it still can be, counted and logged. ErrAbortHandler is how a call
// cuts the connection, and goes on to net/http.
func (a *API) finish(c *call) {
	failure := recover()
	abort := failure == http.ErrAbortHandler
	if failure != nil && !abort {
		a.metrics.Panics.Inc()
		if a.logRate.Allow() {
			stack := debug.Stack()
			a.log.Error("a request handler panicked", "operation", c.operation(), "panic", failure, "stack", string(stack[:min(len(stack), 8<<10)]))
		}
		if abort = c.Sent; !abort {
			c.fail(object.Errorf(object.Internal, "a request handler panicked"))
		}
	}
	a.metrics.Observe(c.operation(), &c.Exchange, a.clock().Sub(c.Start), abort)
	c.End()
	*c = call{Exchange: c.Exchange}
	a.calls.Put(c)
	if abort {
		panic(http.ErrAbortHandler)
	}
}

func (c *call) operation() string {
	if c.op == nil {
		return "none"
	}
	return c.op.name
}

// name is the object that the call is about, in the version it asks for.
func (c *call) name() (object.Name, error) {
	name := object.Name{Bucket: c.bucket, Key: c.key}
	var err error
	if text, ok := c.param("versionId"); ok {
		name.ID, err = parseVersionID(text)
	}
	return name, err
}

// param returns a parameter of the query, and whether it is there.
func (c *call) param(name string) (string, bool) {
	values, ok := c.query[name]
	if !ok {
		return "", false
	}
	return values[0], true
}

// has reports whether the query has a parameter.
func (c *call) has(name string) bool { return c.query[name] != nil }

// amz returns the value of an x-amz-* header.
func (c *call) amz(key string) string { return c.signed.Amz(key) }

// requestID is what the answer and the log call the request.
func (c *call) requestID() string {
	const digits = "0123456789ABCDEF"
	var text [16]byte
	for i := range text {
		text[i] = digits[c.id>>(60-4*i)&15]
	}
	return string(text[:])
}

// stamp sets the headers that every answer has.
func (c *call) stamp() {
	if h := c.Header(); h["X-Amz-Request-Id"] == nil {
		h["X-Amz-Request-Id"] = c.Value(c.requestID())
	}
}

// Write sends a part of the answer.
func (c *call) Write(p []byte) (int, error) {
	c.stamp()
	return c.Exchange.Write(p)
}

// ReadFrom sends a part of the answer; see door.Exchange.
func (c *call) ReadFrom(r io.Reader) (int64, error) {
	c.stamp()
	return c.Exchange.ReadFrom(r)
}

// cut ends the connection, so that the client cannot take what it has for the whole
// answer.
func (c *call) cut(err error) {
	if !door.ClientGone(err) {
		c.api.logError(c, err)
	}
	panic(http.ErrAbortHandler)
}

// logError reports an error that ends at the door and is ours, not the client's.
func (a *API) logError(c *call, err error) {
	if a.logRate.Allow() {
		a.log.Error("a request failed", "operation", c.operation(), "bucket", c.bucket, "key", c.key,
			"request", c.requestID(), "kind", object.KindOf(err).String(), "error", err)
	}
}
