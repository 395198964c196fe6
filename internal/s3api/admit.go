package s3api

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
)

// admit finds out who calls and whether he may. It is the only place that does so for
// what a request names; handlers ask call.allow for the rest.
func (a *API) admit(c *call) error {
	if !c.signed.Anonymous {
		user, _, ok := a.authority.Key(c.signed.AccessKey)
		if !ok {
			return fault(accessDenied) // it was withdrawn since the signature was checked
		}
		c.user = user
	}
	if c.op.scope != ofService && !c.op.makes {
		about, err := a.node.Bucket(c.bucket)
		if err != nil {
			return noBucket(c.bucket, err)
		}
		c.about = about
		if wanted := c.amz("X-Amz-Expected-Bucket-Owner"); wanted != "" && wanted != auth.Owner(about.Access) {
			return a.refused(fault(accessDenied))
		}
	}
	if c.op.action == "" {
		return nil
	}
	action := c.op.action
	if c.op.versionAction != "" && c.has("versionId") {
		action = c.op.versionAction
	}
	name, err := c.name() // each version has its own ACL and tags
	if err == nil {
		err = c.may(action, c.about.Access, name)
	}
	if err == nil {
		return nil
	}
	if missing := c.missing(); missing != nil {
		return missing
	}
	return a.refused(err)
}

// missing returns NotFound to who may not read an object that is not there, if he may
// list the bucket and learn it anyway.
func (c *call) missing() error {
	if (c.op.name != "GetObject" && c.op.name != "HeadObject") || c.has("versionId") {
		return nil
	}
	_, err := c.api.node.Stat(c.R.Context(), object.Name{Bucket: c.bucket, Key: c.key})
	if !object.Is(err, object.NotFound) || c.may("s3:ListBucket", c.about.Access, object.Name{Bucket: c.bucket}) != nil {
		return nil
	}
	return err
}

func (a *API) refused(err error) error {
	if err != nil {
		a.metrics.RefusedAccess.Inc()
	}
	return err
}

func noBucket(bucket string, err error) error {
	if object.Is(err, object.NotFound) || object.Is(err, object.Invalid) {
		f := faultf(noSuchBucket, "The specified bucket does not exist")
		f.bucket = bucket
		return f
	}
	return err
}

// allow asks whether the caller may do something with an object other than that of the
// request, or something more with that.
func (c *call) allow(action string, name object.Name) error {
	about, err := c.api.node.Bucket(name.Bucket)
	if err != nil {
		return noBucket(name.Bucket, err)
	}
	return c.api.refused(c.may(action, about.Access, name))
}

// forbidden asks whether a policy forbids something that comes along with what the
// caller may do.
func (c *call) forbidden(action string, name object.Name) error {
	r, failed := c.request(action, c.about.Access, name)
	err := c.api.authority.Forbidden(c.user, c.about.Access, r)
	if *failed != nil {
		return *failed
	}
	return c.api.refused(err)
}

// may asks package auth. What an object itself allows is only looked at if nothing else
// does, and what cannot be looked at allows nothing.
func (c *call) may(action string, access object.Access, name object.Name) error {
	r, failed := c.request(action, access, name)
	r.Object = func() (acl, owner string, err error) {
		info, err := c.api.node.Stat(c.R.Context(), name)
		switch {
		case object.Is(err, object.NotFound), object.Is(err, object.Invalid):
			return "", "", nil // it is not there
		case err != nil:
			return "", "", err
		}
		facts, err := c.factsOf(info)
		return facts.ACL, info.Metadata[metaOwner], err
	}
	err := c.api.authority.Allowed(c.user, access, r)
	if *failed != nil {
		return *failed
	}
	return err
}

// request is what package auth is asked. If a condition is about something that cannot
// be read, failed says so, and the answer does not count.
func (c *call) request(action string, access object.Access, name object.Name) (r auth.Request, failed *error) {
	failed = new(error)
	r.Request = policy.Request{Action: action, Bucket: name.Bucket, Key: name.Key, Time: c.Start}
	if access.Policy != "" { // nothing else has conditions
		r.Context = func(key string) ([]string, bool) {
			values, ok, err := c.condition(key, name)
			if err != nil {
				*failed = err
			}
			return values, ok
		}
	}
	return r, failed
}

// condition tells what a condition key of a policy is in this request.
func (c *call) condition(key string, name object.Name) (values []string, has bool, err error) {
	if tag, ok := strings.CutPrefix(key, "s3:ExistingObjectTag/"); ok {
		tags, err := c.tagsOf(name)
		if object.Is(err, object.NotFound) || object.Is(err, object.Invalid) {
			err = nil // it is not there
		}
		value, has := tags[tag]
		return []string{value}, has, err
	}
	values, has = c.plainCondition(key, name)
	return values, has, nil
}

// plainCondition is condition for what stands in the request.
func (c *call) plainCondition(key string, name object.Name) ([]string, bool) {
	one := func(value string) ([]string, bool) { return []string{value}, value != "" }
	if tag, ok := strings.CutPrefix(key, "s3:RequestObjectTag/"); ok {
		value, has := c.tagsGiven()[tag]
		return []string{value}, has
	}
	if key == "s3:x-amz-copy-source" { // as it is meant, however it is written
		source, err := c.copySource()
		return []string{source.String()}, err == nil && c.amz("X-Amz-Copy-Source") != ""
	}
	if header, ok := strings.CutPrefix(key, "s3:x-amz-"); ok {
		return one(c.amz(http.CanonicalHeaderKey("x-amz-" + header)))
	}
	switch key {
	case "s3:RequestObjectTagKeys":
		keys := slices.Sorted(maps.Keys(c.tagsGiven()))
		return keys, len(keys) > 0
	case "s3:prefix", "s3:delimiter", "s3:max-keys":
		if key == "s3:prefix" && c.op.scope == ofObject { // whether he may list this key
			return one(c.key)
		}
		value, ok := c.param(strings.TrimPrefix(key, "s3:"))
		return []string{value}, ok
	case "s3:VersionId":
		if name.ID == (object.Version{}) {
			return nil, false
		}
		return one(versionID(name.ID))
	case "s3:authType":
		switch {
		case c.form != "":
			return one("POST")
		case c.signed.Anonymous:
			return nil, false
		case c.signed.Presigned:
			return one("REST-QUERY-STRING")
		}
		return one("REST-HEADER")
	case "s3:signatureversion":
		switch {
		case c.form != "":
			return one(c.form)
		case c.signed.Anonymous:
			return nil, false
		}
		return one(signatureVersion(c.signed.Version2))
	case "s3:if-match":
		return one(c.R.Header.Get("If-Match"))
	case "s3:if-none-match":
		return one(c.R.Header.Get("If-None-Match"))
	case "aws:Referer":
		return one(c.R.Referer())
	case "aws:UserAgent":
		return one(c.R.UserAgent())
	case "aws:SecureTransport":
		return one(strconv.FormatBool(c.api.secure))
	case "aws:SourceIp":
		host, _, err := net.SplitHostPort(c.R.RemoteAddr)
		return []string{host}, err == nil
	}
	return nil, false
}

// signatureVersion is how policies call the way in which a request was signed.
func signatureVersion(version2 bool) string {
	if version2 {
		return "AWS"
	}
	return "AWS4-HMAC-SHA256"
}

// tagsGiven are the tags that the request gives an object.
func (c *call) tagsGiven() map[string]string {
	if c.tags != nil { // they came in the body
		return c.tags
	}
	switch c.op.name {
	case "PutObject", "CreateMultipartUpload", "PostObject":
	case "CopyObject":
		if c.amz("X-Amz-Tagging-Directive") != "REPLACE" {
			return nil
		}
	default:
		return nil
	}
	tags, _ := parseTags(c.amz("X-Amz-Tagging"))
	return tags
}
