package httpapi_test

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// addUser adds a user and returns the header with his token.
func (d *door) addUser(t testing.TB, name string) string {
	t.Helper()
	made, err := d.authority.AddUser(t.Context(), name, auth.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	return "Authorization: Bearer " + made.Token.Reveal()
}

const asRoot = "Authorization: Bearer " + token

// levels are the callers of the matrix, from those who may least to root. Each right
// that an action may need is the name of the first caller who has it.
var levels = []string{"anonymous", "wrong token", "stranger", "reader", "writer", "admin", "owner", "root"}

// needs says from which caller on an action may be done.
var needs = map[string]string{
	"s3:ListAllMyBuckets": "stranger", "s3:CreateBucket": "stranger",
	"s3:GetObject": "reader", "s3:ListBucket": "reader",
	"s3:PutObject": "writer", "s3:DeleteObject": "writer",
	"s3:DeleteBucket": "admin", "s3:GetBucketAcl": "admin", "s3:PutBucketAcl": "admin", "penstock:SetBucket": "admin",
	"s3:GetBucketPolicy": "admin", "s3:PutBucketPolicy": "admin", "s3:DeleteBucketPolicy": "admin",
}

// TestRights tries every route of the table as everybody. What is refused changes
// neither objects nor records. It is made from the table: a route whose action is not
// in needs fails it.
func TestRights(t *testing.T) {
	for _, network := range []bool{false, true} {
		d := open(t, config{network: network})
		headers := map[string][]string{"anonymous": nil, "wrong token": {"Authorization: Bearer wrong-token"}, "root": {asRoot}}
		for _, name := range levels[2:7] {
			headers[name] = []string{d.addUser(t, name)}
		}
		d.want(t, 201, "PUT", "/v1/buckets/shared", "", headers["owner"]...)
		d.want(t, 200, "PATCH", "/v1/buckets/shared/grants", `{"reader": "read", "writer": "write", "admin": "admin"}`, headers["owner"]...)
		d.want(t, 200, "PUT", "/v1/objects/shared/keep", "x", asRoot)
		for _, level := range levels {
			for _, r := range httpapi.Routes() {
				d.want(t, 200, "PUT", "/v1/objects/shared/some/key", "x", asRoot)
				d.publish(t)
				first := "stranger" // whom it is for
				switch {
				case r.Open:
					first = "anonymous"
				case r.Root:
					first = "root"
				case r.Action != "":
					if first = needs[r.Action]; first == "" {
						t.Fatalf("%s: who may do %s?", r.Name, r.Action)
					}
				}
				in := slices.Index(levels, level) >= slices.Index(levels, first)
				path, body, kind := filled(t, r, d)
				before := d.state(t)
				status, answer, _ := d.do(t, r.Method, path, body, append(kind, headers[level]...)...)
				switch {
				case level == "wrong token" && r.Open && status == 401: // a token that is sent must be right
				case in == (status == 401 || status == 403):
					t.Errorf("network %v: %s %s as %s: %d %s, want in: %v", network, r.Method, path, level, status, answer, in)
				case !in && (status == 401) != (slices.Index(levels, level) < 2):
					t.Errorf("%s %s as %s: %d", r.Method, path, level, status)
				case !in && d.state(t) != before:
					t.Errorf("%s %s as %s was refused, but changed something", r.Method, path, level)
				}
				if level == "root" && status == 400 {
					t.Errorf("%s %s is no good request: %s", r.Method, path, answer)
				}
			}
		}
	}
}

// publish makes dataset cats in bucket shared.
func (d *door) publish(t *testing.T) {
	t.Helper()
	info, err := d.node.Stat(t.Context(), object.Name{Bucket: "shared", Key: "keep"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := d.node.Dataset(t.Context(), "cats")
	next := int64(1)
	if err == nil {
		next = set.Next
	}
	if len(set.Versions) == 0 {
		_, err = d.node.PublishDataset(t.Context(), "cats", "shared", node.DatasetVersion{
			Version: next, Manifest: "keep", ETag: info.ETag, Logical: strings.Repeat("0", 64),
		}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// filled returns a request for a route that is right but for who sends it.
func filled(t *testing.T, r httpapi.RouteInfo, d *door) (path, body string, headers []string) {
	set, _ := d.node.Dataset(t.Context(), "cats")
	version := set.Newest()
	switch r.Name {
	case "batch":
		body = `{"bucket": "shared", "refs": [{"key": "keep"}]}`
	case "publishDataset":
		version = set.Next
		body = fmt.Sprintf(`{"bucket": "shared", "manifest": "keep", "etag": %q, "logical": %q}`, set.Versions[0].ETag, strings.Repeat("0", 64))
	case "setGrants":
		body = `{"reader": "read"}`
	case "putPolicy":
		body = `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "reader"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::shared/*"}}`
	case "setBucket":
		body = `{"verify": ""}`
	}
	path = strings.NewReplacer("{bucket}", "shared", "{key}", "some/key", "{dataset}", "cats", "{version}", fmt.Sprint(version), "{user}", "nobody", "*", "symbol").Replace(r.Pattern)
	if r.Name == "putBatch" {
		return path + "?bucket=shared", tarOf(t, tar.Header{Name: "some/key"}), []string{"Content-Type: application/x-tar"}
	}
	return path, body, nil
}

// state is all objects and all records, with their versions.
func (d *door) state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, bucket := range d.node.Buckets() {
		for e, err := range d.node.List(t.Context(), bucket.Name, object.ListOptions{}) {
			fmt.Fprintln(&b, e, err)
		}
	}
	view, err := d.control.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range view.Records {
		fmt.Fprintln(&b, r.Key, r.Modified)
	}
	return b.String()
}

// TestOwnBuckets: a user makes buckets, sees his own and those granted to him, and
// nothing of the others.
func TestOwnBuckets(t *testing.T) {
	d := open(t, config{})
	alice, bob := d.addUser(t, "alice"), d.addUser(t, "bob")
	body, _ := d.want(t, 201, "PUT", "/v1/buckets/hers", "", alice)
	if !strings.Contains(body, `"owner":"alice"`) {
		t.Errorf("the bucket is %s", body)
	}
	d.want(t, 201, "PUT", "/v1/buckets/his", "", bob)
	buckets := func(who string) string {
		var answer struct {
			Buckets []struct{ Name, Owner string }
		}
		body, _ := d.want(t, 200, "GET", "/v1/buckets", "", who)
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(answer.Buckets)
	}
	if got := buckets(alice) + buckets(bob) + buckets(asRoot); got != "[{hers alice}][{his bob}][{bucket root} {hers alice} {his bob}]" {
		t.Errorf("they see %s", got)
	}
	d.want(t, 200, "PATCH", "/v1/buckets/hers/grants", `{"bob": "read"}`, alice)
	if got := buckets(bob); got != "[{hers alice} {his bob}]" {
		t.Errorf("with a grant: %s", got)
	}
	d.want(t, 409, "PUT", "/v1/buckets/hers", "", bob)
	d.want(t, 403, "DELETE", "/v1/buckets/hers", "", bob)
	d.want(t, 204, "DELETE", "/v1/buckets/hers", "", alice)
	d.want(t, 404, "GET", "/v1/objects/nosuch/k", "", alice)

	// A bucket whose record was lost is root's to bring back.
	if _, err := d.store.Put(t.Context(), object.Name{Bucket: "lost", Key: "k"}, strings.NewReader("x"), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	body, _ = d.want(t, 403, "PUT", "/v1/buckets/lost", "", alice)
	wantError(t, body, "Denied", "only root")
	d.want(t, 201, "PUT", "/v1/buckets/lost", "", asRoot)
}

// TestNamedElsewhere: buckets and keys in bodies, parameters and headers are asked
// about as those in paths are.
func TestNamedElsewhere(t *testing.T) {
	d := open(t, config{})
	alice, bob := d.addUser(t, "alice"), d.addUser(t, "bob")
	d.want(t, 201, "PUT", "/v1/buckets/hers", "", alice)
	d.want(t, 201, "PUT", "/v1/buckets/his", "", bob)
	d.want(t, 200, "PUT", "/v1/objects/hers/k", "secret", alice)
	d.want(t, 200, "PUT", "/v1/objects/his/k", "his own", bob)

	d.want(t, 403, "PUT", "/v1/objects/his/copy", "", bob, "X-Penstock-Copy-Source: /hers/k")
	d.want(t, 403, "PUT", "/v1/objects/hers/copy", "", bob, "X-Penstock-Copy-Source: /his/k")
	d.want(t, 200, "PUT", "/v1/objects/his/copy", "", bob, "X-Penstock-Copy-Source: /his/k")
	for _, body := range []string{
		`{"bucket": "hers", "refs": [{"key": "k"}]}`,
		`{"bucket": "his", "refs": [{"key": "k"}, {"key": "k", "bucket": "hers"}]}`,
		`{"bucket": "hers", "refs": [{"key": "k", "bucket": "his"}, {"key": "k"}]}`,
	} {
		answer, _ := d.want(t, 403, "POST", "/v1/batch", body, bob)
		if strings.Contains(answer, "secret") {
			t.Errorf("%s: %s", body, answer)
		}
	}
	d.want(t, 200, "POST", "/v1/batch", `{"bucket": "his", "refs": [{"key": "k"}, {"key": "gone"}]}`, bob)
	d.want(t, 403, "POST", "/v1/put-batch?bucket=hers", "", bob)

	// A dataset is where its bucket is.
	_, h := d.want(t, 200, "HEAD", "/v1/objects/hers/k", "", alice)
	published := fmt.Sprintf(`{"bucket": "hers", "manifest": "k", "etag": %q, "logical": %q}`, strings.Trim(h.Get("Etag"), `"`), strings.Repeat("0", 64))
	d.want(t, 403, "PUT", "/v1/datasets/cats/1", published, bob)
	d.want(t, 201, "PUT", "/v1/datasets/cats/1", published, alice)
	d.want(t, 403, "GET", "/v1/datasets/cats", "", bob)
	d.want(t, 403, "DELETE", "/v1/datasets/cats", "", bob)
	d.want(t, 403, "PUT", "/v1/datasets/cats/2", strings.Replace(published, "hers", "his", 1), bob)
	if body, _ := d.want(t, 200, "GET", "/v1/datasets", "", bob); strings.Contains(body, "cats") {
		t.Errorf("bob sees %s", body)
	}
	if body, _ := d.want(t, 200, "GET", "/v1/datasets", "", alice); !strings.Contains(body, "cats") {
		t.Errorf("alice sees %s", body)
	}
}

// TestPolicy: a policy tells keys, prefixes and callers apart.
func TestPolicy(t *testing.T) {
	d := open(t, config{})
	alice, bob := d.addUser(t, "alice"), d.addUser(t, "bob")
	d.want(t, 201, "PUT", "/v1/buckets/hers", "", alice)
	for _, key := range []string{"pub/a", "pub/b", "other"} {
		d.want(t, 200, "PUT", "/v1/objects/hers/"+key, key, alice)
	}
	d.want(t, 404, "GET", "/v1/buckets/hers/policy", "", alice)
	text := ` {"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::1:user/bob"}, "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::hers/pub/*"},
		{"Effect": "Allow", "Principal": {"AWS": "bob"}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::hers",
			"Condition": {"StringLike": {"s3:prefix": "pub/*"}, "NumericLessThanEquals": {"s3:max-keys": 10}, "IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}},
		{"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::hers/pub/b"}]}`
	d.want(t, 204, "PUT", "/v1/buckets/hers/policy", text, alice)
	if body, _ := d.want(t, 200, "GET", "/v1/buckets/hers/policy", "", alice); body != text {
		t.Errorf("the policy came back as %s", body)
	}
	d.want(t, 403, "GET", "/v1/buckets/hers/policy", "", bob)
	d.want(t, 200, "GET", "/v1/objects/hers/pub/a", "", bob)
	d.want(t, 403, "GET", "/v1/objects/hers/other", "", bob)
	d.want(t, 403, "GET", "/v1/objects/hers/pub/b", "", bob)
	d.want(t, 403, "GET", "/v1/objects/hers/pub/b", "", alice) // the owner is bound, too
	d.want(t, 200, "GET", "/v1/objects/hers/pub/b", "", asRoot)
	d.want(t, 200, "GET", "/v1/objects/hers?prefix=pub/&limit=10", "", bob)
	d.want(t, 403, "GET", "/v1/objects/hers?prefix=pub/", "", bob)
	d.want(t, 403, "GET", "/v1/objects/hers?limit=10", "", bob)
	d.want(t, 200, "POST", "/v1/batch", `{"bucket": "hers", "refs": [{"key": "pub/a"}]}`, bob)
	d.want(t, 403, "POST", "/v1/batch", `{"bucket": "hers", "refs": [{"key": "pub/a"}, {"key": "other"}]}`, bob)
	d.want(t, 403, "POST", "/v1/batch", `{"bucket": "hers", "refs": [{"key": "pub/a"}, {"key": "pub/b"}]}`, alice)

	// Of a put-batch those keys are stored that may be.
	body, _ := d.want(t, 200, "POST", "/v1/put-batch?bucket=hers", tarOf(t, tar.Header{Name: "pub/new"}, tar.Header{Name: "other/new"}), bob, "Content-Type: application/x-tar")
	if !strings.Contains(body, `"stored":1`) || !strings.Contains(body, `"key":"other/new","kind":"Denied"`) {
		t.Errorf("the put-batch says %s", body)
	}
	d.want(t, 200, "GET", "/v1/objects/hers/pub/new", "", alice)
	d.want(t, 404, "GET", "/v1/objects/hers/other/new", "", alice)

	for _, bad := range []string{
		"", "{}", `{"Statement": []}`, text + "x",
		strings.Replace(text, "user/bob", "user/carol", 1),
		strings.ReplaceAll(text, ":hers", ":his"),
	} {
		answer, _ := d.want(t, 400, "PUT", "/v1/buckets/hers/policy", bad, alice)
		wantError(t, answer, "Invalid", "")
	}
	d.want(t, 204, "DELETE", "/v1/buckets/hers/policy", "", alice)
	d.want(t, 403, "GET", "/v1/objects/hers/pub/a", "", bob)

	// What this door cannot see forbids, and does not allow.
	tagged := `{"Statement": {"Effect": %q, "Principal": {"AWS": "bob"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::hers/*",
		"Condition": {"StringEquals": {"s3:ExistingObjectTag/class": "x"}}}}`
	d.want(t, 204, "PUT", "/v1/buckets/hers/policy", fmt.Sprintf(tagged, "Allow"), alice)
	d.want(t, 403, "GET", "/v1/objects/hers/pub/a", "", bob)
	d.want(t, 200, "PATCH", "/v1/buckets/hers/grants", `{"bob": "read"}`, alice)
	d.want(t, 200, "GET", "/v1/objects/hers/pub/a", "", bob)
	d.want(t, 204, "PUT", "/v1/buckets/hers/policy", fmt.Sprintf(tagged, "Deny"), alice)
	d.want(t, 403, "GET", "/v1/objects/hers/pub/a", "", bob)
}

// TestUsers goes through a user's life.
func TestUsers(t *testing.T) {
	d := open(t, config{})
	body, h := d.want(t, 201, "PUT", "/v1/users/alice", `{"access_key": "alices", "secret_key": "sesame-open"}`)
	var made struct {
		Name, Token string
		AccessKey   string `json:"access_key"`
		SecretKey   string `json:"secret_key"`
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.Name != "alice" || made.AccessKey != "alices" || made.SecretKey != "sesame-open" || len(made.Token) < 32 {
		t.Fatalf("made: %s", body)
	}
	if h.Get("Cache-Control") != "no-store" {
		t.Error("secrets may be cached")
	}
	alice := "Authorization: Bearer " + made.Token
	d.want(t, 401, "GET", "/v1/users", "") // from now on root needs a token
	if body, _ = d.want(t, 200, "GET", "/v1/users", "", asRoot); !strings.Contains(body, `"name":"alice","access_key":"alices"`) || strings.Contains(body, "sesame") {
		t.Errorf("the users are %s", body)
	}
	d.want(t, 409, "PUT", "/v1/users/alice", "", asRoot)
	body, _ = d.want(t, 409, "PUT", "/v1/users/bob", `{"access_key": "alices", "secret_key": "sesame-open"}`, asRoot)
	wantError(t, body, "Exists", "access key alices")
	for path, body := range map[string]string{
		"/v1/users/root": "", "/v1/users/a%20b": "", "/v1/users/.": "", "/v1/users/": "", "/v1/users/x?a=b": "",
		"/v1/users/bob": `{"access_key": "bobs"}`, "/v1/users/carl": `{"secret_key": "sesame-open", "token": "t"}`,
		"/v1/users/dora": `{"access_key": "a/b", "secret_key": "sesame-open"}`,
	} {
		answer, _ := d.want(t, 400, "PUT", path, body, asRoot)
		if wantError(t, answer, "Invalid", ""); strings.Contains(answer, "sesame") {
			t.Errorf("the answer shows a secret: %s", answer)
		}
	}
	d.want(t, 404, "POST", "/v1/users/bob/token", "", asRoot)
	d.want(t, 404, "DELETE", "/v1/users/bob", "", asRoot)
	d.want(t, 201, "PUT", "/v1/buckets/hers", "", alice)
	body, _ = d.want(t, 200, "POST", "/v1/users/alice/token", "", asRoot)
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		t.Fatal(err)
	}
	d.want(t, 401, "GET", "/v1/buckets", "", alice)
	alice = "Authorization: Bearer " + made.Token
	d.want(t, 200, "GET", "/v1/buckets", "", alice)

	// Grants are given to users who are there, and go with them.
	d.want(t, 404, "PATCH", "/v1/buckets/hers/grants", `{"bob": "read"}`, alice)
	bob := d.addUser(t, "bob")
	for _, bad := range []string{`{"bob": "own"}`, `{"root": "read"}`, `[]`, "", "null"} {
		d.want(t, 400, "PATCH", "/v1/buckets/hers/grants", bad, alice)
	}
	d.want(t, 200, "PATCH", "/v1/buckets/hers/grants", `{"bob": "write"}`, alice)
	body, _ = d.want(t, 200, "GET", "/v1/buckets/hers/grants", "", alice)
	if body != `{"owner":"alice","acl":"private","grants":{"bob":"write"}}`+"\n" {
		t.Errorf("the grants are %s", body)
	}
	d.want(t, 200, "GET", "/v1/buckets/hers", "", bob)
	d.want(t, 204, "DELETE", "/v1/users/bob", "", asRoot)
	d.want(t, 401, "GET", "/v1/buckets", "", bob)
	again := d.addUser(t, "bob")
	d.want(t, 403, "GET", "/v1/buckets/hers", "", again)
	d.want(t, 204, "DELETE", "/v1/users/bob", "", asRoot)

	// One who owns buckets stays, and can still come in.
	body, _ = d.want(t, 409, "DELETE", "/v1/users/alice", "", asRoot)
	wantError(t, body, "Exists", "owns buckets: hers")
	d.want(t, 204, "DELETE", "/v1/buckets/hers", "", alice)
	d.want(t, 204, "DELETE", "/v1/users/alice", "", asRoot)
	d.want(t, 200, "GET", "/v1/users", "") // root is alone again
}
