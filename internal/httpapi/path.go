package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// rawPath returns the path as the client wrote it, and whether it is escaped.
//
// Names are exact: `a%2Fb`, `//` and `..` mean themselves, so a path is split
// where the client wrote slashes, and only then unescaped. net/url leaves RawPath
// empty exactly when escaping Path again gives what the client sent; then each
// slash in Path was a slash on the wire, and Path can be split as it is, which
// saves the hot path the work of unescaping.
func rawPath(r *http.Request) (path string, escaped bool) {
	if r.URL.RawPath != "" {
		return r.URL.RawPath, true
	}
	return r.URL.Path, false
}

// splitName notes which object a path names.
func splitName(x *exchange, path string, escaped bool) (err error) {
	x.name, err = parseName(path, escaped)
	return err
}

// parseName takes "bucket/key" apart as it stands in a path.
func parseName(path string, escaped bool) (object.Name, error) {
	bucket, key, _ := strings.Cut(path, "/")
	name := object.Name{Bucket: bucket, Key: key}
	if escaped {
		var err error
		if name.Bucket, err = unescape(bucket); err != nil {
			return object.Name{}, err
		}
		if name.Key, err = unescape(key); err != nil {
			return object.Name{}, err
		}
	}
	return name, name.Validate()
}

// splitBucket is splitName for a path that names a bucket only.
func splitBucket(x *exchange, path string, escaped bool) (err error) {
	if escaped {
		if path, err = unescape(path); err != nil {
			return err
		}
	}
	x.name.Bucket = path
	return object.ValidateBucket(path)
}

// splitDataset notes which dataset a path names.
func splitDataset(x *exchange, path string, escaped bool) (err error) {
	if escaped {
		if path, err = unescape(path); err != nil {
			return err
		}
	}
	x.dataset = path
	return object.ValidateDataset(path)
}

// splitVersion is splitDataset for a path that names a version, too.
func splitVersion(x *exchange, path string, escaped bool) error {
	name, version, _ := strings.Cut(path, "/")
	if err := splitDataset(x, name, escaped); err != nil {
		return err
	}
	var err error
	if x.version, err = strconv.ParseInt(version, 10, 64); err != nil || x.version < 1 || strconv.FormatInt(x.version, 10) != version {
		return object.Errorf(object.Invalid, "the version of a dataset is a number from 1, not %.40q", version)
	}
	return nil
}

// splitUser notes which user a path names.
func splitUser(x *exchange, path string, escaped bool) (err error) {
	if escaped {
		if path, err = unescape(path); err != nil {
			return err
		}
	}
	x.userName = path
	return object.ValidateUser(path)
}

func unescape(s string) (string, error) {
	out, err := url.PathUnescape(s)
	if err != nil {
		return "", object.Errorf(object.Invalid, "the path is badly escaped: %v", err)
	}
	return out, nil
}

// parseCopySource reads "/bucket/escaped-key", the value of the copy header. It
// is a path like that of a request, and is treated alike.
func parseCopySource(value string) (object.Name, error) {
	path, ok := strings.CutPrefix(value, "/")
	if !ok {
		return object.Name{}, object.Errorf(object.Invalid, "%s must be /BUCKET/ESCAPED-KEY, not %q", headerCopySource, value)
	}
	return parseName(path, true)
}
