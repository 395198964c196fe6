package penstock

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// reader is the body of an answer, counted and, for a whole object, verified.
type reader struct {
	client *Client
	over   func() error // why the request's context has ended, and with it the body; nil if it has not
	body   io.ReadCloser
	info   Info
	offset int64
	length int64
	sent   int64 // what the node sends, length or more
	read   int64
	crc    uint32
	whole  bool  // the CRC-32 of the object is that of the range
	err    error // what every further Read answers
}

func (c *Client) newReader(ctx context.Context, name Name, piece Range, resp *http.Response) (*reader, error) {
	offset, length, size, err := bounds(resp)
	if err != nil {
		return nil, err
	}
	info, err := parseInfo(name, resp.Header, size)
	if err != nil {
		return nil, err
	}
	wantOffset, wantLength, err := piece.Resolve(size)
	if err != nil {
		return nil, fmt.Errorf("the node answered a range it should have refused: %w", err)
	}
	if offset != wantOffset || length < wantLength {
		return nil, fmt.Errorf("asked for %d bytes at %d, was sent %d at %d", wantLength, wantOffset, length, offset)
	}
	// The node sends more than was asked for where rangeHeader says so.
	return &reader{
		client: c, over: func() error { return context.Cause(ctx) }, body: resp.Body, info: info, offset: offset, length: wantLength, sent: length,
		whole: wantOffset == 0 && wantLength == size,
	}, nil
}

// bounds returns which bytes of an object of which size an answer holds.
func bounds(resp *http.Response) (offset, length, size int64, err error) {
	if resp.StatusCode != http.StatusPartialContent {
		return 0, resp.ContentLength, resp.ContentLength, nil
	}
	text := resp.Header.Get("Content-Range")
	rest, ok := strings.CutPrefix(text, "bytes ")
	first, rest, ok2 := strings.Cut(rest, "-")
	last, total, ok3 := strings.Cut(rest, "/")
	offset, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	size, err3 := strconv.ParseInt(total, 10, 64)
	if !ok || !ok2 || !ok3 || errors.Join(err1, err2, err3) != nil || offset < 0 || end < offset || size <= end {
		return 0, 0, 0, fmt.Errorf("the answer's Content-Range %q makes no sense", text)
	}
	return offset, end - offset + 1, size, nil
}

func (r *reader) Info() Info { return r.info }

func (r *reader) Bounds() (offset, length int64) { return r.offset, r.length }

// Read gives the next bytes. The last ones are given only when all are right:
// whoever asks for exactly as many bytes as there are never sees what a Read
// after them says.
func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.read == r.length {
		return 0, r.end()
	}
	if int64(len(p)) > r.length-r.read {
		p = p[:r.length-r.read]
	}
	n, err := r.body.Read(p)
	r.read += int64(n)
	if r.whole {
		r.crc = crc32.Update(r.crc, crc32.IEEETable, p[:n])
	}
	if r.read == r.length && len(p) > 0 {
		if err := r.end(); err != io.EOF {
			return 0, err
		}
		return n, nil
	}
	if err != nil {
		r.err = r.broken(err)
	}
	return n, r.err
}

// end sets and returns what a reader that has given all its bytes answers.
func (r *reader) end() error {
	r.err = io.EOF
	if r.whole && r.crc != r.info.CRC32 {
		r.err = r.client.errorf(Corrupt, "%s: the bytes received have CRC-32 %08x, the object has %08x", r.info.Name, r.crc, r.info.CRC32)
	}
	return r.err
}

// broken describes a body that ended before its length.
func (r *reader) broken(err error) error {
	switch {
	case r.over() != nil:
		return r.client.errorf(Canceled, "%s: %w", r.info.Name, r.over())
	case err == io.EOF: // the node ended it in good order
		return r.client.errorf(Corrupt, "%s: %d bytes instead of %d", r.info.Name, r.read, r.length)
	}
	return r.client.errorf(Unavailable, "%s: the connection broke after %d of %d bytes: %w", r.info.Name, r.read, r.length, err)
}

// WriteTo writes what is left to w.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	buffer := r.client.buffers.Get().(*[]byte)
	defer r.client.buffers.Put(buffer)
	var written int64
	for {
		n, err := r.Read(*buffer)
		if n > 0 {
			m, werr := w.Write((*buffer)[:n])
			written += int64(m)
			if werr != nil {
				return written, werr
			}
		}
		if err == io.EOF {
			return written, nil
		}
		if err != nil {
			return written, err
		}
	}
}

// drainLimit is how much of a body that nobody wants is read so that its
// connection can serve another request.
const drainLimit = 64 << 10

// Close ends the reading. The connection is kept if little is left to read.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = object.Errorf(Invalid, "%s: read after close", r.info.Name)
	}
	if r.sent-r.read <= drainLimit {
		_, _ = io.Copy(io.Discard, r.body) // a failure only costs the connection
	}
	return r.body.Close()
}
