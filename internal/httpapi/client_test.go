package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/object/objecttest"
)

// TestConformance puts the door, seen through a client, through the suite that
// everything passes that holds objects.
func TestConformance(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objecttest.Holder {
		d := open(t, config{})
		for _, b := range []string{objecttest.Bucket, objecttest.Other} {
			if _, err := d.node.CreateBucket(t.Context(), b, node.Properties{}); err != nil {
				t.Fatal(err)
			}
		}
		return &client{door: d}
	}, objecttest.Options{Steps: 150})
}

// client is a holder of objects behind a door.
type client struct {
	door *door
	odd  atomic.Bool
}

func (c *client) url(name object.Name) string {
	return "http://" + c.door.addr + "/v1/objects" + c.path(name)
}

// path writes a name, with its slashes now as they are and now escaped.
func (c *client) path(name object.Name) string {
	key := url.PathEscape(name.Key)
	if odd := c.odd.Load(); c.odd.CompareAndSwap(odd, !odd) && odd {
		key = strings.ReplaceAll(key, "%2F", "/")
	}
	return "/" + url.PathEscape(name.Bucket) + "/" + key
}

func (c *client) do(ctx context.Context, method, url string, body io.Reader, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	answer, err := c.door.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		return nil, errorOf(answer)
	}
	return answer, nil
}

func errorOf(answer *http.Response) error {
	said, _, _ := strings.Cut(answer.Header.Get("X-Penstock-Error"), ":") // the message follows, for HEAD
	kind := object.ParseKind(said)
	if answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		size, _ := strconv.ParseInt(strings.TrimPrefix(answer.Header.Get("Content-Range"), "bytes */"), 10, 64)
		return &object.Error{Kind: kind, Err: &object.RangeError{Size: size}}
	}
	body, _ := io.ReadAll(answer.Body)
	return object.Errorf(kind, "%d: %s", answer.StatusCode, body)
}

func infoOf(name object.Name, h http.Header) object.Info {
	info := object.Info{Name: name, ETag: strings.Trim(h.Get("ETag"), `"`), ContentType: h.Get("Content-Type")}
	info.Size, _ = strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if _, total, ok := strings.Cut(h.Get("Content-Range"), "/"); ok {
		info.Size, _ = strconv.ParseInt(total, 10, 64)
	}
	info.Modified, _ = time.Parse(time.RFC3339Nano, h.Get("X-Penstock-Modified"))
	info.Version = versionOf(h.Get("X-Penstock-Version"))
	info.CRC32 = crcOf(h.Get("X-Penstock-Crc32"))
	if info.ContentType == "application/octet-stream" {
		info.ContentType = ""
	}
	for k, v := range h {
		if key, ok := strings.CutPrefix(k, "X-Penstock-Meta-"); ok {
			if info.Metadata == nil {
				info.Metadata = map[string]string{}
			}
			info.Metadata[strings.ToLower(key)] = v[0]
		}
	}
	return info
}

func versionOf(s string) (v object.Version) {
	fmt.Sscanf(s, "%d.%d", &v.Map, &v.Counter)
	return v
}

func crcOf(s string) uint32 {
	n, _ := strconv.ParseUint(s, 16, 32)
	return uint32(n)
}

// objectInfo is the JSON of an object or an entry.
type objectInfo struct {
	Key         string
	Size        int64
	ETag        string
	Modified    time.Time
	Version     string
	CRC32       string
	ContentType string `json:"content_type"`
	Metadata    map[string]string
}

func (o objectInfo) info(bucket string) object.Info {
	return object.Info{
		Name: object.Name{Bucket: bucket, Key: o.Key}, Size: o.Size, ETag: o.ETag, Modified: o.Modified,
		Version: versionOf(o.Version), CRC32: crcOf(o.CRC32), ContentType: o.ContentType, Metadata: o.Metadata,
	}
}

func (c *client) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	answer, err := c.do(ctx, "HEAD", c.url(name), nil, nil)
	if err != nil {
		return object.Info{}, err
	}
	answer.Body.Close()
	return infoOf(name, answer.Header), nil
}

func (c *client) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	h := http.Header{}
	switch {
	case r.Length < 0: // HTTP has no way to say it
		return nil, object.Errorf(object.Invalid, "%w", &object.RangeError{Range: r, Size: c.size(ctx, name)})
	case r.Offset < 0 && r.Length > 0: // nor this: the end of it is cut here
		h.Set("Range", fmt.Sprintf("bytes=%d", r.Offset))
	case r.Offset < 0:
		h.Set("Range", fmt.Sprintf("bytes=%d", r.Offset))
	case r.Length > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", r.Offset, uint64(r.Offset)+uint64(r.Length)-1))
	case r.Offset > 0:
		h.Set("Range", fmt.Sprintf("bytes=%d-", r.Offset))
	}
	answer, err := c.do(ctx, "GET", c.url(name), nil, h)
	if err != nil {
		return nil, err
	}
	reader := &clientReader{Reader: answer.Body, body: answer.Body, info: infoOf(name, answer.Header), length: answer.ContentLength}
	if r.Offset < 0 && r.Length > 0 {
		reader.length = min(reader.length, r.Length)
		reader.Reader = io.LimitReader(answer.Body, reader.length)
	}
	return reader, nil
}

func (c *client) size(ctx context.Context, name object.Name) int64 {
	info, _ := c.Stat(ctx, name)
	return info.Size
}

type clientReader struct {
	io.Reader
	body   io.Closer
	info   object.Info
	length int64
}

func (r *clientReader) Close() error                       { return r.body.Close() }
func (r *clientReader) Info() object.Info                  { return r.info }
func (r *clientReader) Bounds() (int64, int64)             { return 0, r.length }
func (r *clientReader) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, r.Reader) }

func (c *client) headers(opts object.PutOptions) http.Header {
	h := conditions(opts.Condition)
	if opts.ContentType != "" {
		h.Set("Content-Type", opts.ContentType)
	}
	if opts.CRC32 != nil {
		h.Set("X-Penstock-Crc32", fmt.Sprintf("%08x", *opts.CRC32))
	}
	for k, v := range opts.Metadata {
		h.Set("X-Penstock-Meta-"+k, v)
	}
	return h
}

func conditions(cond object.Condition) http.Header {
	h := http.Header{}
	for name, tag := range map[string]string{"If-Match": cond.IfMatch, "If-None-Match": cond.IfNoneMatch} {
		if tag != "" && tag != "*" {
			tag = `"` + tag + `"`
		}
		if tag != "" {
			h.Set(name, tag)
		}
	}
	return h
}

func (c *client) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	return c.put(ctx, name, contextBody{ctx, r}, c.headers(opts))
}

// contextBody breaks off when the context ends: otherwise the last of the body
// could go out before the connection is closed, and the object be stored.
type contextBody struct {
	ctx context.Context
	r   io.Reader
}

func (b contextBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	return n, err
}

func (c *client) put(ctx context.Context, name object.Name, body io.Reader, h http.Header) (object.Info, error) {
	answer, err := c.do(ctx, "PUT", c.url(name), body, h)
	if err != nil {
		return object.Info{}, err
	}
	defer answer.Body.Close()
	var o objectInfo
	if err := json.NewDecoder(answer.Body).Decode(&o); err != nil {
		return object.Info{}, err
	}
	return o.info(name.Bucket), nil
}

func (c *client) Copy(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error) {
	if opts.Metadata != nil && len(opts.Metadata) == 0 && opts.ContentType == "" {
		opts.ContentType = "application/octet-stream" // headers cannot say "none" otherwise
	}
	h := c.headers(opts)
	h.Set("X-Penstock-Copy-Source", c.path(src))
	info, err := c.put(ctx, dst, nil, h)
	if info.ContentType == "application/octet-stream" {
		info.ContentType = ""
	}
	return info, err
}

func (c *client) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	answer, err := c.do(ctx, "DELETE", c.url(name), nil, conditions(cond))
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func (c *client) List(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		limit := opts.Limit
		for {
			page, err := c.page(ctx, bucket, opts, limit)
			if err != nil {
				yield(object.Entry{}, err)
				return
			}
			for _, e := range page.merged(bucket) {
				if !yield(e, nil) {
					return
				}
				if limit--; limit == 0 {
					return
				}
			}
			if !page.Truncated {
				return
			}
			opts.After = page.Next
		}
	}
}

type page struct {
	Entries   []objectInfo
	Prefixes  []string
	Truncated bool
	Next      string
}

// merged returns entries and prefixes in their common order.
func (p *page) merged(bucket string) []object.Entry {
	var all []object.Entry
	prefixes := p.Prefixes
	for _, e := range p.Entries {
		for len(prefixes) > 0 && prefixes[0] < e.Key {
			all = append(all, object.Entry{Prefix: prefixes[0]})
			prefixes = prefixes[1:]
		}
		all = append(all, object.Entry{Info: e.info(bucket)})
	}
	for _, prefix := range prefixes {
		all = append(all, object.Entry{Prefix: prefix})
	}
	return all
}

func (c *client) page(ctx context.Context, bucket string, opts object.ListOptions, limit int) (*page, error) {
	q := url.Values{}
	for name, value := range map[string]string{"prefix": opts.Prefix, "delimiter": opts.Delimiter, "after": opts.After} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	answer, err := c.do(ctx, "GET", "http://"+c.door.addr+"/v1/objects/"+url.PathEscape(bucket)+"?"+q.Encode(), nil, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	p := new(page)
	return p, json.NewDecoder(answer.Body).Decode(p)
}
