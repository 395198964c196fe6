// Package sigv4 says who made an S3 request and that its content is what the maker
// sent. It verifies AWS Signature Version 4 in one place for every way to
// authenticate (header, presigned query, form policy, none) and every form of body
// (signed digest, unsigned, chunks signed or not, with and without trailers). Of
// version 2 it knows what clients still use by themselves: presigned queries and forms
// (version2.go).
//
// It is not about rights: it knows no buckets, no operations, no rules for anonymous
// callers, and does not read the conditions of a form's policy. Those are the door's.
//
// Verify reads the head of a request and nothing of its body. What it returns has a
// Body that gives the decoded content, and a promise: io.EOF is returned only when
// everything signed or announced about the content has been checked. Content comes
// out before it is checked, since a signature stands for bytes that must be read
// first; so whoever acts on it waits for io.EOF. A body without bytes is checked by
// Verify itself.
//
// A Verifier may be used by many goroutines at once; a Request belongs to one.
package sigv4

import (
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options are what a Verifier has to know. The zero value knows no keys.
type Options struct {
	// Secret returns the secret of an access key. It gets keys from requests not
	// verified yet, is called once for each, and its answers are not remembered: a
	// key that is withdrawn does not work any more. An empty secret is none.
	Secret func(accessKey string) (secret string, ok bool)

	// Region is the only region of a signature that is accepted; empty accepts any.
	Region string

	// Bucket returns the bucket in a host name, empty if there is none: signatures of
	// version 2 are of it. nil is for none in any.
	Bucket func(host string) string

	// Skew is how far the clocks of client and server may differ; 0 is 15 minutes.
	Skew time.Duration

	// Clock says what time it is; nil is time.Now.
	Clock func() time.Time
}

// Verifier verifies requests.
type Verifier struct {
	options Options
	keys    keys
	pool    sync.Pool // of *scratch
}

// New returns a verifier.
func New(o Options) *Verifier {
	if o.Secret == nil {
		o.Secret = func(string) (string, bool) { return "", false }
	}
	if o.Bucket == nil {
		o.Bucket = func(string) string { return "" }
	}
	if o.Skew == 0 {
		o.Skew = 15 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Verifier{options: o}
}

// Verify checks who made a request and prepares its body to be checked. In place of
// r.Body comes the Body of the answer, so that nobody reads the other by mistake.
// An error is always an *Error.
func (v *Verifier) Verify(r *http.Request) (*Request, error) {
	s := v.scratch()
	defer v.put(s)
	if err := s.parseQuery(r.URL.RawQuery); err != nil {
		return nil, err
	}
	c, err := s.credentials(r)
	if err != nil {
		return nil, err
	}
	req := &Request{
		AccessKey: c.accessKey, Anonymous: c.kind == anonymous, Presigned: c.kind == query || c.kind == oldQuery,
		Version2: c.kind == oldQuery, header: r.Header,
	}
	if req.Presigned {
		if req.hoisted, err = s.hoisted(r.Header); err != nil {
			return nil, err
		}
	}
	p, err := newPayload(req, c.kind)
	if err != nil {
		return nil, err
	}
	var chain *chain
	switch c.kind {
	case anonymous:
	case oldQuery:
		if err := v.authenticateOld(s, r, req, &c); err != nil {
			return nil, err
		}
	default:
		signer, err := v.authenticate(s, r, req, &c, p.line)
		if err != nil {
			return nil, err
		}
		if p.form.signed {
			chain = signer.chain(c.date, c.scope, c.signature)
		}
	}
	if err := single(r.Header); err != nil {
		return nil, err
	}
	if err := req.open(r, p, chain); err != nil {
		return nil, err
	}
	r.Body = req.Body
	return req, nil
}

// single refuses x-amz-* headers that are there twice: they are signed as one list, and
// only one of them would be used.
func single(h http.Header) error {
	for key, values := range h {
		if len(values) > 1 && hasPrefixFold(key, "x-amz-") && !hasPrefixFold(key, "x-amz-meta-") && key != "X-Amz-Object-Attributes" {
			return fail(InvalidRequest, "%s is there more than once", key)
		}
	}
	return nil
}

// authenticate checks time, scope and signature, and returns what signed.
func (v *Verifier) authenticate(s *scratch, r *http.Request, req *Request, c *credentials, payload string) (*signer, error) {
	if err := v.timely(r, c); err != nil {
		return nil, err
	}
	if req.Amz("X-Amz-Security-Token") != "" {
		return nil, errToken
	}
	secret, err := v.secret(c)
	if err != nil {
		return nil, err
	}
	if err := s.canonical(r, c.signedHeaders, payload); err != nil {
		return nil, err
	}
	name := keyName{c.accessKey, secret, c.day, c.region}
	signer, cached := v.keys.get(name)
	if !cached {
		signer = newSigner(name)
	}
	signer.sign(s, s.stringToSign(c))
	if subtle.ConstantTimeCompare(s.signature[:], append(s.given[:0], c.signature...)) != 1 {
		return nil, errSignature
	}
	if !cached {
		// Only what has been verified is remembered: a stranger cannot empty the cache.
		v.keys.add(name, signer)
	}
	return signer, nil
}

// secret checks the region and returns the secret of the access key.
func (v *Verifier) secret(c *credentials) (string, error) {
	if want := v.options.Region; want != "" && c.region != want {
		return "", c.malformed("the region '%s' is wrong; expecting '%s'", c.region, want)
	}
	secret, ok := v.options.Secret(c.accessKey)
	if !ok || secret == "" {
		return "", errAccessKey
	}
	return secret, nil
}

// timely checks that a signature is neither old nor of the future, and that its date
// and that of its scope are one. It sets c.date.
func (v *Verifier) timely(r *http.Request, c *credentials) error {
	var made time.Time
	var ok bool
	switch {
	case c.kind != header:
		made, ok = parseDate(c.date)
	case len(r.Header["X-Amz-Date"]) > 0:
		if dates := r.Header["X-Amz-Date"]; len(dates) == 1 {
			c.date = dates[0]
			made, ok = parseDate(c.date)
		}
	case len(r.Header["Date"]) == 1:
		c.date = r.Header["Date"][0]
		if made, ok = parseDate(c.date); !ok {
			if made, ok = parseHTTPDate(c.date); ok {
				c.date = made.Format(dateForm)
			}
		}
	}
	if !ok {
		if c.kind == header {
			return fail(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header")
		}
		return c.malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
	}
	if c.day != c.date[:8] {
		return c.malformed("the date of the credential is not that of the request")
	}
	now := v.options.Clock()
	switch {
	case c.kind == header && (made.Sub(now) > v.options.Skew || now.Sub(made) > v.options.Skew):
		return errSkewed
	case c.kind != header && made.Sub(now) > v.options.Skew:
		return fail(AccessDenied, "Request is not valid yet")
	case c.kind != header && now.After(made.Add(c.expires)):
		return errExpired
	}
	return nil
}

// dateForm is how signatures have times.
const dateForm = "20060102T150405Z"

func parseDate(s string) (time.Time, bool) {
	if len(s) != len(dateForm) {
		return time.Time{}, false
	}
	t, err := time.Parse(dateForm, s)
	return t, err == nil
}

// parseHTTPDate reads the date of a Date header. Python writes the zone as -0000.
func parseHTTPDate(s string) (time.Time, bool) {
	t, err := http.ParseTime(s)
	if err != nil {
		t, err = time.Parse(time.RFC1123Z, s)
	}
	return t.UTC(), err == nil
}

// ContentEncoding returns the Content-Encoding of an object sent with these headers:
// what the request says, without aws-chunked, which is a matter of the transfer.
func ContentEncoding(h http.Header) string {
	var rest []string
	stripped := false
	for _, value := range h["Content-Encoding"] {
		for coding := range strings.SplitSeq(value, ",") {
			switch coding = strings.TrimSpace(coding); {
			case strings.EqualFold(coding, "aws-chunked"):
				stripped = true
			case coding != "":
				rest = append(rest, coding)
			}
		}
	}
	if !stripped { // as it was written
		return strings.Join(h["Content-Encoding"], ",")
	}
	return strings.Join(rest, ",")
}
