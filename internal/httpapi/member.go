package httpapi

import (
	"net/url"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// member returns which file inside the object is asked for, none if the object
// itself is.
func (x *exchange) member() (string, error) {
	if x.R.URL.RawQuery == "" {
		return "", nil
	}
	values, err := url.ParseQuery(x.R.URL.RawQuery)
	if err != nil {
		return "", object.Errorf(object.Invalid, "the parameters are badly written: %v", err)
	}
	if len(values) != 1 || len(values["member"]) != 1 || values["member"][0] == "" {
		return "", object.Errorf(object.Invalid, "this request takes one parameter, member, the path of a file inside a tar, not %.80q", x.R.URL.RawQuery)
	}
	return values["member"][0], nil
}

// describeMember returns what a file inside a tar looks like as an object. ETag,
// version and time are those of the tar.
func describeMember(m node.Member) object.Info {
	a := m.Archive
	return object.Info{Name: a.Name, Version: a.Version, ETag: a.ETag, Modified: a.Modified, Size: m.Size, CRC32: m.CRC32}
}

// getMember sends a file inside a tar, or a range of it.
func (a *API) getMember(x *exchange, path string) error {
	wanted, part, err := x.Range()
	if err != nil {
		return err
	}
	m, reader, err := a.node.OpenMember(x.R.Context(), x.name, path, wanted)
	if part && (isOutside(err) || err == nil) && !door.RangeApplies(x.R.Header, describeMember(m)) {
		if reader != nil {
			reader.Close() //nolint:errcheck // opened for reading
		}
		part = false
		m, reader, err = a.node.OpenMember(x.R.Context(), x.name, path, object.Range{})
	}
	if err != nil && !isOutside(err) {
		return err
	}
	if reader != nil {
		defer reader.Close()
	}
	info := describeMember(m)
	if done, failed := x.weigh(&info); done || failed != nil {
		return failed
	}
	if err != nil { // conditions go before ranges
		return err
	}
	x.describe(&info)
	if reader == nil {
		x.Measure(0, 0, m.Size, false)
		x.SendHeader()
		return nil
	}
	return x.pour(reader, m.Offset, m.Size, part)
}

// headMember describes a file inside a tar.
func (a *API) headMember(x *exchange, path string) error {
	m, err := a.node.Member(x.R.Context(), x.name, path)
	if err != nil {
		return err
	}
	info := describeMember(m)
	if done, err := x.weigh(&info); done || err != nil {
		return err
	}
	x.describe(&info)
	x.Measure(0, info.Size, info.Size, false)
	x.SendHeader()
	return nil
}
