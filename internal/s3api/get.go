package s3api

import (
	"errors"
	"net/http"
	"strconv"

	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

func objectOperations() []*operation {
	return []*operation{
		{name: "GetObject", scope: ofObject, method: http.MethodGet, action: "s3:GetObject", versionAction: "s3:GetObjectVersion", handle: (*API).getObject},
		{name: "HeadObject", scope: ofObject, method: http.MethodHead, action: "s3:GetObject", versionAction: "s3:GetObjectVersion", handle: (*API).headObject},
		{name: "PutObject", scope: ofObject, method: http.MethodPut, action: "s3:PutObject", handle: (*API).putObject},
		{name: "CopyObject", scope: ofObject, method: http.MethodPut, header: "x-amz-copy-source", action: "s3:PutObject", handle: (*API).copyObject},
		{
			name: "GetObjectAttributes", scope: ofObject, method: http.MethodGet, with: []string{"attributes"},
			action: "s3:GetObjectAttributes", versionAction: "s3:GetObjectVersionAttributes", handle: (*API).getAttributes,
		},
	}
}

// getObject sends an object, a range of it or one of its parts.
func (a *API) getObject(c *call) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	wanted, part, err := c.wanted(name)
	if err != nil {
		return err
	}
	reader, part, err := c.open(name, wanted, part)
	if err != nil {
		return c.unlisted(err)
	}
	defer reader.Close()
	info := reader.Info()
	if number := c.wantedPart(); number > 0 && part {
		if now, err := partOf(&info, number); err != nil || now != wanted {
			return a.getObject(c) // it was replaced by one with other parts
		}
	}
	if done, err := c.weigh(&info); done || err != nil {
		return err
	}
	if err := c.present(&info); err != nil {
		return err
	}
	offset, length := reader.Bounds()
	c.Measure(offset, length, info.Size, part)
	c.showChecksum(&info, part)
	n, err := reader.WriteTo(c)
	if err == nil && n != length {
		err = object.Errorf(object.Corrupt, "%s gave %d bytes of %d", name, n, length)
	}
	return err
}

// headObject describes an object.
func (a *API) headObject(c *call) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	wanted, part, err := c.wanted(name)
	if err != nil {
		return err
	}
	info, err := a.node.Stat(c.R.Context(), name)
	if err != nil {
		return c.unlisted(err)
	}
	if done, err := c.weigh(&info); done || err != nil {
		return err
	}
	if part && !door.RangeApplies(c.R.Header, info) {
		wanted, part = object.Range{}, false
	}
	offset, length, err := wanted.Resolve(info.Size)
	if err != nil {
		return err
	}
	if err := c.present(&info); err != nil {
		return err
	}
	c.Measure(offset, length, info.Size, part)
	c.showChecksum(&info, part)
	return nil
}

// present sets the headers that describe an object to who reads it.
func (c *call) present(info *object.Info) error {
	c.describe(info)
	if facts, ok, err := c.api.node.Facts(c.R.Context(), *info); err != nil {
		return err
	} else if ok {
		delete(c.Header(), "X-Amz-Tagging-Count")
		if len(facts.Tags) > 0 {
			c.Header()["X-Amz-Tagging-Count"] = c.Value(strconv.Itoa(len(facts.Tags)))
		}
	}
	if c.has("partNumber") {
		if n := partCount(info.ETag); n > 0 {
			c.Header()["X-Amz-Mp-Parts-Count"] = c.Value(strconv.Itoa(n))
		}
	}
	return c.override()
}

// unlisted keeps who may not list a bucket from learning which keys it has not.
func (c *call) unlisted(err error) error {
	if object.Is(err, object.NotFound) && !c.user.Root {
		if c.may("s3:ListBucket", c.about.Access, object.Name{Bucket: c.bucket}) != nil {
			return fault(accessDenied)
		}
	}
	return err
}

// wanted returns what a read asks for: a range, or a part by its number.
func (c *call) wanted(name object.Name) (object.Range, bool, error) {
	if !c.has("partNumber") {
		wanted, part, err := c.Range()
		if err != nil {
			return object.Range{}, false, nil // S3 takes a malformed range for none
		}
		return wanted, part, nil
	}
	number, err := c.partNumber()
	if err != nil {
		return object.Range{}, false, err
	}
	if c.R.Header["Range"] != nil {
		return object.Range{}, false, faultf(invalidRequest, "Cannot specify both Range header and partNumber query parameter")
	}
	info, err := c.api.node.Stat(c.R.Context(), name)
	if err != nil {
		return object.Range{}, false, c.unlisted(err)
	}
	wanted, err := partOf(&info, number)
	return wanted, wanted != object.Range{}, err
}

// wantedPart returns the number of the part that a read asks for, zero if it asks for
// none.
func (c *call) wantedPart() int {
	if !c.has("partNumber") {
		return 0
	}
	number, _ := c.partNumber() // it is one, or wanted would have said so
	return number
}

// open opens what is wanted. Conditions go before ranges: if they fail, or If-Range
// says that the client has another object, the range does not matter, even when it lies
// outside.
func (c *call) open(name object.Name, wanted object.Range, part bool) (object.Reader, bool, error) {
	ctx, h := c.R.Context(), c.R.Header
	reader, err := c.api.node.Open(ctx, name, wanted)
	if !part || (err != nil && !isOutside(err)) || (h["If-Range"] == nil && !door.Conditional(h)) {
		return reader, part, err
	}
	var info object.Info
	if err == nil {
		info = reader.Info()
	} else if info, err = c.api.node.Stat(ctx, name); err != nil {
		return nil, false, err
	}
	if door.RangeApplies(h, info) && door.ReadVerdict(h, info) == door.Proceed {
		if reader == nil {
			reader, err = c.api.node.Open(ctx, name, wanted)
		}
		return reader, true, err
	}
	if reader != nil {
		reader.Close() //nolint:errcheck // opened for reading
	}
	reader, err = c.api.node.Open(ctx, name, object.Range{})
	return reader, false, err
}

func isOutside(err error) bool {
	var outside *object.RangeError
	return errors.As(err, &outside)
}

// weigh answers a read whose conditions do not let it go on.
func (c *call) weigh(info *object.Info) (done bool, err error) {
	if !door.Conditional(c.R.Header) {
		return false, nil
	}
	switch door.ReadVerdict(c.R.Header, *info) {
	case door.NotModified:
		c.describe(info)
		c.Status = http.StatusNotModified
		return true, nil
	case door.Failed:
		return false, fault(preconditionFailed)
	}
	return false, nil
}
