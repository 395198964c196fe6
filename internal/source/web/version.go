package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// version is which state of an object an answer is about: the server's strong ETag, or
// one that is made from size and Last-Modified.
func version(h http.Header, size int64) (string, bool) {
	if tag := h.Get("ETag"); len(tag) > 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		return tag[1 : len(tag)-1], true
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return "", false
	}
	return dated + strconv.FormatInt(modified.Unix(), 16) + "-" + strconv.FormatInt(size, 16), true
}

// dated is how ETags begin that are ours and not the server's.
const dated = "modified-"

// require makes a request fail on another version. Not every server listens: the answer
// is looked at, too.
func require(h http.Header, etag string) {
	if rest, ok := strings.CutPrefix(etag, dated); ok {
		seconds, _, _ := strings.Cut(rest, "-")
		if at, err := strconv.ParseInt(seconds, 16, 64); err == nil {
			date := time.Unix(at, 0).UTC().Format(http.TimeFormat)
			h.Set("If-Unmodified-Since", date)
			if h.Get("Range") != "" {
				h.Set("If-Range", date)
			}
			return
		}
	}
	h.Set("If-Match", `"`+etag+`"`)
	if h.Get("Range") != "" {
		h.Set("If-Range", `"`+etag+`"`)
	}
}

// describe reads what a header says about an object of a known size.
func describe(name object.Name, h http.Header, size int64) (object.Info, error) {
	etag, ok := version(h, size)
	if !ok {
		return object.Info{}, object.Errorf(object.Invalid, "the source says neither ETag nor Last-Modified of %s: its states cannot be told apart", name)
	}
	info := object.Info{Name: name, Size: size, ETag: etag, ContentType: h.Get("Content-Type")}
	if modified, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		info.Modified = modified
	}
	return info, nil
}

// contentRange reads "bytes first-last/size" and "bytes */size", where first is -1.
func contentRange(h http.Header) (first, last, size int64, ok bool) {
	text, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	span, total, found := strings.Cut(text, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if !ok || !found || err != nil || size < 0 {
		return 0, 0, 0, false
	}
	if span == "*" {
		return -1, -1, size, true
	}
	from, to, _ := strings.Cut(span, "-")
	first, err = strconv.ParseInt(from, 10, 64)
	if err != nil {
		return 0, 0, 0, false
	}
	last, err = strconv.ParseInt(to, 10, 64)
	return first, last, size, err == nil && first >= 0 && first <= last && last < size
}
