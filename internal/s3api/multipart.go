package s3api

import (
	"iter"
	"maps"
	"net/http"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

func multipartOperations() []*operation {
	with := []string{"uploadId"}
	return []*operation{
		{name: "CreateMultipartUpload", scope: ofObject, method: http.MethodPost, with: []string{"uploads"}, action: "s3:PutObject", handle: (*API).createUpload},
		// Without a part's number these two must not become a PutObject.
		{name: "UploadPart", scope: ofObject, method: http.MethodPut, with: with, action: "s3:PutObject", handle: (*API).uploadPart},
		{name: "UploadPartCopy", scope: ofObject, method: http.MethodPut, with: with, header: "x-amz-copy-source", action: "s3:PutObject", handle: (*API).copyPart},
		{name: "CompleteMultipartUpload", scope: ofObject, method: http.MethodPost, with: with, action: "s3:PutObject", handle: (*API).completeUpload},
		{name: "AbortMultipartUpload", scope: ofObject, method: http.MethodDelete, with: with, action: "s3:AbortMultipartUpload", handle: (*API).abortUpload},
		{name: "ListParts", scope: ofObject, method: http.MethodGet, with: with, action: "s3:ListMultipartUploadParts", handle: (*API).listParts},
		{
			name: "ListMultipartUploads", scope: ofBucket, method: http.MethodGet, with: []string{"uploads"},
			action: "s3:ListBucketMultipartUploads", handle: (*API).listUploads,
		},
	}
}

// upload is an upload with what this door keeps in it.
type upload struct {
	node.Upload
	sum sum // what checksum the object is to have, without a value; the zero sum if the client has not said
}

func asUpload(u node.Upload) upload {
	known := upload{Upload: u}
	if u.Info.Metadata[metaChecksum] != "" {
		known.sum, _ = checksumOf(&u.Info)
	}
	return known
}

// owner is the user who began an upload.
func (c *call) owner(u *node.Upload) string {
	if name := u.Info.Metadata[metaOwner]; name != "" {
		return name
	}
	return auth.Owner(c.about.Access)
}

// createUpload begins to bring an object in parts.
func (a *API) createUpload(c *call) error {
	opts, err := c.putOptions()
	if err != nil {
		return err
	}
	s, err := c.uploadSum()
	if err != nil {
		return err
	}
	if s.algorithm != checksum.None {
		opts.Metadata = maps.Clone(opts.Metadata)
		if opts.Metadata == nil {
			opts.Metadata = make(map[string]string)
		}
		opts.Metadata[metaChecksum] = checksumMeta(s)
		c.Header()["X-Amz-Checksum-Algorithm"] = []string{s.algorithm.String()}
		c.Header()["X-Amz-Checksum-Type"] = []string{s.kind()}
	}
	u, err := a.node.BeginUpload(c.R.Context(), object.Name{Bucket: c.bucket, Key: c.key}, opts)
	if err != nil {
		return err
	}
	x := newXML("InitiateMultipartUploadResult")
	x.text("Bucket", c.bucket)
	x.text("Key", c.key)
	x.text("UploadId", node.FormatID(u.ID))
	return c.send(x)
}

// uploadSum reads which checksum the object is to have. Only a CRC of a whole can be
// had from those of its parts, and there is no composite CRC64NVME.
func (c *call) uploadSum() (s sum, err error) {
	if s.algorithm, err = c.wantedAlgorithm(); err != nil {
		return s, err
	}
	s.composite = s.algorithm != checksum.CRC64NVME
	kind := c.amz("X-Amz-Checksum-Type")
	switch {
	case kind == "":
		return s, nil
	case s.algorithm == checksum.None:
		return s, faultf(invalidRequest, "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
	case kind == "COMPOSITE" && s.algorithm != checksum.CRC64NVME:
	case kind == "FULL_OBJECT" && s.algorithm.IsCRC():
		s.composite = false
	default:
		return s, faultf(invalidRequest, "The %.40s checksum type cannot be used with the %s checksum algorithm.", kind, strings.ToLower(s.algorithm.String()))
	}
	return s, nil
}

// uploadID reads which upload a request is about. What cannot be an ID is none.
func (c *call) uploadID() object.Version {
	text, _ := c.param("uploadId")
	id, _ := node.ParseID(text)
	return id
}

// upload returns the upload that a request is about.
func (c *call) upload() (upload, error) {
	u, err := c.api.node.Upload(c.R.Context(), object.Name{Bucket: c.bucket, Key: c.key}, c.uploadID())
	if object.Is(err, object.NotFound) {
		return upload{}, fault(noSuchUpload)
	}
	return asUpload(u), err
}

// abortUpload ends an upload and forgets its parts.
func (a *API) abortUpload(c *call) error {
	u, err := c.upload()
	if err != nil {
		return err
	}
	c.Status = http.StatusNoContent
	return a.node.AbortUpload(c.R.Context(), u.Upload)
}

// listUploads lists the uploads of a bucket that are under way, those of one key the
// newest first.
func (a *API) listUploads(c *call) error {
	p := &page{xmlWriter: newXML("ListMultipartUploadsResult")}
	var err error
	if p.opts, p.url, err = c.listOptions(); err != nil {
		return err
	}
	limit, _ := c.param("max-uploads")
	if p.opts.Limit, err = pageLimit("max-uploads", limit); err != nil {
		return err
	}
	if p.opts.After, err = c.keyParam("key-marker"); err != nil {
		return err
	}
	marker, _ := c.param("upload-id-marker")
	var after object.Version
	if marker != "" && p.opts.After != "" { // alone it means nothing
		var ok bool
		if after, ok = node.ParseID(marker); !ok {
			return faultf(invalidArgument, "Invalid uploadId marker")
		}
	}
	p.text("Bucket", c.bucket)
	p.key("KeyMarker", p.opts.After)
	p.text("UploadIdMarker", marker)
	p.key("Prefix", p.opts.Prefix)
	if p.opts.Delimiter != "" {
		p.key("Delimiter", p.opts.Delimiter)
	}
	p.number("MaxUploads", int64(p.opts.Limit))
	if p.url {
		p.text("EncodingType", "url")
	}
	list := func(opts object.ListOptions) iter.Seq2[object.Entry, error] {
		return a.node.Uploads(c.R.Context(), c.bucket, opts, after)
	}
	var failed error
	write := func(p *page, info *object.Info) {
		if err := c.writeUpload(p, info); err != nil && failed == nil {
			failed = err
		}
	}
	if err := p.fill(list, write); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if p.more {
		p.key("NextKeyMarker", p.last.Mark())
		if p.last.Prefix == "" {
			p.text("NextUploadIdMarker", node.FormatID(p.last.Info.Name.ID))
		}
	}
	return c.send(p.xmlWriter)
}

// writeUpload writes one of many uploads. Whose it is a listing does not know.
func (c *call) writeUpload(p *page, info *object.Info) error {
	found, err := c.api.node.Upload(c.R.Context(), object.Name{Bucket: c.bucket, Key: info.Name.Key}, info.Name.ID)
	if object.Is(err, object.NotFound) {
		return nil // it has just ended
	}
	if err != nil {
		return err
	}
	u := asUpload(found)
	p.begin("Upload")
	p.key("Key", info.Name.Key)
	p.text("UploadId", node.FormatID(u.ID))
	p.uploadFacts(c, &u)
	p.time("Initiated", u.Info.Modified)
	p.end()
	return nil
}

// uploadFacts writes what both lists tell of an upload.
func (x *xmlWriter) uploadFacts(c *call, u *upload) {
	owner := c.owner(&u.Upload)
	x.person("Initiator", owner)
	x.person("Owner", owner)
	x.text("StorageClass", storageClass)
	if u.sum.algorithm != checksum.None {
		x.text("ChecksumAlgorithm", u.sum.algorithm.String())
		x.text("ChecksumType", u.sum.kind())
	}
}
