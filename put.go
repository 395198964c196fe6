package penstock

import (
	"context"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Put stores what r gives, up to its end, and returns when the node has made it
// durable.
//
// If r can be sought, it is read twice: once for its length and CRC-32, which the
// node checks, and once to send it; and an unconditional Put is repeated when the
// node is busy or the connection breaks. Otherwise it is sent as it comes and the
// CRC-32 is compared afterwards: a difference is Corrupt. Put does not return
// while it is reading from r, and does not close it.
func (c *Client) Put(ctx context.Context, name Name, r io.Reader, opts PutOptions) (Info, error) {
	if err := name.Validate(); err != nil {
		return Info{}, err
	}
	header, err := putHeader(opts)
	if err != nil {
		return Info{}, err
	}
	content := newBody(ctx, r, measure(r))
	crc := opts.CRC32
	if crc == nil && content.seeker != nil {
		sum, err := c.checksum(ctx, content)
		if err != nil {
			return Info{}, object.Errorf(object.KindOf(err), "reading what to store as %s: %w", name, err)
		}
		crc = &sum
	}
	if crc != nil {
		header.Set("X-Penstock-Crc32", formatCRC(*crc))
	}
	if content.size < 0 || content.size > expectLimit {
		header.Set("Expect", "100-continue")
	}
	info, err := c.write(ctx, call{
		url: c.object(name), header: header, what: name.String(), body: content,
		once: opts.Condition != (Condition{}),
	})
	if err != nil {
		return Info{}, err
	}
	if sent := content.last; info.CRC32 != sent.crc || info.Size != sent.sent {
		return Info{}, c.errorf(Corrupt, "%s: sent %d bytes with CRC-32 %08x, the node stored %d with %08x",
			name, sent.sent, sent.crc, info.Size, info.CRC32)
	}
	return info, nil
}

// expectLimit is the size from which a body waits until the node has said that
// it wants it. Below it the round trip costs more than a body sent in vain.
const expectLimit = 1 << 20

// checksum reads a body that can be rewound through, and rewinds it.
func (c *Client) checksum(ctx context.Context, b *body) (uint32, error) {
	buffer := c.buffers.Get().(*[]byte)
	defer c.buffers.Put(buffer)
	sum, left := uint32(0), b.size
	for left > 0 {
		n, err := b.src.Read((*buffer)[:min(left, int64(len(*buffer)))])
		sum = crc32.Update(sum, crc32.IEEETable, (*buffer)[:n])
		left -= int64(n)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err == io.EOF && left > 0:
			return 0, io.ErrUnexpectedEOF
		case err != nil && err != io.EOF:
			return 0, err
		}
	}
	return sum, b.rewind()
}

// Copy stores the object src under the name dst as well, with its content type and
// metadata, without its bytes leaving the node. The condition is on what is there
// under dst.
func (c *Client) Copy(ctx context.Context, dst, src Name, cond Condition) (Info, error) {
	if err := src.Validate(); err != nil {
		return Info{}, err
	}
	if err := dst.Validate(); err != nil {
		return Info{}, err
	}
	header := make(http.Header, 4)
	if err := conditionHeader(header, cond); err != nil {
		return Info{}, err
	}
	header.Set("X-Penstock-Copy-Source", "/"+src.Bucket+"/"+escapeKey(src.Key))
	return c.write(ctx, call{url: c.object(dst), header: header, what: dst.String(), once: cond != (Condition{})})
}

// Delete removes an object for good, or answers NotFound. If an attempt broke off
// and a further one finds nothing, the object is gone and that is success.
func (c *Client) Delete(ctx context.Context, name Name, cond Condition) error {
	if err := name.Validate(); err != nil {
		return err
	}
	header := make(http.Header, 4)
	if err := conditionHeader(header, cond); err != nil {
		return err
	}
	remove := call{method: http.MethodDelete, url: c.object(name), header: header, what: name.String(), once: cond != (Condition{})}
	resp, attempts, err := c.do(ctx, remove)
	if err != nil {
		if attempts > 1 && Is(err, NotFound) {
			return nil
		}
		return err
	}
	return resp.Body.Close()
}

// ValidatePut reports as Invalid what Put would refuse before it asks the node:
// conditions, content types and metadata that cannot be sent.
func ValidatePut(opts PutOptions) error {
	_, err := putHeader(opts)
	return err
}

// putHeader returns the headers that say what opts say.
func putHeader(opts PutOptions) (http.Header, error) {
	h := make(http.Header, 8+len(opts.Metadata))
	if err := conditionHeader(h, opts.Condition); err != nil {
		return nil, err
	}
	if opts.ContentType != "" {
		if !plainValue(opts.ContentType) {
			return nil, object.Errorf(Invalid, "content type %q cannot be sent", opts.ContentType)
		}
		h.Set("Content-Type", opts.ContentType)
	}
	for key, value := range opts.Metadata {
		if !plainKey(key) {
			return nil, object.Errorf(Invalid, "metadata key %q may hold only a-z, 0-9, dash, dot and underscore", key)
		}
		if !plainValue(value) {
			return nil, object.Errorf(Invalid, "metadata %s: the value %q cannot be sent", key, value)
		}
		h.Set(metaHeader+key, value)
	}
	return h, nil
}

// conditionHeader adds the headers that say what cond says.
func conditionHeader(h http.Header, cond Condition) error {
	for name, tag := range map[string]string{"If-Match": cond.IfMatch, "If-None-Match": cond.IfNoneMatch} {
		switch {
		case tag == "":
		case tag == "*":
			h.Set(name, tag)
		case !plainValue(tag) || strings.ContainsAny(tag, `",`):
			return object.Errorf(Invalid, "%q is not an ETag", tag)
		default:
			h.Set(name, `"`+tag+`"`)
		}
	}
	return nil
}

// plainKey reports whether a metadata key comes out of a header as it went in.
func plainKey(s string) bool {
	for i := 0; i < len(s); i++ {
		ch := s[i]
		if (ch < 'a' || ch > 'z') && (ch < '0' || ch > '9') && ch != '-' && ch != '_' && ch != '.' {
			return false
		}
	}
	return s != ""
}

// plainValue reports whether a value comes out of a header as it went in.
func plainValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if (s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f {
			return false
		}
	}
	return strings.TrimSpace(s) == s
}

// objectJSON is an object in the answers of the node.
type objectJSON struct {
	Bucket   string    `json:"bucket"`
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
	Version  string    `json:"version"`
	CRC32    string    `json:"crc32"`

	ContentType string            `json:"content_type"`
	Metadata    map[string]string `json:"metadata"`
}

func (o objectJSON) info(bucket string) (Info, error) {
	version, err := parseVersion(o.Version)
	if err != nil {
		return Info{}, err
	}
	crc, err := parseCRC(o.CRC32)
	if err != nil {
		return Info{}, err
	}
	return Info{
		Name: Name{Bucket: bucket, Key: o.Key}, Size: o.Size, ETag: o.ETag, Modified: o.Modified,
		Version: version, CRC32: crc, ContentType: contentType(o.ContentType), Metadata: o.Metadata,
	}, nil
}

// write sends a call that stores something and returns what the node says it
// stored.
func (c *Client) write(ctx context.Context, put call) (Info, error) {
	var answer objectJSON
	put.method, put.out = http.MethodPut, &answer
	if _, _, err := c.do(ctx, put); err != nil {
		return Info{}, err
	}
	info, err := answer.info(answer.Bucket)
	if err != nil {
		return Info{}, c.errorf(Internal, "%s: unexpected answer: %w", put.what, err)
	}
	return info, nil
}

var _ object.Sink = (*Client)(nil)
