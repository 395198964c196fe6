package httpapi

import (
	"io"
	"mime"
	"net/http"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// maxRefsBody bounds the body of a batch's request: 65,536 references of 256 bytes.
const maxRefsBody = 16 << 20

// keptRefsBody is the largest whose memory is used again.
const keptRefsBody = 1 << 20

// batch answers many references at once, in frames or as a tar.
func (a *API) batch(x *exchange) error {
	x.BodyDone()
	items := a.node.Batch(x.R.Context(), x.refs)
	if x.R.Header.Get("Accept") == tarType {
		return x.sendTar(items)
	}
	f := a.frames.Get().(*frames)
	defer func() {
		f.release()
		a.frames.Put(f)
	}()
	f.begin(x, len(x.refs))
	if len(x.refs) == 0 {
		return f.end()
	}
	for item, err := range items {
		if err := f.add(&item, err); err != nil {
			return err
		}
	}
	return nil
}

// readRefs reads what a batch asks for.
func (x *exchange) readRefs() ([]object.Ref, error) {
	kind, err := x.contentType(jsonContent)
	if err != nil {
		return nil, err
	}
	parse := wire.ParseRefsJSON
	switch kind {
	case jsonContent, "application/x-www-form-urlencoded": // what curl -d says it is
	case wire.RefsType:
		parse = wire.ParseRefs
	default:
		return nil, unsupported(kind, jsonContent, wire.RefsType)
	}
	body := x.api.bodies.Get().(*[]byte)
	defer x.api.bodies.Put(body)
	text, err := x.readUpTo((*body)[:0], maxRefsBody)
	if err != nil {
		return nil, err
	}
	if cap(text) <= keptRefsBody {
		*body = text
	}
	return parse(text)
}

// contentType returns the kind of a request's body.
func (x *exchange) contentType(otherwise string) (string, error) {
	values := x.R.Header["Content-Type"]
	if len(values) == 0 {
		return otherwise, nil
	}
	kind, _, err := mime.ParseMediaType(values[0])
	if err != nil {
		return "", object.Errorf(object.Invalid, "Content-Type: %v", err)
	}
	return kind, nil
}

func unsupported(kind, first, second string) error {
	return &statusError{
		status: http.StatusUnsupportedMediaType, close: true,
		err: object.Errorf(object.Invalid, "the body may be %s or %s, not %.80q", first, second, kind),
	}
}

// readUpTo appends the whole body to b, in memory that grows with what comes.
func (x *exchange) readUpTo(b []byte, limit int) ([]byte, error) {
	r := x.Body()
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, door.TooLarge(int64(limit))
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
