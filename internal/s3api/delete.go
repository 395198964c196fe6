package s3api

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

func deleteOperations() []*operation {
	return []*operation{
		{
			name: "DeleteObject", scope: ofObject, method: http.MethodDelete,
			action: "s3:DeleteObject", versionAction: "s3:DeleteObjectVersion", handle: (*API).deleteObject,
		},
		{name: "DeleteObjects", scope: ofBucket, method: http.MethodPost, with: []string{"delete"}, handle: (*API).deleteObjects},
	}
}

// deletion is an object, or a version of one, that is to be deleted if it is as the
// client thinks.
type deletion struct {
	name     object.Name
	etag     string    // "*" for any; empty: it does not matter
	modified time.Time // to the second; zero: it does not matter
	size     int64     // -1: it does not matter
}

func (d *deletion) conditional() bool { return d.etag != "" || !d.modified.IsZero() || d.size >= 0 }

// matches reports whether an object is as the client thinks.
func (d *deletion) matches(info *object.Info) bool {
	return (d.etag == "" || d.etag == "*" || d.etag == info.ETag) && (d.size < 0 || d.size == info.Size) &&
		(d.modified.IsZero() || d.modified.Equal(info.Modified.Truncate(time.Second)))
}

// remove deletes. What is not there need not be deleted, whatever the client thinks of
// it, and is no error.
func (c *call) remove(d deletion) (node.Removed, error) {
	ctx := c.R.Context()
	var cond object.Condition
	if d.conditional() {
		info, err := c.api.node.Stat(ctx, d.name)
		switch {
		case object.IsMarker(err): // which has neither ETag nor size
			if d.etag != "*" || !d.modified.IsZero() || d.size >= 0 {
				return node.Removed{}, fault(preconditionFailed)
			}
			if d.name.ID == (object.Version{}) {
				return node.Removed{}, nil
			}
		case object.Is(err, object.NotFound):
			return node.Removed{}, nil
		case err != nil:
			return node.Removed{}, err
		case !d.matches(&info):
			return node.Removed{}, fault(preconditionFailed)
		default:
			cond.IfMatch = info.ETag // it may be replaced before it is deleted
		}
	}
	removed, err := c.api.node.Remove(ctx, d.name, cond)
	if object.Is(err, object.NotFound) {
		return node.Removed{}, nil
	}
	return removed, err
}

// deleteObject deletes one object, or one version of it.
func (a *API) deleteObject(c *call) error {
	d, err := c.deletion()
	if err != nil {
		return err
	}
	removed, err := c.remove(d)
	if err != nil {
		return err
	}
	h := c.Header()
	if removed.Marker {
		h["X-Amz-Delete-Marker"] = []string{"true"}
	}
	if removed.Marker || c.has("versionId") {
		id := removed.ID
		if c.has("versionId") {
			id = d.name.ID
		}
		h["X-Amz-Version-Id"] = c.Value(versionID(id))
	}
	c.Status = http.StatusNoContent
	return nil
}

// deletion reads what a request wants to have deleted.
func (c *call) deletion() (d deletion, err error) {
	if d.name, err = c.name(); err != nil {
		return d, err
	}
	if err := c.refuseMFA(); err != nil {
		return d, err
	}
	cond, err := door.WriteCondition(c.R.Header)
	if err != nil || cond.IfNoneMatch != "" {
		return d, faultf(notImplemented, "A delete can only depend on If-Match with one ETag")
	}
	d.etag = cond.IfMatch
	if d.modified, err = parseModified(c.amz("X-Amz-If-Match-Last-Modified-Time")); err != nil {
		return d, err
	}
	d.size, err = parseSize(c.amz("X-Amz-If-Match-Size"))
	return d, err
}

// refuseMFA says no to who relies on a second factor: nobody would look at it.
func (c *call) refuseMFA() error {
	if c.amz("X-Amz-Mfa") != "" {
		return faultf(notImplemented, "x-amz-mfa is not implemented")
	}
	return nil
}

func parseModified(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := http.ParseTime(text)
	if err != nil {
		if t, err = time.Parse(time.RFC3339, text); err != nil {
			return t, faultf(invalidArgument, "%.40q is no time", text)
		}
	}
	return t.Truncate(time.Second), nil
}

func parseSize(text string) (int64, error) {
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return n, faultf(invalidArgument, "%.40q is no size", text)
	}
	return n, nil
}

// deleteList is the document with which many objects are deleted.
type deleteList struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool
	Objects []deleteItem `xml:"Object"`
}

type deleteItem struct {
	Key              string
	VersionID        string `xml:"VersionId"`
	ETag             string
	LastModifiedTime string
	Size             string
}

const (
	maxDelete     = 1000 // objects in one request
	maxDeleteList = 4 << 20
	// deletesAtOnce share the syncing of the log.
	deletesAtOnce = 64
)

// deleteObjects deletes many objects and says how each fared, in the order in which
// they were asked for. Each needs its own right.
func (a *API) deleteObjects(c *call) error {
	if c.R.Header["Content-Md5"] == nil && c.signed.Announced() == checksum.None {
		return faultf(invalidRequest, "Missing required header for this request: Content-MD5")
	}
	if err := c.refuseMFA(); err != nil {
		return err
	}
	if c.signed.Anonymous && c.about.Access.Policy == "" && c.about.Access.ACL != auth.PublicReadWrite {
		return fault(accessDenied) // none of them, so the list need not be read
	}
	var list deleteList
	if err := c.readXML(&list, maxDeleteList); err != nil {
		return err
	}
	if len(list.Objects) == 0 || len(list.Objects) > maxDelete {
		return faultf(malformedXML, "There are %d objects; from 1 to %d can be deleted at once", len(list.Objects), maxDelete)
	}
	type outcome struct {
		removed node.Removed
		err     error
	}
	outcomes := make([]outcome, len(list.Objects))
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	for i := range list.Objects {
		group.Go(func() error {
			outcomes[i].removed, outcomes[i].err = c.deleteOne(&list.Objects[i])
			return nil
		})
	}
	group.Wait() //nolint:errcheck // each has its own
	c.BodyDone()
	x := newXML("DeleteResult")
	for i, item := range list.Objects {
		if outcomes[i].err != nil {
			c.reportFailed(x, &item, outcomes[i].err)
		} else if !list.Quiet {
			item.report(x, outcomes[i].removed)
		}
	}
	return c.send(x)
}

// deleteOne deletes one of many. It is called concurrently.
func (c *call) deleteOne(item *deleteItem) (node.Removed, error) {
	d := deletion{name: object.Name{Bucket: c.bucket, Key: item.Key}, etag: door.Unquote(item.ETag)}
	if err := validKey(item.Key); err != nil {
		return node.Removed{}, err
	}
	action := "s3:DeleteObject"
	var err error
	if item.VersionID != "" {
		action = "s3:DeleteObjectVersion"
		if d.name.ID, err = parseVersionID(item.VersionID); err != nil {
			return node.Removed{}, err
		}
	}
	if d.modified, err = parseModified(item.LastModifiedTime); err != nil {
		return node.Removed{}, err
	}
	if d.size, err = parseSize(item.Size); err != nil {
		return node.Removed{}, err
	}
	if err := c.allow(action, d.name); err != nil {
		return node.Removed{}, err
	}
	return c.remove(d)
}

func (item *deleteItem) report(x *xmlWriter, removed node.Removed) {
	x.begin("Deleted")
	x.text("Key", item.Key)
	x.optional("VersionId", item.VersionID)
	if removed.Marker {
		x.boolean("DeleteMarker", true)
		x.text("DeleteMarkerVersionId", versionID(removed.ID))
	}
	x.end()
}

func (c *call) reportFailed(x *xmlWriter, item *deleteItem, err error) {
	f := c.asS3(err)
	if f.code == internalError {
		c.api.logError(c, err)
	}
	x.begin("Error")
	x.text("Key", item.Key)
	x.optional("VersionId", item.VersionID)
	x.text("Code", f.name)
	x.text("Message", f.message())
	x.end()
}
