package web

import (
	"context"
	"math"
	"net/http"
	"strconv"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

func check(ctx context.Context, key string) error {
	if err := object.ValidateKey(key); err != nil {
		return err
	}
	if !Possible(key) {
		return object.Errorf(object.NotFound, "%q cannot be a path on a web server", key)
	}
	return ctx.Err()
}

// Stat implements object.Source. It asks by HEAD, and for the first byte where a server
// does not answer that, or not with a length.
func (s *Source) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	if err := check(ctx, name.Key); err != nil {
		return object.Info{}, err
	}
	a, err := s.ask(ctx, http.MethodHead, name.Key, nil)
	if err != nil {
		return object.Info{}, err
	}
	defer a.drop()
	switch {
	case a.StatusCode == http.StatusMethodNotAllowed, a.StatusCode == http.StatusNotImplemented,
		a.StatusCode == http.StatusOK && a.ContentLength < 0:
		return s.statByRange(ctx, name)
	case a.StatusCode != http.StatusOK:
		return object.Info{}, s.refusal(name.Key, a)
	}
	return describe(name, a.Header, a.ContentLength)
}

func (s *Source) statByRange(ctx context.Context, name object.Name) (object.Info, error) {
	a, err := s.ask(ctx, http.MethodGet, name.Key, http.Header{"Range": {"bytes=0-0"}})
	if err != nil {
		return object.Info{}, err
	}
	defer a.drop()
	size := a.ContentLength
	switch a.StatusCode {
	case http.StatusOK:
	case http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		_, _, total, ok := contentRange(a.Header)
		if size = total; !ok {
			size = -1
		}
	default:
		return object.Info{}, s.refusal(name.Key, a)
	}
	if size < 0 {
		return object.Info{}, unsized(name)
	}
	return describe(name, a.Header, size)
}

func unsized(name object.Name) error {
	return object.Errorf(object.Invalid, "the source does not say how long %s is", name)
}

// Open implements object.Source.
func (s *Source) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	return s.open(ctx, name, r, "")
}

// OpenVersion implements source.Source.
func (s *Source) OpenVersion(ctx context.Context, name object.Name, r object.Range, etag string) (object.Reader, error) {
	if etag == "" {
		return nil, object.Errorf(object.Invalid, "%s is asked for by no ETag", name)
	}
	return s.open(ctx, name, r, etag)
}

func (s *Source) open(ctx context.Context, name object.Name, r object.Range, etag string) (object.Reader, error) {
	if err := check(ctx, name.Key); err != nil {
		return nil, err
	}
	if r.Length < 0 {
		return nil, s.outside(ctx, name, r)
	}
	header := http.Header{}
	if r != (object.Range{}) {
		header.Set("Range", rangeHeader(r))
	}
	if etag != "" {
		require(header, etag)
	}
	a, err := s.ask(ctx, http.MethodGet, name.Key, header)
	if err != nil {
		return nil, err
	}
	body, err := s.body(ctx, a, name, r, etag)
	if err != nil {
		a.drop()
		return nil, err
	}
	return body, nil
}

// rangeHeader asks for at least the range, in terms that need no size.
func rangeHeader(r object.Range) string {
	switch {
	case r.Offset < 0:
		return "bytes=" + strconv.FormatInt(r.Offset, 10)
	case r.Length == 0 || r.Length > math.MaxInt64-r.Offset:
		return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-"
	}
	return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-" + strconv.FormatInt(r.Offset+r.Length-1, 10)
}

// outside returns the error for a range that lies outside, which tells the size.
func (s *Source) outside(ctx context.Context, name object.Name, r object.Range) error {
	info, err := s.Stat(ctx, name)
	if err == nil {
		_, _, err = r.Resolve(info.Size)
	}
	if err == nil { // it has grown in between
		err = object.Errorf(object.Stale, "%s is changing", name)
	}
	return err
}

// body looks at the answer to a GET, and makes it a reader of the range.
func (s *Source) body(ctx context.Context, a *answer, name object.Name, r object.Range, etag string) (object.Reader, error) {
	var first, last, size int64
	switch a.StatusCode {
	case http.StatusOK:
		size = a.ContentLength
		if last = size - 1; size < 0 {
			return nil, unsized(name)
		}
	case http.StatusPartialContent:
		var ok bool
		if first, last, size, ok = contentRange(a.Header); !ok || first < 0 {
			return nil, object.Errorf(object.Corrupt, "the source does not say which range of %s it sends", name)
		}
		if a.ContentLength >= 0 && a.ContentLength != last-first+1 {
			return nil, object.Errorf(object.Corrupt, "the source announces %d bytes of %s as a range of %d", a.ContentLength, name, last-first+1)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return nil, s.outside(ctx, name, r)
	default:
		return nil, s.refusal(name.Key, a)
	}
	info, err := describe(name, a.Header, size)
	if err != nil {
		return nil, err
	}
	if etag != "" && info.ETag != etag {
		return nil, object.Errorf(object.Stale, "%s has ETag %s, not %s", name, info.ETag, etag)
	}
	offset, length, err := r.Resolve(size)
	if err != nil {
		return nil, err
	}
	if first > offset || last < offset+length-1 || (a.StatusCode == http.StatusPartialContent && first != offset) {
		return nil, object.Errorf(object.Corrupt, "the source sends bytes %d to %d of %s, not %d at %d", first, last, name, length, offset)
	}
	if offset-first > s.opts.MaxSkip {
		return nil, object.Errorf(object.Invalid, "the source knows no ranges, and %d bytes come before the one of %s", offset, name)
	}
	body := source.NewBody(ctx, source.Whole{Info: info, Offset: offset, Length: length}, a.Body,
		source.BodyOptions{Idle: s.opts.IdleTimeout, Cancel: a.cancel, Open: last > offset+length-1})
	if skip := offset - first; skip > 0 {
		if err := body.Skip(skip); err != nil {
			return nil, err
		}
	}
	return body, nil
}
