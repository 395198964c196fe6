package wire

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner takes JSON apart, as far as references need it. The text is known to be
// UTF-8.
type scanner struct {
	text string
	at   int
}

func (s *scanner) fail(format string, args ...any) error {
	return invalid("JSON at byte %d: "+format, append([]any{s.at}, args...)...)
}

// peek skips white space and returns the byte behind it, 0 at the end. A zero in
// the text fits nowhere outside strings, so the two need not be told apart.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take skips white space and c, if c is what follows.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// object takes an object; field takes the value of each of its fields.
func (s *scanner) object(field func(name string) error) error {
	if !s.take('{') {
		return s.fail("a { is missing")
	}
	if s.take('}') {
		return nil
	}
	for {
		name, err := s.string()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fail("a colon is missing")
		}
		if err := field(name); err != nil {
			return err
		}
		switch {
		case s.take(','):
		case s.take('}'):
			return nil
		default:
			return s.fail("a comma or } is missing")
		}
	}
}

// string takes a string. One without escapes, which is nearly all of them, is a
// piece of the text.
func (s *scanner) string() (string, error) {
	if !s.take('"') {
		return "", s.fail("a string is missing")
	}
	for i := s.at; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			piece := s.text[s.at:i]
			s.at = i + 1
			return piece, nil
		case c == '\\':
			return s.escaped()
		case c < ' ':
			s.at = i
			return "", s.fail("a control character in a string")
		}
	}
	s.at = len(s.text)
	return "", s.fail("a string does not end")
}

// escaped takes the rest of a string that has escapes.
func (s *scanner) escaped() (string, error) {
	var out strings.Builder
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '"':
			s.at++
			return out.String(), nil
		case c < ' ':
			return "", s.fail("a control character in a string")
		case c != '\\':
			out.WriteByte(c)
			s.at++
		default:
			r, ok := s.escape()
			if !ok {
				return "", s.fail("a wrong escape in a string")
			}
			out.WriteRune(r)
		}
	}
	return "", s.fail("a string does not end")
}

// escape takes one escape; of a character beyond 16 bits, both halves.
func (s *scanner) escape() (rune, bool) {
	if len(s.text)-s.at < 2 {
		return 0, false
	}
	if c := s.text[s.at+1]; c != 'u' {
		i := strings.IndexByte(`"\/bfnrt`, c)
		if i < 0 {
			return 0, false
		}
		s.at += 2
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	r, ok := s.unit()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	second, ok := s.unit()
	if !ok {
		return 0, false
	}
	r = utf16.DecodeRune(r, second)
	return r, r != utf8.RuneError
}

// unit takes \u and four digits.
func (s *scanner) unit() (rune, bool) {
	if len(s.text)-s.at < 6 || s.text[s.at:s.at+2] != `\u` {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s.text[s.at+2 : s.at+6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.at += 6
	return r, true
}

// integer takes a number without fraction and exponent.
func (s *scanner) integer() (int64, error) {
	first := s.peek()
	from := s.at
	if first == '-' {
		s.at++
	}
	digits := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	n, err := strconv.ParseInt(s.text[from:s.at], 10, 64)
	if err != nil || (s.text[digits] == '0' && s.at-digits > 1) {
		s.at = from
		return 0, s.fail("an integer of 64 bits is missing")
	}
	// A fraction or exponent fails at the comma that does not follow.
	return n, nil
}
