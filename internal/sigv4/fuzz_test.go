package sigv4_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/sigv4"
)

// FuzzAuthorization holds that no header but the right one is accepted, and that none
// makes the parser fail otherwise.
func FuzzAuthorization(f *testing.F) {
	good := get(nil, nil).Header.Get("Authorization")
	for _, seed := range []string{good, "", "AWS a:b", "AWS4-HMAC-SHA256", strings.ReplaceAll(good, ", ", ","), strings.ReplaceAll(good, ";", ";;")} {
		f.Add(seed)
	}
	v := sigv4.New(options())
	_, signature, _ := strings.Cut(good, "Signature=")
	f.Fuzz(func(t *testing.T, text string) {
		req, err := v.Verify(get(nil, set("Authorization", text)))
		if err != nil {
			if code(err) == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if req.AccessKey != accessKey || !strings.Contains(text, signature) {
			t.Fatalf("%q was accepted for %q", text, req.AccessKey)
		}
	})
}

// FuzzQuery holds the same of the query.
func FuzzQuery(f *testing.F) {
	good := request("GET", "/key?a=b", nil)
	signQuery(good, 60)
	old := request("GET", "/key?acl&x-amz-meta-a=1", nil)
	signOld(old, now.Add(time.Minute))
	for _, seed := range []string{good.URL.RawQuery, old.URL.RawQuery, "", "a;b", "%", "X-Amz-Signature=", "AWSAccessKeyId"} {
		f.Add(seed)
	}
	v := sigv4.New(options())
	f.Fuzz(func(t *testing.T, text string) {
		r := request("GET", "/key", nil)
		r.URL.RawQuery = text
		req, err := v.Verify(r)
		switch {
		case err != nil && code(err) == "":
			t.Fatalf("%q: %v", text, err)
		case err == nil && req.Version2 && (!r.URL.Query().Has("acl") || req.Amz("X-Amz-Meta-A") != "1"):
			t.Fatalf("%q was accepted by version 2", text)
		case err == nil && !req.Anonymous && !req.Version2 && r.URL.Query().Get("a") != "b":
			t.Fatalf("%q was accepted", text)
		}
	})
}

// FuzzChunks holds that a signed body gives its end only behind the content that was
// signed, and an unsigned one only behind as much as was announced.
func FuzzChunks(f *testing.F) {
	content := []byte(strings.Repeat("0123456789abcdef", 10))
	for _, body := range bodies {
		u := upload{"header", body, "trailer"}
		if u.possible() {
			_, encoded := u.build(content)
			f.Add(encoded, u.signed())
		}
	}
	f.Add([]byte("0\r\n\r\n"), false)
	v := sigv4.New(options())
	f.Fuzz(func(t *testing.T, encoded []byte, signed bool) {
		u := upload{"header", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "trailer"}
		if signed {
			u.body = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
		}
		r, _ := u.build(content)
		r.ContentLength, r.Body = -1, io.NopCloser(bytes.NewReader(encoded))
		req, err := v.Verify(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(req.Body)
		switch {
		case err != nil && code(err) == "":
			t.Fatal(err)
		case len(got) > len(content):
			t.Fatalf("%d bytes", len(got))
		case err == nil && signed && !bytes.Equal(got, content), err == nil && len(got) != len(content):
			t.Fatalf("accepted %q", got)
		}
	})
}
