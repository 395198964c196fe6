package s3api_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/s3api"
)

// formFields are a form's, in order; the last one is the file.
type formFields [][2]string

func (f formFields) with(name, value string) formFields {
	var all formFields
	found := false
	for _, field := range f {
		if field[0] == name {
			found = true
			if value == "" {
				continue
			}
			field[1] = value
		}
		if field[0] == "file" && !found && value != "" {
			all = append(all, [2]string{name, value})
		}
		all = append(all, field)
	}
	return all
}

func (d *door) post(t testing.TB, target string, f formFields) *answer {
	t.Helper()
	body, kind := f.encode()
	return d.do(t, nobody, "POST", target, body, "Content-Type: "+kind)
}

func (f formFields) encode() (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, field := range f {
		part, _ := w.CreateFormFile(field[0], "dir/name.txt") // as some clients do for all fields
		part.Write([]byte(field[1]))
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

// signed returns the fields with a policy of these conditions, signed in one of both
// ways.
func (f formFields) signed(k keys, old bool, until time.Time, conditions ...any) formFields {
	date := time.Now().UTC().Format(dateForm)
	if !old {
		f = f.with("x-amz-algorithm", "AWS4-HMAC-SHA256").with("x-amz-credential", k.access+"/"+scope(date)).with("x-amz-date", date)
		conditions = append(conditions, []string{"starts-with", "$x-amz-algorithm", ""}, []string{"starts-with", "$x-amz-credential", ""}, []string{"starts-with", "$x-amz-date", ""})
	}
	document, _ := json.Marshal(map[string]any{"expiration": until.UTC().Format("2006-01-02T15:04:05.000Z"), "conditions": conditions})
	return f.signedDocument(k, old, date, string(document))
}

func (f formFields) signedDocument(k keys, old bool, date, document string) formFields {
	policy := base64.StdEncoding.EncodeToString([]byte(document))
	f = f.with("policy", policy)
	if !old {
		return f.with("x-amz-signature", k.sign(date, policy))
	}
	h := hmac.New(sha1.New, []byte(k.secret))
	h.Write([]byte(policy))
	return f.with("AWSAccessKeyId", k.access).with("signature", base64.StdEncoding.EncodeToString(h.Sum(nil)))
}

var plainForm = formFields{{"key", "foo.txt"}, {"acl", "private"}, {"Content-Type", "text/plain"}, {"file", "bar"}}

func plainConditions() []any {
	return []any{
		map[string]string{"bUcKeT": "bucket"},
		[]any{"StArTs-WiTh", "$KeY", "foo"},
		map[string]string{"acl": "private"},
		[]any{"starts-with", "$Content-Type", "text/plain"},
		[]any{"content-length-range", 1, 1024},
	}
}

func TestForm(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	soon := time.Now().Add(time.Hour)
	for _, old := range []bool{false, true} {
		signed := func(f formFields, more ...any) formFields {
			return f.signed(d.alice, old, soon, append(plainConditions(), more...)...)
		}
		if a := d.post(t, "/bucket", signed(plainForm)); a.status != 204 || a.body != "" || a.header.Get("Etag") != `"37b51d194a7513e45b56f6524f2d51f2"` {
			t.Fatalf("%d %v %s", a.status, a.header, a.body)
		}
		if a := d.ok(t, d.alice, "GET", "/bucket/foo.txt", ""); a.body != "bar" || a.header.Get("Content-Type") != "text/plain" {
			t.Errorf("%v %s", a.header, a.body)
		}
		rich := plainForm.with("x-amz-meta-one", "1").with("tagging", "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>").
			with("Cache-Control", "no-store").with("x-ignore-me", "yes").with("key", "foo/${filename}").with("success_action_status", "201").
			with("x-amz-checksum-crc32", "dv+Mqg==")
		more := []any{
			[]string{"eq", "$x-amz-meta-one", "1"},
			[]string{"starts-with", "$tagging", ""},
			map[string]string{"cache-control": "no-store"},
			[]string{"eq", "$success_action_status", "201"},
		}
		a := d.post(t, "/bucket", signed(rich, more...))
		if a.status != 201 || !strings.Contains(a.body, "<PostResponse><Location>http://"+d.addr+"/bucket/foo/name.txt</Location><Bucket>bucket</Bucket><Key>foo/name.txt</Key>") {
			t.Fatalf("%d %s", a.status, a.body)
		}
		a = d.ok(t, d.alice, "GET", "/bucket/foo/name.txt", "")
		if a.header.Get("X-Amz-Meta-One") != "1" || a.header.Get("X-Amz-Tagging-Count") != "1" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", a.header)
		}
		a = d.post(t, "/bucket", signed(plainForm.with("success_action_redirect", "http://there.example/x?y=1"), []string{"starts-with", "$success_action_redirect", "http"}))
		if want := `http://there.example/x?y=1&bucket=bucket&key=foo.txt&etag=%2237b51d194a7513e45b56f6524f2d51f2%22`; a.status != 303 || a.header.Get("Location") != want {
			t.Errorf("%d %v", a.status, a.header)
		}

		before := d.state(t)
		refused := func(what string, status int, code string, f formFields) {
			t.Helper()
			if a := d.post(t, "/bucket", f); a.status != status || a.code() != code {
				t.Errorf("%s (old: %v): %d %s, want %d %s: %s", what, old, a.status, a.code(), status, code, a.body)
			}
		}
		good := signed(plainForm)
		signature := "x-amz-signature"
		if old {
			signature = "signature"
		}
		refused("a field too many", 403, "AccessDenied", signed(plainForm.with("x-amz-meta-two", "2")))
		refused("a field of the policy that is not there", 403, "AccessDenied", signed(plainForm, []string{"starts-with", "$x-amz-meta-two", "2"}))
		refused("another key", 403, "AccessDenied", good.with("key", "bar.txt"))
		refused("another ACL", 403, "AccessDenied", good.with("acl", "public-read"))
		refused("an expired policy", 403, "AccessDenied", plainForm.signed(d.alice, old, time.Now().Add(-time.Minute), plainConditions()...))
		refused("no bucket in the policy", 403, "AccessDenied", plainForm.signed(d.alice, old, soon, plainConditions()[1:]...))
		refused("another's secret", 403, "SignatureDoesNotMatch", plainForm.signed(keys{d.alice.access, d.bob.secret}, old, soon, plainConditions()...))
		refused("an unknown key", 403, "InvalidAccessKeyId", plainForm.signed(keys{"unknown", "secret"}, old, soon, plainConditions()...))
		refused("somebody without rights", 403, "AccessDenied", plainForm.signed(d.bob, old, soon, plainConditions()...))
		refused("another policy", 403, "SignatureDoesNotMatch", good.with("policy", base64.StdEncoding.EncodeToString([]byte("{}"))))
		refused("too much", 400, "EntityTooLarge", good.with("file", strings.Repeat("x", 1025)))
		refused("much too much", 400, "EntityTooLarge", good.with("file", strings.Repeat("x", 3<<20)))
		refused("too little", 400, "EntityTooSmall", formFields{}.append(good[:len(good)-1]...).append([2]string{"file", ""}))
		refused("no key", 400, "InvalidArgument", signed(plainForm.with("key", "")))
		refused("no file", 400, "InvalidArgument", good[:len(good)-1])
		refused("two files", 400, "InvalidArgument", formFields{}.append(good...).append([2]string{"file", "more"}))
		refused("a field twice", 400, "MalformedPOSTRequest", append(formFields{{"key", "foo"}}, good...))
		refused("a wrong checksum", 400, "BadDigest", good.with("x-amz-checksum-crc32", "AAAAAA=="))
		refused("no checksum", 400, "InvalidRequest", good.with("x-amz-checksum-sha256", "sailor"))
		refused("an ACL that is none", 400, "InvalidArgument", plainForm.with("acl", "none").signed(d.alice, old, soon, map[string]string{"bucket": "bucket", "acl": "none"}, []string{"starts-with", "$key", ""}, []string{"starts-with", "$content-type", ""}))
		refused("much before the file", 400, "MaxPOSTPreDataLengthExceeded", good.with("x-ignore-this", strings.Repeat("x", 21<<10)))
		refused("very much before the file", 400, "MaxPOSTPreDataLengthExceeded", good.with("x-ignore-this", strings.Repeat("x", 1<<20)))
		refused("very much behind the file", 400, "MaxPOSTPreDataLengthExceeded", formFields{}.append(good...).append([2]string{"more", strings.Repeat("x", 1<<20)}))
		status, code := 403, "AccessDenied"
		if old {
			status, code = 400, "InvalidArgument"
		}
		refused("no signature", status, code, good.with(signature, ""))
		refused("no policy", status, code, good.with("policy", ""))
		date := ""
		for _, field := range good {
			if field[0] == "x-amz-date" {
				date = field[1]
			}
		}
		for _, document := range []string{
			"", "[]", "{}", `{"expiration": "2100-01-01T00:00:00Z"}`, `{"conditions": []}`, `{"EXPIRATION": "2100-01-01T00:00:00Z", "conditions": []}`,
			`{"expiration": "2100-01-01T00:00:00Z", "CONDITIONS": []}`, `{"expiration": "2100-01-01 00:00:00+00:00", "conditions": []}`,
			`{"expiration": "2100-01-01T00:00:00Z", "conditions": [{}]}`, `{"expiration": "2100-01-01T00:00:00Z", "conditions": [[]]}`,
			`{"expiration": "2100-01-01T00:00:00Z", "conditions": [["content-length-range", 0]]}`,
			`{"expiration": "2100-01-01T00:00:00Z", "conditions": [["content-length-range", -1, 0]]}`,
			`{"expiration": "2100-01-01T00:00:00Z", "conditions": [["like", "$key", "x"]]}`, `{"expiration": "2100-01-01T00:00:00Z", "conditions": [["eq", "key", "x"]]}`,
			`{"expiration": "2100-01-01T00:00:00Z", "conditions": [], "more": 1}`, `{"expiration": "2100-01-01T00:00:00Z", "conditions": null}`,
			`{"expiration": "2100-01-01T00:00:00Z", "conditions": []} x`,
		} {
			if document == "" {
				continue
			}
			refused("a policy like "+document, 400, "InvalidPolicyDocument", good.signedDocument(d.alice, old, date, document))
		}
		if after := d.state(t); after != before {
			t.Errorf("%s\nbecame\n%s", before, after)
		}
	}
}

func (f formFields) append(more ...[2]string) formFields { return append(f, more...) }

func TestFormOfNobody(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "", "x-amz-acl: public-read-write")
	d.ok(t, d.alice, "PUT", "/closed", "")
	if a := d.post(t, "/bucket", plainForm.with("acl", "public-read").with("success_action_status", "404")); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.ok(t, nobody, "GET", "/bucket/foo.txt", ""); a.body != "bar" {
		t.Errorf("%s", a.body)
	}
	big := strings.Repeat("0123456789abcdef", 200<<10)
	if a := d.post(t, "/bucket", plainForm.with("file", big).with("key", "big").with("success_action_status", "200")); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.ok(t, d.alice, "GET", "/bucket/big", ""); a.body != big {
		t.Errorf("%d bytes", len(a.body))
	}
	before := d.state(t)
	if a := d.post(t, "/closed", plainForm); a.status != 403 || a.code() != "AccessDenied" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.post(t, "/nothing", plainForm); a.status != 404 || a.code() != "NoSuchBucket" {
		t.Errorf("%d %s", a.status, a.body)
	}
	body, kind := plainForm.encode()
	d.want(t, 412, "PreconditionFailed", nobody, "POST", "/bucket", "a=b", "Content-Type: application/x-www-form-urlencoded")
	d.want(t, 412, "PreconditionFailed", nobody, "POST", "/bucket", body)
	d.want(t, 400, "InvalidRequest", d.alice, "POST", "/bucket", body, "Content-Type: "+kind)
	d.want(t, 400, "MalformedPOSTRequest", nobody, "POST", "/bucket", "nothing of a form", "Content-Type: "+kind)
	for _, cut := range []int{1, 10, 40, 60, 200} { // the end of the form is missing
		d.want(t, 400, "MalformedPOSTRequest", nobody, "POST", "/bucket", body[:len(body)-cut], "Content-Type: "+kind)
	}
	d.want(t, 400, "BadDigest", nobody, "POST", "/bucket", body, "Content-Type: "+kind, "Content-Md5: 1B2M2Y8AsgTpgAmY7PhCfg==")
	// What the headers say does not count, and what the bucket's policy forbids is
	// forbidden in a form, too.
	if a := d.post(t, "/bucket", plainForm.with("x-amz-meta-bad name", "x")); a.status != 400 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.post(t, "/bucket", plainForm.with("Cache-Control", "a\r\nb: c")); a.status != 400 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
	d.ok(t, d.alice, "PUT", "/bucket?policy", `{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
		"Resource": "arn:aws:s3:::bucket/*", "Condition": {"StringLike": {"s3:x-amz-acl": "public*"}}}]}`)
	if a := d.post(t, "/bucket", plainForm.with("acl", "public-read")); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.do(t, nobody, "POST", "/bucket", body, "Content-Type: "+kind, "x-amz-acl: public-read", "x-amz-meta-a: 1"); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.ok(t, d.alice, "GET", "/bucket/foo.txt", ""); a.header.Get("X-Amz-Meta-A") != "" || a.header.Get("Content-Type") != "text/plain" {
		t.Errorf("%v", a.header)
	}
}

// TestFormIsCut sends a form whose connection ends in the middle of the file.
func TestFormIsCut(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "", "x-amz-acl: public-read-write")
	before := d.state(t)
	body, kind := plainForm.encode()
	r := d.request(t, "POST", "/bucket", body[:len(body)-20], "Content-Type: "+kind)
	r.ContentLength = int64(len(body))
	if answer, err := d.client.Do(r); err == nil {
		answer.Body.Close()
		if answer.StatusCode == http.StatusNoContent {
			t.Error("a part of a form was stored")
		}
	}
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

func FuzzFormPolicy(f *testing.F) {
	f.Add(`{"expiration": "2100-01-01T00:00:00Z", "conditions": [{"a": "b"}, ["eq", "$c", "d"], ["content-length-range", 1, 2]]}`)
	f.Fuzz(func(t *testing.T, document string) {
		if err := s3api.FormPolicy([]byte(document)); err != nil && !strings.HasPrefix(err.Error(), "InvalidPolicyDocument") {
			t.Error(fmt.Errorf("%q: %w", document, err))
		}
	})
}
