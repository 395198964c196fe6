package s3api

import (
	"bytes"
	"crypto/md5" //nolint:gosec // S3 defines ETags by it
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/object"
)

func formOperations() []*operation {
	return []*operation{
		// Who sends it stands in the form, so the handler looks at his rights.
		{name: "PostObject", scope: ofBucket, method: http.MethodPost, handle: (*API).postObject},
	}
}

const (
	maxFields = 20 << 10 // bytes of the names and values of a form's fields
	maxAround = 48 << 10 // bytes of a form before its file, and again after it
)

var (
	formEnclosure = &code{"PreconditionFailed", http.StatusPreconditionFailed, "Bucket POST must be of the enclosure-type multipart/form-data"}
	fieldsTooLong = &code{"MaxPOSTPreDataLengthExceeded", http.StatusBadRequest, "Your POST request fields preceding the upload file were too large."}
)

// form is what a browser sends: fields, and then a file. The fields take the place of
// what is in the headers of other requests.
type form struct {
	fields map[string]string // by their names in lower case
	parts  *multipart.Reader
	bound  *bounded
	file   *multipart.Part
}

// postObject stores the file of a form, if its signature, its policy and the rights of
// who signed it allow that.
func (a *API) postObject(c *call) error {
	if !c.signed.Anonymous {
		return faultf(invalidRequest, "A form is signed by its policy, not by its request")
	}
	f, err := c.readForm()
	if err != nil {
		return err
	}
	limits, err := a.judge(c, f)
	if err != nil {
		return err
	}
	if err := c.adopt(f); err != nil {
		return err
	}
	name := object.Name{Bucket: c.bucket, Key: c.key}
	if err := a.refused(c.may("s3:PutObject", c.about.Access, name)); err != nil {
		return err
	}
	opts, err := c.putOptions()
	if err != nil {
		return err
	}
	b, err := c.formContent(f, limits)
	if err != nil {
		return err
	}
	defer b.Close()
	opts.SizeHint = max(0, c.R.ContentLength-c.Received)
	opts.Finish = b.finish
	info, err := a.node.Put(c.R.Context(), name, b, opts)
	c.BodyDone()
	if err != nil {
		return err
	}
	return c.posted(f, &info)
}

// readForm reads the fields of a form, up to its file.
func (c *call) readForm() (*form, error) {
	kind, params, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, fault(formEnclosure)
	}
	f := &form{fields: make(map[string]string), bound: &bounded{source: c.R.Body, left: maxAround}}
	f.parts = multipart.NewReader(f.bound, params["boundary"])
	total := 0
	for {
		part, err := f.parts.NextRawPart()
		if err == io.EOF {
			return nil, faultf(invalidArgument, "POST requires exactly one file upload per request.")
		}
		if err != nil {
			return nil, c.badForm(err)
		}
		name := strings.ToLower(part.FormName())
		if name == "file" {
			f.file = part
			f.bound.left = math.MaxInt64
			return f, c.nameObject(f)
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, c.badForm(err)
		}
		if total += len(name) + len(value); total > maxFields {
			return nil, fault(fieldsTooLong)
		}
		if _, twice := f.fields[name]; name == "" || twice {
			return nil, faultf(malformedPOST, "A field has no name, or %.80q is there twice", name)
		}
		f.fields[name] = string(value)
	}
}

// badForm tells what is wrong with a form from what is wrong with its transfer.
func (c *call) badForm(err error) error {
	if c.BodyErr != nil {
		return c.BodyErr
	}
	if c.asS3(err).code != internalError {
		return err
	}
	return fault(malformedPOST)
}

// nameObject finds out what the object is to be called.
func (c *call) nameObject(f *form) error {
	key := f.fields["key"]
	if key == "" {
		return faultf(invalidArgument, "Bucket POST must contain a field named 'key'. If it is specified, please check the order of the fields.")
	}
	if strings.Contains(key, "${filename}") {
		_, params, _ := mime.ParseMediaType(f.file.Header.Get("Content-Disposition")) //nolint:errcheck // FormName has read it
		file := params["filename"]
		key = strings.ReplaceAll(key, "${filename}", file[strings.LastIndexAny(file, `/\`)+1:])
	}
	if err := validKey(key); err != nil {
		return err
	}
	f.fields["key"], f.fields["bucket"] = key, c.bucket
	c.key = key
	return nil
}

// judge finds out who sends a form, and whether he signed that it may be sent. What it
// returns bounds the file.
func (a *API) judge(c *call, f *form) (sizes, error) {
	limits := sizes{most: maxPut}
	accessKey, version2, err := a.verifier.VerifyForm(f.fields)
	if err != nil || accessKey == "" {
		return limits, err
	}
	user, _, ok := a.authority.Key(accessKey)
	if !ok {
		return limits, fault(accessDenied) // it was withdrawn since the signature was checked
	}
	c.user, c.form = user, signatureVersion(version2)
	document, err := base64.StdEncoding.DecodeString(f.fields["policy"])
	if err != nil {
		return limits, invalidPolicy("it is not base64")
	}
	p, err := parseFormPolicy(document)
	if err != nil {
		return limits, err
	}
	return p.sizes, p.check(f.fields, c.Start)
}

// formHeaders are the fields that stand for headers, beside all x-amz-*.
var formHeaders = map[string]string{
	"acl": "X-Amz-Acl", "tagging": "X-Amz-Tagging", "content-type": "Content-Type", "content-md5": "Content-Md5",
	"cache-control": "Cache-Control", "content-disposition": "Content-Disposition", "content-encoding": "Content-Encoding",
	"content-language": "Content-Language", "expires": "Expires",
}

// adopt puts the fields of a form in the place of the request's headers, so that they
// mean the same to all who look at them: the bucket's policy, and what stores objects.
func (c *call) adopt(f *form) error {
	h := c.R.Header
	for key := range h {
		if strings.HasPrefix(key, "X-Amz-") || strings.HasPrefix(key, "If-") || slices.Contains(returned, key) {
			delete(h, key)
		}
	}
	for _, key := range formHeaders {
		delete(h, key)
	}
	for name, value := range f.fields {
		key, known := formHeaders[name]
		if strings.HasPrefix(name, "x-amz-") {
			key, known = http.CanonicalHeaderKey(name), true
		}
		if !known {
			continue
		}
		if name == "tagging" {
			var err error
			if value, err = formTags(value); err != nil {
				return err
			}
		}
		if strings.ContainsAny(value, "\r\n\x00") || strings.ContainsFunc(name, notInHeader) {
			return faultf(invalidArgument, "Field %.80q cannot be kept as a header", name)
		}
		h[key] = []string{value}
	}
	return nil
}

func notInHeader(r rune) bool { return object.NotInUser(r) && !strings.ContainsRune("!#$%&'*+^`|~", r) }

// formTags turns the document with tags that a form has into a header.
func formTags(document string) (string, error) {
	var list tagging
	if err := parseXML([]byte(document), &list); err != nil {
		return "", err
	}
	tags := make(url.Values, len(list.Tags))
	for _, tag := range list.Tags {
		tags.Add(tag.Key, tag.Value)
	}
	return tags.Encode(), nil
}

// sizes bound a file.
type sizes struct{ least, most int64 }

// formContent is the file of a form, with all that is checked when it has been read.
type formContent struct {
	*digester
	call *call
	form *form
	md5  []byte // that the form says it has
	sum  []byte // likewise the further checksum
	algo checksum.Algorithm
	hash hash.Hash
}

func (c *call) formContent(f *form, limits sizes) (*formContent, error) {
	b := &formContent{call: c, form: f}
	if text := f.fields["content-md5"]; text != "" {
		var err error
		if b.md5, err = base64.StdEncoding.DecodeString(text); err != nil || len(b.md5) != md5.Size {
			return nil, fault(invalidDigest)
		}
	}
	for name, text := range f.fields {
		algorithm, ok := checksum.ParseHeader(name)
		if !ok {
			continue
		}
		if b.algo != checksum.None {
			return nil, faultf(invalidRequest, "Expecting a single x-amz-checksum- field. Multiple checksum Types are not allowed.")
		}
		var err error
		if b.sum, err = algorithm.Decode(text); err != nil {
			return nil, faultf(invalidRequest, "Value for %s field is invalid.", name)
		}
		b.algo, b.hash = algorithm, algorithm.New()
	}
	var source io.Reader = &measured{call: c, source: f.file, sizes: limits}
	if b.hash != nil {
		source = io.TeeReader(source, b.hash)
	}
	b.digester = newDigester(&c.api.pieces, source, c.R.ContentLength, true)
	return b, nil
}

// finish is called when the file was read to its end. What follows it in the form means
// nothing, but must be there as announced.
func (b *formContent) finish() (object.Finish, error) {
	digest := b.digester.sum()
	if b.md5 != nil && !bytes.Equal(b.md5, digest) {
		return object.Finish{}, fault(badDigest)
	}
	end := object.Finish{ETag: hex.EncodeToString(digest)}
	if b.hash != nil {
		if value := b.hash.Sum(nil); !bytes.Equal(value, b.sum) {
			return object.Finish{}, fault(badDigest)
		}
		if b.algo != checksum.CRC32 {
			end.Metadata = map[string]string{metaChecksum: checksumMeta(sum{algorithm: b.algo, value: checksum.Encode(b.sum)})}
		}
	}
	return end, b.rest()
}

func (b *formContent) rest() error {
	b.form.bound.left = maxAround
	for {
		part, err := b.form.parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return b.call.badForm(err)
		}
		if strings.EqualFold(part.FormName(), "file") {
			return faultf(invalidArgument, "POST requires exactly one file upload per request.")
		}
	}
	_, err := io.Copy(io.Discard, b.form.bound)
	return err
}

// bounded gives so much of a body and no more.
type bounded struct {
	source io.Reader
	left   int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fault(fieldsTooLong)
	}
	n, err := b.source.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// measured is a file of which the size is bounded.
type measured struct {
	sizes
	call   *call
	source io.Reader
	size   int64
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.source.Read(p)
	m.size += int64(n)
	switch {
	case m.size > m.most:
		return 0, fault(entityTooLarge)
	case err == io.EOF && m.size < m.least:
		return 0, fault(entityTooSmall)
	case err != nil && err != io.EOF:
		return n, m.call.badForm(err)
	}
	return n, err
}

// posted answers who has sent a form, in the way he asked for.
func (c *call) posted(f *form, info *object.Info) error {
	c.stored(info)
	address := c.address()
	etag := `"` + info.ETag + `"`
	c.Header()["Location"] = c.Value(address)
	if u := f.redirect(); u != nil {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += "bucket=" + url.QueryEscape(c.bucket) + "&key=" + url.QueryEscape(c.key) + "&etag=" + url.QueryEscape(etag)
		c.Header()["Location"] = c.Value(u.String())
		c.Status = http.StatusSeeOther
		return nil
	}
	switch f.fields["success_action_status"] {
	case "200":
		return nil
	case "201":
		c.Status = http.StatusCreated
		x := &xmlWriter{root: "PostResponse", b: []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<PostResponse>")}
		x.text("Location", address)
		x.text("Bucket", c.bucket)
		x.text("Key", c.key)
		x.etag(info.ETag)
		return c.send(x)
	}
	c.Status = http.StatusNoContent
	return nil
}

// redirect returns where the browser is to go, nil if it is not said or no address.
func (f *form) redirect() *url.URL {
	text := f.fields["success_action_redirect"]
	if text == "" {
		text = f.fields["redirect"]
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil
	}
	return u
}

// address is the URL of the object of a form.
func (c *call) address() string {
	u := url.URL{Scheme: "http", Host: c.R.Host, Path: "/" + c.key}
	if c.api.secure {
		u.Scheme = "https"
	}
	if _, inHost := c.api.bucketOf(c.R.Host); !inHost {
		u.Path = "/" + c.bucket + u.Path
	}
	return u.String()
}
