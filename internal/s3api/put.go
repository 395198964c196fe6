package s3api

import (
	"encoding/hex"
	"io"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/object"
)

// maxPut is the most that one request may bring: an object, or a part of one.
const maxPut = 5 << 30

// putObject stores the body. Nothing of it is there before everything that was signed
// or announced about it was checked: the body's io.EOF says so.
func (a *API) putObject(c *call) error {
	if c.has("versionId") {
		return faultf(invalidArgument, "This operation does not accept a version-id.")
	}
	opts, err := c.putOptions()
	if err != nil {
		return err
	}
	if opts.Condition, err = c.writeCondition(); err != nil {
		return err
	}
	b, err := c.content()
	if err != nil {
		return err
	}
	defer b.Close()
	opts.SizeHint = max(0, c.signed.Length)
	opts.Finish = b.finish
	info, err := a.node.Put(c.R.Context(), object.Name{Bucket: c.bucket, Key: c.key}, b, opts)
	c.BodyDone()
	if err != nil {
		return err
	}
	c.stored(&info)
	return nil
}

// stored sets the headers that say what was stored.
func (c *call) stored(info *object.Info) {
	h := c.Header()
	h["Etag"] = c.Value(`"` + info.ETag + `"`)
	c.showNewVersion(info)
	if s, ok := checksumOf(info); ok {
		c.setChecksum(s)
	}
}

// showNewVersion sets the header with the ID of what was stored, if it has one.
func (c *call) showNewVersion(info *object.Info) {
	if info.Name.ID != (object.Version{}) {
		c.Header()["X-Amz-Version-Id"] = c.Value(versionID(info.Name.ID))
	}
}

// writeCondition reads If-Match and If-None-Match of a write.
func (c *call) writeCondition() (object.Condition, error) {
	cond, err := door.WriteCondition(c.R.Header)
	if err != nil {
		return cond, faultf(notImplemented, "%v", err)
	}
	return cond, nil
}

// content is the body of a write with its MD5, which becomes the ETag, and its further
// checksum.
type content struct {
	*digester
	call *call
}

// content returns the body of a write. S3 demands that it says how long it is; here it
// may also just come to its end, as Ceph has it.
func (c *call) content() (*content, error) {
	length, source := c.signed.Length, io.Reader(c.R.Body)
	if length > maxPut {
		return nil, tooMuch()
	}
	if length < 0 {
		source = &capped{source, maxPut}
	}
	return &content{digester: newDigester(&c.api.pieces, source, length, c.R.Header["Content-Md5"] == nil), call: c}, nil
}

func tooMuch() error {
	return faultf(entityTooLarge, "one request may bring %d bytes: bring more in parts", int64(maxPut))
}

// capped is a body of unknown length that may not be longer than one of a known.
type capped struct {
	io.Reader
	left int64
}

func (r *capped) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, tooMuch()
	}
	return n, err
}

// finish is called when the content was read to its end, and found to be right.
func (b *content) finish() (object.Finish, error) {
	digest := b.sum()
	if digest == nil {
		digest = b.call.signed.MD5()
	}
	end := object.Finish{ETag: hex.EncodeToString(digest)}
	if algorithm, value := b.call.signed.Checksum(); algorithm != checksum.None && algorithm != checksum.CRC32 {
		end.Metadata = map[string]string{metaChecksum: checksumMeta(sum{algorithm: algorithm, value: checksum.Encode(value)})}
	}
	return end, nil
}

var _ io.ReadCloser = (*content)(nil)
