package sigv4_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/sigv4"
)

// TestVersion2Vectors holds to what AWS published for version 2, and to URLs that boto3
// made.
func TestVersion2Vectors(t *testing.T) {
	published := options()
	published.Secret = func(string) (string, bool) { return "OtxrzxIsfpFjA7SwPzILwy8Bw21TLhquhboDYROV", true }
	published.Clock = func() time.Time { return time.Unix(1141889000, 0) }
	for _, test := range []struct {
		options                  sigv4.Options
		method, host, target, by string
	}{
		{published, "GET", "s3.amazonaws.com", "/quotes/nelson?AWSAccessKeyId=0PN5J17HBGZHT7JJ3X82&Expires=1141889120&Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D", "0PN5J17HBGZHT7JJ3X82"},
		{options(), "PUT", "examplebucket.s3.amazonaws.com", "/a%20b/~%C3%A9%2B.txt?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=%2FjKJkTZAWKJAxKF7p3G5ss%2F5Ayo%3D&content-type=text%2Fplain%3B%20charset%3Dutf-8&x-amz-acl=public-read&x-amz-meta-one=1%202&Expires=1369357200", accessKey},
		{options(), "GET", "examplebucket.s3.amazonaws.com", "/key?versionId=null&response-content-disposition=attachment%3B%20filename%3D%22a%20b%2Bc.txt%22&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=K2Ck%2FjH5rHZ%2FmdMqA7GxgrRf5xE%3D&Expires=1369357200", accessKey},
		{options(), "GET", "examplebucket.s3.amazonaws.com", "/?list-type=2&prefix=a%2F&encoding-type=url&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=INGhiFr9NOGYSEx72ZsIaYThC4I%3D&Expires=1369357200", accessKey},
		{options(), "PUT", "127.0.0.1:9000", "/examplebucket/key?uploadId=x&partNumber=1&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=HCgvMxJtey2r0koJP7wAM25kyIM%3D&Expires=1369357200", accessKey},
		{options(), "GET", "127.0.0.1:9000", "/examplebucket/key?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=7D3LSB4PZknQ%2BdXBoZtbNgqROrw%3D&x-amz-checksum-mode=ENABLED&Expires=1369357200", accessKey},
		{options(), "GET", "127.0.0.1:9000", "/examplebucket?list-type=2&prefix=a&encoding-type=url&AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=INGhiFr9NOGYSEx72ZsIaYThC4I%3D&Expires=1369357200", accessKey},
	} {
		r := request(test.method, test.target, nil)
		r.Host = test.host
		req, err := sigv4.New(test.options).Verify(r)
		if err != nil || !req.Presigned || !req.Version2 || req.Anonymous || req.AccessKey != test.by {
			t.Errorf("%s: %+v %v", test.target, req, err)
		}
	}
}

func TestVersion2(t *testing.T) {
	v := sigv4.New(options())
	soon := now.Add(time.Minute)
	build := func(target string, headers ...string) *http.Request {
		r := request("PUT", target, []byte("content"), headers...)
		signOld(r, soon)
		return r
	}
	for _, r := range []*http.Request{
		build("/"),
		build("/a%20b//c%2Fd/~%E2%82%AC"),
		build("/?acl"),
		build("/key?versionId=null&acl&response-content-type=text%2Fplain%3B%20x"),
		build("/key?x-amz-acl=public-read&content-type=text%2Fplain"),
		build("/key", "X-Amz-Meta-B", " b ", "X-Amz-Meta-A", "a", "Content-Type", "text/plain"),
	} {
		query := r.URL.RawQuery
		req, err := v.Verify(r)
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
			continue
		}
		if strings.Contains(query, "x-amz-acl") && (r.Header.Get("Content-Type") != "text/plain" || req.Amz("X-Amz-Acl") != "public-read") {
			t.Errorf("what the query says of headers: %v, %q", r.Header, req.Amz("X-Amz-Acl"))
		}
	}
	r := build("/")
	r.URL.RawQuery += "&prefix=a&list-type=2&max-keys=1"
	if _, err := v.Verify(r); err != nil {
		t.Errorf("a listing: %v", err)
	}
	r = request("GET", "/bucket/key", nil)
	r.Host = "elsewhere"
	signOld(r, soon)
	if _, err := v.Verify(r); err != nil {
		t.Errorf("the bucket in the path: %v", err)
	}
}

func TestVersion2Refused(t *testing.T) {
	v := sigv4.New(options())
	build := func(until time.Time, change func(*http.Request)) *http.Request {
		r := request("PUT", "/key?x-amz-meta-a=1&content-type=text%2Fplain", []byte("content"))
		signOld(r, until)
		change(r)
		return r
	}
	soon := now.Add(time.Minute)
	add := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.URL.RawQuery += text }
	}
	swap := func(from, to string) func(*http.Request) {
		return func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, from, to, 1) }
	}
	for what, test := range map[string]struct {
		r    *http.Request
		want sigv4.Code
	}{
		"expired":        {build(now.Add(-time.Second), func(*http.Request) {}), sigv4.AccessDenied},
		"longer":         {build(soon, swap("Expires=", "Expires=1")), sigv4.SignatureDoesNotMatch},
		"no number":      {build(soon, swap("Expires=", "Expires=-")), sigv4.AccessDenied},
		"no end":         {build(soon, swap("Expires=", "expires=")), sigv4.AccessDenied},
		"unknown key":    {build(soon, swap("AWSAccessKeyId=", "AWSAccessKeyId=X")), sigv4.InvalidAccessKeyID},
		"long key":       {build(soon, swap("AWSAccessKeyId=", "AWSAccessKeyId="+strings.Repeat("X", 200))), sigv4.InvalidAccessKeyID},
		"no key":         {build(soon, swap("AWSAccessKeyId=", "other=")), sigv4.AccessDenied},
		"two keys":       {build(soon, add("&AWSAccessKeyId=a")), sigv4.AuthorizationQueryParametersError},
		"two signatures": {build(soon, add("&Signature=a")), sigv4.AuthorizationQueryParametersError},
		"another case":   {build(soon, swap("Signature=", "signature=")), sigv4.AuthorizationQueryParametersError},
		"no base64":      {build(soon, swap("Signature=", "Signature=!")), sigv4.SignatureDoesNotMatch},
		"empty signature": {build(soon, func(r *http.Request) {
			r.URL.RawQuery, _, _ = strings.Cut(r.URL.RawQuery, "Signature=")
			r.URL.RawQuery += "Signature="
		}), sigv4.SignatureDoesNotMatch},
		"a sub-resource":              {build(soon, add("&acl")), sigv4.SignatureDoesNotMatch},
		"a version":                   {build(soon, add("&versionId=null")), sigv4.SignatureDoesNotMatch},
		"an unknown parameter":        {build(soon, add("&attributes")), sigv4.SignatureDoesNotMatch},
		"another metadatum":           {build(soon, swap("meta-a=1", "meta-a=2")), sigv4.SignatureDoesNotMatch},
		"one more":                    {build(soon, add("&x-amz-meta-b=2")), sigv4.SignatureDoesNotMatch},
		"one more in the header":      {build(soon, func(r *http.Request) { r.Header.Set("X-Amz-Meta-B", "2") }), sigv4.SignatureDoesNotMatch},
		"another in the header":       {build(soon, func(r *http.Request) { r.Header.Set("X-Amz-Meta-A", "2") }), sigv4.InvalidRequest},
		"another type":                {build(soon, swap("text%2Fplain", "text%2Fhtml")), sigv4.SignatureDoesNotMatch},
		"another type in the header":  {build(soon, func(r *http.Request) { r.Header.Set("Content-Type", "text/html") }), sigv4.InvalidRequest},
		"two types":                   {build(soon, add("&Content-Type=text%2Fplain")), sigv4.InvalidRequest},
		"another MD5":                 {build(soon, func(r *http.Request) { r.Header.Set("Content-Md5", "AAAAAAAAAAAAAAAAAAAAAA==") }), sigv4.SignatureDoesNotMatch},
		"a token":                     {build(soon, add("&x-amz-security-token=a")), sigv4.InvalidToken},
		"another method":              {build(soon, func(r *http.Request) { r.Method = "DELETE" }), sigv4.SignatureDoesNotMatch},
		"another bucket":              {build(soon, func(r *http.Request) { r.Host = "other.s3.amazonaws.com" }), sigv4.SignatureDoesNotMatch},
		"another key of the bucket":   {build(soon, func(r *http.Request) { r.URL.Path = "/other" }), sigv4.SignatureDoesNotMatch},
		"a header of version 4":       {build(soon, func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 a") }), sigv4.InvalidArgument},
		"a query of version 4":        {build(soon, add("&X-Amz-Signature=a")), sigv4.InvalidArgument},
		"a header of version 2":       {request("GET", "/", nil, "Authorization", "AWS "+accessKey+":AAAAAAAAAAAAAAAAAAAAAAAAAAA="), sigv4.InvalidRequest},
		"a header of version 2 twice": {build(soon, func(r *http.Request) { r.Header.Set("Authorization", "AWS a:b") }), sigv4.InvalidArgument},
	} {
		if _, refusal := check(t, v, test.r); refusal != test.want {
			t.Errorf("%s: %q, want %q", what, refusal, test.want)
		}
	}
}
