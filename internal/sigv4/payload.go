package sigv4

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"penstock.dev/penstock/internal/checksum"
)

// shape is how the content is put into the body.
type shape struct {
	chunked bool // as aws-chunked
	signed  bool // each chunk, and the trailer
	trailer bool // there may be one
}

// unsignedPayload stands for the digest of content that is not signed.
const unsignedPayload = "UNSIGNED-PAYLOAD"

var shapes = map[string]shape{
	unsignedPayload:                              {},
	"STREAMING-UNSIGNED-PAYLOAD-TRAILER":         {chunked: true, trailer: true},
	"STREAMING-AWS4-HMAC-SHA256-PAYLOAD":         {chunked: true, signed: true},
	"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": {chunked: true, signed: true, trailer: true},
}

// payload is what the head of a request says about its body.
type payload struct {
	line   string // as it is signed
	form   shape
	digest [sha256.Size]byte // of the content
	hashed bool              // the digest is there and signed
}

// newPayload reads x-amz-content-sha256.
func newPayload(req *Request, kind way) (payload, error) {
	declared, ok, err := req.single("X-Amz-Content-Sha256")
	if err != nil {
		return payload{}, err
	}
	if !ok {
		if kind == header {
			return payload{}, fail(InvalidRequest, "Missing required header for this request: x-amz-content-sha256")
		}
		// Clients without keys put content into chunks all the same, and say so by
		// these alone. To store the frames as content would be worse than to refuse.
		chunked := req.Amz("X-Amz-Decoded-Content-Length") != "" || req.Amz("X-Amz-Trailer") != ""
		return payload{line: unsignedPayload, form: shape{chunked: chunked, trailer: chunked}}, nil
	}
	p := payload{line: declared}
	if p.hashed = decodeHex(&p.digest, declared); p.hashed {
		return p, nil
	}
	if p.form, ok = shapes[declared]; !ok {
		if strings.HasPrefix(declared, "STREAMING-AWS4-ECDSA-") {
			return p, fail(NotImplemented, "Signatures of version 4A are not supported. Please use %s.", algorithm)
		}
		return p, fail(InvalidArgument, "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.")
	}
	if p.form.signed && (kind == anonymous || kind == oldQuery) {
		return p, fail(AccessDenied, "Signed chunks need a request signed with version 4")
	}
	return p, nil
}

// claims are what a request says its content is, besides the digest that is signed.
type claims struct {
	md5       []byte
	algorithm checksum.Algorithm
	sum       []byte // nil if it comes in a trailer
	trailer   bool
}

// readClaims reads the headers with checksums and announcements of checksums.
func readClaims(req *Request, r *http.Request, form shape) (claims, error) {
	var c claims
	if values := r.Header["Content-Md5"]; len(values) > 0 {
		sum, err := base64.StdEncoding.Strict().DecodeString(values[0])
		if err != nil || len(sum) != md5.Size || len(values) > 1 {
			return c, fail(InvalidDigest, "The Content-MD5 you specified is not valid.")
		}
		c.md5 = sum
	}
	if !ofObject(r) {
		for key := range r.Header {
			if err := c.addHeader(req, key); err != nil {
				return c, err
			}
		}
		for _, h := range req.hoisted {
			if err := c.addHeader(req, h.key); err != nil {
				return c, err
			}
		}
	}
	announced, ok, err := req.single("X-Amz-Trailer")
	if err != nil || !ok {
		return c, err
	}
	algorithm, known := checksum.ParseHeader(strings.TrimSpace(announced))
	switch {
	case !form.trailer:
		return c, fail(InvalidRequest, "x-amz-trailer needs a body that may have a trailer, as x-amz-content-sha256 says")
	case !known:
		return c, fail(InvalidRequest, "The value specified in the x-amz-trailer header is not supported")
	case c.algorithm != checksum.None:
		return c, errManySums
	}
	c.algorithm, c.trailer = algorithm, true
	return c, nil
}

var errManySums = fail(InvalidRequest, "Expecting a single x-amz-checksum- header")

// ofObject reports whether checksums in the header are not of the body but of an
// object: so with CompleteMultipartUpload, whose body is a list of parts.
func ofObject(r *http.Request) bool {
	if r.Method != http.MethodPost || !strings.Contains(r.URL.RawQuery, "uploadId") {
		return false
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	return err == nil && values.Has("uploadId")
}

// addHeader takes the checksum of a header, if it has one.
func (c *claims) addHeader(req *Request, key string) error {
	if !hasPrefixFold(key, checksum.HeaderPrefix) {
		return nil
	}
	algorithm, ok := checksum.ParseHeader(key)
	if !ok {
		for _, other := range [...]string{"mode", "type", "algorithm"} {
			if strings.EqualFold(key[len(checksum.HeaderPrefix):], other) {
				return nil
			}
		}
		// To accept it would say that it was checked.
		return fail(NotImplemented, "There is no checksum of the kind of %s here", key)
	}
	text, _, err := req.single(algorithm.Key())
	if err != nil {
		return err
	}
	sum, err := algorithm.Decode(text)
	switch {
	case err != nil:
		return fail(BadDigest, "Value for %s header is invalid.", algorithm.Header())
	case c.algorithm == algorithm: // header and query, which say the same
		return nil
	case c.algorithm != checksum.None:
		return errManySums
	}
	c.algorithm, c.sum = algorithm, sum
	return nil
}
