package s3api_test

import (
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/s3api"
)

const (
	allUsers   = "http://acs.amazonaws.com/groups/global/AllUsers"
	knownUsers = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
)

// grantsIn returns the grants of an ACL as WHO:WHAT.
func (a *answer) grantsIn(t testing.TB) (owner, grants string) {
	t.Helper()
	var acl struct {
		Owner  struct{ ID, DisplayName string }
		Grants []struct {
			Grantee struct {
				Type string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
				ID   string
				URI  string
			}
			Permission string
		} `xml:"AccessControlList>Grant"`
	}
	a.read(t, &acl)
	var all []string
	for _, g := range acl.Grants {
		who := g.Grantee.ID
		if g.Grantee.Type == "Group" {
			who = g.Grantee.URI[strings.LastIndexByte(g.Grantee.URI, '/')+1:]
		}
		all = append(all, who+":"+g.Permission)
	}
	return acl.Owner.ID, strings.Join(all, " ")
}

// acl makes the document of an ACL of alice's.
func acl(grants ...string) string {
	var b strings.Builder
	b.WriteString(`<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>alice</ID></Owner><AccessControlList>`)
	for _, g := range grants {
		i := strings.LastIndexByte(g, ':')
		who, kind, element := g[:i], "CanonicalUser", "ID"
		switch {
		case strings.HasPrefix(who, "http"):
			kind, element = "Group", "URI"
		case strings.Contains(who, "@"):
			kind, element = "AmazonCustomerByEmail", "EmailAddress"
		}
		fmt.Fprintf(&b, `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="%s"><%s>%s</%[2]s></Grantee><Permission>%[4]s</Permission></Grant>`, kind, element, who, g[i+1:])
	}
	return b.String() + "</AccessControlList></AccessControlPolicy>"
}

func TestACLs(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	for _, target := range []string{"/bucket?acl", "/bucket/key?acl"} {
		for _, tt := range []struct{ canned, document, want string }{
			{"public-read", acl("alice:FULL_CONTROL", allUsers+":READ"), "AllUsers:READ alice:FULL_CONTROL"},
			{"public-read-write", acl(allUsers+":WRITE", "alice:FULL_CONTROL", allUsers+":READ"), "AllUsers:READ AllUsers:WRITE alice:FULL_CONTROL"},
			{"authenticated-read", acl(knownUsers+":READ", "alice:FULL_CONTROL"), "AuthenticatedUsers:READ alice:FULL_CONTROL"},
			{"bucket-owner-read", acl("alice:FULL_CONTROL"), "alice:FULL_CONTROL"},
			{"private", acl("alice:FULL_CONTROL"), "alice:FULL_CONTROL"},
		} {
			for _, canned := range []bool{true, false} {
				d.ok(t, d.alice, "PUT", target, "", "x-amz-acl: private")
				if canned {
					d.ok(t, d.alice, "PUT", target, "", "x-amz-acl: "+tt.canned)
				} else {
					d.ok(t, d.alice, "PUT", target, tt.document)
				}
				if owner, got := d.ok(t, d.alice, "GET", target, "").grantsIn(t); owner != "alice" || got != tt.want {
					t.Errorf("%s of %s (%v): %s has %s", tt.canned, target, canned, owner, got)
				}
			}
		}
		d.ok(t, d.alice, "PUT", target, "", "x-amz-acl: public-read")
		before := d.state(t)
		for _, tt := range []struct {
			status     int
			code, body string
		}{
			{400, "InvalidArgument", acl("alice:FULL_CONTROL", "_nobody:READ")},
			{501, "NotImplemented", acl("alice:FULL_CONTROL", "bob:READ")},
			{501, "NotImplemented", acl("alice:READ")},
			{501, "NotImplemented", acl()},
			{501, "NotImplemented", acl("alice:FULL_CONTROL", "http://acs.amazonaws.com/groups/s3/LogDelivery:WRITE")},
			{400, "UnresolvableGrantByEmailAddress", acl("alice:FULL_CONTROL", "a@b.example:READ")},
			{400, "MalformedXML", acl("alice:EVERYTHING")},
			{403, "AccessDenied", strings.Replace(acl("bob:FULL_CONTROL"), "<ID>alice", "<ID>bob", 1)},
			{400, "MalformedXML", "<AccessControlPolicy/>"},
			{400, "MalformedXML", "<Other/>"},
			{400, "MissingSecurityHeader", ""},
		} {
			d.want(t, tt.status, tt.code, d.alice, "PUT", target, tt.body)
		}
		d.want(t, 501, "NotImplemented", d.alice, "PUT", target, "", "x-amz-grant-read: id=bob")
		d.want(t, 501, "NotImplemented", d.alice, "PUT", target, "", "x-amz-acl: private", "x-amz-grant-full-control: id=bob")
		d.want(t, 400, "InvalidArgument", d.alice, "PUT", target, "", "x-amz-acl: public")
		d.want(t, 400, "UnexpectedContent", d.alice, "PUT", target, acl("alice:FULL_CONTROL"), "x-amz-acl: private")
		d.want(t, 403, "AccessDenied", d.bob, "PUT", target, "", "x-amz-acl: private")
		d.want(t, 403, "AccessDenied", d.bob, "GET", target, "")
		if after := d.state(t); after != before {
			t.Errorf("%s\nbecame\n%s", before, after)
		}
	}
	d.want(t, 404, "NoSuchKey", d.alice, "GET", "/bucket/nothing?acl", "")
	d.want(t, 404, "NoSuchKey", d.alice, "PUT", "/bucket/nothing?acl", "", "x-amz-acl: private")
	d.want(t, 400, "InvalidArgument", d.alice, "PUT", "/bucket/key", "x", "x-amz-acl: public")
	d.want(t, 501, "NotImplemented", d.alice, "PUT", "/bucket/key", "x", "x-amz-grant-read: id=bob")
}

func TestWhatACLsAllow(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "", "x-amz-acl: public-read-write")
	d.ok(t, d.alice, "PUT", "/bucket/open", "content", "x-amz-acl: public-read")
	d.ok(t, d.alice, "PUT", "/bucket/closed", "content")
	d.ok(t, d.bob, "PUT", "/bucket/of-bob", "content", "x-amz-acl: bucket-owner-read")
	if owner, got := d.ok(t, d.bob, "GET", "/bucket/of-bob?acl", "").grantsIn(t); owner != "bob" || got != "bob:FULL_CONTROL alice:READ" {
		t.Errorf("%s has %s", owner, got)
	}
	d.ok(t, nobody, "GET", "/bucket", "")
	d.ok(t, nobody, "GET", "/bucket/open", "")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/closed", "")
	d.ok(t, nobody, "PUT", "/bucket/of-nobody", "content")
	d.ok(t, d.alice, "PUT", "/bucket/open?acl", "", "x-amz-acl: private")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/open", "")
	d.ok(t, d.alice, "PUT", "/bucket/open?acl", "", "x-amz-acl: authenticated-read")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/open", "")
	d.ok(t, d.bob, "GET", "/bucket/open", "")
	d.ok(t, d.alice, "PUT", "/bucket?acl", "", "x-amz-acl: private")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket", "")
	d.want(t, 403, "AccessDenied", d.bob, "PUT", "/bucket/of-bob", "content")
}

func policyOf(effect, who, action, resource string) string {
	return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": %q, "Principal": %s, "Action": %q, "Resource": "arn:aws:s3:::%s"}]}`, effect, who, action, resource)
}

func TestPolicy(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	public := func() bool {
		return strings.Contains(d.ok(t, d.alice, "GET", "/bucket?policyStatus", "").body, "<IsPublic>true</IsPublic>")
	}
	d.want(t, 404, "NoSuchBucketPolicy", d.alice, "GET", "/bucket?policy", "")
	if public() {
		t.Error("public without a policy")
	}
	text := policyOf("Allow", `"*"`, "s3:GetObject", "bucket/*")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/key", "")
	d.want(t, 204, "", d.alice, "PUT", "/bucket?policy", text)
	d.ok(t, nobody, "GET", "/bucket/key", "")
	if a := d.ok(t, d.alice, "GET", "/bucket?policy", ""); a.body != text || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", a.body, a.header)
	}
	if !public() {
		t.Error("not public")
	}
	before := d.state(t)
	for _, bad := range []string{
		"", "{}", "no json", text + "{}", policyOf("Allow", `"*"`, "s3:GetObject", "other/*"), policyOf("Allow", `{"AWS": "carol"}`, "s3:GetObject", "bucket/*"),
		policyOf("Permit", `"*"`, "s3:GetObject", "bucket/*"), strings.Repeat(" ", 30<<10), strings.Repeat("[", 10<<10),
	} {
		d.want(t, 400, "MalformedPolicy", d.alice, "PUT", "/bucket?policy", bad)
	}
	d.want(t, 403, "AccessDenied", d.bob, "PUT", "/bucket?policy", text)
	d.want(t, 403, "AccessDenied", d.bob, "DELETE", "/bucket?policy", "")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket?policy", "")
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
	// Whoever locks himself out can still take it back.
	d.want(t, 204, "", d.alice, "PUT", "/bucket?policy", policyOf("Deny", `"*"`, "s3:*", "bucket"))
	d.want(t, 403, "AccessDenied", d.alice, "GET", "/bucket", "")
	d.want(t, 204, "", d.alice, "DELETE", "/bucket?policy", "")
	d.ok(t, d.alice, "GET", "/bucket", "")
	d.want(t, 204, "", d.alice, "DELETE", "/bucket?policy", "")

	d.want(t, 204, "", d.alice, "PUT", "/bucket?policy", policyOf("Allow", `{"AWS": "bob"}`, "s3:ListBucket", "bucket"))
	d.ok(t, d.bob, "GET", "/bucket", "")
	if public() {
		t.Error("what one user may is public")
	}
	d.ok(t, d.alice, "PUT", "/bucket?acl", "", "x-amz-acl: authenticated-read")
	if !public() {
		t.Error("not public by the ACL")
	}
}

// TestActions sees that every operation needs a right that there is.
func TestActions(t *testing.T) {
	alone := map[string]bool{"ListBuckets": true, "PostObject": true, "DeleteObjects": true}
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	names := map[string]bool{}
	for _, op := range s3api.Operations() {
		if names[op.Name] {
			t.Errorf("there are two operations %s", op.Name)
		}
		names[op.Name] = true
		if op.Action == "" && !alone[op.Name] {
			t.Errorf("%s needs no right", op.Name)
		}
		if alone[op.Name] || op.Name == "CreateBucket" {
			continue
		}
		// Bob has none on this bucket, and nobody even less.
		before := d.state(t)
		for _, who := range []keys{d.bob, nobody} {
			target, headers := targetOf(op)
			if a := d.do(t, who, op.Method, target, "", headers...); a.status != 403 {
				t.Errorf("%s %s by %q: %d %.200s", op.Method, target, who.access, a.status, a.body)
			}
		}
		if after := d.state(t); after != before {
			t.Errorf("%s: %s\nbecame\n%s", op.Name, before, after)
		}
	}
}

// targetOf makes the target of an operation, and the header it asks for.
func targetOf(op s3api.OperationInfo) (target string, headers []string) {
	target = []string{"/", "/bucket", "/bucket/key"}[op.Scope]
	for i, name := range op.With {
		target += "?&"[min(i, 1):][:1] + name
		switch name {
		case "list-type":
			target += "=2"
		case "partNumber":
			target += "=1"
		case "uploadId":
			target += "=" + strings.Repeat("0", 23) + "9"
		}
	}
	if op.Header != "" {
		headers = append(headers, op.Header+": /bucket/key")
	}
	return target, headers
}
