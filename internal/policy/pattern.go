package policy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// pattern is a text with wildcards: runes, and the signs below in their places. A
// value that takes the place of a variable is never read as a wildcard.
type pattern []rune

const (
	anything rune = -1 - iota // *
	anyRune                   // ?
	userName                  // ${aws:username}
)

// patterns are some of which one must match, or none if except is set.
type patterns struct {
	except bool
	of     []pattern
}

func (p *patterns) match(text, user string) bool {
	in := slices.ContainsFunc(p.of, func(one pattern) bool { return one.match(text, user) })
	return in != p.except
}

// maxPattern is longer than the name of any object with all that stands before it.
const maxPattern = 1280

// parsePattern reads a pattern. Variables, which are text in documents of the old
// version, and wildcards mean something if they are asked for.
func parsePattern(text string, variables, wildcards bool) (pattern, error) {
	if len(text) > maxPattern {
		return nil, malformed("a pattern of %d bytes is longer than %d", len(text), maxPattern)
	}
	var p pattern
	for text != "" {
		if variables && strings.HasPrefix(text, "${") {
			name, rest, ok := strings.Cut(text[2:], "}")
			sign, known := variableSigns[strings.ToLower(name)]
			if !ok || !known {
				return nil, malformed("the variable in %.80q is not one of ${aws:username}, ${*}, ${?} and ${$}", text)
			}
			p, text = append(p, sign), rest
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case r == '*' && wildcards:
			r = anything
		case r == '?' && wildcards:
			r = anyRune
		}
		p = append(p, r)
	}
	return p, nil
}

var variableSigns = map[string]rune{"aws:username": userName, "*": '*', "?": '?', "$": '$'}

// match reports whether a text as a whole fits. A variable without a value, as for a
// caller without credentials, fits nothing.
func (p pattern) match(text, user string) bool {
	if slices.Contains(p, userName) {
		if user == "" {
			return false
		}
		var full pattern
		for _, r := range p {
			if r == userName {
				full = append(full, []rune(user)...)
			} else {
				full = append(full, r)
			}
		}
		p = full
	}
	// The last * takes as little as possible, and more if what follows does not fit;
	// those before it never need to be tried again.
	star, resume := -1, 0
	runes := []rune(text)
	i, at := 0, 0
	for at < len(runes) {
		switch {
		case i < len(p) && p[i] == anything:
			star, resume = i, at
			i++
		case i < len(p) && (p[i] == anyRune || p[i] == runes[at]):
			i++
			at++
		case star >= 0:
			resume++
			i, at = star+1, resume
		default:
			return false
		}
	}
	for i < len(p) && p[i] == anything {
		i++
	}
	return i == len(p)
}
