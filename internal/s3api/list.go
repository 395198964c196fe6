package s3api

import (
	"iter"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/object"
)

func listOperations() []*operation {
	return []*operation{
		{name: "ListObjects", scope: ofBucket, method: http.MethodGet, action: "s3:ListBucket", handle: (*API).listObjects},
		{name: "ListObjectsV2", scope: ofBucket, method: http.MethodGet, with: []string{"list-type"}, action: "s3:ListBucket", handle: (*API).listObjectsV2},
		{name: "ListObjectVersions", scope: ofBucket, method: http.MethodGet, with: []string{"versions"}, action: "s3:ListBucketVersions", handle: (*API).listVersions},
	}
}

const maxKeys = 1000 // in one page

// page is a page of a listing, as it is being written.
type page struct {
	*xmlWriter
	opts     object.ListOptions
	url      encoder
	owner    []byte // the element, written once for all keys
	shown    int
	prefixes []string
	last     object.Entry // that was shown
	more     bool
}

// newPage reads the parameters that all listings have, and begins the answer.
func (c *call) newPage(root string) (*page, error) {
	p := &page{}
	var err error
	if p.opts, p.url, err = c.listOptions(); err != nil {
		return nil, err
	}
	p.xmlWriter = newXML(root)
	p.text("Name", c.bucket)
	p.prefix()
	if p.opts.Delimiter != "" {
		p.key("Delimiter", p.opts.Delimiter)
	}
	p.number("MaxKeys", int64(p.opts.Limit))
	if p.url {
		p.text("EncodingType", "url")
	}
	return p, nil
}

// prefix repeats the prefix of the request. boto3 does not decode it in listings of the
// first form, others do: so it is encoded only where decoding would change it, or XML
// cannot hold it.
func (p *page) prefix() {
	for _, r := range p.opts.Prefix {
		if r == '%' || r == '+' || (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r == 0xfffe || r == 0xffff {
			p.key("Prefix", p.opts.Prefix)
			return
		}
	}
	p.text("Prefix", p.opts.Prefix)
}

// listOptions reads the parameters that all listings have. allow-unordered is Ceph's:
// an answer in order is one, too, but with a delimiter it is refused there.
func (c *call) listOptions() (opts object.ListOptions, url encoder, err error) {
	opts.Limit = maxKeys
	if text, _ := c.param("max-keys"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return opts, url, faultf(invalidArgument, "Argument max-keys must be an integer between 0 and 2147483647")
		}
		opts.Limit = min(int(n), maxKeys)
	}
	for name, to := range map[string]*string{"prefix": &opts.Prefix, "delimiter": &opts.Delimiter} {
		if *to, err = c.keyParam(name); err != nil {
			return opts, url, err
		}
	}
	switch encoding, _ := c.param("encoding-type"); encoding {
	case "":
	case "url":
		url = true
	default:
		return opts, url, faultf(invalidArgument, "Invalid Encoding Method specified in Request")
	}
	if unordered, _ := c.param("allow-unordered"); unordered == "true" && opts.Delimiter != "" {
		return opts, url, faultf(invalidArgument, "allow-unordered cannot be used with a delimiter")
	}
	return opts, url, nil
}

// keyParam returns a parameter that is a key or a part of one.
func (c *call) keyParam(name string) (string, error) {
	value, _ := c.param(name)
	if !utf8.ValidString(value) || len(value) > object.MaxKey {
		return "", faultf(invalidArgument, "%s must be UTF-8 of at most %d bytes", name, object.MaxKey)
	}
	return value, nil
}

// own sets the owner that is told of every key. Whose an object in another's bucket is
// stands in its metadata, which a listing does not read: all are the bucket's owner's.
func (p *page) own(c *call) {
	x := &xmlWriter{}
	x.person("Owner", auth.Owner(c.about.Access))
	p.owner = x.b
}

// fill writes what a listing gives, until the page is full. S3 has no word for a listing
// that lacks what a disk holds which cannot be read, so it fails.
func (p *page) fill(list func(object.ListOptions) iter.Seq2[object.Entry, error], write func(*page, *object.Info)) error {
	if p.opts.Limit == 0 {
		p.boolean("IsTruncated", false)
		return nil
	}
	opts := p.opts
	opts.Limit++ // one more, to learn whether there are more
	for e, err := range list(opts) {
		if err != nil {
			return err // ErrIncomplete, too
		}
		if p.shown == p.opts.Limit {
			p.more = true
			break
		}
		p.shown++
		p.last = e
		if e.Prefix != "" {
			p.prefixes = append(p.prefixes, e.Prefix)
			continue
		}
		before := len(p.b)
		write(p, &p.last.Info) // e would have to be allocated
		if p.shown == 16 {     // it is going to be a long one
			p.b = slices.Grow(p.b, (len(p.b)-before)*(p.opts.Limit-p.shown)*9/8)
		}
	}
	for _, prefix := range p.prefixes {
		p.begin("CommonPrefixes")
		p.key("Prefix", prefix)
		p.end()
	}
	p.boolean("IsTruncated", p.more)
	return nil
}

// key writes an element with a key, or a part of one, as the listing was asked to.
func (p *page) key(element, value string) {
	p.tag(element)
	if p.url {
		p.b = p.url.append(p.b, value)
	} else {
		p.escape(value)
	}
	p.closing(element)
}

// contents writes an object of a plain listing.
func (p *page) contents(info *object.Info) {
	p.tag("Contents")
	p.key("Key", info.Name.Key)
	p.facts(info)
	p.b = append(p.b, p.owner...)
	p.closing("Contents")
}

func (p *page) facts(info *object.Info) {
	p.time("LastModified", info.Modified)
	if info.Marker {
		return
	}
	p.etag(info.ETag)
	p.number("Size", info.Size)
	p.b = append(p.b, "<StorageClass>STANDARD</StorageClass>"...)
}

func (a *API) list(c *call) func(object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(opts object.ListOptions) iter.Seq2[object.Entry, error] {
		return a.node.List(c.R.Context(), c.bucket, opts)
	}
}

// listObjects is the first form of a listing.
func (a *API) listObjects(c *call) error {
	p, err := c.newPage("ListBucketResult")
	if err != nil {
		return err
	}
	if p.opts.After, err = c.keyParam("marker"); err != nil {
		return err
	}
	p.key("Marker", p.opts.After)
	p.own(c)
	if err := p.fill(a.list(c), (*page).contents); err != nil {
		return err
	}
	if p.more && p.opts.Delimiter != "" { // without one clients take the last key
		p.key("NextMarker", p.last.Mark())
	}
	return c.send(p.xmlWriter)
}

// listObjectsV2 is the second.
func (a *API) listObjectsV2(c *call) error {
	if kind, _ := c.param("list-type"); kind != "2" {
		return faultf(invalidArgument, "Invalid List Type specified in Request")
	}
	p, err := c.newPage("ListBucketResult")
	if err != nil {
		return err
	}
	if p.opts.After, err = c.keyParam("start-after"); err != nil {
		return err
	}
	if c.has("start-after") {
		p.key("StartAfter", p.opts.After)
	}
	if token, ok := c.param("continuation-token"); ok {
		if token != "" {
			if p.opts.After, ok = parseToken(token, c.bucket); !ok {
				return errToken()
			}
		}
		p.text("ContinuationToken", token)
	}
	if fetch, _ := c.param("fetch-owner"); fetch == "true" {
		p.own(c)
	}
	if err := p.fill(a.list(c), (*page).contents); err != nil {
		return err
	}
	p.number("KeyCount", int64(p.shown))
	if p.more {
		p.text("NextContinuationToken", newToken(p.last.Mark(), c.bucket))
	}
	return c.send(p.xmlWriter)
}

// listVersions lists all versions of objects, the newest first, and marks of deletion.
func (a *API) listVersions(c *call) error {
	p, err := c.newPage("ListVersionsResult")
	if err != nil {
		return err
	}
	if p.opts.After, err = c.keyParam("key-marker"); err != nil {
		return err
	}
	var after object.Version
	if text, _ := c.param("version-id-marker"); text != "" {
		if p.opts.After == "" {
			return faultf(invalidArgument, "A version-id marker cannot be specified without a key marker.")
		}
		if after, err = parseVersionID(text); err != nil {
			return err
		}
	}
	p.key("KeyMarker", p.opts.After)
	marker, _ := c.param("version-id-marker")
	p.text("VersionIdMarker", marker)
	p.own(c)
	list := func(opts object.ListOptions) iter.Seq2[object.Entry, error] {
		return a.node.Versions(c.R.Context(), c.bucket, opts, after)
	}
	if err := p.fill(list, (*page).version); err != nil {
		return err
	}
	if p.more {
		p.key("NextKeyMarker", p.last.Mark())
		if p.last.Prefix == "" {
			p.text("NextVersionIdMarker", versionID(p.last.Info.Name.ID))
		}
	}
	return c.send(p.xmlWriter)
}

// version writes a line of a listing of versions.
func (p *page) version(info *object.Info) {
	element := "Version"
	if info.Marker {
		element = "DeleteMarker"
	}
	p.tag(element)
	p.key("Key", info.Name.Key)
	p.text("VersionId", versionID(info.Name.ID))
	p.boolean("IsLatest", info.Newest)
	p.facts(info)
	p.b = append(p.b, p.owner...)
	p.closing(element)
}
