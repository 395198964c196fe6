package sigv4_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/sigv4"
)

// get returns a signed request without a body, changed before or after it is signed.
func get(before, after func(r *http.Request)) *http.Request {
	r := request("GET", "/key?list-type=2&prefix=a%20b", nil, "X-Amz-Content-Sha256", empty)
	if before != nil {
		before(r)
	}
	signHeader(r)
	if after != nil {
		after(r)
	}
	return r
}

func replace(old, new string) func(r *http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, new, 1))
	}
}

func set(name, value string) func(r *http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func add(name, value string) func(r *http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func TestHeaderRefused(t *testing.T) {
	const malformed = sigv4.AuthorizationHeaderMalformed
	for name, test := range map[string]struct {
		r    *http.Request
		want sigv4.Code
	}{
		"good":                   {get(nil, nil), ""},
		"fields in other order":  {get(nil, func(r *http.Request) { reorder(r) }), ""},
		"version 2":              {get(nil, set("Authorization", "AWS "+accessKey+":c2lnbmF0dXJl")), sigv4.InvalidRequest},
		"version 4A":             {get(nil, replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")), sigv4.NotImplemented},
		"bearer":                 {get(nil, set("Authorization", "Bearer x")), sigv4.InvalidArgument},
		"empty":                  {get(nil, set("Authorization", "")), sigv4.InvalidArgument},
		"scheme alone":           {get(nil, set("Authorization", "AWS4-HMAC-SHA256")), malformed},
		"twice":                  {get(nil, add("Authorization", "AWS4-HMAC-SHA256 x")), sigv4.InvalidArgument},
		"query too":              {get(nil, func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Signature=0" }), sigv4.InvalidArgument},
		"query of version 2 too": {get(nil, func(r *http.Request) { r.URL.RawQuery += "&AWSAccessKeyId=0" }), sigv4.InvalidArgument},
		"two credentials":        {get(nil, replace("Credential=", "Credential=x, Credential=")), malformed},
		"two signatures":         {get(nil, replace("Signature=", "Signature=0, Signature=")), malformed},
		"unknown field":          {get(nil, replace("Signature=", "Other=0, Signature=")), malformed},
		"short signature":        {get(nil, replace("Signature=", "Signature=0")), malformed},
		"too long":               {get(nil, replace(", Signature=", strings.Repeat(" ", 20000)+", Signature=")), malformed},
		"other service":          {get(nil, replace("/s3/", "/sts/")), malformed},
		"other terminator":       {get(nil, replace("aws4_request", "aws4")), malformed},
		"other day":              {get(nil, replace("/20130524/", "/20130525/")), malformed},
		"no day":                 {get(nil, replace("/20130524/", "/2013052x/")), malformed},
		"no region":              {get(nil, replace("/us-east-1/", "//")), malformed},
		"other region":           {get(nil, replace("/us-east-1/", "/us-east-2/")), sigv4.SignatureDoesNotMatch},
		"unknown key":            {get(nil, replace(accessKey, "AKIAOTHER")), sigv4.InvalidAccessKeyID},
		"endless key":            {get(nil, replace(accessKey, strings.Repeat("A", 1000))), sigv4.InvalidAccessKeyID},
		"key with slashes":       {get(nil, replace(accessKey, accessKey+"/a/b")), sigv4.InvalidAccessKeyID},
		"host not signed":        {get(nil, replace("SignedHeaders=host;", "SignedHeaders=")), sigv4.AccessDenied},
		"header not signed":      {get(nil, set("X-Amz-Meta-A", "1")), sigv4.AccessDenied},
		"signed header gone":     {get(set("Range", "bytes=0-1"), func(r *http.Request) { r.Header.Del("Range") }), sigv4.SignatureDoesNotMatch},
		"list not sorted":        {get(nil, replace("x-amz-content-sha256;x-amz-date", "x-amz-date;x-amz-content-sha256")), sigv4.SignatureDoesNotMatch},
		"name twice":             {get(nil, replace("=host;", "=host;host;")), sigv4.SignatureDoesNotMatch},
		"list ends in ;":         {get(nil, replace("x-amz-date,", "x-amz-date;,")), sigv4.SignatureDoesNotMatch},
		"upper case":             {get(nil, replace("=host;", "=Host;")), sigv4.SignatureDoesNotMatch},
		"session token":          {get(set("X-Amz-Security-Token", "x"), nil), sigv4.InvalidToken},
		"two dates":              {get(nil, add("X-Amz-Date", date)), sigv4.AccessDenied},
		"no date":                {get(nil, func(r *http.Request) { r.Header.Del("X-Amz-Date") }), sigv4.AccessDenied},
		"date with a fraction":   {get(nil, set("X-Amz-Date", "20130524T000000.0Z")), sigv4.AccessDenied},
		"no digest":              {get(func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") }, nil), sigv4.InvalidRequest},
		"empty digest":           {get(set("X-Amz-Content-Sha256", ""), nil), sigv4.InvalidArgument},
		"two digests":            {get(add("X-Amz-Content-Sha256", empty), nil), sigv4.InvalidRequest},
		"other digest":           {get(set("X-Amz-Content-Sha256", hexSHA("x")), nil), sigv4.XAmzContentSHA256Mismatch},
		"unknown form":           {get(set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256"), nil), sigv4.InvalidArgument},
		"form of 4A":             {get(set("X-Amz-Content-Sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), nil), sigv4.NotImplemented},
		"bad escape":             {get(nil, func(r *http.Request) { r.URL.RawQuery += "&a=%2" }), sigv4.InvalidURI},
		"semicolon":              {get(nil, func(r *http.Request) { r.URL.RawQuery += "&a;b" }), sigv4.InvalidURI},
		"endless query":          {get(nil, func(r *http.Request) { r.URL.RawQuery += strings.Repeat("&a", 1000) }), sigv4.InvalidURI},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := check(t, sigv4.New(options()), test.r); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestNamesTwice holds that a name twice in the list does not make up for a header
// that is not in it.
func TestNamesTwice(t *testing.T) {
	for _, headers := range [][]string{
		{"host", "x-amz-content-sha256", "x-amz-date", "x-amz-date"},
		{"host", "x-amz-content-sha256", "x-amz-date", "x-amz-other"},
	} {
		r := request("GET", "/", nil, "X-Amz-Content-Sha256", empty, "X-Amz-Date", date, "X-Amz-Acl", "public-read")
		r.Header.Set("Authorization", authorization(strings.Join(headers, ";"), signature(r, headers, empty)))
		if _, got := check(t, sigv4.New(options()), r); got != sigv4.SignatureDoesNotMatch {
			t.Errorf("%s: %q", headers, got)
		}
	}
}

func reorder(r *http.Request) {
	scheme, fields, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	f := strings.Split(fields, ", ")
	r.Header.Set("Authorization", scheme+" "+f[2]+","+f[0]+" ,  "+f[1])
}

func TestQueryRefused(t *testing.T) {
	const malformed = sigv4.AuthorizationQueryParametersError
	signed := func(expires int, old, new string) *http.Request {
		r := request("GET", "/key?versionId=1", nil)
		signQuery(r, expires)
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, old, new, 1)
		return r
	}
	for name, test := range map[string]struct {
		r    *http.Request
		want sigv4.Code
	}{
		"good":               {signed(60, "", ""), ""},
		"a week":             {signed(604800, "", ""), ""},
		"longer":             {signed(604801, "", ""), sigv4.AccessDenied},
		"no time":            {signed(0, "", ""), sigv4.AccessDenied},
		"negative":           {signed(-1, "", ""), sigv4.AccessDenied},
		"changed":            {signed(60, "Expires=60", "Expires=61"), sigv4.SignatureDoesNotMatch},
		"not there":          {signed(60, "X-Amz-Expires=60&", ""), malformed},
		"no signature":       {signed(60, "X-Amz-Signature", "X-Amz-Sig"), malformed},
		"signature twice":    {signed(60, "X-Amz-Signature", "X-Amz-Signature=0&X-Amz-Signature"), malformed},
		"in lower case":      {signed(60, "X-Amz-Signature", "x-amz-signature"), malformed},
		"other algorithm":    {signed(60, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"), malformed},
		"version 4A":         {signed(60, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), sigv4.NotImplemented},
		"version 2":          {request("GET", "/key?AWSAccessKeyId=a&Signature=b&Expires=1", nil), sigv4.AccessDenied},
		"algorithm alone":    {request("GET", "/key?X-Amz-Algorithm=AWS4-HMAC-SHA256", nil), malformed},
		"encoded name":       {request("GET", "/key?X-Amz%2DSignature=0", nil), malformed},
		"session token":      {signed(60, "versionId", "X-Amz-Security-Token"), sigv4.InvalidToken},
		"header not signed":  {with(signed(60, "", ""), "X-Amz-Acl", "public-read"), sigv4.AccessDenied},
		"header hoisted":     {hoisted("X-Amz-Acl", "private"), ""},
		"hoisted and header": {with(hoisted("X-Amz-Acl", "private"), "X-Amz-Acl", "public-read"), sigv4.InvalidRequest},
		"hoisted checksum":   {hoisted("x-amz-checksum-crc32", "AAAAAA=="), ""},
		"hoisted and wrong":  {hoisted("x-amz-checksum-crc32", "AAAAAQ=="), sigv4.BadDigest},
		"hoisted form":       {hoisted("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), ""},
		"hoisted digest":     {hoisted("X-Amz-Content-Sha256", hexSHA("x")), sigv4.XAmzContentSHA256Mismatch},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := check(t, sigv4.New(options()), test.r); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func with(r *http.Request, name, value string) *http.Request {
	r.Header.Set(name, value)
	return r
}

func hoisted(name, value string) *http.Request {
	r := request("GET", "/key", nil)
	r.URL.RawQuery = name + "=" + value
	signQuery(r, 60)
	return r
}

func TestTimes(t *testing.T) {
	for _, test := range []struct {
		presigned bool
		after     time.Duration
		want      sigv4.Code
	}{
		{false, 15 * time.Minute, ""},
		{false, 15*time.Minute + time.Second, sigv4.RequestTimeTooSkewed},
		{false, -15 * time.Minute, ""},
		{false, -15*time.Minute - time.Second, sigv4.RequestTimeTooSkewed},
		{true, time.Hour, ""},
		{true, time.Hour + time.Second, sigv4.AccessDenied},
		{true, -15 * time.Minute, ""},
		{true, -15*time.Minute - time.Second, sigv4.AccessDenied},
	} {
		o := options()
		o.Clock = func() time.Time { return now.Add(test.after) }
		r := get(nil, nil)
		if test.presigned {
			r = request("GET", "/key", nil)
			signQuery(r, 3600)
		}
		if _, got := check(t, sigv4.New(o), r); got != test.want {
			t.Errorf("presigned %v, %v after: %q, want %q", test.presigned, test.after, got, test.want)
		}
	}
}

// TestSecretsAreAsked holds that a key withdrawn or changed does not work any more,
// though what was derived from it is remembered.
func TestSecretsAreAsked(t *testing.T) {
	o := options()
	secret := secretKey
	o.Secret = func(string) (string, bool) { return secret, true }
	v := sigv4.New(o)
	for _, step := range []struct {
		secret string
		want   sigv4.Code
	}{{secretKey, ""}, {"other", sigv4.SignatureDoesNotMatch}, {secretKey, ""}, {"", sigv4.InvalidAccessKeyID}} {
		secret = step.secret
		if _, got := check(t, v, get(nil, nil)); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	if _, got := check(t, sigv4.New(sigv4.Options{Clock: o.Clock}), get(nil, nil)); got != sigv4.InvalidAccessKeyID {
		t.Errorf("without keys: %q", got)
	}
}

func TestRegion(t *testing.T) {
	for region, want := range map[string]sigv4.Code{"": "", "us-east-1": "", "eu-west-1": sigv4.AuthorizationHeaderMalformed} {
		o := options()
		o.Region = region
		if _, got := check(t, sigv4.New(o), get(nil, nil)); got != want {
			t.Errorf("region %q: %q, want %q", region, got, want)
		}
	}
}

func TestClaims(t *testing.T) {
	content := []byte("content")
	sum := func(a checksum.Algorithm, data []byte) string {
		h := a.New()
		h.Write(data)
		return checksum.Encode(h.Sum(nil))
	}
	crc := sum(checksum.CRC32, content)
	for name, test := range map[string]struct {
		method, target string
		headers        []string
		want           sigv4.Code
	}{
		"none":                 {"PUT", "/k", nil, ""},
		"two checksums":        {"PUT", "/k", []string{"X-Amz-Checksum-Crc32", crc, "X-Amz-Checksum-Sha1", sum(checksum.SHA1, content)}, sigv4.InvalidRequest},
		"twice":                {"PUT", "/k", []string{"X-Amz-Checksum-Crc32", crc, "X-Amz-Checksum-Crc32", crc}, sigv4.InvalidRequest},
		"no base64":            {"PUT", "/k", []string{"X-Amz-Checksum-Crc32", "x"}, sigv4.BadDigest},
		"unknown":              {"PUT", "/k", []string{"X-Amz-Checksum-Md5", "x"}, sigv4.NotImplemented},
		"mode":                 {"PUT", "/k", []string{"X-Amz-Checksum-Mode", "ENABLED", "X-Amz-Checksum-Type", "COMPOSITE", "X-Amz-Checksum-Algorithm", "SHA1"}, ""},
		"of an object":         {"POST", "/k?uploadId=1", []string{"X-Amz-Checksum-Crc32", "AAAAAA==-3"}, ""},
		"of a body":            {"POST", "/k?delete", []string{"X-Amz-Checksum-Crc32", "AAAAAA=="}, sigv4.BadDigest},
		"md5 too short":        {"PUT", "/k", []string{"Content-Md5", "AAAA"}, sigv4.InvalidDigest},
		"md5 wrong":            {"PUT", "/k", []string{"Content-Md5", "AAAAAAAAAAAAAAAAAAAAAA=="}, sigv4.BadDigest},
		"trailer without form": {"PUT", "/k", []string{"X-Amz-Trailer", "x-amz-checksum-crc32", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"}, sigv4.InvalidRequest},
		"other length":         {"PUT", "/k", []string{"X-Amz-Decoded-Content-Length", "8", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"}, sigv4.InvalidRequest},
		"same length":          {"PUT", "/k", []string{"X-Amz-Decoded-Content-Length", "7", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(test.method, test.target, content, test.headers...)
			if _, got := check(t, sigv4.New(options()), r); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	for _, a := range checksum.Algorithms() {
		r := request("PUT", "/k", content, a.Header(), sum(a, content), "X-Amz-Content-Sha256", hexSHA(string(content)))
		signHeader(r)
		req, err := sigv4.New(options()).Verify(r)
		if err != nil || req.Announced() != a {
			t.Fatal(req, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if got, value := req.Checksum(); got != a || checksum.Encode(value) != sum(a, content) {
			t.Errorf("%s: %s %x", a, got, value)
		}
	}
}

func TestChunksRefused(t *testing.T) {
	crc := "x-amz-checksum-crc32:/sUwqQ==" // of "content"
	for name, test := range map[string]struct {
		body, length, trailer string
		want                  sigv4.Code
	}{
		"good":                 {"3\r\ncon\r\n4\r\ntent\r\n0\r\n" + crc + "\r\n\r\n", "7", "x-amz-checksum-crc32", ""},
		"as minio-go":          {"7\r\ncontent\r\n0\r\n" + crc + "\n\r\n\r\n", "7", "x-amz-checksum-crc32", ""},
		"spaces":               {"7\r\ncontent\r\n0\r\nX-Amz-Checksum-Crc32: " + crc[21:] + " \r\n\r\n", "7", "x-amz-checksum-crc32", ""},
		"no trailer":           {"7\r\ncontent\r\n0\r\n\r\n", "7", "", ""},
		"upper case size":      {"007\r\ncontent\r\n0\r\n\r\n", "7", "", ""},
		"trailer missing":      {"7\r\ncontent\r\n0\r\n\r\n", "7", "x-amz-checksum-crc32", sigv4.MalformedTrailerError},
		"not announced":        {"7\r\ncontent\r\n0\r\n" + crc + "\r\n\r\n", "7", "", sigv4.MalformedTrailerError},
		"other announced":      {"7\r\ncontent\r\n0\r\n" + crc + "\r\n\r\n", "7", "x-amz-checksum-crc32c", sigv4.MalformedTrailerError},
		"twice":                {"7\r\ncontent\r\n0\r\n" + crc + "\r\n" + crc + "\r\n\r\n", "7", "x-amz-checksum-crc32", sigv4.MalformedTrailerError},
		"wrong":                {"7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "7", "x-amz-checksum-crc32", sigv4.BadDigest},
		"no base64":            {"7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:AAA\r\n\r\n", "7", "x-amz-checksum-crc32", sigv4.BadDigest},
		"a signature":          {"7\r\ncontent\r\n0\r\nx-amz-trailer-signature:" + empty + "\r\n\r\n", "7", "", sigv4.MalformedTrailerError},
		"endless line":         {"7\r\ncontent\r\n0\r\n" + strings.Repeat("x", 1000) + "\r\n", "7", "", sigv4.MalformedTrailerError},
		"endless lines":        {"7\r\ncontent\r\n0\r\n" + strings.Repeat("\r\n", 1000), "7", "", sigv4.MalformedTrailerError},
		"unknown trailer":      {"0\r\n\r\n", "0", "x-amz-meta-a", sigv4.InvalidRequest},
		"two trailers":         {"0\r\n\r\n", "0", "x-amz-checksum-crc32,x-amz-checksum-sha1", sigv4.InvalidRequest},
		"less":                 {"7\r\ncontent\r\n0\r\n\r\n", "8", "", sigv4.IncompleteBody},
		"more":                 {"7\r\ncontent\r\n0\r\n\r\n", "6", "", sigv4.IncompleteBody},
		"length missing":       {"7\r\ncontent\r\n0\r\n\r\n", "", "", sigv4.MissingContentLength},
		"negative length":      {"7\r\ncontent\r\n0\r\n\r\n", "-7", "", sigv4.InvalidArgument},
		"impossible length":    {"0\r\n\r\n", "1000", "", sigv4.InvalidRequest},
		"huge length":          {"0\r\n\r\n", "99999999999999999999", "", sigv4.InvalidArgument},
		"huge chunk":           {"fffffffffffffff\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.IncompleteBody},
		"overflowing chunk":    {"10000000000000007\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"negative chunk":       {"-7\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"0x":                   {"0x7\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"no size":              {"\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"extension":            {"7;a=b\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"signature where none": {"7;chunk-signature=" + empty + "\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"line feed alone":      {"7\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"line feed alone 2":    {"7\r\ncontent\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"endless head":         {strings.Repeat("0", 1000) + "7\r\ncontent\r\n0\r\n\r\n", "7", "", sigv4.InvalidRequest},
		"no end":               {"7\r\ncontent\r\n", "7", "", sigv4.IncompleteBody},
		"nothing":              {"", "0", "", sigv4.IncompleteBody},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("PUT", "/k", []byte(test.body), "X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
			if test.length != "" {
				r.Header.Set("X-Amz-Decoded-Content-Length", test.length)
			}
			if test.trailer != "" {
				r.Header.Set("X-Amz-Trailer", test.trailer)
			}
			got, refusal := check(t, sigv4.New(options()), r)
			if refusal != test.want || refusal == "" && string(got) != "content" {
				t.Errorf("%q %q, want %q", got, refusal, test.want)
			}
		})
	}
}

// TestSignedTrailers changes a good trailer under its signature.
func TestSignedTrailers(t *testing.T) {
	u := upload{"header", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "trailer"}
	_, body := u.build([]byte("content"))
	text := string(body)
	before, signature, _ := strings.Cut(text, "x-amz-trailer-signature:")
	other := "x-amz-trailer-signature:" + strings.Repeat("0", 64) + "\r\n"
	for name, test := range map[string]struct {
		body string
		want sigv4.Code
	}{
		"good":                  {text, ""},
		"as minio-go":           {strings.TrimSuffix(before, "\r\n") + "\n\r\nx-amz-trailer-signature:" + signature, ""},
		"wrong":                 {before + other + "\r\n", sigv4.SignatureDoesNotMatch},
		"missing":               {before + "\r\n", sigv4.MalformedTrailerError},
		"short":                 {before + "x-amz-trailer-signature:00\r\n\r\n", sigv4.MalformedTrailerError},
		"twice":                 {strings.TrimSuffix(text, "\r\n") + other + "\r\n", sigv4.MalformedTrailerError},
		"first":                 {before[:strings.Index(before, "x-amz-checksum")] + "x-amz-trailer-signature:" + strings.TrimSpace(signature) + "\r\n" + before[strings.Index(before, "x-amz-checksum"):], sigv4.MalformedTrailerError},
		"something behind":      {text + "x", sigv4.IncompleteBody},
		"a line behind":         {text + "x:y\r\n", sigv4.MalformedTrailerError},
		"last chunk not signed": {strings.Replace(text, "\r\n0;", "\r\n0\r\n;", 1), sigv4.InvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := u.build([]byte("content"))
			setBody(r, []byte(test.body))
			if _, got := check(t, sigv4.New(options()), r); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestForeignErrors holds that an error of the connection stays what it is.
func TestForeignErrors(t *testing.T) {
	limit := &http.MaxBytesError{Limit: 1}
	for u := range uploads {
		if !u.possible() {
			continue
		}
		r, body := u.build([]byte("content"))
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:5]), broken{limit}))
		req, err := sigv4.New(options()).Verify(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(req.Body); err != limit {
			t.Errorf("%+v: %v", u, err)
		}
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestKinds(t *testing.T) {
	_, err := sigv4.New(options()).Verify(get(nil, replace(accessKey, "other")))
	if object.KindOf(err) != object.Denied || object.KindOf(fmt.Errorf("put: %w", err)) != object.Denied {
		t.Errorf("%v is %v", err, object.KindOf(err))
	}
	_, err = sigv4.New(options()).Verify(get(nil, set("Authorization", "")))
	if object.KindOf(err) != object.Invalid {
		t.Errorf("%v is %v", err, object.KindOf(err))
	}
}
