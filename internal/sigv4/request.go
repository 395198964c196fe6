package sigv4

import (
	"io"
	"net/http"

	"penstock.dev/penstock/internal/checksum"
)

// Request is what is known of a request that was verified.
type Request struct {
	AccessKey string // whose key signed it; empty if it is anonymous
	Anonymous bool   // nobody signed it
	Presigned bool   // the signature is in the query
	Version2  bool   // and of version 2

	// Body gives the content, decoded. It returns io.EOF only if the content is as
	// signed and announced: else an *Error, or the error of the request's own body.
	// To close it closes that.
	Body io.ReadCloser

	// Length is how many bytes Body gives, -1 if that is not known.
	Length int64

	header   http.Header
	hoisted  []hoist
	claims   claims
	verified bool
}

// Amz returns the value of an x-amz-* header, by its canonical key. A presigned
// request may have it in its query; what others have in the query does not count.
func (req *Request) Amz(key string) string {
	if values := req.header[key]; len(values) > 0 {
		return values[0]
	}
	for _, h := range req.hoisted {
		if h.key == key {
			return h.value
		}
	}
	return ""
}

// Checksum returns the additional checksum of the content that came in a header or
// trailer and was verified, or None before Body's io.EOF and if there was none.
func (req *Request) Checksum() (checksum.Algorithm, []byte) {
	if !req.verified {
		return checksum.None, nil
	}
	return req.claims.algorithm, req.claims.sum
}

// Announced returns the algorithm of the additional checksum that will be verified,
// None if there is none. It is known before the body is read.
func (req *Request) Announced() checksum.Algorithm { return req.claims.algorithm }

// MD5 returns the MD5 of the content if the client sent it and it was verified, so
// that nobody need compute it again; nil else and before Body's io.EOF.
func (req *Request) MD5() []byte {
	if !req.verified {
		return nil
	}
	return req.claims.md5
}

// single returns the value of a header that must not be there twice.
func (req *Request) single(key string) (string, bool, error) {
	if len(req.header[key]) > 1 {
		return "", false, fail(InvalidRequest, "%s is there more than once", key)
	}
	value := req.Amz(key)
	return value, value != "" || len(req.header[key]) > 0, nil
}

// open makes the body. A body without bytes is checked at once, as nobody may come
// to read it.
func (req *Request) open(r *http.Request, p payload, chain *chain) error {
	var err error
	if req.claims, err = readClaims(req, r, p.form); err != nil {
		return err
	}
	if req.Length, err = req.length(r.ContentLength, p.form); err != nil {
		return err
	}
	if r.ContentLength == 0 && !p.form.chunked {
		req.Body = http.NoBody
		return req.checkEmpty(p)
	}
	raw := r.Body
	if raw == nil {
		raw = http.NoBody
	}
	b := &body{req: req, source: &exact{raw, r.ContentLength}, closer: raw, left: req.Length, payload: p}
	if p.form.chunked {
		b.source = newChunks(b.source, req, p.form, chain)
	}
	b.setHashes()
	req.Body = b
	return nil
}

// length returns the length of the content, -1 if nobody says.
func (req *Request) length(ofBody int64, form shape) (int64, error) {
	text, ok, err := req.single("X-Amz-Decoded-Content-Length")
	if err != nil {
		return 0, err
	}
	if !ok {
		if form.chunked {
			return 0, fail(MissingContentLength, "You must provide the x-amz-decoded-content-length HTTP header.")
		}
		return ofBody, nil
	}
	n, ok := parseDecimal(text)
	switch {
	case !ok:
		return 0, fail(InvalidArgument, "Value for x-amz-decoded-content-length header is invalid.")
	case !form.chunked && ofBody >= 0 && n != ofBody, form.chunked && ofBody >= 0 && n > ofBody:
		return 0, fail(InvalidRequest, "x-amz-decoded-content-length does not go with the Content-Length")
	}
	return n, nil
}
