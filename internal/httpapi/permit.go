package httpapi

import (
	"net"
	"net/url"
	"strconv"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
)

// What a user may do is decided before a handler runs. Each route that needs it names
// an action of S3, which is the common language of both doors, and the function that
// finds what the request is about: permitName where the path says it, others of this
// file where a body, a parameter or a header does. They leave in the exchange what they
// have read, and the handler uses that: what was checked is what is used.

// may returns nil if the caller may do an action with a bucket, or an object in it.
func (x *exchange) may(action string, name object.Name) error {
	if x.user.Root {
		return nil
	}
	b, err := x.api.node.Bucket(name.Bucket)
	if err != nil {
		return err
	}
	return x.allowed(b.Access, action, name)
}

func (x *exchange) allowed(access object.Access, action string, name object.Name) error {
	return x.api.authority.Allowed(x.user, access, auth.Request{Request: policy.Request{
		Action: action, Bucket: name.Bucket, Key: name.Key, Time: x.Start, Context: x.fact, Blind: blind,
	}})
}

// blind are the conditions of policies that this door cannot judge: it does not know
// the tags of objects. They forbid here, and do not allow.
var blind = []string{"s3:ExistingObjectTag/"}

// fact tells a policy about the request. What S3 has and this door has not, such as an
// ACL in a header, is not there.
func (x *exchange) fact(key string) ([]string, bool) {
	switch key {
	case "aws:SourceIp":
		host, _, err := net.SplitHostPort(x.R.RemoteAddr)
		return []string{host}, err == nil
	case "aws:SecureTransport":
		return []string{strconv.FormatBool(x.R.TLS != nil)}, true
	case "aws:UserAgent":
		return one(x.R.Header["User-Agent"])
	case "aws:Referer":
		return one(x.R.Header["Referer"])
	case "s3:if-match":
		return one(x.R.Header["If-Match"])
	case "s3:if-none-match":
		return one(x.R.Header["If-None-Match"])
	case "s3:x-amz-copy-source":
		if x.source == (object.Name{}) {
			return nil, false
		}
		return []string{x.source.String()}, true
	}
	if param, ok := map[string]string{"s3:prefix": "prefix", "s3:delimiter": "delimiter", "s3:max-keys": "limit"}[key]; ok && x.route.name == "listObjects" {
		values, err := url.ParseQuery(x.R.URL.RawQuery)
		if err != nil {
			return nil, false // the handler refuses it
		}
		return one(values[param])
	}
	return nil, false
}

func one(values []string) ([]string, bool) { return values, len(values) > 0 }

// permitUser is for what is about no bucket.
func permitUser(_ *API, x *exchange) error {
	return x.allowed(object.Access{}, x.route.action, object.Name{})
}

// permitName is for what the path names.
func permitName(_ *API, x *exchange) error { return x.may(x.route.action, x.name) }

// permitPut also looks at the object that is to be copied.
func permitPut(_ *API, x *exchange) error {
	if values := x.R.Header[headerCopySource]; values != nil {
		if len(values) != 1 {
			return object.Errorf(object.Invalid, "there are %d %s headers", len(values), headerCopySource)
		}
		source, err := parseCopySource(values[0])
		if err != nil {
			return err
		}
		if err := x.may("s3:GetObject", source); err != nil {
			return err
		}
		x.source = source
	}
	return x.may(x.route.action, x.name)
}

// permitBatch reads the references. If one of them is not for the caller there is no
// answer to the others either.
func permitBatch(_ *API, x *exchange) (err error) {
	if err := x.noQuery(); err != nil {
		return err
	}
	if x.refs, err = x.readRefs(); err != nil || x.user.Root {
		return err
	}
	alike := "" // a bucket without a policy, whose objects are all alike
	for i := range x.refs {
		name := x.refs[i].Name
		if name.Bucket == alike {
			continue
		}
		b, err := x.api.node.Bucket(name.Bucket)
		if err != nil {
			return err
		}
		if err := x.allowed(b.Access, x.route.action, name); err != nil {
			return err
		}
		if alike = ""; b.Access.Policy == "" {
			alike = name.Bucket
		}
		if err := x.R.Context().Err(); err != nil {
			return err
		}
	}
	return nil
}

// permitPutBatch reads where the objects go. With a policy each key is another question,
// which putBatch asks as they come.
func permitPutBatch(_ *API, x *exchange) error {
	bucket, prefix, err := putBatchParams(x.R.URL.RawQuery)
	if err != nil {
		return err
	}
	x.name = object.Name{Bucket: bucket, Key: prefix}
	b, err := x.api.node.Bucket(bucket)
	if err != nil {
		return err // before it is all sent in vain
	}
	if x.user.Root {
		return nil
	}
	if x.eachKey = b.Access.Policy != ""; x.eachKey {
		return nil
	}
	return x.allowed(b.Access, x.route.action, x.name)
}

// permitDataset looks the dataset up. It is for those who may read, or delete, its
// manifest. One without versions is in no bucket.
func permitDataset(a *API, x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	d, err := a.node.Dataset(x.R.Context(), x.dataset)
	if err != nil {
		return err
	}
	x.set = d
	if d.Bucket == "" {
		return nil
	}
	return x.may(x.route.action, manifestOf(&d))
}

// manifestOf returns the newest version's manifest.
func manifestOf(d *node.Dataset) object.Name {
	name := object.Name{Bucket: d.Bucket}
	if len(d.Versions) > 0 {
		name.Key = d.Versions[len(d.Versions)-1].Manifest
	}
	return name
}

// permitPublish reads what is to be published. It is for those who may write its
// manifest, in the bucket where the dataset already is, if so.
func permitPublish(a *API, x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	body, err := x.ReadSmall(x.Body(), maxSmallBody)
	if err != nil {
		return err
	}
	if err := decodeStrictly(body, &x.publish); err != nil {
		return object.Errorf(object.Invalid, "a version is described by one JSON object: %v", err)
	}
	if x.user.Root {
		return nil
	}
	if err := x.may(x.route.action, object.Name{Bucket: x.publish.Bucket, Key: x.publish.Manifest}); err != nil {
		return err
	}
	d, err := a.node.Dataset(x.R.Context(), x.dataset)
	if object.Is(err, object.NotFound) || (err == nil && d.Bucket == "") {
		return nil
	}
	if err != nil {
		return err
	}
	return x.may(x.route.action, object.Name{Bucket: d.Bucket, Key: x.publish.Manifest})
}
