package penstock

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// call is one request, perhaps sent several times.
type call struct {
	method string
	url    *url.URL
	header http.Header
	what   string // what it is about, for messages
	piece  Range  // of the object that is asked for

	// body, if not nil, is sent. It is rewound before every further attempt.
	body *body

	// out, if not nil, is decoded from the answer's JSON.
	out any

	// once forbids further attempts: to repeat the request is not the same as to
	// send it once.
	once bool
}

// patience is how long a call is held up in all by pauses between attempts. Who
// wants to wait longer for a disk or node to come back decides that better
// outside.
const patience = 15 * time.Second

// do sends a call until it succeeds, fails for good, or has been tried often
// enough. The caller closes the answer's body, unless the call has an out.
// attempts is how often it was sent.
func (c *Client) do(ctx context.Context, call call) (resp *http.Response, attempts int, err error) {
	// Set here and only read from now on: the transport may still look at the
	// headers of an attempt that is over.
	if call.header == nil {
		call.header = make(http.Header, 4)
	}
	call.header.Set("User-Agent", c.agent)
	if c.token != "" {
		call.header.Set("Authorization", "Bearer "+c.token)
	}
	for waited := time.Duration(0); ; {
		resp, failed := c.send(ctx, call)
		attempts++
		if failed == nil {
			return resp, attempts, nil
		}
		if !failed.again || call.once || attempts >= c.attempts || !call.body.rewindable() {
			return nil, attempts, failed.err
		}
		wait := failed.after + backoff(attempts-1) // what the node asked for, and a little apart from the others
		waited += wait
		deadline, limited := ctx.Deadline()
		if waited > patience || (limited && time.Until(deadline) < wait) || c.pause(ctx, wait) != nil {
			return nil, attempts, failed.err // says more than that the time was up
		}
		if err := call.body.rewind(); err != nil {
			return nil, attempts, object.Errorf(Internal, "reading %s again: %w", call.what, err)
		}
	}
}

// send makes one attempt. When it returns, the transport has stopped reading the
// body.
func (c *Client) send(ctx context.Context, call call) (*http.Response, *failure) {
	req := (&http.Request{
		Method: call.method, URL: call.url, Host: call.url.Host, Header: call.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if call.body != nil {
		call.body.attach(req)
	}
	resp, err := c.http.Do(req)
	if readErr := call.body.stop(); readErr != nil && err != nil && ctx.Err() == nil {
		return nil, &failure{err: object.Errorf(KindOf(readErr), "reading what to store as %s: %w", call.what, readErr)}
	}
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, c.refused(resp, call)
	}
	if call.out != nil {
		return resp, c.decode(ctx, resp, call)
	}
	return resp, nil
}

// maxAnswer bounds the JSON of one answer: a page of 1000 keys of 1024 bytes,
// every byte of them escaped, is below it.
const maxAnswer = 16 << 20

// decode reads an answer's JSON into what the call wants, and closes it.
func (c *Client) decode(ctx context.Context, resp *http.Response, call call) *failure {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.broken(ctx, err)
	case len(text) > maxAnswer:
		return &failure{err: c.errorf(Internal, "%s: the answer is longer than %d bytes", call.what, maxAnswer)}
	}
	if err := json.Unmarshal(text, call.out); err != nil {
		return &failure{err: c.errorf(Internal, "%s: unexpected answer (%w); is this a Penstock node?", call.what, err)}
	}
	return nil
}

// jsonBody makes v the body of a call.
func jsonBody(ctx context.Context, v any) (*body, http.Header, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, nil, object.Errorf(Invalid, "%w", err)
	}
	return newBody(ctx, bytes.NewReader(text), int64(len(text))), http.Header{"Content-Type": {"application/json"}}, nil
}

// path returns the URL of a plain path below the endpoint.
func (c *Client) path(path string, query url.Values) *url.URL {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	return &u
}

// object returns the URL of an object. The key goes over the wire byte for byte:
// a key is not a path, so "a//b", "." and ".." are left as they are.
func (c *Client) object(name Name) *url.URL {
	u := *c.base
	u.RawPath = u.EscapedPath() + "/v1/objects/" + name.Bucket + "/" + escapeKey(name.Key)
	u.Path += "/v1/objects/" + name.Bucket + "/" + name.Key
	return &u
}

// escapeKey escapes all bytes of a key but the unreserved ones and the slash.
func escapeKey(key string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(key) + 16)
	for i := 0; i < len(key); i++ {
		ch := key[i]
		switch {
		case ch >= 'a' && ch <= 'z', ch >= 'A' && ch <= 'Z', ch >= '0' && ch <= '9',
			ch == '-', ch == '.', ch == '_', ch == '~', ch == '/':
			b.WriteByte(ch)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[ch>>4])
			b.WriteByte(hexDigits[ch&15])
		}
	}
	return b.String()
}
