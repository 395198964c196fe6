package s3api_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/node"
)

// TestVersionsHaveTheirOwnRights: what the newest version allows says nothing about
// those before it.
func TestVersionsHaveTheirOwnRights(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	carol := d.by(d.user(t, "carol"))
	secret := d.must(t, 200, "PUT", "/bucket/k", "secret").id()
	open := d.must(t, 200, "PUT", "/bucket/k", "open", "X-Amz-Acl", "public-read").id()
	d.by(nobody).must(t, 200, "GET", "/bucket/k?versionId="+open, "")
	d.by(nobody).must(t, 403, "GET", "/bucket/k?versionId="+secret, "")

	d.must(t, 204, "PUT", "/bucket?policy", policyFor("bucket", `"Effect":"Allow","Principal":{"AWS":"carol"},"Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"`))
	carol.must(t, 200, "PUT", "/bucket/k", "her own")
	carol.must(t, 200, "GET", "/bucket/k", "")
	carol.must(t, 403, "GET", "/bucket/k?versionId="+secret, "")
	carol.must(t, 403, "PUT", "/bucket/k?acl&versionId="+secret, "", "X-Amz-Acl", "public-read")
}

func policyFor(_ string, statement string) string {
	return `{"Version":"2012-10-17","Statement":[{` + statement + `}]}`
}

// TestWhatComesAlong: an ACL or tags of a write are as much forbidden as by themselves.
func TestWhatComesAlong(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	carol := d.by(d.user(t, "carol"))
	d.grant(t, "bucket", "carol", "write")
	deny := `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":["s3:PutObjectAcl","s3:PutObjectTagging"],"Resource":"arn:aws:s3:::bucket/*"}]}`
	d.must(t, 204, "PUT", "/bucket?policy", deny)
	carol.must(t, 200, "PUT", "/bucket/k", "x")
	carol.must(t, 403, "PUT", "/bucket/k", "x", "X-Amz-Acl", "public-read")
	carol.must(t, 403, "PUT", "/bucket/k", "x", "X-Amz-Tagging", "clean=yes")
}

// TestConditionsOnWhatIsUsed: a condition is about what the operation takes, not about a
// header beside it, and however it is written.
func TestConditionsOnWhatIsUsed(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket", "other")
	carol := d.by(d.user(t, "carol"))
	d.grant(t, "bucket", "carol", "write")
	d.grant(t, "other", "carol", "read")
	d.must(t, 200, "PUT", "/bucket/k", "x")
	d.must(t, 200, "PUT", "/other/x", "x")
	statement := func(action, condition string) string {
		return policyFor("bucket", `"Effect":"Deny","Principal":"*","Action":"`+action+`","Resource":"arn:aws:s3:::bucket/*","Condition":{"StringLike":{`+condition+`}}`)
	}
	d.must(t, 204, "PUT", "/bucket?policy", statement("s3:PutObjectTagging", `"s3:RequestObjectTag/security":"clean"`))
	document := "<Tagging><TagSet><Tag><Key>security</Key><Value>clean</Value></Tag></TagSet></Tagging>"
	carol.must(t, 403, "PUT", "/bucket/k?tagging", document)
	carol.must(t, 403, "PUT", "/bucket/k?tagging", document, "X-Amz-Tagging", "security=unknown")
	carol.must(t, 200, "PUT", "/bucket/k?tagging", strings.ReplaceAll(document, "clean", "unknown"), "X-Amz-Tagging", "security=clean")

	d.must(t, 204, "PUT", "/bucket?policy", statement("s3:PutObject", `"s3:x-amz-copy-source":"other/*"`))
	for _, source := range []string{"other/x", "/other/x", "%6fther/x", "other%2Fx"} {
		carol.must(t, 403, "PUT", "/bucket/copy", "", "X-Amz-Copy-Source", source)
	}
}

// TestLongValuesAreNotMatched: a condition on what is too long to be compared denies, and
// does not allow.
func TestLongValuesAreNotMatched(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/k", "x")
	long := strings.Repeat("a", 3000)
	d.must(t, 204, "PUT", "/bucket?policy", policyFor("bucket", `"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*","Condition":{"StringLike":{"aws:UserAgent":"a*"}}`))
	d.by(nobody).must(t, 200, "GET", "/bucket/k", "", "User-Agent", "aaa")
	d.by(nobody).must(t, 403, "GET", "/bucket/k", "", "User-Agent", long)
}

func TestNamesOfMetadata(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 400, "PUT", "/bucket/k", "x", "X-Amz-Meta-", "v")
	d.must(t, 404, "GET", "/bucket/k", "")
}

// TestOldSignaturesAreNotAmbiguous: a name or value cannot pass for several.
func TestOldSignaturesAreNotAmbiguous(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/k", "x")
	r := d.request(t, "GET", "/bucket/k?response-content-type="+url.QueryEscape("text/plain\n1\n/bucket/other"), "")
	signOld(r, d.root, time.Now().Add(time.Hour))
	if a := d.door.send(t, r); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
	r = d.request(t, "GET", "/bucket/k?response-content-type="+url.QueryEscape("text/plain"), "")
	signOld(r, d.root, time.Now().Add(time.Hour))
	if a := d.door.send(t, r); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
