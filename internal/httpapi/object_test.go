package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func TestObjectHeaders(t *testing.T) {
	d := open(t, config{})
	body, said := d.want(t, 200, "PUT", "/v1/objects/bucket/dir/k", "hello", "X-Penstock-Meta-Label: n01", "Content-Type: text/html")
	var put struct {
		Bucket, Key, ETag, Version, CRC32 string
		Size                              int64
		Modified                          time.Time
	}
	if err := json.Unmarshal([]byte(body), &put); err != nil || put.Bucket != "bucket" || put.Key != "dir/k" || put.Size != 5 || put.CRC32 != "3610a686" {
		t.Errorf("PUT answers %s (%v)", body, err)
	}
	if !strings.Contains(put.ETag, "-") {
		t.Errorf("ETag %s could be taken for an MD5", put.ETag)
	}
	for _, method := range []string{"GET", "HEAD"} {
		_, h := d.want(t, 200, method, "/v1/objects/bucket/dir/k", "")
		for name, want := range map[string]string{
			"Etag": `"` + put.ETag + `"`, "Content-Type": "text/html", "Content-Length": "5",
			"X-Penstock-Version": put.Version, "X-Penstock-Crc32": "3610a686", "X-Penstock-Meta-Label": "n01",
			"Last-Modified":          put.Modified.UTC().Format(http.TimeFormat),
			"X-Penstock-Modified":    put.Modified.UTC().Format(time.RFC3339Nano),
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", "Content-Range": "",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", method, name, got, want)
			}
		}
	}
	for method, header := range map[string]string{"HEAD": "X-Nothing: x", "GET": "Range: bytes=0-9"} {
		_, _, h := d.do(t, method, "/v1/objects/bucket/dir/k", "", header)
		if h.Get("Accept-Ranges") != "bytes" {
			t.Errorf("%s with %s does not say that ranges can be asked for", method, header)
		}
	}
	// What was stored is described by the answers of writes, too, but they are not it.
	_, copied := d.want(t, 200, "PUT", "/v1/objects/bucket/copy", "", "X-Penstock-Copy-Source: /bucket/dir/k")
	for key, got := range map[string]http.Header{"dir/k": said, "copy": copied} {
		_, h := d.want(t, 200, "HEAD", "/v1/objects/bucket/"+key, "")
		for _, name := range []string{"Etag", "Last-Modified", "X-Penstock-Modified", "X-Penstock-Version", "X-Penstock-Crc32"} {
			if got.Get(name) != h.Get(name) || h.Get(name) == "" {
				t.Errorf("PUT of %s: %s is %q, HEAD has %q", key, name, got.Get(name), h.Get(name))
			}
		}
		if got.Get("Content-Type") != "application/json" || got.Get("X-Penstock-Meta-Label") != "" || got.Get("Accept-Ranges") != "" {
			t.Errorf("PUT of %s has headers of the object: %v", key, got)
		}
	}
	d.put(t, "plain", "<html>")
	if _, h := d.want(t, 200, "GET", "/v1/objects/bucket/plain", ""); h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a content type was guessed: %s", h.Get("Content-Type"))
	}
	if body, _ := d.want(t, 200, "HEAD", "/v1/objects/bucket/plain", ""); body != "" {
		t.Errorf("HEAD has a body: %q", body)
	}
	_, h := d.want(t, 404, "HEAD", "/v1/objects/bucket/missing", "")
	if got := h.Get("X-Penstock-Error"); got != "NotFound: bucket/missing does not exist" {
		t.Errorf("the error of HEAD is %q", got)
	}
	if _, h := d.want(t, 404, "GET", "/v1/objects/bucket/missing", ""); h.Get("X-Penstock-Error") != "NotFound" {
		t.Errorf("the kind of GET's error is %q", h.Get("X-Penstock-Error"))
	}
	awkward := "%0d%0aX-Evil:%201" + strings.Repeat("%c3%a9", 200)
	_, h = d.want(t, 404, "HEAD", "/v1/objects/bucket/"+awkward, "")
	if got := h.Get("X-Penstock-Error"); h.Get("X-Evil") != "" || !utf8.ValidString(got) || len(got) < 190 || len(got) > 200 {
		t.Errorf("the error of HEAD is %q", got)
	}
	d.want(t, 204, "DELETE", "/v1/objects/bucket/plain", "")
	body, _ = d.want(t, 404, "DELETE", "/v1/objects/bucket/plain", "")
	wantError(t, body, "NotFound", "bucket/plain")
}

func TestRanges(t *testing.T) {
	d := open(t, config{})
	d.put(t, "k", "0123456789")
	d.put(t, "empty", "")
	for _, tt := range []struct {
		key, header  string
		status       int
		body, ranges string
	}{
		{"k", "bytes=0-3", 206, "0123", "bytes 0-3/10"},
		{"k", "bytes=0-0", 206, "0", "bytes 0-0/10"},
		{"k", "bytes=9-", 206, "9", "bytes 9-9/10"},
		{"k", "bytes=0-", 206, "0123456789", "bytes 0-9/10"},
		{"k", "bytes=-3", 206, "789", "bytes 7-9/10"},
		{"k", "bytes=-99", 206, "0123456789", "bytes 0-9/10"},
		{"k", "bytes=4-99", 206, "456789", "bytes 4-9/10"},
		{"k", "bytes=4-99999999999999999999999", 206, "456789", "bytes 4-9/10"},
		{"k", "bytes=-99999999999999999999999", 206, "0123456789", "bytes 0-9/10"},
		{"k", "BYTES= 2-3 ", 206, "23", "bytes 2-3/10"},
		{"k", "bytes=2-3,", 206, "23", "bytes 2-3/10"},
		{"k", "bytes=10-", 416, "", "bytes */10"},
		{"k", "bytes=10-11", 416, "", "bytes */10"},
		{"k", "bytes=99999999999999999999999-", 416, "", "bytes */10"},
		{"k", "bytes=-0", 416, "", "bytes */10"},
		{"empty", "bytes=0-", 416, "", "bytes */0"},
		{"empty", "bytes=-1", 416, "", "bytes */0"},
		{"k", "bytes=0-1,4-5", 200, "0123456789", ""},
		{"k", "lines=0-1", 200, "0123456789", ""},
		{"k", "bytes=3-2", 400, "", ""},
		{"k", "bytes=", 400, "", ""},
		{"k", "bytes=-", 400, "", ""},
		{"k", "bytes=--1", 400, "", ""},
		{"k", "bytes=a-b", 400, "", ""},
		{"k", "bytes=+1-2", 400, "", ""},
		{"k", "bytes=1", 400, "", ""},
		{"k", "bytes=0x1-2", 400, "", ""},
		{"k", "bytes 0-1", 400, "", ""},
		{"k", "bytes=0-1,x", 400, "", ""},
		{"missing", "bytes=0-1", 404, "", ""},
	} {
		body, h := d.want(t, tt.status, "GET", "/v1/objects/bucket/"+tt.key, "", "Range: "+tt.header)
		if tt.status < 300 && body != tt.body || h.Get("Content-Range") != tt.ranges {
			t.Errorf("%s of %s gives %q, %q; want %q, %q", tt.header, tt.key, body, h.Get("Content-Range"), tt.body, tt.ranges)
		}
		if tt.status == 416 && (!strings.Contains(body, "lies outside bucket/"+tt.key) || strings.Contains(body, "9223372036854775807")) {
			t.Errorf("%s of %s is answered %s", tt.header, tt.key, body)
		}
		if tt.status >= 400 && h.Get("Etag") != "" {
			t.Errorf("%s: the error has the object's headers", tt.header)
		}
	}
	d.want(t, 400, "GET", "/v1/objects/bucket/k", "", "Range: bytes=0-1", "Range: bytes=2-3")
	d.want(t, 200, "HEAD", "/v1/objects/bucket/k", "", "Range: bytes=99-")
}

func TestReadConditions(t *testing.T) {
	clock := time.Date(2026, 11, 5, 12, 0, 0, 500, time.UTC)
	store := nodetest.NewStore()
	store.Clock = func() time.Time { return clock }
	d := open(t, config{store: store})
	d.put(t, "k", "0123456789")
	_, h := d.want(t, 200, "HEAD", "/v1/objects/bucket/k", "")
	etag := h.Get("Etag")
	at := func(d time.Duration) string { return clock.Add(d).Format(http.TimeFormat) }
	for _, tt := range []struct {
		status  int
		headers []string
	}{
		{304, []string{"If-None-Match: " + etag}},
		{304, []string{"If-None-Match: W/" + etag}},
		{304, []string{"If-None-Match: *"}},
		{304, []string{`If-None-Match: "x", ` + etag}},
		{304, []string{`If-None-Match: "x"`, "If-None-Match: " + etag}},
		{304, []string{"If-None-Match: " + strings.Trim(etag, `"`)}},
		{200, []string{`If-None-Match: "x"`}},
		{200, []string{"If-Match: " + etag}},
		{200, []string{"If-Match: *"}},
		{200, []string{`If-Match: "x",` + etag}},
		{412, []string{`If-Match: "x"`}},
		{412, []string{"If-Match: W/" + etag}},
		{412, []string{`If-Match: "x"`, "If-None-Match: " + etag}},
		{304, []string{"If-Modified-Since: " + at(0)}},
		{304, []string{"If-Modified-Since: " + at(time.Hour)}},
		{200, []string{"If-Modified-Since: " + at(-time.Second)}},
		{200, []string{"If-Modified-Since: yesterday"}},
		{200, []string{"If-Modified-Since: " + at(0), `If-None-Match: "x"`}},
		{200, []string{"If-Unmodified-Since: " + at(0)}},
		{412, []string{"If-Unmodified-Since: " + at(-time.Second)}},
		{304, []string{"If-None-Match: " + etag, "Range: bytes=0-1"}},
		{304, []string{"If-None-Match: " + etag, "Range: bytes=99-"}},
		{412, []string{`If-Match: "x"`, "Range: bytes=99-"}},
		{416, []string{"If-Match: " + etag, "Range: bytes=99-"}},
		{206, []string{"If-Match: " + etag, "Range: bytes=0-1"}},
		{206, []string{"If-Range: " + etag, "Range: bytes=0-1"}},
		{206, []string{"If-Range: " + at(0), "Range: bytes=0-1"}},
		{416, []string{"If-Range: " + etag, "Range: bytes=99-"}},
		{200, []string{`If-Range: "x"`, "Range: bytes=0-1"}},
		{200, []string{`If-Range: "x"`, "Range: bytes=99-"}},
		{200, []string{"If-Range: W/" + etag, "Range: bytes=0-1"}},
		{200, []string{"If-Range: " + at(-time.Second), "Range: bytes=0-1"}},
	} {
		body, h := d.want(t, tt.status, "GET", "/v1/objects/bucket/k", "", tt.headers...)
		switch {
		case tt.status == 304 && (body != "" || h.Get("Etag") != etag):
			t.Errorf("%v: 304 with body %q and ETag %s", tt.headers, body, h.Get("Etag"))
		case tt.status == 412:
			wantError(t, body, "Stale", "ETag")
		case tt.status == 200 && body != "0123456789":
			t.Errorf("%v gives %q", tt.headers, body)
		}
		if tt.status < 400 && tt.status != 206 && !strings.Contains(fmt.Sprint(tt.headers), "Range") {
			d.want(t, tt.status, "HEAD", "/v1/objects/bucket/k", "", tt.headers...)
		}
	}
	d.want(t, 404, "GET", "/v1/objects/bucket/missing", "", "If-None-Match: *")
}

func TestWriteConditions(t *testing.T) {
	d := open(t, config{})
	body, _ := d.want(t, 404, "PUT", "/v1/objects/bucket/k", "x", "If-Match: *")
	wantError(t, body, "NotFound", "")
	d.want(t, 200, "PUT", "/v1/objects/bucket/k", "one", "If-None-Match: *")
	body, _ = d.want(t, 412, "PUT", "/v1/objects/bucket/k", "two", "If-None-Match: *")
	wantError(t, body, "Exists", "bucket/k exists")
	_, h := d.want(t, 200, "HEAD", "/v1/objects/bucket/k", "")
	etag := h.Get("Etag")
	d.want(t, 412, "PUT", "/v1/objects/bucket/k", "two", "If-None-Match: "+etag)
	body, _ = d.want(t, 412, "PUT", "/v1/objects/bucket/k", "two", `If-Match: "x"`)
	wantError(t, body, "Stale", "")
	d.want(t, 412, "PUT", "/v1/objects/bucket/k", "two", "If-Match: W/"+etag)
	d.want(t, 412, "DELETE", "/v1/objects/bucket/k", "", `If-Match: "x"`)
	d.want(t, 200, "PUT", "/v1/objects/bucket/k", "two", "If-Match: "+etag)
	d.want(t, 412, "PUT", "/v1/objects/bucket/k", "three", "If-Match: "+etag)
	for _, h := range []string{`If-Match: "a", "b"`, "If-Match: ", "If-None-Match: a,b", "If-Unmodified-Since: " + time.Now().UTC().Format(http.TimeFormat)} {
		body, _ := d.want(t, 400, "PUT", "/v1/objects/bucket/k", "x", h)
		wantError(t, body, "Invalid", "")
	}
	d.want(t, 400, "PUT", "/v1/objects/bucket/k", "x", `If-Match: "a"`, `If-Match: "b"`)
	if body, _ := d.want(t, 200, "GET", "/v1/objects/bucket/k", ""); body != "two" {
		t.Errorf("the object is %q", body)
	}
}

func TestPutChecks(t *testing.T) {
	d := open(t, config{})
	sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte("hello")))
	d.want(t, 200, "PUT", "/v1/objects/bucket/k", "hello", "X-Penstock-Crc32: "+sum)
	d.want(t, 200, "PUT", "/v1/objects/bucket/k", "hello", "X-Penstock-Crc32: "+strings.ToUpper(sum))
	for _, h := range []string{
		"X-Penstock-Crc32: 00000000", "X-Penstock-Crc32: " + sum[1:], "X-Penstock-Crc32: 0x" + sum[2:], "X-Penstock-Crc32: zzzzzzzz", "X-Penstock-Crc32: ",
		"Content-Range: bytes 0-4/10", "X-Penstock-Meta-: x", "X-Penstock-Meta-A: \xff", "X-Penstock-Meta-A: " + strings.Repeat("x", 8<<10),
		"Content-Type: " + strings.Repeat("x", 2<<10), "Content-Type: \xff",
		"X-Penstock-Copy-Source: bucket/k", "X-Penstock-Copy-Source: /bucket", "X-Penstock-Copy-Source: /bucket/%zz", "X-Penstock-Copy-Source: /../etc/passwd",
		"X-Penstock-Copy-Source: /bucket/k", // with a body
	} {
		body, _ := d.want(t, 400, "PUT", "/v1/objects/bucket/new", "hello", h)
		wantError(t, body, "Invalid", "")
	}
	d.want(t, 404, "GET", "/v1/objects/bucket/new", "")
	d.want(t, 404, "PUT", "/v1/objects/bucket/new", "", "X-Penstock-Copy-Source: /bucket/missing")
	d.want(t, 404, "PUT", "/v1/objects/bucket/new", "", "X-Penstock-Copy-Source: /missing/k")
	d.want(t, 400, "PUT", "/v1/objects/bucket/new", "", "X-Penstock-Copy-Source: /bucket/k", "X-Penstock-Crc32: "+sum)
	d.want(t, 200, "PUT", "/v1/objects/bucket/new", "", "X-Penstock-Copy-Source: /bucket/k")
	if body, _ := d.want(t, 200, "GET", "/v1/objects/bucket/new", ""); body != "hello" {
		t.Errorf("the copy is %q", body)
	}
}

func TestListing(t *testing.T) {
	d := open(t, config{})
	for _, key := range []string{"a", "b/1", "b/2", "c<&>", "d%00"} {
		d.put(t, key, key)
	}
	body, _ := d.want(t, 200, "GET", "/v1/objects/bucket?delimiter=/&limit=2", "")
	var p struct {
		Bucket, Prefix, Next  string
		Entries               []map[string]any
		Prefixes              []string
		Truncated, Incomplete bool
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	if p.Bucket != "bucket" || len(p.Entries) != 1 || p.Entries[0]["key"] != "a" || len(p.Prefixes) != 1 || p.Prefixes[0] != "b/" || !p.Truncated || p.Next != "b/" {
		t.Errorf("the page is %s", body)
	}
	for _, field := range []string{"key", "size", "etag", "modified", "version", "crc32"} {
		if p.Entries[0][field] == nil {
			t.Errorf("an entry has no %s: %s", field, body)
		}
	}
	body, _ = d.want(t, 200, "GET", "/v1/objects/bucket?after=b/2", "")
	if !strings.Contains(body, `"c<&>"`) || !strings.Contains(body, `"d\u0000"`) || !strings.Contains(body, `"truncated":false,"next":""`) {
		t.Errorf("the page is %s", body)
	}
	body, _ = d.want(t, 200, "GET", "/v1/objects/bucket?prefix=zzz", "")
	if !strings.Contains(body, `"entries":[],"prefixes":[]`) {
		t.Errorf("an empty page is %s", body)
	}
	for _, q := range []string{
		"limit=0", "limit=-1", "limit=10001", "limit=x", "limit=", "limit=1.5", "limit=%2B1", "limit=99999999999999999999", "prefx=a", "prefix=a&prefix=b",
		"prefix=%ff", "prefix=%zz", "a;b", "after=" + strings.Repeat("x", 1025), "delimiter=%ff", "member=x",
	} {
		body, _ := d.want(t, 400, "GET", "/v1/objects/bucket?"+q, "")
		wantError(t, body, "Invalid", "")
	}
	d.want(t, 404, "GET", "/v1/objects/missing", "")
	d.want(t, 400, "GET", "/v1/objects/UPPER", "")
	body, _ = d.want(t, 400, "GET", "/v1/objects/bucket/a?member=x", "")
	wantError(t, body, "Invalid", "unreadable tar")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		d.want(t, 400, method, "/v1/objects/bucket/a?versionId=x", "")
	}
}

// TestPageIsBounded lists the longest keys: the page ends early, and says so.
func TestPageIsBounded(t *testing.T) {
	d := open(t, config{})
	ctx := context.Background()
	for i := range 3000 {
		name := object.Name{Bucket: "bucket", Key: fmt.Sprintf("%01024d", i)}
		if _, err := d.store.Put(ctx, name, strings.NewReader(""), object.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	seen, after := 0, ""
	for {
		body, _ := d.want(t, 200, "GET", "/v1/objects/bucket?limit=10000&after="+after, "")
		var p page
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		if len(body) > 8<<20 {
			t.Errorf("a page has %d bytes", len(body))
		}
		seen += len(p.Entries)
		if !p.Truncated {
			break
		}
		after = p.Next
	}
	if seen != 3000 {
		t.Errorf("%d entries in all pages, want 3000", seen)
	}
}

// incomplete is a store that has lost a disk.
type incomplete struct{ *nodetest.Store }

func (s incomplete) List(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		if yield(object.Entry{}, object.ErrIncomplete) {
			s.Store.List(ctx, bucket, opts)(yield)
		}
	}
}

func TestIncompleteListing(t *testing.T) {
	d := open(t, config{store: incomplete{nodetest.NewStore()}})
	d.put(t, "k", "x")
	body, _ := d.want(t, 200, "GET", "/v1/objects/bucket", "")
	if !strings.Contains(body, `"incomplete":true`) || !strings.Contains(body, `"key":"k"`) {
		t.Errorf("the page is %s", body)
	}
}

// damaged gives out readers that find damage after so many bytes.
type damaged struct {
	*nodetest.Store
	after int64
}

func (s damaged) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	reader, err := s.Store.Open(ctx, name, r)
	if err != nil {
		return nil, err
	}
	return &damagedReader{reader, s.after}, nil
}

type damagedReader struct {
	object.Reader
	after int64
}

func (r *damagedReader) WriteTo(w io.Writer) (int64, error) {
	n, err := io.CopyN(w, r.Reader, r.after)
	if err == nil {
		err = object.Errorf(object.Corrupt, "a checksum does not match")
	}
	return n, err
}

func TestDamage(t *testing.T) {
	data := string(bytes.Repeat([]byte("x"), 3<<20))
	for _, after := range []int64{0, 1, 5000, 2 << 20} {
		d := open(t, config{store: damaged{nodetest.NewStore(), after}})
		d.put(t, "k", data)
		if after == 0 {
			body, _ := d.want(t, 500, "GET", "/v1/objects/bucket/k", "")
			wantError(t, body, "Corrupt", "checksum")
			continue
		}
		d.mustBreak(t, "k")
		if d.metric(t, "penstock_http_aborted_total", "route", "getObject") == 0 {
			t.Error("the cut is not counted")
		}
	}
}

// short gives out readers that end early without saying so.
type short struct{ *nodetest.Store }

func (s short) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	reader, err := s.Store.Open(ctx, name, r)
	if err != nil {
		return nil, err
	}
	return shortReader{reader}, nil
}

type shortReader struct{ object.Reader }

func (r shortReader) WriteTo(w io.Writer) (int64, error) { return io.CopyN(w, r.Reader, 10) }

func TestShortObject(t *testing.T) {
	d := open(t, config{store: short{nodetest.NewStore()}})
	d.put(t, "k", strings.Repeat("x", 100))
	d.mustBreak(t, "k")
}

// mustBreak reads an object and fails if the client gets a complete answer.
func (d *door) mustBreak(t *testing.T, key string) {
	t.Helper()
	answer, err := d.client.Get("http://" + d.addr + "/v1/objects/bucket/" + key)
	if err != nil {
		return // not even the header got through
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("the client got a complete answer: %d with %d bytes", answer.StatusCode, len(body))
	}
}

// TestCopyOfAnotherDoorsFacts: who may use an object is not for its copies.
func TestCopyOfAnotherDoorsFacts(t *testing.T) {
	d := open(t, config{})
	store := d.node
	_, err := store.Put(t.Context(), object.Name{Bucket: "bucket", Key: "k"}, strings.NewReader("x"), object.PutOptions{
		Metadata: map[string]string{"Acl": "public-read", "Owner": "bob", "Tagging": "a=b", "Cache-Control": "no-store", "mine": "y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.want(t, 200, "PUT", "/v1/objects/bucket/copy", "", "X-Penstock-Copy-Source: /bucket/k")
	info, err := store.Stat(t.Context(), object.Name{Bucket: "bucket", Key: "copy"})
	if err != nil || len(info.Metadata) != 2 || info.Metadata["mine"] != "y" || info.Metadata["Cache-Control"] != "no-store" {
		t.Errorf("%v, %v", info.Metadata, err)
	}
}
