package door

import (
	"math"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// ParseRange reads a Range header. part says whether the answer is to be a part
// of the object (206) or the whole of it (200).
//
// One range is served. Several are answered with the whole object, which RFC 9110
// allows, and so are units we do not know, as it demands. What is malformed is
// refused: whoever asks for ten bytes in a wrong way should not be sent a
// terabyte. What lies outside the object is found when it is opened.
func ParseRange(header string) (r object.Range, part bool, err error) {
	unit, set, ok := strings.Cut(header, "=")
	if !ok {
		return r, false, badRange(header)
	}
	if !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return r, false, nil
	}
	n := 0
	for spec := range strings.SplitSeq(set, ",") {
		if spec = strings.Trim(spec, " \t"); spec == "" {
			continue // an empty element of a list means nothing
		}
		if r, ok = parseSpec(spec); !ok {
			return object.Range{}, false, badRange(header)
		}
		n++
	}
	switch n {
	case 0:
		return object.Range{}, false, badRange(header)
	case 1:
		return r, true, nil
	}
	return object.Range{}, false, nil
}

func badRange(header string) error {
	return object.Errorf(object.Invalid, "Range %q is not like bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH", header)
}

// outside is a range that no object has; the store answers it with the size.
var outside = object.Range{Offset: math.MaxInt64, Length: 1}

// parseSpec reads one of "first-last", "first-" and "-length". A Length is always
// given, so that even "0-" of an empty object lies outside it, as in HTTP.
func parseSpec(spec string) (object.Range, bool) {
	first, last, ok := strings.Cut(spec, "-")
	if !ok {
		return object.Range{}, false
	}
	if first == "" {
		length, ok := parsePosition(last)
		if !ok {
			return object.Range{}, false
		}
		if length == 0 {
			return outside, true
		}
		return object.Range{Offset: -length, Length: math.MaxInt64}, true
	}
	from, ok := parsePosition(first)
	if !ok {
		return object.Range{}, false
	}
	if last == "" {
		return object.Range{Offset: from, Length: math.MaxInt64}, true
	}
	to, ok := parsePosition(last)
	if !ok || to < from {
		return object.Range{}, false
	}
	if to-from == math.MaxInt64 {
		to--
	}
	return object.Range{Offset: from, Length: to - from + 1}, true
}

// parsePosition reads digits; a number that does not fit is as good as the
// largest one that does.
func parsePosition(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// Range returns what the Range header asks for, and whether it asks for a part.
func (x *Exchange) Range() (wanted object.Range, part bool, err error) {
	values := x.R.Header["Range"]
	switch len(values) {
	case 0:
		return wanted, false, nil
	case 1:
		return ParseRange(values[0])
	}
	return wanted, false, object.Errorf(object.Invalid, "there are %d Range headers", len(values))
}
