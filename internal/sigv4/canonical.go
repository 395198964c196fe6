package sigv4

import (
	"crypto/sha256"
	"hash"
	"net/http"
	"strconv"
	"strings"
)

// scratch is the memory of one verification, kept for the next.
type scratch struct {
	buf   []byte // the canonical request, then the string to sign
	text  []byte // canonical names and values of the query
	key   []byte // a header's name as http.Header has it
	pairs []pair

	present   uint8              // which parameters of a signature the query has, a bit each
	parameter [parameters]string // as they came
	version2  uint8              // which of one of version 2
	old       [oldParameters]string

	sha       hash.Hash
	sum       [sha256.Size]byte
	signature [2 * sha256.Size]byte // as we computed it
	given     [2 * sha256.Size]byte // as it came
}

// maxKept is the largest buffer that is kept for the next request.
const maxKept = 32 << 10

func (v *Verifier) scratch() *scratch {
	if s, ok := v.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{sha: sha256.New(), buf: make([]byte, 0, 2<<10)}
}

func (v *Verifier) put(s *scratch) {
	if cap(s.buf) > maxKept || cap(s.text) > maxKept || cap(s.key) > maxKept {
		return
	}
	clear(s.pairs)
	clear(s.parameter[:])
	clear(s.old[:])
	v.pool.Put(s)
}

// canonical makes the canonical request in s.buf. The path is that of the URL, which
// the door reads too, encoded by S3's rules: nothing in it is resolved or joined.
func (s *scratch) canonical(r *http.Request, signedHeaders, payload string) error {
	b := append(s.buf[:0], r.Method...)
	b = append(b, '\n')
	if r.URL.Path == "" {
		b = append(b, '/')
	}
	b = appendPath(b, r.URL.Path)
	b = append(b, '\n')
	b = s.appendCanonicalQuery(b)
	b = append(b, '\n')
	b, err := s.appendHeaders(b, r, signedHeaders)
	s.buf = b
	if err != nil {
		return err
	}
	b = append(b, '\n')
	b = append(b, signedHeaders...)
	b = append(b, '\n')
	s.buf = append(b, payload...)
	return nil
}

// stringToSign replaces the canonical request in s.buf.
func (s *scratch) stringToSign(c *credentials) []byte {
	s.sha.Reset()
	s.sha.Write(s.buf)
	s.sha.Sum(s.sum[:0])
	b := append(s.buf[:0], algorithm...)
	b = append(b, '\n')
	b = append(b, c.date...)
	b = append(b, '\n')
	b = append(b, c.scope...)
	b = append(b, '\n')
	s.buf = appendHex(b, s.sum[:])
	return s.buf
}

// appendHeaders appends the headers named in the list, which must be sorted and must
// have the host and every x-amz-* header of the request in it.
func (s *scratch) appendHeaders(b []byte, r *http.Request, list string) ([]byte, error) {
	var host bool
	var amz int
	var previous string
	for more := true; more; {
		var name string
		name, list, more = strings.Cut(list, ";")
		if !s.setKey(name) || name <= previous {
			return b, fail(SignatureDoesNotMatch, "The list of signed headers must be of names in lower case, sorted, each once")
		}
		previous = name
		var ok bool
		b = append(append(b, name...), ':')
		if b, ok = s.appendHeader(b, r, name); !ok {
			return b, fail(SignatureDoesNotMatch, "The signed header %s is not in the request", name)
		}
		b = append(b, '\n')
		host = host || name == "host"
		if hasPrefixFold(name, "x-amz-") {
			amz++
		}
	}
	// The names in the list are different and all in the request, so counting is
	// enough: it takes a stranger's many headers in one pass.
	for key := range r.Header {
		if hasPrefixFold(key, "x-amz-") {
			amz--
		}
	}
	if !host || amz != 0 {
		return b, errUnsigned
	}
	return b, nil
}

// appendHeader appends the value of the header whose name is in s.key too. Of those
// that net/http takes out of the header what it uses itself is signed.
func (s *scratch) appendHeader(b []byte, r *http.Request, name string) ([]byte, bool) {
	switch name {
	case "host":
		return appendFolded(b, r.Host), true
	case "content-length":
		return strconv.AppendInt(b, r.ContentLength, 10), r.ContentLength >= 0
	case "transfer-encoding":
		return appendValues(b, r.TransferEncoding), len(r.TransferEncoding) > 0
	}
	values := r.Header[string(s.key)]
	if len(values) == 0 && name == "expect" {
		return append(b, "100-continue"...), true // HTTP/2 takes it out, and there is no other value
	}
	return appendValues(b, values), len(values) > 0
}

func appendValues(b []byte, values []string) []byte {
	for i, value := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFolded(b, value)
	}
	return b
}

// setKey sets s.key to the form http.Header has of a name. It returns false if the
// name is none or not in lower case.
func (s *scratch) setKey(name string) bool {
	s.key = append(s.key[:0], name...)
	upper := true
	for i, c := range s.key {
		if c >= 0x80 || !token[c] {
			return false
		}
		if upper && 'a' <= c && c <= 'z' {
			s.key[i] = c - 'a' + 'A'
		}
		upper = c == '-'
	}
	return name != ""
}
