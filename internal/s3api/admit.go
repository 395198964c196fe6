package s3api

import (
	"net"
	"net/http"
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
	return a.refused(c.may(action, c.about.Access, object.Name{Bucket: c.bucket, Key: c.key}, nil))
}

func (a *API) refused(err error) error {
	if err != nil {
		a.metrics.refusedAccess.Inc()
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
	return c.api.refused(c.may(action, about.Access, name, nil))
}

// may asks package auth. What an object itself allows is only looked at if nothing else
// does.
func (c *call) may(action string, access object.Access, name object.Name, tags map[string]string) error {
	r := auth.Request{Request: policy.Request{
		Action: action, Bucket: name.Bucket, Key: name.Key, Time: c.Start,
	}}
	if access.Policy != "" { // nothing else has conditions
		r.Context = func(key string) ([]string, bool) { return c.condition(key, name) }
	}
	err := c.api.authority.Allowed(c.user, access, r)
	if err == nil || name.Key == "" {
		return err
	}
	info, found := c.api.node.Stat(c.R.Context(), name)
	if found != nil {
		return err
	}
	acl := info.Metadata[metaACL]
	if facts, ok, _ := c.api.node.Facts(c.R.Context(), info); ok && facts.ACL != "" {
		acl = facts.ACL
	}
	r.ObjectACL, r.ObjectOwner = acl, info.Metadata[metaOwner]
	return c.api.authority.Allowed(c.user, access, r)
}

// condition tells what a condition key of a policy is in this request.
func (c *call) condition(key string, name object.Name) ([]string, bool) {
	one := func(value string) ([]string, bool) { return []string{value}, value != "" }
	if tag, ok := strings.CutPrefix(key, "s3:ExistingObjectTag/"); ok {
		tags, err := c.tagsOf(name)
		value, has := tags[tag]
		return []string{value}, err == nil && has
	}
	if tag, ok := strings.CutPrefix(key, "s3:RequestObjectTag/"); ok {
		tags, err := parseTags(c.amz("X-Amz-Tagging"))
		value, has := tags[tag]
		return []string{value}, err == nil && has
	}
	if header, ok := strings.CutPrefix(key, "s3:x-amz-"); ok {
		return one(c.amz(http.CanonicalHeaderKey("x-amz-" + header)))
	}
	switch key {
	case "s3:RequestObjectTagKeys":
		tags, err := parseTags(c.amz("X-Amz-Tagging"))
		var keys []string
		for tag := range tags {
			keys = append(keys, tag)
		}
		return keys, err == nil && len(keys) > 0
	case "s3:prefix", "s3:delimiter", "s3:max-keys":
		value, ok := c.param(strings.TrimPrefix(key, "s3:"))
		return []string{value}, ok
	case "s3:VersionId":
		value, ok := c.param("versionId")
		return []string{value}, ok
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
		return one("AWS4-HMAC-SHA256")
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
