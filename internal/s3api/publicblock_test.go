package s3api_test

import (
	"strings"
	"testing"
)

func TestPublicAccessBlock(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "", "X-Amz-Acl: public-read")
	d.ok(t, d.alice, "PUT", "/bucket/open", "content", "X-Amz-Acl: public-read")
	d.ok(t, d.alice, "PUT", "/bucket/mine", "content")
	const target = "/bucket?publicAccessBlock"
	block := func(names ...string) {
		t.Helper()
		text := "<PublicAccessBlockConfiguration>"
		for _, name := range names {
			text += "<" + name + ">true</" + name + ">"
		}
		d.ok(t, d.alice, "PUT", target, text+"</PublicAccessBlockConfiguration>")
		a := d.ok(t, d.alice, "GET", target, "")
		if got := strings.Count(a.body, ">true<"); got != len(names) || strings.Count(a.body, ">false<") != 4-len(names) {
			t.Errorf("%v: %s", names, a.body)
		}
	}
	open := policyOf("Allow", `"*"`, "s3:GetObject", "bucket/mine")
	toBob := policyOf("Allow", `{"AWS": "bob"}`, "s3:GetObject", "bucket/mine")

	d.want(t, 404, "NoSuchPublicAccessBlockConfiguration", d.alice, "GET", target, "")
	d.want(t, 204, "", d.alice, "DELETE", target, "")
	d.want(t, 400, "MalformedXML", d.alice, "PUT", target, "<Other/>")
	d.want(t, 403, "AccessDenied", d.bob, "PUT", target, "<PublicAccessBlockConfiguration/>")
	d.want(t, 403, "AccessDenied", d.bob, "GET", target, "")
	block()

	block("BlockPublicAcls")
	for _, acl := range []string{"public-read", "public-read-write", "authenticated-read"} {
		d.want(t, 403, "AccessDenied", d.alice, "PUT", "/bucket?acl", "", "X-Amz-Acl: "+acl)
		d.want(t, 403, "AccessDenied", d.alice, "PUT", "/bucket/new", "content", "X-Amz-Acl: "+acl)
		d.want(t, 403, "AccessDenied", d.alice, "PUT", "/bucket/mine?acl", "", "X-Amz-Acl: "+acl)
		d.want(t, 403, "AccessDenied", d.alice, "POST", "/bucket/new?uploads", "", "X-Amz-Acl: "+acl)
		d.want(t, 403, "AccessDenied", d.alice, "PUT", "/bucket/new", "", "X-Amz-Copy-Source: bucket/mine", "X-Amz-Acl: "+acl)
	}
	d.ok(t, d.alice, "PUT", "/bucket/new", "content", "X-Amz-Acl: private")
	d.want(t, 200, "", nobody, "GET", "/bucket/open", "")

	block("IgnorePublicAcls")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/open", "")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket", "")
	d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket/open", "")
	d.want(t, 200, "", d.alice, "GET", "/bucket/open", "")
	d.ok(t, d.alice, "PUT", "/bucket?acl", "", "X-Amz-Acl: public-read-write")
	d.want(t, 403, "AccessDenied", nobody, "PUT", "/bucket/other", "content")

	block("BlockPublicPolicy")
	d.want(t, 403, "AccessDenied", d.alice, "PUT", "/bucket?policy", open)
	d.ok(t, d.alice, "PUT", "/bucket?policy", toBob)
	d.want(t, 200, "", d.bob, "GET", "/bucket/mine", "")
	d.want(t, 200, "", nobody, "GET", "/bucket/open", "")

	block("RestrictPublicBuckets")
	d.want(t, 200, "", d.bob, "GET", "/bucket/mine", "")
	d.ok(t, d.alice, "PUT", "/bucket?policy", open)
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/mine", "")
	d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket/mine", "")
	d.want(t, 200, "", d.alice, "GET", "/bucket/mine", "")
	d.want(t, 204, "", d.alice, "DELETE", target, "")
	d.want(t, 200, "", nobody, "GET", "/bucket/mine", "")
}
