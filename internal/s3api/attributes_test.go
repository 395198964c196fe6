package s3api_test

import (
	"strings"
	"testing"

	"penstock.dev/penstock/internal/node"
)

const allAttributes = "ETag,Checksum,ObjectParts,StorageClass,ObjectSize"

func TestAttributes(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	first := d.must(t, 200, "PUT", "/bucket/key", "foo", "x-amz-checksum-sha256", sumOf("SHA256", "foo"))
	d.must(t, 200, "PUT", "/bucket/key", "other")
	a := d.must(t, 200, "GET", "/bucket/key?attributes&versionId="+first.id(), "", "x-amz-object-attributes", allAttributes)
	for element, want := range map[string]string{
		"ETag": md5Hex("foo"), "ChecksumSHA256": sumOf("SHA256", "foo"), "ChecksumType": "FULL_OBJECT", "StorageClass": "STANDARD", "ObjectSize": "3",
	} {
		if got := a.element(element); got != want {
			t.Errorf("%s is %q, not %q", element, got, want)
		}
	}
	if strings.Contains(a.body, "ObjectParts") || a.id() != first.id() || a.header.Get("Last-Modified") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	a = d.must(t, 200, "GET", "/bucket/key?attributes", "", "x-amz-object-attributes", "ObjectSize, ETag")
	if a.element("ObjectSize") != "5" || a.element("ETag") != md5Hex("other") || strings.Contains(a.body, "Checksum") {
		t.Errorf("%s", a.body)
	}
	d.fails(t, 400, "InvalidRequest", "GET", "/bucket/key?attributes", "")
	d.fails(t, 400, "InvalidArgument", "GET", "/bucket/key?attributes", "", "x-amz-object-attributes", "ETag,Color")
	d.fails(t, 400, "InvalidArgument", "GET", "/bucket/key?attributes", "", "x-amz-object-attributes", "ETag", "x-amz-max-parts", "x")
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/absent?attributes", "", "x-amz-object-attributes", "ETag")
	marker := d.must(t, 204, "DELETE", "/bucket/key", "").id()
	if a := d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key?attributes", "", "x-amz-object-attributes", "ETag"); a.header.Get("X-Amz-Delete-Marker") != "true" {
		t.Errorf("%v", a.header)
	}
	d.fails(t, 405, "MethodNotAllowed", "GET", "/bucket/key?attributes&versionId="+marker, "", "x-amz-object-attributes", "ETag")
}

func TestAttributesOfParts(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	upload := d.create(t, "/bucket/key")
	parts := partsXML(1, d.part(t, upload, 1, large("a")), 2, d.part(t, upload, 2, large("b")), 3, d.part(t, upload, 3, "c"))
	d.must(t, 200, "POST", upload, parts)
	for _, test := range []struct{ after, limit, next, truncated, shown string }{
		{"", "", "3", "false", "1 2 3"},
		{"", "2", "2", "true", "1 2"},
		{"1", "1", "2", "true", "2"},
		{"2", "5", "3", "false", "3"},
		{"7", "5", "3", "false", ""},
	} {
		headers := []string{"x-amz-object-attributes", allAttributes}
		if test.after != "" {
			headers = append(headers, "x-amz-part-number-marker", test.after)
		}
		if test.limit != "" {
			headers = append(headers, "x-amz-max-parts", test.limit)
		}
		a := d.must(t, 200, "GET", "/bucket/key?attributes", "", headers...)
		var got struct {
			ObjectParts struct {
				PartsCount int
				Part       []struct{ PartNumber, Size string }
			}
		}
		a.read(t, &got)
		var shown []string
		for _, part := range got.ObjectParts.Part {
			shown = append(shown, part.PartNumber)
		}
		if got.ObjectParts.PartsCount != 3 || a.element("NextPartNumberMarker") != test.next || a.element("IsTruncated") != test.truncated || strings.Join(shown, " ") != test.shown {
			t.Errorf("after %q, %q of them: %s", test.after, test.limit, a.body)
		}
	}
}
