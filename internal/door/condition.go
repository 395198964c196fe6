package door

import (
	"net/http"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// WriteCondition reads If-Match and If-None-Match of a write. Dates make poor
// conditions for writes (two writes fit in one second), so they are refused
// rather than ignored.
func WriteCondition(h http.Header) (object.Condition, error) {
	if h["If-Unmodified-Since"] != nil {
		return object.Condition{}, object.Errorf(object.Invalid, "If-Unmodified-Since is not supported for writes; use If-Match with the ETag")
	}
	match, err := oneTag(h, "If-Match", true)
	if err != nil {
		return object.Condition{}, err
	}
	noneMatch, err := oneTag(h, "If-None-Match", false)
	return object.Condition{IfMatch: match, IfNoneMatch: noneMatch}, err
}

// oneTag returns the ETag in a header that may hold one, "*" as it stands. A weak
// tag never fits where strong comparison is asked, so it is kept with its mark,
// which no ETag of ours has.
func oneTag(h http.Header, header string, strong bool) (string, error) {
	values := h[header]
	if len(values) == 0 {
		return "", nil
	}
	tag := strings.TrimSpace(values[0])
	if len(values) > 1 || tag == "" || (strings.Contains(tag, ",") && tag != "*") {
		return "", object.Errorf(object.Invalid, "%s of a write takes one ETag or *", header)
	}
	if !strong {
		tag = strings.TrimPrefix(tag, "W/")
	}
	return Unquote(tag), nil
}

// Unquote takes the quotes off an ETag.
func Unquote(tag string) string {
	if len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		return tag[1 : len(tag)-1]
	}
	return tag // without quotes it is wrong, and common
}

// Verdict is what the conditions of a read come to.
type Verdict int

// The verdicts.
const (
	Proceed     Verdict = iota
	NotModified         // 304
	Failed              // 412
)

// Conditional reports whether a read has any conditions, so that the usual one
// does not look further.
func Conditional(h http.Header) bool {
	return h["If-Match"] != nil || h["If-None-Match"] != nil || h["If-Modified-Since"] != nil || h["If-Unmodified-Since"] != nil
}

// ReadVerdict weighs the conditions of a read in the order of RFC 9110, 13.2.2.
func ReadVerdict(h http.Header, info object.Info) Verdict {
	modified := info.Modified.Truncate(time.Second)
	if values := h["If-Match"]; values != nil {
		if !Matches(values, info.ETag, true) {
			return Failed
		}
	} else if since, ok := date(h, "If-Unmodified-Since"); ok && modified.After(since) {
		return Failed
	}
	if values := h["If-None-Match"]; values != nil {
		if Matches(values, info.ETag, false) {
			return NotModified
		}
	} else if since, ok := date(h, "If-Modified-Since"); ok && !modified.After(since) {
		return NotModified
	}
	return Proceed
}

// RangeApplies weighs If-Range: a part is only of use to a client that has the
// rest of the same object.
func RangeApplies(h http.Header, info object.Info) bool {
	value := h.Get("If-Range")
	if value == "" {
		return true
	}
	if strings.HasPrefix(value, `"`) {
		return Unquote(value) == info.ETag
	}
	since, err := http.ParseTime(value)
	return err == nil && info.Modified.Truncate(time.Second).Equal(since)
}

// Matches reports whether one of the tags in the lists is the given one.
func Matches(values []string, etag string, strong bool) bool {
	for _, list := range values {
		for tag := range strings.SplitSeq(list, ",") {
			tag = strings.TrimSpace(tag)
			if !strong {
				tag = strings.TrimPrefix(tag, "W/")
			}
			if tag == "*" || (tag != "" && Unquote(tag) == etag) {
				return true
			}
		}
	}
	return false
}

func date(h http.Header, header string) (time.Time, bool) {
	if h[header] == nil {
		return time.Time{}, false
	}
	t, err := http.ParseTime(h.Get(header))
	return t, err == nil // an invalid date is ignored, says the RFC
}
