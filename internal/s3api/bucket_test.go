package s3api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/s3api"
)

func TestBuckets(t *testing.T) {
	d := open(t)
	a := d.ok(t, d.alice, "PUT", "/first", "")
	if a.header.Get("Location") != "/first" || a.header.Get("X-Amz-Request-Id") == "" {
		t.Errorf("headers %v", a.header)
	}
	d.ok(t, d.alice, "PUT", "/first", "") // again, as it is
	d.want(t, 409, "BucketAlreadyExists", d.alice, "PUT", "/first", "", "x-amz-acl: public-read")
	d.want(t, 409, "BucketAlreadyExists", d.bob, "PUT", "/first", "")
	d.want(t, 409, "BucketAlreadyExists", d.root, "PUT", "/first", "")
	d.want(t, 403, "AccessDenied", nobody, "PUT", "/another", "")
	for _, name := range []string{"a", "aa", "Upper", "under_score", "foo-", "foo..bar", "foo.-bar", "foo-.bar", "192.168.5.123", strings.Repeat("a", 64), "a~b"} {
		d.want(t, 400, "InvalidBucketName", d.alice, "PUT", "/"+name, "")
	}
	for body, want := range map[string]string{
		"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>": "",
		"<CreateBucketConfiguration/>": "",
		"<CreateBucketConfiguration><LocationConstraint>no region</LocationConstraint></CreateBucketConfiguration>": "InvalidLocationConstraint",
		"<CreateBucketConfiguration><Tags/></CreateBucketConfiguration>":                                            "NotImplemented",
		"<CreateBucketConfiguration>": "MalformedXML",
		"<Other/>":                    "MalformedXML",
		"no xml":                      "MalformedXML",
	} {
		if a := d.do(t, d.alice, "PUT", "/placed", body); a.code() != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	d.want(t, 501, "NotImplemented", d.alice, "PUT", "/locked", "", "x-amz-bucket-object-lock-enabled: true")
	d.want(t, 501, "NotImplemented", d.alice, "PUT", "/granted", "", "x-amz-grant-read: id=bob")
	d.want(t, 400, "InvalidArgument", d.alice, "PUT", "/canned", "", "x-amz-acl: no-such")
	d.want(t, 400, "InvalidArgument", d.alice, "PUT", "/owned", "", "x-amz-object-ownership: mine")
	d.ok(t, d.alice, "PUT", "/owned", "", "x-amz-object-ownership: BucketOwnerEnforced")

	if a := d.ok(t, d.alice, "HEAD", "/first", ""); a.header.Get("X-Amz-Bucket-Region") != "us-east-1" {
		t.Errorf("headers %v", a.header)
	}
	d.want(t, 404, "", d.alice, "HEAD", "/nothing", "")
	d.want(t, 403, "", d.bob, "HEAD", "/first", "")
	d.want(t, 404, "NoSuchBucket", d.alice, "GET", "/nothing", "")
	d.want(t, 404, "NoSuchBucket", d.alice, "DELETE", "/nothing", "")
	d.want(t, 403, "AccessDenied", d.alice, "GET", "/first", "", "x-amz-expected-bucket-owner: bob")
	d.ok(t, d.alice, "GET", "/first", "", "x-amz-expected-bucket-owner: alice")
	if a := d.ok(t, d.alice, "GET", "/first?location", ""); !strings.Contains(a.body, "/\"></LocationConstraint>") {
		t.Errorf("location: %s", a.body)
	}
	if a := d.ok(t, d.alice, "GET", "/first?requestPayment", ""); !strings.Contains(a.body, "<Payer>BucketOwner</Payer>") {
		t.Errorf("payment: %s", a.body)
	}

	d.ok(t, d.alice, "PUT", "/first/key", "content")
	d.want(t, 409, "BucketNotEmpty", d.alice, "DELETE", "/first", "")
	d.want(t, 403, "AccessDenied", d.bob, "DELETE", "/first", "")
	d.want(t, 204, "", d.alice, "DELETE", "/placed", "")
	d.want(t, 404, "NoSuchBucket", d.alice, "DELETE", "/placed", "")
}

func TestLocationOfAnotherRegion(t *testing.T) {
	d := openWith(t, nil, s3api.Options{Region: "eu-north-7"})
	d.ok(t, d.alice, "PUT", "/bucket", "")
	if a := d.ok(t, d.alice, "GET", "/bucket?location", ""); !strings.Contains(a.body, ">eu-north-7<") {
		t.Errorf("location: %s", a.body)
	}
}

type bucketList struct {
	Owner   struct{ ID, DisplayName string }
	Buckets struct {
		Bucket []struct{ Name, CreationDate, BucketRegion string }
	}
	Prefix, ContinuationToken string
}

func (l bucketList) names() string {
	var names []string
	for _, b := range l.Buckets.Bucket {
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

func TestListBuckets(t *testing.T) {
	d := open(t)
	for _, name := range []string{"ccc", "aaa", "bbb", "abb"} {
		d.ok(t, d.alice, "PUT", "/"+name, "")
	}
	d.ok(t, d.bob, "PUT", "/of-bob", "")
	if _, err := d.node.SetAccess(context.Background(), "ccc", func(a object.Access) (object.Access, error) {
		return d.authority.Grant(a, "bob", "read")
	}); err != nil {
		t.Fatal(err)
	}
	list := func(as keys, query string) (l bucketList) {
		d.ok(t, as, "GET", "/"+query, "").read(t, &l)
		return l
	}
	l := list(d.alice, "")
	if l.names() != "aaa abb bbb ccc" || l.Owner.ID != "alice" || l.Owner.DisplayName != "alice" || l.ContinuationToken != "" {
		t.Errorf("%+v", l)
	}
	if got := list(d.bob, "").names(); got != "ccc of-bob" {
		t.Errorf("bob sees %s", got)
	}
	if got := list(d.root, "").names(); got != "aaa abb bbb ccc of-bob" {
		t.Errorf("root sees %s", got)
	}
	if got := list(nobody, "").names(); got != "" {
		t.Errorf("nobody sees %s", got)
	}
	if l := list(d.alice, "?prefix=a"); l.names() != "aaa abb" || l.Prefix != "a" {
		t.Errorf("%+v", l)
	}
	if got := list(d.alice, "?bucket-region=elsewhere").names(); got != "" {
		t.Errorf("elsewhere are %s", got)
	}
	var all []string
	token := ""
	for pages := 0; ; pages++ {
		l := list(d.alice, "?max-buckets=2&continuation-token="+token)
		all = append(all, l.names())
		if token = l.ContinuationToken; token == "" {
			break
		}
	}
	if got := strings.Join(all, "|"); got != "aaa abb|bbb ccc" {
		t.Errorf("in pages: %s", got)
	}
	for _, query := range []string{"max-buckets=0", "max-buckets=10001", "max-buckets=x", "continuation-token=x", "continuation-token=AAAAAGFhYQ"} {
		d.want(t, 400, "InvalidArgument", d.alice, "GET", "/?"+query, "")
	}
}

func TestVersioning(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	status := func() string {
		var v struct{ Status string }
		d.ok(t, d.alice, "GET", "/bucket?versioning", "").read(t, &v)
		return v.Status
	}
	set := func(inner string) string { return "<VersioningConfiguration>" + inner + "</VersioningConfiguration>" }
	if got := status(); got != "" {
		t.Errorf("at first %q", got)
	}
	for _, tt := range []struct{ body, code, after string }{
		{set(""), "IllegalVersioningConfigurationException", ""},
		{set("<Status>enabled</Status>"), "MalformedXML", ""},
		{"", "MalformedXML", ""},
		{"<Other><Status>Enabled</Status></Other>", "MalformedXML", ""},
		{set("<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>"), "NotImplemented", ""},
		{set("<Status>Suspended</Status>"), "", "Suspended"},
		{set("<Status>Enabled</Status><MfaDelete>Disabled</MfaDelete>"), "", "Enabled"},
		{set("<Status>Enabled</Status>"), "", "Enabled"},
		{set("<Status></Status>"), "MalformedXML", "Enabled"},
		{set("<Status>Suspended</Status>"), "", "Suspended"},
	} {
		a := d.do(t, d.alice, "PUT", "/bucket?versioning", tt.body)
		if a.code() != tt.code || status() != tt.after {
			t.Errorf("%s: %d %s, now %q", tt.body, a.status, a.body, status())
		}
	}
	d.want(t, 403, "AccessDenied", d.bob, "PUT", "/bucket?versioning", set("<Status>Enabled</Status>"))
}

// TestNoSubresourceIsAnother sends requests that must not be taken for what they would
// be without their parameter.
func TestNoSubresourceIsAnother(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	before := d.state(t)
	names := map[string]bool{"abac": true, "session": true, "renameObject": true, "metadataTable": true}
	known := map[string]bool{}
	for _, op := range s3api.Operations() {
		for _, name := range op.With {
			names[name] = true
			known[fmt.Sprintln(op.Scope, op.Method, name)] = true
		}
	}
	for name := range names {
		if name == "list-type" {
			continue
		}
		for _, method := range []string{"GET", "PUT", "DELETE", "POST", "HEAD"} {
			for i, path := range []string{"/bucket", "/bucket/key"} {
				read := method == "GET" || method == "HEAD"
				if known[fmt.Sprintln(i+1, method, name)] || (name == "partNumber" && i == 1 && read) {
					continue
				}
				if a := d.do(t, d.alice, method, path+"?"+name, ""); a.status != 405 && a.status != 501 {
					t.Errorf("%s %s?%s: %d %.200s", method, path, name, a.status, a.body)
				}
			}
		}
	}
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

func TestUnsupported(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	before := d.state(t)
	for query, code := range map[string]string{
		"lifecycle": "NoSuchLifecycleConfiguration", "cors": "NoSuchCORSConfiguration", "website": "NoSuchWebsiteConfiguration",
		"encryption": "ServerSideEncryptionConfigurationNotFoundError", "replication": "ReplicationConfigurationNotFoundError",
		"object-lock":       "ObjectLockConfigurationNotFoundError",
		"ownershipControls": "OwnershipControlsNotFoundError", "inventory&id=1": "NoSuchConfiguration",
	} {
		d.want(t, 404, code, d.alice, "GET", "/bucket?"+query, "")
		d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket?"+query, "")
		d.want(t, 501, "NotImplemented", d.alice, "PUT", "/bucket?"+query, "<Anything/>")
		status, code := 501, "NotImplemented"
		switch query {
		case "object-lock":
			status, code = 405, "MethodNotAllowed"
		}
		d.want(t, status, code, d.alice, "DELETE", "/bucket?"+query, "")
	}
	for query, root := range map[string]string{
		"accelerate": "AccelerateConfiguration", "logging": "BucketLoggingStatus", "notification": "NotificationConfiguration",
		"metrics": "ListBucketMetricsConfigurationsResult",
	} {
		if a := d.ok(t, d.alice, "GET", "/bucket?"+query, ""); !strings.Contains(a.body, "<"+root+" ") {
			t.Errorf("%s: %s", query, a.body)
		}
		d.want(t, 501, "NotImplemented", d.alice, "PUT", "/bucket?"+query, "<Anything/>")
	}
	d.want(t, 501, "NotImplemented", d.alice, "PUT", "/bucket?requestPayment", "<Anything/>")
	d.want(t, 400, "InvalidRequest", d.alice, "GET", "/bucket/key?retention", "")
	d.want(t, 400, "InvalidRequest", d.alice, "GET", "/bucket/key?legal-hold", "")
	d.want(t, 404, "NoSuchKey", d.alice, "GET", "/bucket/nothing?legal-hold", "")
	d.want(t, 501, "NotImplemented", d.alice, "PUT", "/bucket/key?retention", "<Anything/>")
	d.want(t, 501, "NotImplemented", d.alice, "GET", "/bucket/key?torrent", "")
	d.want(t, 501, "NotImplemented", d.alice, "POST", "/bucket/key?restore", "<Anything/>")
	d.want(t, 501, "NotImplemented", d.alice, "POST", "/bucket/key?select&select-type=2", "<Anything/>")
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}
