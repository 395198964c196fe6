package penstock

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Stat returns what is known about an object, or NotFound.
func (c *Client) Stat(ctx context.Context, name Name) (Info, error) {
	if err := name.Validate(); err != nil {
		return Info{}, err
	}
	resp, _, err := c.do(ctx, call{method: http.MethodHead, url: c.object(name), what: name.String()})
	if err != nil {
		return Info{}, err
	}
	resp.Body.Close()
	info, err := parseInfo(name, resp.Header, resp.ContentLength)
	if err != nil {
		return Info{}, c.errorf(Internal, "%s: %w", name, err)
	}
	return info, nil
}

// Get returns a whole object. Use Open for one that may not fit in memory.
func (c *Client) Get(ctx context.Context, name Name) ([]byte, error) {
	r, err := c.Open(ctx, name, Range{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The node's word on the size is taken for memory only up to a bound.
	data := bytes.NewBuffer(make([]byte, 0, min(r.Info().Size, 64<<20)+bytes.MinRead))
	if _, err := data.ReadFrom(r); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// Open returns a reader of one range of the object as it is now; the caller
// closes it. A whole object is checked against its CRC-32: the reader fails with
// Corrupt instead of giving the last bytes if they, or any before them, are not
// the ones that were written. If the connection breaks the reader fails with
// Unavailable.
func (c *Client) Open(ctx context.Context, name Name, r Range) (Reader, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	if r.Length < 0 {
		return nil, c.senseless(ctx, name, r)
	}
	get := call{method: http.MethodGet, url: c.object(name), what: name.String(), piece: r}
	if r != (Range{}) {
		get.header = http.Header{"Range": {rangeHeader(r)}}
	}
	resp, _, err := c.do(ctx, get)
	if err != nil {
		return nil, err
	}
	body, err := c.newReader(ctx, name, r, resp)
	if err != nil {
		resp.Body.Close()
		return nil, c.errorf(Internal, "%s: %w", name, err)
	}
	return body, nil
}

// senseless answers a range of negative length, which HTTP cannot express, as
// the other sources do.
func (c *Client) senseless(ctx context.Context, name Name, r Range) error {
	info, err := c.Stat(ctx, name)
	if err != nil {
		return err
	}
	_, _, err = r.Resolve(info.Size)
	return err
}

// rangeHeader returns the Range header for r. HTTP has no range that begins
// counted from the end and stops before it; the reader cuts that one.
func rangeHeader(r Range) string {
	switch {
	case r.Offset < 0:
		return "bytes=" + strconv.FormatInt(r.Offset, 10)
	case r.Length == 0 || r.Length-1 > maxOffset-r.Offset:
		return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-"
	}
	return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-" + strconv.FormatInt(r.Offset+r.Length-1, 10)
}

const maxOffset = 1<<63 - 1

// parseInfo reads what an answer's headers say about an object of the given size.
func parseInfo(name Name, h http.Header, size int64) (Info, error) {
	info := Info{Name: name, Size: size, ETag: strings.Trim(h.Get("ETag"), `"`), ContentType: contentType(h.Get("Content-Type"))}
	if size < 0 {
		return Info{}, fmt.Errorf("the answer does not say how large it is")
	}
	var err error
	if info.Version, err = parseVersion(h.Get("X-Penstock-Version")); err != nil {
		return Info{}, err
	}
	if info.CRC32, err = parseCRC(h.Get("X-Penstock-Crc32")); err != nil {
		return Info{}, err
	}
	if info.Modified, err = parseModified(h); err != nil {
		return Info{}, err
	}
	for key, values := range h {
		if suffix, ok := strings.CutPrefix(key, metaHeader); ok && len(values) > 0 {
			if info.Metadata == nil {
				info.Metadata = make(map[string]string)
			}
			info.Metadata[strings.ToLower(suffix)] = values[0]
		}
	}
	return info, nil
}

// parseModified returns when an object was written: to the nanosecond if the answer
// says so, as the node does, or to the second, as HTTP does.
func parseModified(h http.Header) (time.Time, error) {
	if text := h.Get("X-Penstock-Modified"); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return time.Time{}, fmt.Errorf("the answer's X-Penstock-Modified: %w", err)
		}
		return at, nil
	}
	at, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return time.Time{}, fmt.Errorf("the answer's Last-Modified: %w", err)
	}
	return at, nil
}

// contentType returns the type an object was stored with. A node has to send some
// type and sends this one where none was given; it means no more than none.
func contentType(sent string) string {
	if sent == "application/octet-stream" {
		return ""
	}
	return sent
}

// metaHeader begins the headers that carry a user's own metadata.
const metaHeader = "X-Penstock-Meta-"

func parseVersion(s string) (Version, error) {
	mapNumber, counter, _ := strings.Cut(s, ".")
	m, err1 := strconv.ParseUint(mapNumber, 10, 32)
	n, err2 := strconv.ParseUint(counter, 10, 64)
	if err1 != nil || err2 != nil {
		return Version{}, fmt.Errorf("%q is not a version", s)
	}
	return Version{Map: uint32(m), Counter: n}, nil
}

func parseCRC(s string) (uint32, error) {
	crc, err := strconv.ParseUint(s, 16, 32)
	if err != nil || len(s) != 8 {
		return 0, fmt.Errorf("%q is not a CRC-32", s)
	}
	return uint32(crc), nil
}

func formatCRC(crc uint32) string { return fmt.Sprintf("%08x", crc) }

var _ object.Source = (*Client)(nil)
