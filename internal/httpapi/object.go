package httpapi

import (
	"errors"
	"net/http"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// getObject sends an object, or a part of it.
func (a *API) getObject(x *exchange) error {
	if path, err := x.member(); err != nil {
		return err
	} else if path != "" {
		return a.getMember(x, path)
	}
	reader, part, err := a.openObject(x)
	if err != nil {
		return err
	}
	defer reader.Close()
	info := reader.Info()
	if done, err := x.weigh(&info); done || err != nil {
		return err
	}
	x.describe(&info)
	return x.pour(reader, 0, info.Size, part)
}

// pour sends what a reader has, as all or a part of what begins at start in the
// object and has size bytes.
func (x *exchange) pour(reader object.Reader, start, size int64, part bool) error {
	offset, length := reader.Bounds()
	x.Measure(offset-start, length, size, part)
	n, err := reader.WriteTo(x)
	if err == nil && n != length {
		err = object.Errorf(object.Corrupt, "%s gave %d bytes of %d", x.name, n, length)
	}
	return err
}

// openObject opens what the Range header asks for. Conditions go before ranges:
// if they fail, or If-Range says that the client has another object, the range
// does not matter, even when it lies outside.
func (a *API) openObject(x *exchange) (reader object.Reader, part bool, err error) {
	ctx, h := x.R.Context(), x.R.Header
	wanted, part, err := x.Range()
	if err != nil {
		return nil, false, err
	}
	reader, err = a.node.Open(ctx, x.name, wanted)
	if !part || (err != nil && !isOutside(err)) {
		return reader, false, err
	}
	if h["If-Range"] == nil && !door.Conditional(h) {
		return reader, true, err
	}
	var info object.Info
	if err == nil {
		info = reader.Info()
	} else if info, err = a.node.Stat(ctx, x.name); err != nil {
		return nil, false, err
	}
	if door.RangeApplies(h, info) && door.ReadVerdict(h, info) == door.Proceed {
		if reader == nil {
			_, _, err = wanted.Resolve(info.Size)
		}
		if reader != nil || err != nil {
			return reader, true, err
		}
		reader, err = a.node.Open(ctx, x.name, wanted) // it has grown meanwhile
		return reader, true, err
	}
	if reader != nil {
		reader.Close()
	}
	reader, err = a.node.Open(ctx, x.name, object.Range{})
	return reader, false, err
}

func isOutside(err error) bool {
	var outside *object.RangeError
	return errors.As(err, &outside)
}

// weigh answers a read whose conditions do not let it go on.
func (x *exchange) weigh(info *object.Info) (done bool, err error) {
	if !door.Conditional(x.R.Header) {
		return false, nil
	}
	switch door.ReadVerdict(x.R.Header, *info) {
	case door.NotModified:
		x.describe(info)
		x.WriteHeader(http.StatusNotModified)
		return true, nil
	case door.Failed:
		return false, object.Errorf(object.Stale, "%s has ETag %s and was modified at %s", x.name, info.ETag, info.Modified.UTC().Format(http.TimeFormat))
	}
	return false, nil
}

// headObject describes an object.
func (a *API) headObject(x *exchange) error {
	if path, err := x.member(); err != nil {
		return err
	} else if path != "" {
		return a.headMember(x, path)
	}
	info, err := a.node.Stat(x.R.Context(), x.name)
	if err != nil {
		return err
	}
	if done, err := x.weigh(&info); done || err != nil {
		return err
	}
	x.describe(&info)
	x.Measure(0, info.Size, info.Size, false)
	x.SendHeader()
	return nil
}

// putObject stores the body, or a copy of another object.
func (a *API) putObject(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	opts, err := putOptions(x.R.Header)
	if err != nil {
		return err
	}
	if x.source != (object.Name{}) {
		return a.copyObject(x, opts)
	}
	if x.R.ContentLength > a.door.Limits().Body {
		return door.TooLarge(a.door.Limits().Body)
	}
	opts.SizeHint = max(0, x.R.ContentLength)
	info, err := a.node.Put(x.R.Context(), x.name, x.Body(), opts)
	x.BodyDone()
	if err != nil {
		if x.BodyErr != nil {
			return x.BodyErr // the cause, whatever was made of it
		}
		return err
	}
	return x.stored(info)
}

func (a *API) copyObject(x *exchange, opts object.PutOptions) error {
	if x.R.ContentLength != 0 || opts.CRC32 != nil {
		return object.Errorf(object.Invalid, "a copy takes neither a body nor %s", headerCRC32)
	}
	// Who may use an object, and to whom it belongs, is not for its copies.
	opts.Inherit = func(key string) bool { return key != "Acl" && key != "Owner" && key != "Tagging" && key != "Upload" }
	info, err := a.node.Copy(x.R.Context(), x.name, x.source, opts)
	if err != nil {
		return err
	}
	return x.stored(info)
}

// stored answers a write with what it stored.
func (x *exchange) stored(info object.Info) error {
	x.stamp(&info)
	return x.respond(http.StatusOK, newObjectJSON(info))
}

func (a *API) deleteObject(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	cond, err := door.WriteCondition(x.R.Header)
	if err != nil {
		return err
	}
	if err := a.node.Delete(x.R.Context(), x.name, cond); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// noQuery refuses parameters where there are none. Ignoring one would mean to
// answer a question that was not asked.
func (x *exchange) noQuery() error {
	if x.R.URL.RawQuery == "" {
		return nil
	}
	return object.Errorf(object.Invalid, "this request takes no parameters, not %.80q", x.R.URL.RawQuery)
}
