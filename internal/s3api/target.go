package s3api

import (
	"net"
	"net/url"
	"strings"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// aim finds out what a request is about: nothing, a bucket, or an object. The bucket
// is in the host, or comes first in the path. Paths are not normalised: empty, "." and
// ".." are parts of keys like any other.
func (a *API) aim(c *call) error {
	path := strings.TrimPrefix(c.R.URL.EscapedPath(), "/")
	var inHost bool
	if c.bucket, inHost = a.bucketOf(c.R.Host); !inHost {
		c.bucket, path, _ = strings.Cut(path, "/")
	}
	var err error
	if c.bucket, err = url.PathUnescape(c.bucket); err == nil {
		c.key, err = url.PathUnescape(path)
	}
	if err != nil {
		return faultf(invalidURI, "the path of the request cannot be decoded")
	}
	if raw := c.R.URL.RawQuery; raw != "" {
		if c.query, err = url.ParseQuery(raw); err != nil {
			return faultf(invalidArgument, "the query of the request cannot be decoded")
		}
	}
	if c.key != "" {
		return validKey(c.key)
	}
	return nil
}

func validKey(key string) error {
	if len(key) > object.MaxKey {
		return fault(keyTooLong)
	}
	if err := object.ValidateKey(key); err != nil {
		return faultf(invalidURI, "%v", err)
	}
	return nil
}

// bucketOf returns the bucket in a host name.
func (a *API) bucketOf(host string) (string, bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	for _, domain := range a.domains {
		if bucket := strings.TrimSuffix(host, domain); len(bucket) < len(host) && bucket != "" {
			return bucket, true
		}
	}
	return "", false
}

// hostBucket is bucketOf for signatures.
func (a *API) hostBucket(host string) string {
	bucket, _ := a.bucketOf(host)
	return bucket
}

// parseVersionID reads the ID of a version as clients know it.
func parseVersionID(text string) (object.Version, error) {
	if text == nullVersion {
		return object.NullID, nil
	}
	id, ok := node.ParseID(text)
	if !ok {
		return id, faultf(invalidArgument, "Invalid version id specified")
	}
	return id, nil
}

// versionID is the inverse of parseVersionID.
func versionID(id object.Version) string {
	if id == (object.Version{}) || id == object.NullID {
		return nullVersion
	}
	return node.FormatID(id)
}

const nullVersion = "null"
