package auth_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
)

// needed is the table as a reader of S3's documentation would expect it; what is not
// here is for admins.
var needed = map[string]string{
	"s3:CreateBucket": "any", "s3:ListAllMyBuckets": "any",

	"s3:GetObject": "read", "s3:GetObjectVersion": "read", "s3:GetObjectAttributes": "read", "s3:GetObjectVersionAttributes": "read",
	"s3:GetObjectTagging": "read", "s3:GetObjectVersionTagging": "read", "s3:GetObjectTorrent": "read", "s3:GetObjectVersionTorrent": "read",
	"s3:GetObjectLegalHold": "read", "s3:GetObjectRetention": "read", "s3:GetBucketLocation": "read", "s3:GetBucketVersioning": "read",
	"s3:GetBucketObjectLockConfiguration": "read", "s3:GetBucketRequestPayment": "read",
	"s3:ListBucket": "read", "s3:ListBucketVersions": "read", "s3:ListBucketMultipartUploads": "read", "s3:ListMultipartUploadParts": "read",

	"s3:PutObject": "write", "s3:DeleteObject": "write", "s3:AbortMultipartUpload": "write", "s3:RestoreObject": "write",
	"s3:PutObjectTagging": "write", "s3:PutObjectVersionTagging": "write", "s3:DeleteObjectTagging": "write", "s3:DeleteObjectVersionTagging": "write",
}

func ask(action, bucket, key string) auth.Request {
	return auth.Request{Request: policy.Request{Action: action, Bucket: bucket, Key: key}}
}

// TestEveryAction tries every action there is with every right.
func TestEveryAction(t *testing.T) {
	a, _ := mustOpen(t, nodetest.Control(t), auth.Options{})
	order := []string{"nobody", "any", "read", "write", "admin", "owner", "root"}
	users := map[string]auth.User{"any": {Name: "any"}, "read": {Name: "r"}, "write": {Name: "w"}, "admin": {Name: "a"}, "owner": {Name: "o"}, "root": auth.Root()}
	access := object.Access{Owner: "o", Grants: map[string]string{"r": auth.Read, "w": auth.Write, "a": auth.Admin, "": auth.Admin, "bad": "everything"}}
	for action := range needed {
		if !slices.Contains(policy.Actions(), action) {
			t.Errorf("%s is no action", action)
		}
	}
	if !slices.IsSorted(policy.Actions()) {
		t.Error("the actions are not sorted")
	}
	for _, action := range policy.Actions() {
		need := needed[action]
		if need == "" {
			need = "admin"
		}
		for i, who := range order {
			err := a.Allowed(users[who], access, ask(action, "b", "k"))
			if in := i >= slices.Index(order, need); in != (err == nil) || (!in && !object.Is(err, object.Denied)) {
				t.Errorf("%s as %s: %v", action, who, err)
			}
		}
		if err := a.Allowed(auth.User{Name: "bad"}, access, ask(action, "b", "k")); err == nil && need != "any" {
			t.Errorf("%s with a right that is none", action)
		}
	}
	for _, action := range []string{"", "s3:GetSomething", "s3:getobject", "s3:*", "*"} {
		if err := a.Allowed(users["owner"], access, ask(action, "b", "k")); err == nil {
			t.Errorf("the unknown action %q is allowed", action)
		}
	}
	// A bucket of nobody's in particular is root's, not that of those without a name.
	for _, user := range []auth.User{{}, {Name: "x"}} {
		if a.Allowed(user, object.Access{}, ask("s3:GetObject", "b", "k")) == nil || auth.Sees(user, object.Access{}) {
			t.Errorf("%+v gets into root's bucket", user)
		}
	}
}

func TestCannedACLs(t *testing.T) {
	a, _ := mustOpen(t, nodetest.Control(t), auth.Options{})
	const list, get, put, del, acl = "s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:PutBucketAcl"
	nobody, user := auth.User{}, auth.User{Name: "user"}
	for _, tt := range []struct {
		bucket, object string
		who            auth.User
		want           string // the actions that are allowed
	}{
		{"", "", nobody, ""},
		{"private", "private", user, ""},
		{"public-read", "", nobody, list},
		{"public-read", "", user, list},
		{"public-read-write", "", nobody, list + put + del},
		{"authenticated-read", "", nobody, ""},
		{"authenticated-read", "", user, list},
		{"", "public-read", nobody, get},
		{"", "public-read-write", nobody, get},
		{"", "authenticated-read", nobody, ""},
		{"", "authenticated-read", user, get},
		{"unheard-of", "unheard-of", user, ""},
	} {
		got := ""
		for _, action := range []string{list, get, put, del, acl} {
			r := ask(action, "b", "k")
			r.Object = func() (string, string, error) { return tt.object, "", nil }
			if a.Allowed(tt.who, object.Access{ACL: tt.bucket}, r) == nil {
				got += action
			}
		}
		if got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	own := ask("s3:GetObjectAcl", "b", "k")
	own.Object = func() (string, string, error) { return "", "user", nil }
	if err := a.Allowed(user, object.Access{}, own); err != nil {
		t.Errorf("the writer of an object: %v", err)
	}
	own.Object = func() (string, string, error) { return "", "", nil }
	if a.Allowed(nobody, object.Access{}, own) == nil {
		t.Error("nobody owns what has no owner")
	}
	unreadable := errors.New("a disk is away")
	own.Object = func() (string, string, error) { return "public-read", "user", unreadable }
	if err := a.Allowed(user, object.Access{}, own); !errors.Is(err, unreadable) {
		t.Errorf("what cannot be read allows nothing: %v", err)
	}
}

func TestPolicyDecides(t *testing.T) {
	a, _ := mustOpen(t, nodetest.Control(t), auth.Options{})
	for _, name := range []string{"alice", "bob"} {
		if _, err := a.AddUser(t.Context(), name, auth.Credentials{}); err != nil {
			t.Fatal(err)
		}
	}
	alice, bob := auth.User{Name: "alice"}, auth.User{Name: "bob"}
	access := object.Access{Owner: "alice", Grants: map[string]string{"bob": auth.Read}}
	statement := `{"Effect": %q, "Principal": %s, "Action": %q, "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]}`
	set := func(effect, who, action string) {
		t.Helper()
		var err error
		if access, err = a.SetPolicy("b", access, `{"Statement": `+fmt.Sprintf(statement, effect, who, action)+`}`); err != nil {
			t.Fatal(err)
		}
	}
	allowed := func(user auth.User, action string, want bool) {
		t.Helper()
		if err := a.Allowed(user, access, ask(action, "b", "k")); (err == nil) != want {
			t.Errorf("%s as %q under %s: %v", action, user.Name, access.Policy, err)
		}
	}
	set("Deny", `"*"`, "*")
	for _, action := range policy.Actions() {
		allowed(auth.Root(), action, true)
		allowed(bob, action, action == "s3:CreateBucket" || action == "s3:ListAllMyBuckets")
		allowed(alice, action, action == "s3:CreateBucket" || action == "s3:ListAllMyBuckets" || strings.HasSuffix(action, "BucketPolicy"))
	}
	set("Deny", `{"AWS": "bob"}`, "s3:GetObject")
	allowed(bob, "s3:GetObject", false) // in spite of the grant
	allowed(bob, "s3:ListBucket", true)
	set("Allow", `{"AWS": "bob"}`, "s3:PutBucketPolicy")
	allowed(bob, "s3:PutBucketPolicy", true)
	allowed(bob, "s3:GetObject", true)
	set("Allow", `"*"`, "*")
	allowed(auth.User{}, "s3:PutObject", true)
	allowed(auth.User{}, "s3:PutBucketPolicy", false)
	allowed(auth.User{}, "s3:CreateBucket", false)
	allowed(bob, "s3:DeleteBucket", true)

	// The parsed policy follows the text.
	set("Deny", `"*"`, "s3:GetObject")
	allowed(bob, "s3:GetObject", false)
	access.Policy = `{"from": "a newer version"}`
	allowed(bob, "s3:ListBucket", false)
	allowed(alice, "s3:ListBucket", false)
	allowed(alice, "s3:DeleteBucketPolicy", true)

	for _, bad := range []string{"x", `{"Statement": ` + fmt.Sprintf(statement, "Allow", `{"AWS": "carol"}`, "s3:*") + `}`} {
		if _, err := a.SetPolicy("b", access, bad); !object.Is(err, object.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := auth.SetACL(access, "everything"); !object.Is(err, object.Invalid) {
		t.Errorf("an unknown ACL: %v", err)
	}
}
