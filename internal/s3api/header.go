package s3api

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/sigv4"
)

// What the door keeps in an object's metadata beside the user's own. Capitals tell
// them apart. Headers that are given back as they came stand under their own names.
const (
	metaACL      = "Acl"      // canned
	metaOwner    = "Owner"    // the user who wrote it, if he does not own the bucket
	metaTags     = "Tagging"  // those it was written with, as in a query
	metaChecksum = "Checksum" // ALGORITHM:TYPE:VALUE; without it, CRC32 of the whole, which the store knows
	metaParts    = "Parts"    // checksums of the parts, if the client wanted any: see formatPartSums
	metaUpload   = "Upload"   // the ID of the upload that brought it
)

// returned are the headers that a write may have and a read gives back.
var returned = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires", "X-Amz-Website-Redirect-Location",
}

// overrides are parameters of a read by which a client wants other headers.
var overrides = map[string]string{
	"response-cache-control": "Cache-Control", "response-content-disposition": "Content-Disposition",
	"response-content-encoding": "Content-Encoding", "response-content-language": "Content-Language",
	"response-content-type": "Content-Type", "response-expires": "Expires",
}

const (
	headerMeta  = "X-Amz-Meta-"
	maxMetadata = 2 << 10 // of all keys and values of the user's
	maxHeader   = 4 << 10 // of one of the others
)

// putOptions reads what the headers of a write say about the object.
func (c *call) putOptions() (opts object.PutOptions, err error) {
	meta := make(map[string]string)
	if opts.ContentType, err = c.headerValue("Content-Type"); err != nil {
		return opts, err
	}
	if opts.ContentType == "" {
		opts.ContentType = "binary/octet-stream"
	}
	for _, key := range returned {
		value, err := c.headerValue(key)
		if err != nil {
			return opts, err
		}
		if key == "Content-Encoding" {
			value = sigv4.ContentEncoding(c.R.Header)
		}
		if value != "" {
			meta[key] = value
		}
	}
	if err := c.userMetadata(meta); err != nil {
		return opts, err
	}
	if acl, err := c.cannedACL(); err != nil {
		return opts, err
	} else if acl != "" {
		// Who writes an object may say who reads it, unless a policy forbids that.
		if err := c.forbidden("s3:PutObjectAcl", object.Name{Bucket: c.bucket, Key: c.key}); err != nil {
			return opts, err
		}
		meta[metaACL] = acl
	}
	if tags := c.amz("X-Amz-Tagging"); tags != "" {
		if _, err := parseTags(tags); err != nil {
			return opts, err
		}
		if err := c.forbidden("s3:PutObjectTagging", object.Name{Bucket: c.bucket, Key: c.key}); err != nil {
			return opts, err
		}
		meta[metaTags] = tags
	}
	if c.user.Name != auth.Owner(c.about.Access) && !c.user.Anonymous() {
		meta[metaOwner] = c.user.Name
	}
	if len(meta) > 0 {
		opts.Metadata = meta
	}
	return opts, c.refuseUnsupported()
}

func (c *call) headerValue(key string) (string, error) {
	value := c.R.Header.Get(key)
	if strings.HasPrefix(key, "X-Amz-") {
		value = c.amz(key)
	}
	if len(value) > maxHeader || !utf8.ValidString(value) {
		return "", faultf(invalidArgument, "%s must be UTF-8 of at most %d bytes", key, maxHeader)
	}
	return value, nil
}

// userMetadata adds the user's own headers. Header names have no case, so the keys are
// made lower-case.
func (c *call) userMetadata(meta map[string]string) error {
	total := 0
	add := func(name, value string) error {
		key := strings.ToLower(name)
		if !token(key) {
			return faultf(invalidArgument, "%.80q cannot be the name of metadata", name)
		}
		if !utf8.ValidString(value) { // S3 takes Latin-1 and gives it back as such
			value = latin1(value)
		}
		if total += len(key) + len(value); total > maxMetadata {
			return fault(metadataTooLarge)
		}
		meta[key] = value
		return nil
	}
	for name, values := range c.R.Header {
		if key, ok := strings.CutPrefix(name, headerMeta); ok {
			if err := add(key, strings.Join(values, ",")); err != nil {
				return err
			}
		}
	}
	if !c.signed.Presigned {
		return nil
	}
	for name, values := range c.query { // signed with the rest of it
		if key, ok := strings.CutPrefix(strings.ToLower(name), "x-amz-meta-"); ok {
			if err := add(key, values[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// token reports whether a text can be a part of a header's name.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func latin1(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

// refuseUnsupported says no to what a write asks for and would not get.
func (c *call) refuseUnsupported() error {
	for _, key := range []string{
		"X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Customer-Algorithm", "X-Amz-Server-Side-Encryption-Customer-Key",
		"X-Amz-Server-Side-Encryption-Customer-Key-Md5", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id",
		"X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date", "X-Amz-Object-Lock-Legal-Hold", "X-Amz-Write-Offset-Bytes",
	} {
		if c.amz(key) != "" {
			return faultf(notImplemented, "%s is not implemented", strings.ToLower(key))
		}
	}
	switch class := c.amz("X-Amz-Storage-Class"); class {
	case "", "STANDARD":
	default:
		return &s3Error{code: &code{"InvalidStorageClass", http.StatusBadRequest, "The storage class that you specified is not valid: there is only STANDARD."}}
	}
	return nil
}

// describe sets the headers that say what an object is. The values that every answer
// has are cut from one string: see package httpapi.
func (c *call) describe(info *object.Info) {
	b := append(c.Text[:0], '"')
	b = append(b, info.ETag...)
	b = append(b, '"')
	etag := len(b)
	b = info.Modified.UTC().AppendFormat(b, http.TimeFormat)
	c.Text = b
	s := string(b)
	h := c.Header()
	h["Etag"] = c.Value(s[:etag])
	h["Last-Modified"] = c.Value(s[etag:])
	h["Accept-Ranges"] = byteRanges
	if info.ContentType == "" {
		h["Content-Type"] = octets
	} else {
		h["Content-Type"] = c.Value(info.ContentType)
	}
	if c.about.Versioning != "" || info.Name.ID != (object.Version{}) {
		h["X-Amz-Version-Id"] = c.Value(versionID(info.Name.ID))
	}
	for key, value := range info.Metadata {
		switch key {
		case metaACL, metaOwner, metaParts, metaUpload, metaChecksum:
		case metaTags:
			if tags, err := parseTags(value); err == nil && len(tags) > 0 {
				h["X-Amz-Tagging-Count"] = c.Value(strconv.Itoa(len(tags)))
			}
		default:
			if key == "" {
				continue // from before such names were refused
			}
			if key[0] >= 'A' && key[0] <= 'Z' {
				h[key] = c.Value(value)
			} else {
				h[headerMeta+key] = c.Value(headerText(value))
			}
		}
	}
}

// headerText makes metadata fit for a header, as S3 does: what is not Latin-1 is given
// back in the words of RFC 2047.
func headerText(s string) string {
	latin, plain := make([]byte, 0, len(s)), true
	for _, r := range s {
		if r > 0xff || r < 0x20 || r == 0x7f {
			return "=?UTF-8?B?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
		}
		plain = plain && r < 0x80
		latin = append(latin, byte(r))
	}
	if plain {
		return s
	}
	return string(latin)
}

var (
	byteRanges = []string{"bytes"}
	octets     = []string{"binary/octet-stream"}
)

// override sets the headers that the parameters of a read ask for. Nobody may without
// having signed them.
func (c *call) override() error {
	if len(c.query) == 0 {
		return nil
	}
	for name, header := range overrides {
		value, ok := c.param(name)
		if !ok {
			continue
		}
		if c.signed.Anonymous {
			return faultf(invalidRequest, "Request specific response headers cannot be used for anonymous GET requests.")
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return faultf(invalidArgument, "%s has a line break in it", name)
		}
		c.Header()[header] = []string{value}
	}
	return nil
}

// sum is a checksum that is kept with an object.
type sum struct {
	algorithm checksum.Algorithm
	composite bool   // of the checksums of parts, and not of the content
	value     string // in base64, of a composite one with the number of parts
}

// checksumMeta is what is kept of a checksum.
func checksumMeta(s sum) string {
	kind := "FULL_OBJECT"
	if s.composite {
		kind = "COMPOSITE"
	}
	return s.algorithm.String() + ":" + kind + ":" + s.value
}

// checksumOf returns the checksum that an object has.
func checksumOf(info *object.Info) (s sum, ok bool) {
	text := info.Metadata[metaChecksum]
	if text == "" {
		return sum{algorithm: checksum.CRC32, value: checksum.Encode(binary.BigEndian.AppendUint32(nil, info.CRC32))}, true
	}
	name, rest, _ := strings.Cut(text, ":")
	kind, value, _ := strings.Cut(rest, ":")
	algorithm, ok := checksum.Parse(name)
	return sum{algorithm, kind == "COMPOSITE", value}, ok
}

func (s sum) kind() string {
	if s.composite {
		return "COMPOSITE"
	}
	return "FULL_OBJECT"
}

// showChecksum sets the headers of the checksum of an object, or of the part of it that
// is being read, if they were asked for.
func (c *call) showChecksum(info *object.Info, part bool) {
	if c.amz("X-Amz-Checksum-Mode") != "ENABLED" {
		return
	}
	if part {
		if sums, number := partSums(info), c.wantedPart(); number > 0 && number <= len(sums) {
			c.setChecksum(sums[number-1])
		}
		return
	}
	if s, ok := checksumOf(info); ok {
		c.setChecksum(s)
	}
}

func (c *call) setChecksum(s sum) {
	h := c.Header()
	h[http.CanonicalHeaderKey(s.algorithm.Header())] = []string{s.value}
	h["X-Amz-Checksum-Type"] = []string{s.kind()}
}

// tagsOf returns the tags of an object: those that were set last, or those it was
// written with.
func (c *call) tagsOf(name object.Name) (map[string]string, error) {
	info, err := c.api.node.Stat(c.R.Context(), name)
	if err != nil {
		return nil, err
	}
	facts, err := c.factsOf(info)
	return facts.Tags, err
}

// factsOf returns what is known of an object beyond its content: as it was set last, or
// as it was written.
func (c *call) factsOf(info object.Info) (node.Facts, error) {
	facts, ok, err := c.api.node.Facts(c.R.Context(), info)
	if ok || err != nil {
		return facts, err
	}
	return factsWritten(&info)
}

// factsWritten returns what an object was written with.
func factsWritten(info *object.Info) (facts node.Facts, err error) {
	facts.ACL = info.Metadata[metaACL]
	facts.Tags, err = parseTags(info.Metadata[metaTags])
	return facts, err
}

const (
	maxTags       = 10 // of an object
	maxBucketTags = 50
	maxTagKey     = 128 // characters
	maxTagValue   = 256
)

// parseTags reads tags as a header has them.
func parseTags(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, faultf(invalidArgument, "the tags are not like the query of a URL")
	}
	tags := make(map[string]string, len(values))
	for key, all := range values {
		if len(all) > 1 {
			return nil, faultf(invalidTag, "Cannot provide multiple Tags with the same key")
		}
		tags[key] = all[0]
	}
	return tags, validTags(tags, maxTags)
}

func validTags(tags map[string]string, most int) error {
	if len(tags) > most {
		return faultf(invalidTag, "There can be no more than %d tags", most)
	}
	for key, value := range tags {
		switch {
		case key == "" || utf8.RuneCountInString(key) > maxTagKey || strings.ContainsFunc(key, notInTag):
			return faultf(invalidTag, "The TagKey you have provided is invalid")
		case utf8.RuneCountInString(value) > maxTagValue || strings.ContainsFunc(value, notInTag):
			return faultf(invalidTag, "The TagValue you have provided is invalid")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return faultf(invalidTag, "System tags cannot be added/updated by requester")
		}
	}
	return nil
}

// notInTag reports whether a character cannot be in a tag.
func notInTag(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.N, unicode.Z) && !strings.ContainsRune("+-=._:/@", r)
}
