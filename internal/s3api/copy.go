package s3api

import (
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// copyObject gives the content of an object another name. No byte of a large one
// moves.
func (a *API) copyObject(c *call) error {
	p, err := c.copyPlan()
	if err != nil {
		return err
	}
	var from, info object.Info
	err = c.steadily(func() error {
		if from, err = c.source(p.from); err == nil {
			info, err = c.copyFrom(p, from)
		}
		return err
	})
	c.BodyDone()
	if err != nil {
		return err
	}
	c.showSource(&from)
	c.showNewVersion(&info)
	x := newXML("CopyObjectResult")
	x.time("LastModified", info.Modified)
	x.etag(info.ETag)
	if s, ok := checksumOf(&info); ok {
		x.checksum(s)
		x.text("ChecksumType", s.kind())
	}
	return c.send(x)
}

// copyPlan is what a copy is to be like.
type copyPlan struct {
	from        object.Name
	opts        object.PutOptions // what the request says of the copy
	replace     bool              // the metadata
	replaceTags bool
	algorithm   checksum.Algorithm // of the checksum; None keeps it
}

func (c *call) copyPlan() (p copyPlan, err error) {
	if p.from, err = c.copySource(); err != nil {
		return p, err
	}
	if p.replace, err = c.directive("X-Amz-Metadata-Directive"); err != nil {
		return p, err
	}
	if p.replaceTags, err = c.directive("X-Amz-Tagging-Directive"); err != nil {
		return p, err
	}
	if p.algorithm, err = c.wantedAlgorithm(); err != nil {
		return p, err
	}
	if p.opts, err = c.putOptions(); err != nil {
		return p, err
	}
	p.opts.Condition, err = c.writeCondition()
	return p, err
}

// directive reads whether something is to be replaced instead of copied.
func (c *call) directive(header string) (replace bool, err error) {
	switch value := c.amz(header); value {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	default:
		return false, faultf(invalidArgument, "%.40q is no %s: it is COPY or REPLACE", value, strings.ToLower(header))
	}
}

// wantedAlgorithm reads which checksum an object is to have.
func (c *call) wantedAlgorithm() (checksum.Algorithm, error) {
	text := c.amz("X-Amz-Checksum-Algorithm")
	if text == "" {
		return checksum.None, nil
	}
	algorithm, ok := checksum.Parse(text)
	if !ok {
		return algorithm, faultf(invalidRequest, "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
	}
	return algorithm, nil
}

// copySource reads which object is to be copied.
func (c *call) copySource() (name object.Name, err error) {
	for _, key := range []string{"Algorithm", "Key", "Key-Md5"} {
		if c.amz("X-Amz-Copy-Source-Server-Side-Encryption-Customer-"+key) != "" {
			return name, faultf(notImplemented, "encryption with a customer's key is not implemented")
		}
	}
	text := c.amz("X-Amz-Copy-Source")
	const mark = "?versionId="
	if i := strings.LastIndex(text, mark); i >= 0 {
		if name.ID, err = parseVersionID(text[i+len(mark):]); err != nil {
			return name, err
		}
		text = text[:i]
	}
	text, err = url.PathUnescape(text)
	if err != nil {
		return name, faultf(invalidArgument, "x-amz-copy-source must be URL-encoded")
	}
	var ok bool
	name.Bucket, name.Key, ok = strings.Cut(strings.TrimPrefix(text, "/"), "/")
	if !ok || name.Bucket == "" || name.Key == "" {
		return name, faultf(invalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
	}
	if wanted := c.amz("X-Amz-Source-Expected-Bucket-Owner"); wanted != "" {
		if about, err := c.api.node.Bucket(name.Bucket); err == nil && wanted != auth.Owner(about.Access) {
			return name, fault(accessDenied)
		}
	}
	return name, validKey(name.Key)
}

// source returns what is to be copied, if the caller may read it and it is as he
// thinks.
func (c *call) source(name object.Name) (object.Info, error) {
	action := "s3:GetObject"
	if name.ID != (object.Version{}) {
		action = "s3:GetObjectVersion"
	}
	if err := c.allow(action, name); err != nil {
		return object.Info{}, err
	}
	info, err := c.api.node.Stat(c.R.Context(), name)
	switch {
	case object.IsMarker(err) && name.ID != (object.Version{}):
		return info, faultf(invalidRequest, "The source of a copy request may not specifically refer to a delete marker by version id.")
	case object.Is(err, object.NotFound) && c.allow("s3:ListBucket", object.Name{Bucket: name.Bucket}) != nil:
		return info, fault(accessDenied)
	case object.Is(err, object.NotFound) && name.ID != (object.Version{}):
		return info, fault(noSuchVersion)
	case object.Is(err, object.NotFound):
		return info, fault(noSuchKey)
	case err != nil:
		return info, err
	}
	conditions := make(http.Header)
	for _, key := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		if value := c.amz("X-Amz-Copy-Source-" + key); value != "" {
			conditions[key] = []string{value}
		}
	}
	if door.ReadVerdict(conditions, info) != door.Proceed {
		return info, fault(preconditionFailed)
	}
	return info, nil
}

// exactly is the name by which an object can be asked for as it was described: where
// no versions are kept it may be another by now.
func exactly(info *object.Info) object.Name {
	name := info.Name
	if name.ID == (object.Version{}) {
		name.ID = object.NullID
	}
	return name
}

var errSourceChanged = faultf(slowDown, "the source of the copy is being replaced again and again")

// steadily repeats what found that an object was replaced between two looks at it.
func (c *call) steadily(f func() error) error {
	const attempts = 10
	for attempt := 0; ; attempt++ {
		if err := f(); !errors.Is(err, errSourceChanged) || attempt == attempts {
			return err
		}
	}
}

// openSource opens what source described.
func (c *call) openSource(from *object.Info, r object.Range) (object.Reader, error) {
	reader, err := c.api.node.Open(c.R.Context(), exactly(from), r)
	if object.Is(err, object.NotFound) {
		return nil, errSourceChanged
	}
	if err == nil && reader.Info().Version != from.Version {
		reader.Close() //nolint:errcheck // opened for reading
		return nil, errSourceChanged
	}
	return reader, err
}

// copyFrom makes the copy.
func (c *call) copyFrom(p copyPlan, from object.Info) (object.Info, error) {
	name := object.Name{Bucket: c.bucket, Key: c.key}
	if from.Size > maxPut {
		return object.Info{}, faultf(invalidRequest, "The specified copy source is larger than the maximum allowable size for a copy source: %d", int64(maxPut))
	}
	had, _ := checksumOf(&from)
	changes := p.replace || p.replaceTags || (p.algorithm != checksum.None && p.algorithm != had.algorithm)
	if p.from == name && !changes {
		return object.Info{}, faultf(invalidRequest, "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	opts, err := c.copyOptions(p, &from)
	if err != nil {
		return object.Info{}, err
	}
	etag := from.ETag
	if etag == object.NativeETag(from.Version, from.CRC32) {
		etag = "" // it gets its own
	}
	// Versions only grow: if the source is still what it was when all of it has been
	// read, it was that all the time.
	opts.Finish = func() (object.Finish, error) {
		now, err := c.api.node.Stat(c.R.Context(), exactly(&from))
		if err != nil || now.Version != from.Version {
			return object.Finish{}, errSourceChanged
		}
		return object.Finish{ETag: etag}, nil
	}
	info, err := c.api.node.Copy(c.R.Context(), name, exactly(&from), opts)
	if object.Is(err, object.NotFound) && opts.IfMatch == "" {
		err = errSourceChanged
	}
	return info, err
}

// copyOptions returns what the copy is described by: partly as the source, partly as
// the request says.
func (c *call) copyOptions(p copyPlan, from *object.Info) (object.PutOptions, error) {
	opts, given := p.opts, p.opts.Metadata
	opts.Metadata = make(map[string]string) // nil would keep all
	keep := func(of map[string]string, keys ...string) {
		for _, key := range keys {
			if value := of[key]; value != "" {
				opts.Metadata[key] = value
			}
		}
	}
	if p.replace {
		for key, value := range given {
			opts.Metadata[key] = value
		}
		delete(opts.Metadata, metaTags)
	} else {
		opts.ContentType = from.ContentType
		for key, value := range from.Metadata {
			switch key {
			case metaACL, metaOwner, metaTags, metaUpload, metaChecksum, metaParts, redirect:
			default:
				opts.Metadata[key] = value
			}
		}
		keep(given, metaACL, metaOwner, redirect)
	}
	if p.replaceTags {
		keep(given, metaTags)
	} else if err := c.copyTags(from, opts.Metadata); err != nil {
		return opts, err
	}
	had, _ := checksumOf(from)
	switch p.algorithm {
	case checksum.None, had.algorithm:
		keep(from.Metadata, metaChecksum, metaParts)
	case checksum.CRC32: // which the store knows
	default:
		value, err := c.sumOf(from, p.algorithm)
		if err != nil {
			return opts, err
		}
		opts.Metadata[metaChecksum] = checksumMeta(sum{algorithm: p.algorithm, value: checksum.Encode(value)})
	}
	return opts, nil
}

// redirect is not copied.
const redirect = "X-Amz-Website-Redirect-Location"

// copyTags adds the tags of an object as they are now. Who copies them learns them.
func (c *call) copyTags(from *object.Info, meta map[string]string) error {
	facts, err := c.factsOf(*from)
	if err != nil || len(facts.Tags) == 0 {
		return err
	}
	meta[metaTags] = formatTags(facts.Tags)
	return c.allow("s3:GetObjectTagging", object.Name{Bucket: from.Name.Bucket, Key: from.Name.Key})
}

// sumOf reads an object to compute a checksum of it.
func (c *call) sumOf(from *object.Info, algorithm checksum.Algorithm) ([]byte, error) {
	r, err := c.openSource(from, object.Range{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	h := algorithm.New()
	if _, err := io.Copy(struct{ hash.Hash }{h}, struct{ io.Reader }{r}); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// showSource sets the header that says which version was copied.
func (c *call) showSource(from *object.Info) {
	about, err := c.api.node.Bucket(from.Name.Bucket)
	if from.Name.ID != (object.Version{}) || (err == nil && about.Versioning != "") {
		c.Header()["X-Amz-Copy-Source-Version-Id"] = []string{versionID(from.Name.ID)}
	}
}
