package sigv4

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// How many parameters a query may have, and how many of them may be headers.
const (
	maxPairs   = 512
	maxHoisted = 64
)

// The parameters of a signature in the query. X-Amz-Security-Token is not one of
// those that must be there.
const (
	pAlgorithm = iota
	pCredential
	pDate
	pExpires
	pSignedHeaders
	pSignature
	parameters
)

var parameterNames = [parameters]string{
	"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature",
}

// pair is a parameter of the query: as it came, and where in scratch.text its
// canonical form is.
type pair struct {
	raw, name, value string
	start, mid, end  int
	amz, isSignature bool
}

// parseQuery splits a query and finds the parameters of signatures in it. It takes
// what url.ParseQuery takes, which the door reads the query with, and refuses what
// that drops.
func (s *scratch) parseQuery(raw string) error {
	s.text, s.pairs, s.present, s.version2 = s.text[:0], s.pairs[:0], 0, 0
	for raw != "" {
		var piece string
		piece, raw, _ = strings.Cut(raw, "&")
		if piece == "" {
			continue
		}
		if len(s.pairs) == maxPairs {
			return fail(InvalidURI, "The query has more than %d parameters", maxPairs)
		}
		p := pair{raw: piece}
		p.name, p.value, _ = strings.Cut(piece, "=")
		var ok, okValue bool
		p.start = len(s.text)
		s.text, ok = appendQuery(s.text, p.name)
		p.mid = len(s.text)
		s.text, okValue = appendQuery(s.text, p.value)
		p.end = len(s.text)
		if !ok || !okValue {
			return fail(InvalidURI, "Couldn't parse the specified URI.")
		}
		if err := s.recognise(&p); err != nil {
			return err
		}
		s.pairs = append(s.pairs, p)
	}
	return nil
}

// recognise notes a parameter that belongs to a signature. A name in another case
// is refused, since others may take it for what it looks like.
func (s *scratch) recognise(p *pair) error {
	name := s.text[p.start:p.mid]
	if p.amz = hasPrefixFold(name, "x-amz-"); !p.amz {
		return s.recogniseOld(p)
	}
	for i, known := range parameterNames {
		if !equalFold(name, known) {
			continue
		}
		c := credentials{kind: query}
		if string(name) != known {
			return c.malformed("%s is written otherwise", known)
		}
		if s.present&(1<<i) != 0 {
			return c.malformed("%s is there twice", known)
		}
		s.present |= 1 << i
		s.parameter[i] = p.value
		p.isSignature = true
	}
	return nil
}

// appendCanonicalQuery appends the query as it is signed: sorted, in the one
// encoding, without the signature.
func (s *scratch) appendCanonicalQuery(b []byte) []byte {
	if len(s.pairs) > 1 {
		slices.SortFunc(s.pairs, func(x, y pair) int {
			if c := bytes.Compare(s.text[x.start:x.mid], s.text[y.start:y.mid]); c != 0 {
				return c
			}
			return bytes.Compare(s.text[x.mid:x.end], s.text[y.mid:y.end])
		})
	}
	first := true
	for i := range s.pairs {
		p := &s.pairs[i]
		if p.isSignature && string(s.text[p.start:p.mid]) == parameterNames[pSignature] {
			continue
		}
		if !first {
			b = append(b, '&')
		}
		first = false
		b = append(append(b, s.text[p.start:p.mid]...), '=')
		b = append(b, s.text[p.mid:p.end]...)
	}
	return b
}

// hasControl reports whether a text has control characters. In what is signed line by
// line one text could pass for two.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// hoist is a header that a presigned request has in its query.
type hoist struct{ key, value string }

// hoisted returns the x-amz-* headers in the query of a presigned request. One that
// is there twice, or as a header too with another value, is refused.
func (s *scratch) hoisted(h http.Header) ([]hoist, error) {
	var all []hoist
	for i := range s.pairs {
		p := &s.pairs[i]
		if !p.amz || p.isSignature {
			continue
		}
		name, _ := url.QueryUnescape(p.name)
		value, _ := url.QueryUnescape(p.value)
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) || hasControl(value) {
			return nil, fail(InvalidRequest, "The query has something in it that cannot be a header")
		}
		one := hoist{http.CanonicalHeaderKey(name), value}
		same := func(h hoist) bool { return h.key == one.key }
		if len(all) == maxHoisted {
			return nil, fail(InvalidURI, "The query has more than %d headers in it", maxHoisted)
		}
		if as := h[one.key]; slices.ContainsFunc(all, same) || len(as) > 1 || len(as) == 1 && as[0] != value {
			return nil, fail(InvalidRequest, "%s is there more than once", one.key)
		}
		all = append(all, one)
	}
	return all, nil
}

func equalFold(name []byte, known string) bool {
	return len(name) == len(known) && hasPrefixFold(name, known)
}

// hasPrefixFold compares ASCII letters without their case.
func hasPrefixFold[T string | []byte](name T, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(name[i]) != lower(prefix[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
