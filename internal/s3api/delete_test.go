package s3api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
)

func TestDeleteObject(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "x")
	a := d.must(t, 204, "DELETE", "/bucket/key", "")
	if a.body != "" || a.id() != "" || a.header.Get("X-Amz-Delete-Marker") != "" {
		t.Errorf("a plain delete answered %v %s", a.header, a.body)
	}
	d.must(t, 204, "DELETE", "/bucket/key", "")
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", "")
	d.fails(t, 404, "NoSuchBucket", "DELETE", "/absent/key", "")
	d.fails(t, 400, "InvalidArgument", "DELETE", "/bucket/key?versionId=nonsense", "")
	d.fails(t, 501, "NotImplemented", "DELETE", "/bucket/key", "", "x-amz-mfa", "serial 123456")

	d.must(t, 200, "PUT", "/bucket/key", "x")
	if a := d.must(t, 204, "DELETE", "/bucket/key?versionId=null", ""); a.id() != "null" {
		t.Errorf("the null version's ID is %q", a.id())
	}
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", "")
}

func TestDeleteVersions(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "null")
	d.version(t, "bucket", node.VersioningEnabled)
	v1 := d.must(t, 200, "PUT", "/bucket/key", "one").id()
	a := d.must(t, 204, "DELETE", "/bucket/key", "")
	marker := a.id()
	if a.header.Get("X-Amz-Delete-Marker") != "true" || marker == "" || marker == v1 {
		t.Fatalf("no mark of deletion was made: %v", a.header)
	}
	if a := d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", ""); a.header.Get("X-Amz-Delete-Marker") != "true" {
		t.Error("it is not said that the object is deleted")
	}
	if a := d.must(t, 200, "GET", "/bucket/key?versionId="+v1, ""); a.body != "one" {
		t.Errorf("version %s is %q", v1, a.body)
	}
	a = d.must(t, 204, "DELETE", "/bucket/key?versionId="+marker, "")
	if a.header.Get("X-Amz-Delete-Marker") != "true" || a.id() != marker {
		t.Errorf("removing a mark answered %v", a.header)
	}
	if a := d.must(t, 200, "GET", "/bucket/key", ""); a.body != "one" {
		t.Errorf("without the mark the object is %q", a.body)
	}
	a = d.must(t, 204, "DELETE", "/bucket/key?versionId="+v1, "")
	if a.header.Get("X-Amz-Delete-Marker") != "" || a.id() != v1 {
		t.Errorf("removing a version answered %v", a.header)
	}
	d.must(t, 204, "DELETE", "/bucket/key?versionId="+v1, "") // again
	if a := d.must(t, 200, "GET", "/bucket/key", ""); a.body != "null" {
		t.Errorf("what is left is %q", a.body)
	}

	d.version(t, "bucket", node.VersioningSuspended)
	a = d.must(t, 204, "DELETE", "/bucket/key", "")
	if a.header.Get("X-Amz-Delete-Marker") != "true" || a.id() != "null" {
		t.Errorf("a delete while versioning is suspended answered %v", a.header)
	}
}

func TestDeleteConditions(t *testing.T) {
	t.Parallel()
	for _, versioning := range []string{"", node.VersioningEnabled} {
		t.Run("versioning="+versioning, func(t *testing.T) {
			d := begin(t, "bucket")
			if versioning != "" {
				d.version(t, "bucket", versioning)
			}
			const bad = "2015-01-01T00:00:00Z"
			for _, headers := range [][]string{{"If-Match", `"bad"`}, {"If-Match", "*"}, {"x-amz-if-match-size", "77"}, {"x-amz-if-match-last-modified-time", bad}} {
				d.must(t, 204, "DELETE", "/bucket/absent", "", headers...) // what is not there is deleted
			}
			put := func() (etag, modified, id string) {
				a := d.must(t, 200, "PUT", "/bucket/key", "four")
				return a.header.Get("Etag"), d.must(t, 200, "HEAD", "/bucket/key", "").header.Get("Last-Modified"), a.id()
			}
			etag, modified, id := put()
			query := ""
			if id != "" {
				query = "?versionId=" + id
			}
			for _, headers := range [][]string{{"If-Match", `"bad"`}, {"x-amz-if-match-size", "77"}, {"x-amz-if-match-last-modified-time", bad}} {
				d.fails(t, 412, "PreconditionFailed", "DELETE", "/bucket/key", "", headers...)
				d.fails(t, 412, "PreconditionFailed", "DELETE", "/bucket/key"+query, "", headers...)
			}
			for _, header := range []string{"If-Match", "If-Match *", "x-amz-if-match-size", "x-amz-if-match-last-modified-time"} {
				headers := map[string][]string{
					"If-Match": {"If-Match", etag}, "If-Match *": {"If-Match", "*"},
					"x-amz-if-match-size": {"x-amz-if-match-size", "4"}, "x-amz-if-match-last-modified-time": {"x-amz-if-match-last-modified-time", modified},
				}[header]
				d.must(t, 204, "DELETE", "/bucket/key", "", headers...)
				d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key", "")
				if versioning != "" { // a mark has no ETag
					d.fails(t, 412, "PreconditionFailed", "DELETE", "/bucket/key", "", "If-Match", etag)
					d.must(t, 204, "DELETE", "/bucket/key", "", "If-Match", "*")
				}
				_, modified, id = put()
			}
			if id != "" {
				d.must(t, 204, "DELETE", "/bucket/key?versionId="+id, "", "If-Match", etag)
			}
			d.fails(t, 400, "InvalidArgument", "DELETE", "/bucket/key", "", "x-amz-if-match-size", "many")
			d.fails(t, 501, "NotImplemented", "DELETE", "/bucket/key", "", "If-None-Match", "*")
		})
	}
}

type deleteResult struct {
	Deleted []struct {
		Key, VersionId        string //nolint:revive,staticcheck // S3's names
		DeleteMarker          bool
		DeleteMarkerVersionId string //nolint:revive,staticcheck // S3's names
	}
	Error []struct{ Key, VersionId, Code string } //nolint:revive,staticcheck // S3's names
}

// deleteMany deletes with a document of objects.
func (c *caller) deleteMany(t *testing.T, bucket, objects string) deleteResult {
	t.Helper()
	body := `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + objects + `</Delete>`
	a := c.must(t, 200, "POST", "/"+bucket+"?delete", body, "Content-Md5", md5Base64(body))
	var result deleteResult
	a.read(t, &result)
	return result
}

func TestDeleteMany(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	var objects strings.Builder
	const n = 300
	for i := range n {
		if i%2 == 0 {
			d.must(t, 200, "PUT", fmt.Sprintf("/bucket/key-%03d", i), "x")
		}
		fmt.Fprintf(&objects, "<Object><Key>key-%03d</Key></Object>", i)
	}
	got := d.deleteMany(t, "bucket", objects.String())
	if len(got.Deleted) != n || len(got.Error) != 0 {
		t.Fatalf("%d deleted and %d errors", len(got.Deleted), len(got.Error))
	}
	for i, one := range got.Deleted {
		if one.Key != fmt.Sprintf("key-%03d", i) || one.DeleteMarker {
			t.Fatalf("in place %d stands %+v", i, one)
		}
	}
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key-000", "")

	odd := "a&b <c>\té\n"
	d.must(t, 200, "PUT", "/bucket/"+strings.ReplaceAll(uriEncode(odd), "+", "%20"), "x")
	got = d.deleteMany(t, "bucket", "<Quiet>true</Quiet><Object><Key>a&amp;b &lt;c&gt;&#9;é&#10;</Key></Object><Object><Key>"+strings.Repeat("k", 1025)+"</Key></Object>")
	if len(got.Deleted) != 0 || len(got.Error) != 1 || got.Error[0].Code != "KeyTooLongError" {
		t.Errorf("quietly: %+v", got)
	}
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/"+uriEncode(odd), "")
}

func TestDeleteManyIsChecked(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "x")
	body := "<Delete><Object><Key>key</Key></Object></Delete>"
	d.fails(t, 400, "InvalidRequest", "POST", "/bucket?delete", body)
	d.fails(t, 400, "BadDigest", "POST", "/bucket?delete", body, "Content-Md5", md5Base64("other"))
	d.fails(t, 400, "BadDigest", "POST", "/bucket?delete", body, "x-amz-checksum-crc32", "AAAAAA==")
	d.fails(t, 501, "NotImplemented", "POST", "/bucket?delete", body, "Content-Md5", md5Base64(body), "x-amz-mfa", "serial 1")
	for _, bad := range []string{
		"", "<Delete/>", "<Delete><Quiet>perhaps</Quiet><Object><Key>key</Key></Object></Delete>", "<Other><Object><Key>key</Key></Object></Other>",
		"<!DOCTYPE d [<!ENTITY k 'key'>]><Delete><Object><Key>&k;</Key></Object></Delete>", "<Delete><Object><Key>key</Key></Object>",
		"<Delete>" + strings.Repeat("<Object><Key>key</Key></Object>", 1001) + "</Delete>",
	} {
		d.fails(t, 400, "MalformedXML", "POST", "/bucket?delete", bad, "Content-Md5", md5Base64(bad))
	}
	d.must(t, 200, "GET", "/bucket/key", "")
}

func TestDeleteManyVersionsAndConditions(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	first := d.must(t, 200, "PUT", "/bucket/key", "one")
	v1, etag := first.id(), first.etag()
	got := d.deleteMany(t, "bucket", "<Object><Key>key</Key><ETag>bad</ETag></Object><Object><Key>new</Key></Object>")
	if len(got.Error) != 1 || got.Error[0].Code != "PreconditionFailed" || len(got.Deleted) != 1 || !got.Deleted[0].DeleteMarker {
		t.Fatalf("%+v", got)
	}
	if a := d.fails(t, 404, "NoSuchKey", "GET", "/bucket/new", ""); a.id() != got.Deleted[0].DeleteMarkerVersionId {
		t.Error("the ID of the mark is another")
	}
	got = d.deleteMany(t, "bucket", "<Object><Key>key</Key><ETag>&quot;"+etag+"&quot;</ETag><Size>3</Size></Object>")
	if len(got.Deleted) != 1 || !got.Deleted[0].DeleteMarker {
		t.Fatalf("%+v", got)
	}
	marker := got.Deleted[0].DeleteMarkerVersionId
	all := "<Object><Key>key</Key><VersionId>" + v1 + "</VersionId></Object><Object><Key>key</Key><VersionId>" + marker + "</VersionId></Object>"
	for i := range 2 { // it makes no difference to do it twice
		got = d.deleteMany(t, "bucket", all)
		if len(got.Deleted) != 2 || got.Deleted[0].VersionId != v1 || got.Deleted[0].DeleteMarker || got.Deleted[1].DeleteMarker != (i == 0) {
			t.Fatalf("%+v", got)
		}
	}
	got = d.deleteMany(t, "bucket", "<Object><Key>key</Key><VersionId>nonsense</VersionId></Object>")
	if len(got.Error) != 1 || got.Error[0].Code != "InvalidArgument" || got.Error[0].VersionId != "nonsense" {
		t.Errorf("%+v", got)
	}
}

func TestDeleteManyRights(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	id := d.must(t, 200, "PUT", "/bucket/key", "x").id()
	writer, reader := d.by(d.user(t, "writer")), d.by(d.user(t, "reader"))
	d.grant(t, "bucket", "writer", auth.Write)
	d.grant(t, "bucket", "reader", auth.Read)
	both := "<Object><Key>key</Key><VersionId>" + id + "</VersionId></Object><Object><Key>key</Key></Object>"
	if got := reader.deleteMany(t, "bucket", both); len(got.Error) != 2 || got.Error[0].Code != "AccessDenied" || got.Error[1].Code != "AccessDenied" {
		t.Errorf("a reader: %+v", got)
	}
	d.by(nobody).must(t, 403, "POST", "/bucket?delete", "<Delete>"+both+"</Delete>", "Content-Md5", md5Base64("<Delete>"+both+"</Delete>"))
	d.must(t, 200, "GET", "/bucket/key", "")
	got := writer.deleteMany(t, "bucket", both)
	if len(got.Error) != 1 || got.Error[0].VersionId != id || len(got.Deleted) != 1 {
		t.Errorf("a writer: %+v", got)
	}
	d.must(t, 200, "GET", "/bucket/key?versionId="+id, "")
	if a := reader.send(t, http.MethodDelete, "/bucket/key", ""); a.code() != "AccessDenied" {
		t.Errorf("a reader deletes: %d %s", a.status, a.body)
	}
}
