package s3api_test

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
)

func tagsXML(tags ...string) string {
	var b strings.Builder
	b.WriteString(`<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet>`)
	for i := 0; i < len(tags); i += 2 {
		fmt.Fprintf(&b, "<Tag><Key>%s</Key><Value>%s</Value></Tag>", tags[i], tags[i+1])
	}
	b.WriteString("</TagSet></Tagging>")
	return b.String()
}

// tags returns the tags of an object as KEY=VALUE, in order.
func (c *caller) tags(t *testing.T, target string) string {
	t.Helper()
	var got struct {
		XMLName xml.Name                      `xml:"Tagging"`
		Tags    []struct{ Key, Value string } `xml:"TagSet>Tag"`
	}
	c.must(t, 200, "GET", target, "").read(t, &got)
	var all []string
	for _, tag := range got.Tags {
		all = append(all, tag.Key+"="+tag.Value)
	}
	return strings.Join(all, " ")
}

func TestTagging(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "x", "x-amz-tagging", "foo=b%20r&bar", "x-amz-acl", "public-read")
	if got := d.tags(t, "/bucket/key?tagging"); got != "bar= foo=b r" {
		t.Errorf("it was written with %q", got)
	}
	a := d.must(t, 200, "PUT", "/bucket/key?tagging", tagsXML("k:", "+v-", "a", ""))
	if a.body != "" || a.id() != "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	if got := d.tags(t, "/bucket/key?tagging"); got != "a= k:=+v-" {
		t.Errorf("it has %q", got)
	}
	if got := d.must(t, 200, "HEAD", "/bucket/key", "").header.Get("X-Amz-Tagging-Count"); got != "2" {
		t.Errorf("there are %q tags", got)
	}
	if a := d.by(nobody).send(t, "GET", "/bucket/key", ""); a.status != 200 {
		t.Errorf("with tags the object is no longer public: %d", a.status)
	}
	if a := d.by(nobody).send(t, "GET", "/bucket/key?tagging", ""); a.status != 403 {
		t.Errorf("its tags are public: %d", a.status)
	}
	d.must(t, 204, "DELETE", "/bucket/key?tagging", "")
	if got := d.tags(t, "/bucket/key?tagging"); got != "" {
		t.Errorf("after all were taken away it has %q", got)
	}
	if got := d.must(t, 200, "HEAD", "/bucket/key", "").header.Get("X-Amz-Tagging-Count"); got != "" {
		t.Errorf("there are %q tags", got)
	}
	d.must(t, 200, "PUT", "/bucket/key", "other", "x-amz-tagging", "new=1")
	if got := d.tags(t, "/bucket/key?tagging"); got != "new=1" {
		t.Errorf("what was written over it has %q", got)
	}
}

func TestTaggingIsChecked(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "x")
	var many []string
	for i := range 11 {
		many = append(many, fmt.Sprint(i), "v")
	}
	long := func(n int) string { return strings.Repeat("ü", n) }
	d.must(t, 200, "PUT", "/bucket/key?tagging", tagsXML(append(many[:18:18], long(128), long(256))...))
	for _, bad := range [][]string{many, {long(129), ""}, {"k", long(257)}, {"", "v"}, {"twice", "1", "twice", "2"}} {
		d.fails(t, 400, "InvalidTag", "PUT", "/bucket/key?tagging", tagsXML(bad...))
	}
	d.fails(t, 400, "MalformedXML", "PUT", "/bucket/key?tagging", "<Tagging>")
	d.fails(t, 400, "MalformedXML", "PUT", "/bucket/key?tagging", "")
	d.fails(t, 400, "BadDigest", "PUT", "/bucket/key?tagging", tagsXML("k", "v"), "Content-Md5", md5Base64(""))
	if got := d.tags(t, "/bucket/key?tagging"); strings.Count(got, "=") != 10 {
		t.Errorf("it has %q", got)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		d.fails(t, 404, "NoSuchKey", method, "/bucket/absent?tagging", tagsXML("k", "v"))
	}
}

func TestTaggingVersions(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	v1 := d.must(t, 200, "PUT", "/bucket/key", "1").id()
	v2 := d.must(t, 200, "PUT", "/bucket/key", "2").id()
	if a := d.must(t, 200, "PUT", "/bucket/key?tagging&versionId="+v1, tagsXML("v", "1")); a.id() != v1 {
		t.Errorf("%v", a.header)
	}
	if a := d.must(t, 200, "PUT", "/bucket/key?tagging", tagsXML("v", "2")); a.id() != v2 {
		t.Errorf("%v", a.header)
	}
	if got := d.tags(t, "/bucket/key?tagging&versionId="+v1); got != "v=1" {
		t.Errorf("the first version has %q", got)
	}
	if got := d.tags(t, "/bucket/key?tagging&versionId="+v2); got != "v=2" {
		t.Errorf("the second version has %q", got)
	}
	if a := d.must(t, 204, "DELETE", "/bucket/key?tagging&versionId="+v1, ""); a.id() != v1 {
		t.Errorf("%v", a.header)
	}
	if got := d.tags(t, "/bucket/key?tagging"); got != "v=2" {
		t.Errorf("the newest has %q", got)
	}
	d.must(t, 204, "DELETE", "/bucket/key", "")
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/key?tagging", "")
	d.fails(t, 404, "NoSuchVersion", "GET", "/bucket/key?tagging&versionId=000000010000000000000099", "")
}

func TestTaggingRights(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "x")
	reader := d.by(d.user(t, "reader"))
	d.grant(t, "bucket", "reader", auth.Read)
	reader.must(t, 200, "GET", "/bucket/key?tagging", "")
	reader.fails(t, 403, "AccessDenied", "PUT", "/bucket/key?tagging", tagsXML("k", "v"))
	reader.fails(t, 403, "AccessDenied", "DELETE", "/bucket/key?tagging", "")
}

func TestTagCharacters(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	tag := func(key, value string) string {
		return "<Tagging><TagSet><Tag><Key>" + key + "</Key><Value>" + value + "</Value></Tag></TagSet></Tagging>"
	}
	d.ok(t, d.alice, "PUT", "/bucket/key?tagging", tag("é 1+-=._:/@", "ü 2+-=._:/@"))
	d.ok(t, d.alice, "PUT", "/bucket/other", "content", "X-Amz-Tagging: a%2Bb=c%20d")
	for _, bad := range []string{"!", "#", "a*b", "(a)", "a,b", "a;b", "&#x9;", "&amp;"} {
		d.want(t, 400, "InvalidTag", d.alice, "PUT", "/bucket/key?tagging", tag(bad, "v"))
		d.want(t, 400, "InvalidTag", d.alice, "PUT", "/bucket/key?tagging", tag("k", bad))
	}
	d.want(t, 400, "InvalidTag", d.alice, "PUT", "/bucket/other", "content", "X-Amz-Tagging: a=%21")
}

func TestBucketTagging(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	tags := func(n int) string {
		text := "<Tagging><TagSet>"
		for i := range n {
			text += fmt.Sprintf("<Tag><Key>k%02d</Key><Value>v</Value></Tag>", i)
		}
		return text + "</TagSet></Tagging>"
	}
	d.want(t, 404, "NoSuchTagSet", d.alice, "GET", "/bucket?tagging", "")
	d.want(t, 204, "", d.alice, "PUT", "/bucket?tagging", tags(50))
	if a := d.ok(t, d.alice, "GET", "/bucket?tagging", ""); !strings.HasSuffix(a.body, strings.TrimPrefix(tags(50), "<Tagging>")) {
		t.Error(a.body)
	}
	d.want(t, 400, "InvalidTag", d.alice, "PUT", "/bucket?tagging", tags(51))
	d.want(t, 400, "InvalidTag", d.alice, "PUT", "/bucket?tagging", strings.Replace(tags(2), "k01", "k00", 1))
	d.want(t, 400, "InvalidTag", d.alice, "PUT", "/bucket?tagging", strings.Replace(tags(1), "k00", "aws:k", 1))
	d.want(t, 400, "MalformedXML", d.alice, "PUT", "/bucket?tagging", "<Tagging>")
	d.want(t, 403, "AccessDenied", d.bob, "PUT", "/bucket?tagging", tags(1))
	d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket?tagging", "")
	d.want(t, 404, "NoSuchBucket", d.alice, "PUT", "/none?tagging", tags(1))
	// Other changes of the bucket leave them, and they leave the rest.
	d.ok(t, d.alice, "PUT", "/bucket?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	d.ok(t, d.alice, "PUT", "/bucket?tagging", tags(1))
	d.ok(t, d.alice, "PUT", "/bucket?acl", "", "X-Amz-Acl: public-read")
	if a := d.ok(t, d.alice, "GET", "/bucket?tagging", ""); !strings.Contains(a.body, "k00") {
		t.Error(a.body)
	}
	if a := d.ok(t, d.alice, "GET", "/bucket?versioning", ""); !strings.Contains(a.body, "Enabled") {
		t.Error(a.body)
	}
	d.want(t, 204, "", d.alice, "DELETE", "/bucket?tagging", "")
	d.want(t, 404, "NoSuchTagSet", d.alice, "GET", "/bucket?tagging", "")
	d.ok(t, d.alice, "HEAD", "/bucket", "")
}
