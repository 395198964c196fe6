package s3api_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

const partSize = 5 << 20

// sumOf is a checksum as S3 writes it.
func sumOf(algorithm, content string) string {
	a, _ := checksum.Parse(algorithm)
	h := a.New()
	io.WriteString(h, content) //nolint:errcheck // never fails
	return checksum.Encode(h.Sum(nil))
}

// compositeOf is a checksum of checksums as S3 writes it.
func compositeOf(algorithm string, contents ...string) string {
	a, _ := checksum.Parse(algorithm)
	h := a.New()
	for _, content := range contents {
		sum, _ := a.Decode(sumOf(algorithm, content))
		h.Write(sum) //nolint:errcheck // never fails
	}
	return fmt.Sprintf("%s-%d", checksum.Encode(h.Sum(nil)), len(contents))
}

// etagOf is the ETag of an object that came in parts.
func etagOf(contents ...string) string {
	h := md5.New()
	for _, content := range contents {
		sum := md5.Sum([]byte(content))
		h.Write(sum[:]) //nolint:errcheck // never fails
	}
	return fmt.Sprintf("%s-%d", hex.EncodeToString(h.Sum(nil)), len(contents))
}

// large is the content of a part, of a letter.
func large(letter string) string { return strings.Repeat(letter, partSize) }

// create begins an upload and returns its target: path and upload ID.
func (c *caller) create(t testing.TB, path string, headers ...string) string {
	t.Helper()
	a := c.must(t, 200, "POST", path+"?uploads", "", headers...)
	if a.element("Bucket") == "" || a.element("Key") == "" || a.element("UploadId") == "" {
		t.Fatalf("%s", a.body)
	}
	return path + "?uploadId=" + a.element("UploadId")
}

// part stores a part and returns its ETag.
func (c *caller) part(t testing.TB, upload string, number int, content string, headers ...string) string {
	t.Helper()
	return c.must(t, 200, "PUT", fmt.Sprintf("%s&partNumber=%d", upload, number), content, headers...).etag()
}

// partsXML lists parts by number and ETag; what follows the ETag is added as it is.
func partsXML(parts ...any) string {
	var b strings.Builder
	b.WriteString(`<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for i := 0; i < len(parts); i += 2 {
		etag, more, _ := strings.Cut(parts[i+1].(string), "<")
		if more != "" {
			more = "<" + more
		}
		fmt.Fprintf(&b, "<Part><PartNumber>%d</PartNumber><ETag>&quot;%s&quot;</ETag>%s</Part>", parts[i], etag, more)
	}
	b.WriteString("</CompleteMultipartUpload>")
	return b.String()
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	upload := d.create(t, "/bucket/k%C3%BC", "Content-Type", "text/bla", "x-amz-meta-color", "red", "x-amz-tagging", "a=b", "x-amz-acl", "public-read", "Content-Encoding", "gzip")
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/k%C3%BC?partNumber=1", "")
	a, b, c := large("a"), large("b"), "c"
	third := d.part(t, upload, 7, c) // out of order, and one twice
	d.part(t, upload, 2, "wrong")
	first := d.part(t, upload, 1, a, "Content-Md5", md5Base64(a))
	second := d.part(t, upload, 2, b)
	if first != md5Hex(a) {
		t.Errorf("the ETag of a part is %s", first)
	}
	answer := d.must(t, 200, "POST", upload, partsXML(1, first, 2, second, 7, third), "x-amz-mp-object-size", fmt.Sprint(2*partSize+1))
	want := etagOf(a, b, c)
	if answer.element("ETag") != `"`+want+`"` || answer.element("Key") != "kü" || answer.element("Bucket") != "bucket" ||
		answer.element("Location") != "http://"+d.addr+"/bucket/k%C3%BC" || answer.id() != "" {
		t.Errorf("%v %s", answer.header, answer.body)
	}
	got := d.must(t, 200, "GET", "/bucket/k%C3%BC", "")
	if got.body != a+b+c || got.etag() != want {
		t.Errorf("%d bytes with ETag %s", len(got.body), got.etag())
	}
	h := got.header
	if h.Get("Content-Type") != "text/bla" || h.Get("X-Amz-Meta-Color") != "red" || h.Get("X-Amz-Tagging-Count") != "1" || h.Get("Content-Encoding") != "gzip" || h.Get("X-Amz-Mp-Parts-Count") != "" {
		t.Errorf("%v", h)
	}
	if got := d.by(nobody).send(t, "HEAD", "/bucket/k%C3%BC", ""); got.status != 200 {
		t.Errorf("the ACL is lost: %d", got.status)
	}
	if got := d.tags(t, "/bucket/k%C3%BC?tagging"); got != "a=b" {
		t.Errorf("the tags are %q", got)
	}
	for number, part := range []string{a, b, c} {
		for _, method := range []string{"GET", "HEAD"} {
			got := d.must(t, 206, method, fmt.Sprintf("/bucket/k%%C3%%BC?partNumber=%d", number+1), "", "x-amz-checksum-mode", "ENABLED")
			if h := got.header; h.Get("X-Amz-Mp-Parts-Count") != "3" || h.Get("Content-Length") != fmt.Sprint(len(part)) || got.etag() != want ||
				h.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", number*partSize, number*partSize+len(part)-1, 2*partSize+1) || h.Get("X-Amz-Checksum-Crc32") != "" {
				t.Errorf("%s of part %d: %v", method, number+1, h)
			}
			if method == "GET" && got.body != part {
				t.Errorf("part %d has %d bytes", number+1, len(got.body))
			}
		}
	}
	d.fails(t, 400, "InvalidPart", "GET", "/bucket/k%C3%BC?partNumber=4", "")
	for _, bad := range []string{"0", "10001", "x", ""} {
		d.fails(t, 400, "InvalidArgument", "GET", "/bucket/k%C3%BC?partNumber="+bad, "")
	}
	d.fails(t, 400, "InvalidRequest", "GET", "/bucket/k%C3%BC?partNumber=1", "", "Range", "bytes=0-1")
	d.must(t, 200, "PUT", "/bucket/plain", "body")
	if got := d.must(t, 200, "GET", "/bucket/plain?partNumber=1", ""); got.body != "body" || got.header.Get("X-Amz-Mp-Parts-Count") != "" {
		t.Errorf("%q %v", got.body, got.header)
	}
	d.fails(t, 400, "InvalidPart", "GET", "/bucket/plain?partNumber=2", "")

	// Its upload is over.
	d.fails(t, 404, "NoSuchUpload", "PUT", upload+"&partNumber=1", "x")
	d.fails(t, 404, "NoSuchUpload", "GET", upload, "")
	d.fails(t, 404, "NoSuchUpload", "DELETE", upload, "")
	if state := d.state(t); strings.Contains(state, "part ") || strings.Contains(state, "upload ") {
		t.Errorf("something is left: %s", state)
	}
	// The copy of such an object is one, too.
	d.must(t, 200, "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/k%C3%BC")
	if got := d.must(t, 206, "GET", "/bucket/copy?partNumber=3", ""); got.body != c || got.etag() != want || got.header.Get("X-Amz-Mp-Parts-Count") != "3" {
		t.Errorf("part 3 of the copy is %.20q, %v", got.body, got.header)
	}
}

func TestMultipartSmall(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	for _, contents := range [][]string{{""}, {"x"}, {large("x")}, {large("x"), ""}} {
		upload := d.create(t, "/bucket/key")
		var parts []any
		for i, content := range contents {
			parts = append(parts, i+1, d.part(t, upload, i+1, content))
		}
		d.must(t, 200, "POST", upload, partsXML(parts...))
		got := d.must(t, 200, "GET", "/bucket/key", "")
		if got.body != strings.Join(contents, "") || got.etag() != etagOf(contents...) {
			t.Errorf("%d bytes with ETag %s", len(got.body), got.etag())
		}
		got = d.send(t, "GET", "/bucket/key?partNumber=1", "")
		if got.body != contents[0] || got.header.Get("X-Amz-Mp-Parts-Count") != fmt.Sprint(len(contents)) {
			t.Errorf("part 1: %d %d bytes, %v", got.status, len(got.body), got.header)
		}
		a := d.must(t, 200, "GET", "/bucket/key?attributes", "", "x-amz-object-attributes", "ObjectParts")
		if a.element("PartsCount") != fmt.Sprint(len(contents)) || strings.Count(a.body, "<Part>") != len(contents) {
			t.Errorf("%s", a.body)
		}
	}
}

func TestMultipartIsChecked(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	upload := d.create(t, "/bucket/key")
	for _, number := range []string{"0", "10001", "-1", "x", ""} {
		d.fails(t, 400, "InvalidArgument", "PUT", upload+"&partNumber="+number, "x")
	}
	d.fails(t, 400, "InvalidArgument", "PUT", upload, "x") // and is no PutObject
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", "")
	d.fails(t, 400, "BadDigest", "PUT", upload+"&partNumber=1", "x", "Content-Md5", md5Base64("y"))
	d.fails(t, 400, "BadDigest", "PUT", upload+"&partNumber=1", "x", "x-amz-checksum-sha256", sumOf("SHA256", "y"))
	d.fails(t, 501, "NotImplemented", "PUT", upload+"&partNumber=1", "x", "x-amz-server-side-encryption-customer-algorithm", "AES256")
	for _, id := range []string{"abc", "", "000000010000000000000099", strings.TrimPrefix(upload, "/bucket/key?uploadId=")} {
		path := "/bucket/key?uploadId="
		if len(id) == 24 && !strings.HasSuffix(id, "99") {
			path = "/bucket/another?uploadId=" // the key must be right as well
		}
		d.fails(t, 404, "NoSuchUpload", "PUT", path+id+"&partNumber=1", "x")
		d.fails(t, 404, "NoSuchUpload", "POST", path+id, partsXML(1, md5Hex("x")))
		d.fails(t, 404, "NoSuchUpload", "DELETE", path+id, "")
		d.fails(t, 404, "NoSuchUpload", "GET", path+id, "")
	}
	first, second := d.part(t, upload, 1, "small"), d.part(t, upload, 2, large("x"))
	for _, test := range []struct{ code, body string }{
		{"MalformedXML", ""},
		{"MalformedXML", "<CompleteMultipartUpload/>"},
		{"MalformedXML", "<Other><Part><PartNumber>1</PartNumber></Part></Other>"},
		{"MalformedXML", "<CompleteMultipartUpload><Part><PartNumber>one</PartNumber></Part></CompleteMultipartUpload>"},
		{"MalformedXML", "<CompleteMultipartUpload>" + strings.Repeat(" ", 3<<20) + "</CompleteMultipartUpload>"},
		{"InvalidArgument", partsXML(0, first)},
		{"InvalidArgument", partsXML(10001, first)},
		{"InvalidPartOrder", partsXML(2, second, 1, first)},
		{"InvalidPart", partsXML(1, first, 3, second)},
		{"InvalidPart", partsXML(1, strings.Repeat("f", 32))},
		{"InvalidPart", partsXML(1, "")},
		{"InvalidPart", partsXML(1, first+"<ChecksumCRC32>AAAAAA==</ChecksumCRC32>")},
		{"InvalidPart", partsXML(1, first+"<ChecksumSHA1>"+sumOf("SHA1", "small")+"</ChecksumSHA1>")}, // which nobody has told before
		{"EntityTooSmall", partsXML(1, first, 2, second)},
	} {
		d.fails(t, 400, test.code, "POST", upload, test.body)
	}
	d.fails(t, 400, "InvalidRequest", "POST", upload, partsXML(2, second), "x-amz-mp-object-size", "7")
	d.fails(t, 400, "BadDigest", "POST", upload, partsXML(2, second), "x-amz-checksum-crc32", sumOf("CRC32", "other"))
	d.fails(t, 400, "InvalidRequest", "POST", upload, partsXML(2, second), "x-amz-checksum-sha1", sumOf("SHA1", "other"))
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", "")
	// One that is given twice counts once, as given last.
	d.must(t, 200, "POST", upload, partsXML(2, first, 2, second), "x-amz-checksum-crc32", sumOf("CRC32", large("x")))
}

func TestMultipartConditions(t *testing.T) {
	t.Parallel()
	for _, versioning := range []string{"", node.VersioningEnabled} {
		t.Run("versioning="+versioning, func(t *testing.T) {
			d := begin(t, "bucket")
			if versioning != "" {
				d.version(t, "bucket", versioning)
			}
			prepare := func() (upload, parts string) {
				upload = d.create(t, "/bucket/key")
				return upload, partsXML(1, d.part(t, upload, 1, "content"))
			}
			upload, parts := prepare()
			d.fails(t, 404, "NoSuchKey", "POST", upload, parts, "If-Match", "*")
			d.fails(t, 404, "NoSuchKey", "POST", upload, parts, "If-Match", "bad")
			etag := d.must(t, 200, "POST", upload, parts, "If-None-Match", "*").element("ETag")
			upload, parts = prepare()
			d.fails(t, 412, "PreconditionFailed", "POST", upload, parts, "If-None-Match", "*")
			d.fails(t, 412, "PreconditionFailed", "POST", upload, parts, "If-None-Match", etag)
			d.fails(t, 412, "PreconditionFailed", "POST", upload, parts, "If-Match", "bad")
			d.must(t, 200, "POST", upload, parts, "If-Match", etag)
			upload, parts = prepare()
			d.must(t, 200, "POST", upload, parts, "If-None-Match", `"bad"`)
		})
	}
}

func TestMultipartChecksums(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	a, b, c := large("a"), large("b"), "c"
	contents := []string{a, b, c}
	for _, test := range []struct{ algorithm, given, kind string }{
		{"CRC32", "", "COMPOSITE"},
		{"CRC32", "COMPOSITE", "COMPOSITE"},
		{"CRC32", "FULL_OBJECT", "FULL_OBJECT"},
		{"CRC32C", "", "COMPOSITE"},
		{"CRC32C", "FULL_OBJECT", "FULL_OBJECT"},
		{"CRC64NVME", "", "FULL_OBJECT"},
		{"CRC64NVME", "FULL_OBJECT", "FULL_OBJECT"},
		{"SHA1", "", "COMPOSITE"},
		{"SHA256", "COMPOSITE", "COMPOSITE"},
	} {
		t.Run(test.algorithm+"/"+test.given, func(t *testing.T) {
			headers := []string{"x-amz-checksum-algorithm", test.algorithm}
			if test.given != "" {
				headers = append(headers, "x-amz-checksum-type", test.given)
			}
			begun := d.must(t, 200, "POST", "/bucket/key?uploads", "", headers...)
			if h := begun.header; h.Get("X-Amz-Checksum-Algorithm") != test.algorithm || h.Get("X-Amz-Checksum-Type") != test.kind {
				t.Errorf("%v", h)
			}
			upload := "/bucket/key?uploadId=" + begun.element("UploadId")
			header, element := "X-Amz-Checksum-"+test.algorithm, "Checksum"+test.algorithm
			var parts []any
			for i, content := range contents {
				want := sumOf(test.algorithm, content)
				var said []string
				if i != 1 { // the node can do without
					said = []string{header, want}
				}
				a := d.must(t, 200, "PUT", fmt.Sprintf("%s&partNumber=%d", upload, i+1), content, said...)
				if a.header.Get(header) != want {
					t.Errorf("part %d: %v", i+1, a.header)
				}
				parts = append(parts, i+1, a.etag()+"<"+element+">"+want+"</"+element+">")
			}
			other := "SHA256"
			if test.algorithm == other {
				other = "SHA1"
			}
			d.fails(t, 400, "InvalidRequest", "PUT", upload+"&partNumber=1", c, "x-amz-checksum-"+other, sumOf(other, c))
			list := d.must(t, 200, "GET", upload, "")
			if list.element("ChecksumAlgorithm") != test.algorithm || list.element("ChecksumType") != test.kind || strings.Count(list.body, "<"+element+">") != 3 {
				t.Errorf("%s", list.body)
			}

			want := compositeOf(test.algorithm, contents...)
			if test.kind == "FULL_OBJECT" {
				want = sumOf(test.algorithm, a+b+c)
			}
			d.fails(t, 400, "BadDigest", "POST", upload, partsXML(parts...), header, "bad")
			d.fails(t, 400, "InvalidRequest", "POST", upload, partsXML(parts...), "x-amz-checksum-"+other, want)
			d.fails(t, 400, "InvalidRequest", "POST", upload, partsXML(parts...), "x-amz-checksum-type", map[string]string{"COMPOSITE": "FULL_OBJECT", "FULL_OBJECT": "COMPOSITE"}[test.kind])
			wrong := append([]any{1, md5Hex(a) + "<" + element + ">" + sumOf(test.algorithm, "no") + "</" + element + ">"}, parts[2:]...)
			d.fails(t, 400, "InvalidPart", "POST", upload, partsXML(wrong...))
			for range 2 { // the second time it is complete already
				done := d.must(t, 200, "POST", upload, partsXML(parts...), header, want)
				if done.element(element) != want || done.element("ChecksumType") != test.kind || done.element("ETag") != `"`+etagOf(contents...)+`"` {
					t.Errorf("%s", done.body)
				}
			}
			if h := d.must(t, 200, "HEAD", "/bucket/key", "").header; h.Get(header) != "" {
				t.Errorf("%v", h)
			}
			if h := d.must(t, 200, "HEAD", "/bucket/key", "", "x-amz-checksum-mode", "ENABLED").header; h.Get(header) != want || h.Get("X-Amz-Checksum-Type") != test.kind {
				t.Errorf("%v", h)
			}
			for i, content := range contents {
				h := d.must(t, 206, "GET", fmt.Sprintf("/bucket/key?partNumber=%d", i+1), "", "x-amz-checksum-mode", "ENABLED").header
				if h.Get(header) != sumOf(test.algorithm, content) || h.Get("X-Amz-Checksum-Type") != test.kind {
					t.Errorf("part %d: %v", i+1, h)
				}
			}
			attributes := d.must(t, 200, "GET", "/bucket/key?attributes", "", "x-amz-object-attributes", "Checksum,ObjectParts")
			if attributes.element(element) != want || !strings.Contains(attributes.body, "<Size>1</Size><"+element+">"+sumOf(test.algorithm, c)+"</") {
				t.Errorf("%s", attributes.body)
			}
			d.must(t, 200, "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/key")
			if h := d.must(t, 206, "HEAD", "/bucket/copy?partNumber=3", "", "x-amz-checksum-mode", "ENABLED").header; h.Get(header) != sumOf(test.algorithm, c) {
				t.Errorf("%v", h)
			}
		})
	}
	for _, bad := range [][]string{
		{"x-amz-checksum-algorithm", "MD4"},
		{"x-amz-checksum-type", "COMPOSITE"},
		{"x-amz-checksum-algorithm", "SHA1", "x-amz-checksum-type", "FULL_OBJECT"},
		{"x-amz-checksum-algorithm", "CRC64NVME", "x-amz-checksum-type", "COMPOSITE"},
		{"x-amz-checksum-algorithm", "CRC32", "x-amz-checksum-type", "PARTIAL"},
	} {
		d.fails(t, 400, "InvalidRequest", "POST", "/bucket/key?uploads", "", bad...)
	}
}

// TestMultipartTrailer brings a part as new clients do: in chunks that are not signed,
// with the checksum behind them.
func TestMultipartTrailer(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	upload := d.create(t, "/bucket/key", "x-amz-checksum-algorithm", "CRC64NVME")
	content := strings.Repeat("chunk", 100_000)
	for _, right := range []bool{false, true} {
		said := sumOf("CRC64NVME", content)
		if !right {
			said = sumOf("CRC64NVME", "other")
		}
		body := d.root.chunked(content, 64<<10, "", "", "x-amz-checksum-crc64nvme:"+said, false)
		a := d.send(t, "PUT", upload+"&partNumber=1", body, "x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
			"x-amz-decoded-content-length", fmt.Sprint(len(content)), "x-amz-trailer", "x-amz-checksum-crc64nvme", "Content-Encoding", "aws-chunked")
		switch {
		case !right && a.code() != "BadDigest":
			t.Fatalf("%d %s", a.status, a.body)
		case right && (a.status != 200 || a.header.Get("X-Amz-Checksum-Crc64nvme") != said):
			t.Fatalf("%d %v %s", a.status, a.header, a.body)
		}
	}
	d.must(t, 200, "POST", upload, partsXML(1, md5Hex(content)))
	if got := d.must(t, 200, "GET", "/bucket/key", ""); got.body != content {
		t.Errorf("%d bytes", len(got.body))
	}
}

func TestMultipartCopy(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket", "source")
	d.version(t, "source", node.VersioningEnabled)
	content := large("0") + large("1") + "end"
	v1 := d.must(t, 200, "PUT", "/source/a%20b", content).id()
	d.must(t, 200, "PUT", "/source/a%20b", "short")
	source := "source/a%20b?versionId=" + v1
	upload := d.create(t, "/bucket/key", "x-amz-checksum-algorithm", "SHA256")
	var parts []any
	for i, part := range []struct{ ask, is string }{
		{fmt.Sprintf("bytes=0-%d", partSize-1), large("0")},
		{fmt.Sprintf("bytes=%d-%d", partSize, 2*partSize), large("1") + "e"},
		{"", content},
	} {
		headers := []string{"x-amz-copy-source", source}
		if part.ask != "" {
			headers = append(headers, "x-amz-copy-source-range", part.ask)
		}
		a := d.must(t, 200, "PUT", fmt.Sprintf("%s&partNumber=%d", upload, i+1), "", headers...)
		if a.element("ETag") != `"`+md5Hex(part.is)+`"` || a.element("ChecksumSHA256") != sumOf("SHA256", part.is) || a.header.Get("X-Amz-Copy-Source-Version-Id") != v1 {
			t.Errorf("part %d: %v %s", i+1, a.header, a.body)
		}
		parts = append(parts, i+1, md5Hex(part.is))
	}
	target := upload + "&partNumber=4"
	for _, bad := range []string{"0-2", "bytes=0", "bytes=hello-world", "bytes=0-bar", "bytes=hello-", "bytes=0-2,3-5", "bytes=-5", "bytes=5-", "bytes=5-4", "bytes=0-9223372036854775807", "bytes=0-99999999999999999999"} {
		d.fails(t, 400, "InvalidArgument", "PUT", target, "", "x-amz-copy-source", source, "x-amz-copy-source-range", bad)
	}
	d.fails(t, 416, "InvalidRange", "PUT", target, "", "x-amz-copy-source", source, "x-amz-copy-source-range", fmt.Sprintf("bytes=0-%d", len(content)))
	d.fails(t, 416, "InvalidRange", "PUT", target, "", "x-amz-copy-source", "source/a%20b", "x-amz-copy-source-range", "bytes=0-5")
	d.fails(t, 412, "PreconditionFailed", "PUT", target, "", "x-amz-copy-source", source, "x-amz-copy-source-if-match", "bad")
	d.fails(t, 404, "NoSuchKey", "PUT", target, "", "x-amz-copy-source", "source/absent")
	d.fails(t, 404, "NoSuchBucket", "PUT", target, "", "x-amz-copy-source", "absent/key")
	d.fails(t, 404, "NoSuchUpload", "PUT", "/bucket/key?uploadId=abc&partNumber=1", "", "x-amz-copy-source", source)
	d.fails(t, 400, "InvalidArgument", "PUT", upload, "", "x-amz-copy-source", source)
	d.grant(t, "bucket", "alice", auth.Write)
	d.by(d.alice).fails(t, 403, "AccessDenied", "PUT", target, "", "x-amz-copy-source", source)
	d.must(t, 200, "POST", upload, partsXML(parts...))
	if got := d.must(t, 200, "GET", "/bucket/key", ""); got.body != large("0")+large("1")+"e"+content {
		t.Errorf("%d bytes", len(got.body))
	}
}

type uploadList struct {
	KeyMarker, UploadIdMarker, NextKeyMarker, NextUploadIdMarker, Prefix, Delimiter, EncodingType string //nolint:revive,staticcheck // S3's names
	MaxUploads                                                                                    int
	IsTruncated                                                                                   bool
	Upload                                                                                        []struct {
		Key, UploadId, Initiated, StorageClass string //nolint:revive,staticcheck // S3's names
		Owner, Initiator                       struct{ ID, DisplayName string }
	}
	CommonPrefixes []struct{ Prefix string }
}

func TestListUploads(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	var list uploadList
	d.must(t, 200, "GET", "/bucket?uploads", "").read(t, &list)
	if list.IsTruncated || len(list.Upload) != 0 || list.MaxUploads != 1000 {
		t.Fatalf("%+v", list)
	}
	want := make(map[string]bool)
	var order []string
	for _, key := range []string{"a", "b/1", "b/2", "b/2", "b/2", "c", "d%20e"} {
		upload := d.create(t, "/bucket/"+key)
		want[upload[strings.LastIndex(upload, "=")+1:]] = true
		order = append(order, strings.ReplaceAll(key, "%20", " "))
	}
	d.grant(t, "bucket", "alice", auth.Write)
	byAlice := d.by(d.alice).create(t, "/bucket/z")
	for limit := 1; limit <= 8; limit++ {
		seen, target := make(map[string]bool), ""
		var keys []string
		for {
			list = uploadList{}
			d.must(t, 200, "GET", fmt.Sprintf("/bucket?uploads&max-uploads=%d%s", limit, target), "").read(t, &list)
			for _, u := range list.Upload {
				owner := "root"
				if u.Key == "z" {
					owner = "alice"
				} else {
					seen[u.UploadId] = true
					keys = append(keys, u.Key)
				}
				if u.Owner.ID != owner || u.Initiator.DisplayName != owner || u.Initiated == "" || u.StorageClass != "STANDARD" {
					t.Errorf("%+v", u)
				}
			}
			if len(list.Upload) > limit {
				t.Fatalf("%d uploads", len(list.Upload))
			}
			if !list.IsTruncated {
				break
			}
			target = "&key-marker=" + uriEncode(list.NextKeyMarker) + "&upload-id-marker=" + list.NextUploadIdMarker
		}
		if len(seen) != len(want) || strings.Join(keys, ",") != strings.Join(order, ",") {
			t.Errorf("by pages of %d: %v", limit, keys)
		}
	}
	list = uploadList{}
	d.must(t, 200, "GET", "/bucket?uploads&delimiter=/&encoding-type=url&max-uploads=2", "").read(t, &list)
	if len(list.Upload) != 1 || len(list.CommonPrefixes) != 1 || list.CommonPrefixes[0].Prefix != "b/" || !list.IsTruncated || list.NextKeyMarker != "b/" || list.EncodingType != "url" {
		t.Errorf("%+v", list)
	}
	list = uploadList{}
	d.must(t, 200, "GET", "/bucket?uploads&delimiter=/&encoding-type=url&key-marker=b/", "").read(t, &list)
	if len(list.Upload) != 3 || list.Upload[1].Key != "d%20e" {
		t.Errorf("%+v", list)
	}
	list = uploadList{}
	d.must(t, 200, "GET", "/bucket?uploads&prefix=b/2", "").read(t, &list)
	if len(list.Upload) != 3 || list.Prefix != "b/2" {
		t.Errorf("%+v", list)
	}
	d.must(t, 200, "GET", "/bucket?uploads&max-uploads=0", "")
	d.fails(t, 400, "InvalidArgument", "GET", "/bucket?uploads&max-uploads=x", "")
	d.fails(t, 400, "InvalidArgument", "GET", "/bucket?uploads&encoding-type=x", "")
	d.fails(t, 400, "InvalidArgument", "GET", "/bucket?uploads&key-marker=a&upload-id-marker=x", "")
	d.by(d.bob).fails(t, 403, "AccessDenied", "GET", "/bucket?uploads", "")
	d.by(d.bob).fails(t, 403, "AccessDenied", "GET", byAlice, "")
	d.by(d.bob).fails(t, 403, "AccessDenied", "DELETE", byAlice, "")
	d.by(d.bob).fails(t, 403, "AccessDenied", "POST", byAlice, partsXML(1, "x"))
	d.by(d.bob).fails(t, 403, "AccessDenied", "PUT", byAlice+"&partNumber=1", "x")
	d.by(d.bob).fails(t, 403, "AccessDenied", "POST", "/bucket/key?uploads", "")
}

type partList struct {
	PartNumberMarker, NextPartNumberMarker, MaxParts int
	IsTruncated                                      bool
	Owner, Initiator                                 struct{ ID string }
	Part                                             []struct {
		PartNumber   int
		Size         int64
		ETag         string
		LastModified string
	}
}

// TestManyParts brings as many parts as there can be.
func TestManyParts(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	upload := d.create(t, "/bucket/key")
	var list partList
	d.must(t, 200, "GET", upload, "").read(t, &list)
	if list.IsTruncated || len(list.Part) != 0 || list.Owner.ID != "root" || list.Initiator.ID != "root" {
		t.Fatalf("%+v", list)
	}
	// Through the node: ten thousand signed requests would test nothing more.
	id, _ := node.ParseID(upload[strings.LastIndex(upload, "=")+1:])
	u, err := d.node.Upload(t.Context(), object.Name{Bucket: "bucket", Key: "key"}, id)
	if err != nil {
		t.Fatal(err)
	}
	const total = node.MaxParts
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for number := total - worker; number > 0; number -= 16 {
				content := fmt.Sprint(number)
				_, err := d.node.PutPart(t.Context(), u, number, strings.NewReader(content), object.PutOptions{
					Finish: func() (object.Finish, error) { return object.Finish{ETag: md5Hex(content)}, nil },
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	next, pages := 1, 0
	for target := upload; ; pages++ {
		list = partList{}
		d.must(t, 200, "GET", target, "").read(t, &list)
		for _, part := range list.Part {
			if part.PartNumber != next || part.ETag != `"`+md5Hex(fmt.Sprint(next))+`"` || part.Size != int64(len(fmt.Sprint(next))) {
				t.Fatalf("at %d stands %+v", next, part)
			}
			next++
		}
		if !list.IsTruncated {
			break
		}
		target = fmt.Sprintf("%s&part-number-marker=%d", upload, list.NextPartNumberMarker)
	}
	if next != total+1 || pages != total/1000-1 {
		t.Errorf("%d parts on %d pages", next-1, pages+1)
	}
	list = partList{}
	d.must(t, 200, "GET", upload+"&max-parts=3&part-number-marker=9998", "").read(t, &list)
	if len(list.Part) != 2 || list.IsTruncated || list.MaxParts != 3 || list.PartNumberMarker != 9998 {
		t.Errorf("%+v", list)
	}
	for _, bad := range []string{"max-parts=x", "max-parts=-1", "part-number-marker=x"} {
		d.fails(t, 400, "InvalidArgument", "GET", upload+"&"+bad, "")
	}
	var parts []any
	for number := 1; number <= total; number++ {
		parts = append(parts, number, md5Hex(fmt.Sprint(number)))
	}
	d.fails(t, 400, "EntityTooSmall", "POST", upload, partsXML(parts...))
	d.must(t, 204, "DELETE", upload, "")
	if state := d.state(t); strings.Contains(state, "part ") {
		t.Error("parts are left")
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	upload := d.create(t, "/bucket/key")
	d.part(t, upload, 1, "content")
	// A part is on its way while the upload ends.
	reader, writer := io.Pipe()
	r := d.request(t, "PUT", upload+"&partNumber=2", "")
	r.Body, r.ContentLength = reader, 1<<20
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	signHeader(r, d.root)
	answers := make(chan *http.Response, 1)
	go func() {
		response, err := d.client.Do(r)
		if err != nil {
			t.Error(err)
		}
		answers <- response
	}()
	half := strings.Repeat("x", 1<<19)
	io.WriteString(writer, half) //nolint:errcheck // the answer tells
	d.must(t, 204, "DELETE", upload, "")
	io.WriteString(writer, half) //nolint:errcheck // the answer tells
	writer.Close()               //nolint:errcheck // never fails
	response := <-answers
	text, _ := io.ReadAll(response.Body)
	response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != 404 || !strings.Contains(string(text), "NoSuchUpload") {
		t.Errorf("the part: %d %s", response.StatusCode, text)
	}
	d.fails(t, 404, "NoSuchUpload", "DELETE", upload, "")
	d.fails(t, 404, "NoSuchUpload", "POST", upload, partsXML(1, md5Hex("content")))
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", "")
	if state := d.state(t); strings.Contains(state, "part ") || strings.Contains(state, "upload ") {
		t.Errorf("something is left: %s", state)
	}
	d.must(t, 204, "DELETE", "/bucket", "")
}

func TestMultipartVersions(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	var ids []string
	for i := range 3 {
		upload, content := d.create(t, "/bucket/key"), fmt.Sprint("content ", i)
		parts := partsXML(1, d.part(t, upload, 1, content))
		id := d.must(t, 200, "POST", upload, parts).id()
		if id == "" || d.must(t, 200, "POST", upload, parts).id() != id {
			t.Fatalf("complete twice, the version is another than %q", id)
		}
		ids = append(ids, id)
	}
	for i, id := range ids {
		if got := d.must(t, 200, "GET", "/bucket/key?versionId="+id, ""); got.body != fmt.Sprint("content ", i) {
			t.Errorf("version %d is %q", i, got.body)
		}
	}
	if n := strings.Count(d.must(t, 200, "GET", "/bucket?versions", "").body, "<Version>"); n != 3 {
		t.Errorf("there are %d versions", n)
	}
	upload := d.create(t, "/bucket/gone")
	parts := partsXML(1, d.part(t, upload, 1, "x"))
	d.must(t, 200, "POST", upload, parts)
	d.must(t, 204, "DELETE", "/bucket/gone", "")
	d.fails(t, 404, "NoSuchUpload", "POST", upload, parts)

	d.version(t, "bucket", node.VersioningSuspended)
	upload = d.create(t, "/bucket/key")
	if id := d.must(t, 200, "POST", upload, partsXML(1, d.part(t, upload, 1, "null"))).id(); id != "" {
		t.Errorf("while versioning is suspended the ID is %q", id)
	}
	if got := d.must(t, 200, "GET", "/bucket/key?versionId=null", ""); got.body != "null" {
		t.Errorf("%q", got.body)
	}
}

// TestCompleteWhilePartsChange replaces a part all the time: an object is made only of
// what the client asked for.
func TestCompleteWhilePartsChange(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	for range 10 {
		upload := d.create(t, "/bucket/key")
		contents := []string{strings.Repeat("a", 600_000), strings.Repeat("b", 600_000)}
		etag := d.part(t, upload, 1, contents[0])
		id, _ := node.ParseID(upload[strings.LastIndex(upload, "=")+1:])
		u := node.Upload{Name: object.Name{Bucket: "bucket", Key: "key"}, ID: id}
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-done:
					return
				default:
					// Through the node: who is refused early may not hear it through the door.
					d.node.PutPart(t.Context(), u, 1, strings.NewReader(contents[i%2]), object.PutOptions{ //nolint:errcheck // the upload may be over
						Finish: func() (object.Finish, error) { return object.Finish{ETag: md5Hex(contents[i%2])}, nil },
					})
				}
			}
		})
		for range 1000 {
			a := d.send(t, "POST", upload, partsXML(1, etag))
			if a.status == 200 {
				break
			}
			if a.code() != "InvalidPart" {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		close(done)
		wg.Wait()
		if got := d.must(t, 200, "GET", "/bucket/key", ""); got.body != contents[0] || got.etag() != etagOf(contents[0]) {
			t.Fatalf("%d bytes of %.1q", len(got.body), got.body)
		}
	}
}
