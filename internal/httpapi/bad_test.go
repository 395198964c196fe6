package httpapi_test

import (
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
)

// TestBadRequests sends what no good client sends, byte by byte.
func TestBadRequests(t *testing.T) {
	d := open(t, config{})
	d.put(t, "k", "0123456789")
	host := " HTTP/1.1\r\nHost: localhost\r\n"
	long := strings.Repeat("x", object.MaxKey)
	for _, tt := range []struct {
		name, request string
		cut           bool // close the sending side afterwards
		status        int
		kind          string // of our error; empty if net/http answers itself
	}{
		{"bad escape", "GET /v1/objects/bucket/%zz" + host + "\r\n", false, 400, ""},
		{"cut escape", "GET /v1/objects/bucket/%2" + host + "\r\n", false, 400, ""},
		{"not UTF-8", "GET /v1/objects/bucket/%ff" + host + "\r\n", false, 400, "Invalid"},
		{"not UTF-8, unescaped", "GET /v1/objects/bucket/\xff" + host + "\r\n", false, 400, "Invalid"},
		{"UTF-8, unescaped", "GET /v1/objects/bucket/\xc3\xa9" + host + "\r\n", false, 404, "NotFound"},
		{"surrogate", "GET /v1/objects/bucket/%ed%a0%80" + host + "\r\n", false, 400, "Invalid"},
		{"longest key", "GET /v1/objects/bucket/" + long + host + "\r\n", false, 404, "NotFound"},
		{"too long key", "GET /v1/objects/bucket/" + long + "x" + host + "\r\n", false, 400, "Invalid"},
		{"longest key, escaped", "GET /v1/objects/bucket/" + strings.Repeat("%00", object.MaxKey) + host + "\r\n", false, 404, "NotFound"},
		{"empty key", "GET /v1/objects/bucket/" + host + "\r\n", false, 400, "Invalid"},
		{"slash in the bucket", "GET /v1/objects/buck%2Fet/k" + host + "\r\n", false, 400, "Invalid"},
		{"dots for a bucket", "GET /v1/objects/../k" + host + "\r\n", false, 400, "Invalid"},
		{"escaped route", "GET /v1%2Fobjects/bucket/k" + host + "\r\n", false, 404, "NotFound"},
		{"space in the path", "GET /v1/objects/bucket/a b" + host + "\r\n", false, 400, ""},
		{"fragment", "GET /v1/objects/bucket/k#x" + host + "\r\n", false, 404, "NotFound"},
		{"semicolon", "GET /v1/objects/bucket/k;a=b" + host + "\r\n", false, 404, "NotFound"},
		{"absolute form", "GET http://localhost/v1/objects/bucket/k" + host + "\r\n", false, 200, ""},
		{"star", "OPTIONS *" + host + "\r\n", false, 404, "NotFound"},
		{"connect", "CONNECT localhost:80" + host + "\r\n", false, 404, "NotFound"},
		{"no version", "GET /\r\n\r\n", false, 400, ""},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false, 403, "Denied"},
		{"two hosts", "GET /" + host + "Host: evil\r\n\r\n", false, 400, ""},
		{"huge header", "GET /healthz" + host + "X-Large: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", false, 431, ""},
		{"many headers", "GET /healthz" + host + strings.Repeat("X-Many: x\r\n", 8<<10) + "\r\n", false, 431, ""},
		{"negative length", "PUT /v1/objects/bucket/n" + host + "Content-Length: -1\r\n\r\n", false, 400, ""},
		{"wrong length", "PUT /v1/objects/bucket/n" + host + "Content-Length: x\r\n\r\n", false, 400, ""},
		{"two lengths", "PUT /v1/objects/bucket/n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", false, 400, ""},
		{"huge length", "PUT /v1/objects/bucket/n" + host + "Content-Length: 9223372036854775807\r\n\r\nab", false, 413, "Invalid"},
		{"short body", "PUT /v1/objects/bucket/n" + host + "Content-Length: 100\r\n\r\nabc", true, 400, "Invalid"},
		{"short chunk", "PUT /v1/objects/bucket/n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nabc", true, 400, "Invalid"},
		{"no last chunk", "PUT /v1/objects/bucket/n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true, 400, "Invalid"},
		{"bad chunk", "PUT /v1/objects/bucket/n" + host + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", true, 400, "Invalid"},
		{"negative chunk", "PUT /v1/objects/bucket/n" + host + "Transfer-Encoding: chunked\r\n\r\n-5\r\nabc", true, 400, "Invalid"},
		{"unknown encoding", "PUT /v1/objects/bucket/n" + host + "Transfer-Encoding: gzip\r\n\r\n", false, 501, ""},
		{"unknown expectation", "PUT /v1/objects/bucket/n" + host + "Expect: wonders\r\nContent-Length: 1\r\n\r\nx", false, 417, ""},
		{"properties cut short", "PUT /v1/buckets/new" + host + "Content-Length: 100\r\n\r\n{", true, 400, "Invalid"},
		{"a body for GET", "GET /v1/objects/bucket/k" + host + "Content-Length: 3\r\n\r\nabc", false, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer, body := d.raw(t, tt.request, tt.cut)
			if answer.StatusCode != tt.status {
				t.Errorf("%d %s, want %d", answer.StatusCode, body, tt.status)
			}
			if tt.kind != "" {
				wantError(t, body, tt.kind, "")
			}
		})
	}
	for _, path := range []string{"/v1/objects/bucket/n", "/v1/buckets/new"} {
		d.want(t, 404, "GET", path, "")
	}
	if d.metric(t, "penstock_http_panics_total") != 0 {
		t.Error("something panicked")
	}
}

func TestBadBuckets(t *testing.T) {
	d := open(t, config{})
	for _, tt := range []struct {
		status             int
		method, path, body string
		kind, words        string
	}{
		{201, "PUT", "/v1/buckets/new-one", `{"quota": 5, "verify": "always"}`, "", ""},
		{409, "PUT", "/v1/buckets/new-one", "", "Exists", "exists already"},
		{400, "PUT", "/v1/buckets/UPPER", "", "Invalid", "UPPER"},
		{400, "PUT", "/v1/buckets/..", "", "Invalid", ""},
		{400, "PUT", "/v1/buckets/x%2Fy", "", "Invalid", ""},
		{400, "PUT", "/v1/buckets/with-source", `{"source":"s3://x"}`, "Invalid", "source"},
		{400, "PUT", "/v1/buckets/with-typo", `{"qouta":5}`, "Invalid", "qouta"},
		{400, "PUT", "/v1/buckets/with-junk", `not JSON`, "Invalid", "JSON"},
		{400, "PUT", "/v1/buckets/with-query?quota=5", "", "Invalid", "no parameters"},
		{200, "PATCH", "/v1/buckets/new-one", `{"quota": null}`, "", ""},
		{400, "PATCH", "/v1/buckets/new-one", `{"mirror": 2}`, "Invalid", "mirror"},
		{404, "PATCH", "/v1/buckets/missing", `{}`, "NotFound", "bucket missing does not exist"},
		{404, "GET", "/v1/buckets/missing", "", "NotFound", ""},
		{404, "DELETE", "/v1/buckets/missing", "", "NotFound", ""},
		{404, "PUT", "/v1/objects/missing/k", "x", "NotFound", "bucket missing does not exist"},
		{200, "PUT", "/v1/objects/new-one/k", "x", "", ""},
		{409, "DELETE", "/v1/buckets/new-one", "", "Exists", "not empty"},
		{200, "PATCH", "/v1/buckets/new-one", `{"quota": 3}`, "", ""},
		{403, "PUT", "/v1/objects/new-one/l", "xxx", "Denied", "quota of 3 bytes"},
		{204, "DELETE", "/v1/objects/new-one/k", "", "", ""},
		{204, "DELETE", "/v1/buckets/new-one", "", "", ""},
	} {
		body, _ := d.want(t, tt.status, tt.method, tt.path, tt.body)
		if tt.kind != "" {
			wantError(t, body, tt.kind, tt.words)
		}
	}
	d.want(t, 200, "GET", "/v1/buckets/bucket", "")
	body, _ := d.want(t, 200, "GET", "/v1/buckets", "")
	if !strings.Contains(body, `{"buckets":[{"name":"bucket",`) || strings.Contains(body, "with-") {
		t.Errorf("the buckets are %s", body)
	}
}
