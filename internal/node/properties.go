package node

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"penstock.dev/penstock/internal/object"
)

// VerifyAlways is the value of the property verify that has every byte checked on
// every read, at the price of a copy through memory.
const VerifyAlways = "always"

// Properties are what can be set for a bucket. The zero value is a plain bucket.
type Properties struct {
	Quota  int64  `json:"quota,omitempty"`  // bytes; zero for no quota
	Verify string `json:"verify,omitempty"` // VerifyAlways, or empty

	Versioning string `json:"versioning,omitempty"` // VersioningEnabled, VersioningSuspended, or empty if it never was
}

// Bucket is a bucket as it is known.
type Bucket struct {
	Name    string
	Created time.Time
	Properties
	Access object.Access     // who may use it; see SetAccess
	Tags   map[string]string // what its users say of it; see SetTags

	// Problem says why the bucket cannot be used, if so.
	Problem string
}

// Merge returns the properties with the changes in patch, a JSON object: what it
// names is set, null sets back, what it does not name stays. An empty patch
// changes nothing. What this version does not know or cannot do is refused: a
// bucket must never look as if it had a property that nothing honours.
func (p Properties) Merge(patch []byte) (Properties, error) {
	if len(bytes.TrimSpace(patch)) == 0 {
		return p, nil
	}
	var fields map[string]json.RawMessage
	if err := decodeOne(patch, &fields); err != nil {
		return p, object.Errorf(object.Invalid, "bucket properties must be one JSON object: %v", err)
	}
	for key, value := range fields {
		if err := p.set(key, value); err != nil {
			return p, err
		}
	}
	return p, p.validate()
}

func (p *Properties) set(key string, value json.RawMessage) error {
	null := string(value) == "null"
	switch key {
	case "quota":
		p.Quota = 0
		if !null && json.Unmarshal(value, &p.Quota) != nil {
			return object.Errorf(object.Invalid, "quota must be a number of bytes, not %.40s", value)
		}
	case "verify":
		p.Verify = ""
		if !null && json.Unmarshal(value, &p.Verify) != nil {
			return object.Errorf(object.Invalid, "verify must be %q or nothing, not %.40s", VerifyAlways, value)
		}
	case "versioning":
		before := p.Versioning
		p.Versioning = ""
		if !null && json.Unmarshal(value, &p.Versioning) != nil {
			return object.Errorf(object.Invalid, "versioning must be %q or %q, not %.40s", VersioningEnabled, VersioningSuspended, value)
		}
		if before != "" && p.Versioning == "" {
			return object.Errorf(object.Invalid, "versioning can be suspended, but not taken back: versions may be there")
		}
	case "source", "mirror", "ec", "cache":
		if !null {
			return object.Errorf(object.Invalid, "this version of Penstock cannot give a bucket the property %q", key)
		}
	case "name", "created", "owner", "grants", "acl", "policy", "tags", "objects", "bytes", "problem":
		return object.Errorf(object.Invalid, "%q of a bucket cannot be set", key)
	default:
		return object.Errorf(object.Invalid, "%.40q is not a property of a bucket; there are quota, verify and versioning", key)
	}
	return nil
}

func (p Properties) validate() error {
	if p.Quota < 0 {
		return object.Errorf(object.Invalid, "a quota of %d bytes makes no sense", p.Quota)
	}
	if p.Verify != "" && p.Verify != VerifyAlways {
		return object.Errorf(object.Invalid, "verify must be %q or nothing, not %.40q", VerifyAlways, p.Verify)
	}
	if p.Versioning != "" && p.Versioning != VersioningEnabled && p.Versioning != VersioningSuspended {
		return object.Errorf(object.Invalid, "versioning must be %q or %q, not %.40q", VersioningEnabled, VersioningSuspended, p.Versioning)
	}
	return nil
}

// bucketRecord is a bucket in the control records; its name is the key.
type bucketRecord struct {
	Created time.Time `json:"created"`
	Properties
	object.Access
	Tags map[string]string `json:"tags,omitempty"`
}

func encodeBucket(b Bucket) ([]byte, error) {
	return json.Marshal(bucketRecord{Created: b.Created, Properties: b.Properties, Access: b.Access, Tags: b.Tags})
}

// decodeBucket refuses fields it does not know: a newer version wrote them, and
// meant something by them.
func decodeBucket(name string, value []byte) (Bucket, error) {
	var r bucketRecord
	if err := decodeOne(value, &r); err != nil {
		return Bucket{Name: name}, object.Errorf(object.Unavailable, "the record of bucket %s cannot be used by this version: %v", name, err)
	}
	if err := r.Properties.validate(); err != nil {
		return Bucket{Name: name}, object.Errorf(object.Unavailable, "the record of bucket %s cannot be used by this version: %v", name, err)
	}
	return Bucket{Name: name, Created: r.Created, Properties: r.Properties, Access: r.Access, Tags: r.Tags}, nil
}

// decodeOne decodes exactly one JSON value, without unknown fields.
func decodeOne(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return object.Errorf(object.Invalid, "something follows it")
	}
	return nil
}
