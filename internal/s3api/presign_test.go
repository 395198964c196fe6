package s3api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// presigned sends a request that version 2 has signed, in one of both styles.
func (d *door) presigned(t testing.TB, as keys, method, target, body string, headers ...string) *answer {
	t.Helper()
	r := d.request(t, method, target, body, headers...)
	signOld(r, as, time.Now().Add(time.Minute))
	return d.send(t, r)
}

// TestPresignedVersion2 goes through the operations that clients presign.
func TestPresignedVersion2(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	for _, host := range []string{"", "bucket.localhost"} {
		at := func(path string) string {
			if host == "" {
				return "/bucket" + path
			}
			return path
		}
		do := func(as keys, status int, code, method, target, body string, headers ...string) *answer {
			t.Helper()
			if host != "" {
				headers = append(headers, "Host: "+host)
			}
			a := d.presigned(t, as, method, target, body, headers...)
			if a.status != status || a.code() != code {
				t.Errorf("%q: %s %s: %d %s, want %d %s: %s", host, method, target, a.status, a.code(), status, code, a.body)
			}
			return a
		}
		do(d.alice, 200, "", "PUT", at("/a%20b/%C3%A9"), "content", "Content-Type: text/plain", "X-Amz-Meta-One: 1")
		a := do(d.alice, 200, "", "GET", at("/a%20b/%C3%A9"), "")
		if a.body != "content" || a.header.Get("Content-Type") != "text/plain" || a.header.Get("X-Amz-Meta-One") != "1" {
			t.Errorf("%v %s", a.header, a.body)
		}
		if a := do(d.alice, 200, "", "GET", at("/a%20b/%C3%A9")+"?response-content-type=a/b", ""); a.header.Get("Content-Type") != "a/b" {
			t.Errorf("%v", a.header)
		}
		if a := do(d.alice, 200, "", "GET", at("/")+"?list-type=2&prefix=a", ""); !strings.Contains(a.body, "<Key>a b/é</Key>") {
			t.Error(a.body)
		}
		do(d.alice, 404, "NoSuchKey", "GET", at("/none"), "")
		do(d.bob, 403, "AccessDenied", "GET", at("/a%20b/%C3%A9"), "")
		do(d.alice, 400, "BadDigest", "PUT", at("/bad"), "content", "Content-Md5: "+md5Base64("other"))
		do(d.alice, 204, "", "DELETE", at("/a%20b/%C3%A9"), "")
	}
	r := d.request(t, "GET", "/bucket/key", "")
	signOld(r, d.alice, time.Now().Add(-time.Second))
	if a := d.send(t, r); a.status != 403 || !strings.Contains(a.body, "Request has expired") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestSignatureConditions holds what policies are told of how a request was signed.
func TestSignatureConditions(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	ways := map[string]func(r *http.Request){
		"AWS REST-QUERY-STRING":              func(r *http.Request) { signOld(r, d.bob, time.Now().Add(time.Minute)) },
		"AWS4-HMAC-SHA256 REST-QUERY-STRING": func(r *http.Request) { signQuery(r, d.bob, time.Now(), 60) },
		"AWS4-HMAC-SHA256 REST-HEADER": func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", emptySHA)
			signHeader(r, d.bob)
		},
	}
	for allowed := range ways {
		version, kind, _ := strings.Cut(allowed, " ")
		d.ok(t, d.alice, "PUT", "/bucket?policy", `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
			"Resource": "arn:aws:s3:::bucket/*", "Condition": {"StringEquals": {"s3:signatureversion": "`+version+`", "s3:authType": "`+kind+`"}}}]}`)
		for way, sign := range ways {
			r := d.request(t, "GET", "/bucket/key", "")
			sign(r)
			if a := d.send(t, r); (a.status == 200) != (way == allowed) {
				t.Errorf("%s where %s is allowed: %d", way, allowed, a.status)
			}
		}
	}
}
