package s3api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// discard is an answer that nobody reads.
type discard struct {
	header http.Header
	status int
	bytes  int64
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) WriteHeader(status int) { d.status = status }

func (d *discard) Write(p []byte) (int, error) {
	d.bytes += int64(len(p))
	return len(p), nil
}

func (d *discard) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(struct{ io.Writer }{d}, r)
	return n, err
}

// serve is what the door itself takes for requests that are signed already, without
// net/http around it.
func (d *door) serve(b *testing.B, r *http.Request, size int64) {
	b.Helper()
	w := &discard{header: make(http.Header)}
	body := r.Body
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		w.bytes = 0
		r.Body = body
		d.api.ServeHTTP(w, r)
		if w.status != http.StatusOK || w.bytes < size {
			b.Fatalf("status %d, %d bytes", w.status, w.bytes)
		}
	}
}

func (d *door) signed(b *testing.B, target string) *http.Request {
	b.Helper()
	r := d.request(b, http.MethodGet, target, "", "X-Amz-Content-Sha256: "+hexSHA(""))
	signHeader(r, d.root)
	r.RemoteAddr = "127.0.0.1:1"
	return r
}

func BenchmarkGet(b *testing.B) {
	d := open(b)
	d.ok(b, d.root, http.MethodPut, "/bucket", "")
	d.ok(b, d.root, http.MethodPut, "/bucket/key", strings.Repeat("x", 4<<10))
	b.Run("4KiB", func(b *testing.B) { d.serve(b, d.signed(b, "/bucket/key"), 4<<10) })
}

func BenchmarkListV2(b *testing.B) {
	d := open(b)
	d.ok(b, d.root, http.MethodPut, "/bucket", "")
	for i := range 1000 {
		d.ok(b, d.root, http.MethodPut, fmt.Sprintf("/bucket/train/%09d.jpg", i), "")
	}
	b.Run("1000keys", func(b *testing.B) { d.serve(b, d.signed(b, "/bucket?list-type=2"), 100<<10) })
}
