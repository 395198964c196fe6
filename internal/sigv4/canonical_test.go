package sigv4_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/sigv4"
)

// TestEncodings holds that a path or query is verified whichever of the encodings of
// one thing came, and that nothing in it is taken for something else.
func TestEncodings(t *testing.T) {
	v := sigv4.New(options())
	for sent, signed := range map[string]string{
		"/":                         "/",
		"//a//b/":                   "//a//b/",
		"/a/./b/../c":               "/a/./b/../c",
		"/a%2Fb":                    "/a/b",
		"/~a-b_c.d":                 "/~a-b_c.d",
		"/%7Ea":                     "/~a",
		"/a+b":                      "/a%2Bb",
		"/a%20b":                    "/a%20b",
		"/(a)!*'$&,:;=@":            "/%28a%29%21%2A%27%24%26%2C%3A%3B%3D%40",
		"/%E2%82%AC":                "/%E2%82%AC",
		"/\xe2\x82\xac":             "/%E2%82%AC",
		"/%00%ff":                   "/%00%FF",
		"/%25":                      "/%25",
		"/?a":                       "/?a=",
		"/?a=":                      "/?a=",
		"/?b=1&a=2":                 "/?a=2&b=1",
		"/?a=2&a=1":                 "/?a=1&a=2",
		"/?a=%2f":                   "/?a=%2F",
		"/?a=/":                     "/?a=%2F",
		"/?a=b+c":                   "/?a=b%20c",
		"/?a=b%2Bc":                 "/?a=b%2Bc",
		"/?a=b=c":                   "/?a=b%3Dc",
		"/?&a=1&&b=2&":              "/?a=1&b=2",
		"/?prefix=%E2%82%AC&p=~*":   "/?p=~%2A&prefix=%E2%82%AC",
		"/?a-b=1&a=1&a.b=1&a%21b=1": "/?a=1&a%21b=1&a-b=1&a.b=1",
	} {
		r := request("GET", "/", nil, "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", "X-Amz-Date", date)
		var err error
		if r.URL, err = url.ParseRequestURI(sent); err != nil {
			t.Fatal(err)
		}
		path, query, _ := strings.Cut(signed, "?")
		s := signText("AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hexSHA("GET\n"+path+"\n"+query+
			"\nhost:examplebucket.s3.amazonaws.com\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:"+date+
			"\n\nhost;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD"))
		r.Header.Set("Authorization", authorization("host;x-amz-content-sha256;x-amz-date", s))
		if _, err := v.Verify(r); err != nil {
			t.Errorf("%s signed as %s: %v", sent, signed, err)
		}
	}
}

func TestSignedHeaders(t *testing.T) {
	v := sigv4.New(options())
	r := request("PUT", "/", []byte("x"), "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", "X-Amz-Date", date,
		"X-Amz-Meta-A", "  a   b \t c ", "X-Amz-Meta-A", "d", "Expect", "100-continue", "Content-Type", "not signed")
	r.TransferEncoding = []string{"chunked"}
	s := signText("AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hexSHA("PUT\n/\n\n"+
		"content-length:1\nexpect:100-continue\nhost:examplebucket.s3.amazonaws.com\ntransfer-encoding:chunked\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n"+
		"x-amz-date:"+date+"\nx-amz-meta-a:a b c,d\n\n"+
		"content-length;expect;host;transfer-encoding;x-amz-content-sha256;x-amz-date;x-amz-meta-a\nUNSIGNED-PAYLOAD"))
	r.Header.Set("Authorization", authorization("content-length;expect;host;transfer-encoding;x-amz-content-sha256;x-amz-date;x-amz-meta-a", s))
	if _, err := v.Verify(r); err != nil {
		t.Error(err)
	}
	r.Header.Del("Expect") // as HTTP/2 does
	if _, err := v.Verify(r); err != nil {
		t.Error(err)
	}
	r.ContentLength = 2
	if _, err := v.Verify(r); code(err) != sigv4.SignatureDoesNotMatch {
		t.Error("another length:", err)
	}
	r.ContentLength = -1
	if _, err := v.Verify(r); code(err) != sigv4.SignatureDoesNotMatch {
		t.Error("no length:", err)
	}
}

// TestDateHeader is for clients that sign the Date in place of x-amz-date.
func TestDateHeader(t *testing.T) {
	for _, text := range []string{"Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 -0000", date} {
		r := request("GET", "/", nil, "X-Amz-Content-Sha256", empty, "Date", text)
		headers := []string{"date", "host", "x-amz-content-sha256"}
		r.Header.Set("Authorization", authorization(strings.Join(headers, ";"), signature(r, headers, empty)))
		if _, err := sigv4.New(options()).Verify(r); err != nil {
			t.Error(err)
		}
	}
}

func TestAnonymous(t *testing.T) {
	req, err := sigv4.New(options()).Verify(request("GET", "/key?x-amz-acl=public-read", nil, "X-Amz-Date", "any", "X-Amz-Meta-A", "1"))
	if err != nil || !req.Anonymous || req.AccessKey != "" || req.Presigned {
		t.Fatalf("%+v %v", req, err)
	}
	if req.Amz("X-Amz-Meta-A") != "1" || req.Amz("X-Amz-Acl") != "" {
		t.Errorf("headers %q and %q", req.Amz("X-Amz-Meta-A"), req.Amz("X-Amz-Acl"))
	}
}

func TestContentEncoding(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "aws-chunked": "", "gzip": "gzip", "deflate, gzip": "deflate, gzip", "aws-chunked,aws-chunked": "", "AWS-Chunked, gzip": "gzip", "gzip,aws-chunked": "gzip", "zstd, aws-chunked ,gzip": "zstd,gzip",
	} {
		if got := sigv4.ContentEncoding(http.Header{"Content-Encoding": {in}}); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestForm(t *testing.T) {
	policy := base64.StdEncoding.EncodeToString([]byte(`{"expiration": "2013-08-07T12:00:00.000Z", "conditions": []}`))
	good := map[string]string{
		"key": "a", "policy": policy, "x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-credential": accessKey + "/" + scope,
		"x-amz-date": date, "x-amz-signature": signText(policy),
	}
	v := sigv4.New(options())
	if key, _, err := v.VerifyForm(good); key != accessKey || err != nil {
		t.Error(key, err)
	}
	if key, _, err := v.VerifyForm(map[string]string{"key": "a"}); key != "" || err != nil {
		t.Error("an anonymous form:", key, err)
	}
	for _, test := range []struct {
		field, value string
		want         sigv4.Code
	}{
		{"policy", policy + "A", sigv4.SignatureDoesNotMatch},
		{"policy", "", sigv4.InvalidArgument},
		{"x-amz-signature", "", sigv4.InvalidArgument},
		{"x-amz-signature", "-", sigv4.AccessDenied},
		{"x-amz-signature", signText("x"), sigv4.SignatureDoesNotMatch},
		{"x-amz-signature", "x", sigv4.InvalidArgument},
		{"x-amz-algorithm", "AWS4-HMAC-SHA1", sigv4.InvalidArgument},
		{"x-amz-credential", "other/" + scope, sigv4.InvalidAccessKeyID},
		{"x-amz-credential", accessKey, sigv4.InvalidArgument},
		{"x-amz-date", "20130523T000000Z", sigv4.InvalidArgument},
		{"x-amz-security-token", "x", sigv4.InvalidToken},
		{"awsaccesskeyid", accessKey, sigv4.InvalidArgument},
		{"signature", "x", sigv4.InvalidArgument},
	} {
		bad := maps.Clone(good)
		if bad[test.field] = test.value; test.value == "-" {
			delete(bad, test.field)
		}
		if key, _, err := v.VerifyForm(bad); code(err) != test.want || key != "" {
			t.Errorf("%s = %q: %q %v, want %s", test.field, test.value, key, err, test.want)
		}
	}
	noBase64 := maps.Clone(good)
	noBase64["policy"], noBase64["x-amz-signature"] = "{}", signText("{}")
	if _, _, err := v.VerifyForm(noBase64); code(err) != sigv4.InvalidPolicyDocument {
		t.Error(err)
	}
	for after, want := range map[time.Duration]sigv4.Code{
		7 * 24 * time.Hour: "", 7*24*time.Hour + time.Second: sigv4.AccessDenied, -time.Hour: sigv4.AccessDenied,
	} {
		o := options()
		o.Clock = func() time.Time { return now.Add(after) }
		if _, _, err := sigv4.New(o).VerifyForm(good); code(err) != want {
			t.Errorf("%v after: %v", after, err)
		}
	}
}
