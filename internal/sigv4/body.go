package sigv4

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"penstock.dev/penstock/internal/checksum"
)

// emptyDigest is the SHA-256 of nothing.
const emptyDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// body gives the content and holds it against what was said of it.
type body struct {
	req    *Request
	source io.Reader // of the content
	closer io.Closer
	left   int64 // bytes of content to come, -1 if nobody knows
	err    error // what Read says from now on

	payload payload

	sha, md5, sum hash.Hash // nil if not needed; sum may be sha
}

func (b *body) setHashes() {
	c := &b.req.claims
	if b.payload.hashed {
		b.sha = sha256.New()
	}
	if c.md5 != nil {
		b.md5 = md5.New()
	}
	switch {
	case c.algorithm == checksum.SHA256 && b.sha != nil:
		b.sum = b.sha
	case c.algorithm != checksum.None:
		b.sum = c.algorithm.New()
	}
}

// Read gives content. With io.EOF everything about it has been checked.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.source.Read(p)
	if b.left >= 0 {
		if int64(n) > b.left {
			n, err = int(b.left), errIncomplete
		}
		b.left -= int64(n)
	}
	if n > 0 {
		b.write(p[:n])
	}
	switch {
	case err == io.EOF:
		err = b.check()
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errIncomplete
	}
	b.err = err
	return n, err
}

func (b *body) write(p []byte) {
	if b.sha != nil {
		b.sha.Write(p)
	}
	if b.md5 != nil {
		b.md5.Write(p)
	}
	if b.sum != nil && b.sum != b.sha {
		b.sum.Write(p)
	}
}

// check is the only place that says io.EOF.
func (b *body) check() error {
	c := &b.req.claims
	if b.left > 0 {
		return errIncomplete
	}
	if b.sha != nil && !bytes.Equal(b.sha.Sum(nil), b.payload.digest[:]) {
		return fail(XAmzContentSHA256Mismatch, "The provided 'x-amz-content-sha256' header does not match what was computed.")
	}
	if b.md5 != nil && !bytes.Equal(b.md5.Sum(nil), c.md5) {
		return fail(BadDigest, "The Content-MD5 you specified did not match what we received.")
	}
	if b.sum != nil && !bytes.Equal(b.sum.Sum(nil), c.sum) {
		return fail(BadDigest, "The %s you specified did not match the calculated checksum.", c.algorithm)
	}
	b.req.verified = true
	return io.EOF
}

// checkEmpty checks that nothing is what was signed and announced.
func (req *Request) checkEmpty(p payload) error {
	if p.line == emptyDigest {
		p.hashed = false
	}
	if !p.hashed && req.claims.md5 == nil && req.claims.algorithm == checksum.None {
		req.verified = true
		return nil
	}
	b := &body{req: req, payload: p}
	b.setHashes()
	if err := b.check(); err != io.EOF {
		return err
	}
	return nil
}

// Close closes the request's own body.
func (b *body) Close() error {
	if b.err == nil {
		b.err = errors.New("the body was closed")
	}
	return b.closer.Close()
}

// exact is a body that must have as many bytes as the header says. net/http sees to
// that too; the promise of this package should not hang on it.
type exact struct {
	r    io.Reader
	left int64 // -1 if the header does not say
}

func (e *exact) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.left < 0 {
		return n, err
	}
	if int64(n) > e.left {
		return int(e.left), errIncomplete
	}
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
