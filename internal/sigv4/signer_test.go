package sigv4_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/sigv4"
)

// The credentials and the time of AWS's published examples.
const (
	accessKey = "AKIAIOSFODNN7EXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	day       = "20130524"
	date      = "20130524T000000Z"
	region    = "us-east-1"
	scope     = day + "/" + region + "/s3/aws4_request"
	empty     = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var now = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)

func options() sigv4.Options {
	return sigv4.Options{
		Secret: func(key string) (string, bool) { return secretKey, key == accessKey },
		Bucket: func(host string) string {
			bucket, found := strings.CutSuffix(host, ".s3.amazonaws.com")
			if !found {
				return ""
			}
			return bucket
		},
		Clock: func() time.Time { return now },
	}
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexSHA(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func signText(text string) string {
	key := mac(mac(mac(mac([]byte("AWS4"+secretKey), day), region), "s3"), "aws4_request")
	return hex.EncodeToString(mac(key, text))
}

// encode is AWS's UriEncode.
func encode(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "%7E", "~")
}

// signature signs a request as a client does, in the plainest way.
func signature(r *http.Request, headers []string, payload string) string {
	var q []string
	for name, values := range r.URL.Query() {
		for _, value := range values {
			if name != "X-Amz-Signature" {
				q = append(q, encode(name)+"="+encode(value))
			}
		}
	}
	slices.Sort(q)
	lines := []string{r.Method, strings.ReplaceAll(encode(r.URL.Path), "%2F", "/"), strings.Join(q, "&")}
	for _, name := range headers {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		lines = append(lines, name+":"+strings.Join(strings.Fields(value), " "))
	}
	lines = append(lines, "", strings.Join(headers, ";"), payload)
	return signText("AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hexSHA(strings.Join(lines, "\n")))
}

func toSign(r *http.Request) []string {
	headers := []string{"host"}
	for key := range r.Header {
		if key = strings.ToLower(key); strings.HasPrefix(key, "x-amz-") || key == "range" || key == "content-md5" {
			headers = append(headers, key)
		}
	}
	slices.Sort(headers)
	return headers
}

// signHeader signs a request with an Authorization header, and returns the signature.
func signHeader(r *http.Request) string {
	r.Header.Set("X-Amz-Date", date)
	headers := toSign(r)
	s := signature(r, headers, r.Header.Get("X-Amz-Content-Sha256"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/"+scope+
		", SignedHeaders="+strings.Join(headers, ";")+", Signature="+s)
	return s
}

// signQuery signs a request with its query, and returns the signature.
func signQuery(r *http.Request, expires int) string {
	headers := toSign(r)
	q := r.URL.Query()
	q.Set("X-Amz-Algorithm", "AWS4-HMAC-SHA256")
	q.Set("X-Amz-Credential", accessKey+"/"+scope)
	q.Set("X-Amz-Date", date)
	q.Set("X-Amz-Expires", fmt.Sprint(expires))
	q.Set("X-Amz-SignedHeaders", strings.Join(headers, ";"))
	r.URL.RawQuery = q.Encode()
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		payload = q.Get("X-Amz-Content-Sha256")
	}
	if payload == "" {
		payload = "UNSIGNED-PAYLOAD"
	}
	s := signature(r, headers, payload)
	r.URL.RawQuery += "&X-Amz-Signature=" + s
	return s
}

// oldSubresources are those of the requests here.
var oldSubresources = []string{"acl", "partNumber", "response-content-type", "uploadId", "uploads", "versionId"}

// signOld signs a request with its query by version 2, and returns the signature. What
// the query has of headers is signed as if they were there.
func signOld(r *http.Request, until time.Time) string {
	expires := fmt.Sprint(until.Unix())
	headers := r.Header.Clone()
	var resource []string
	for name, values := range r.URL.Query() {
		if slices.Contains(oldSubresources, name) {
			if values[0] != "" {
				name += "=" + values[0]
			}
			resource = append(resource, name)
		} else {
			headers.Set(name, values[0])
		}
	}
	slices.Sort(resource)
	var amz []string
	for key, values := range headers {
		if key = strings.ToLower(key); strings.HasPrefix(key, "x-amz-") {
			amz = append(amz, key+":"+strings.TrimSpace(strings.Join(values, ","))+"\n")
		}
	}
	slices.Sort(amz)
	text := r.Method + "\n" + headers.Get("Content-Md5") + "\n" + headers.Get("Content-Type") + "\n" + expires + "\n" + strings.Join(amz, "")
	if bucket, inHost := strings.CutSuffix(r.Host, ".s3.amazonaws.com"); inHost {
		text += "/" + bucket
	}
	text += r.URL.EscapedPath()
	if len(resource) > 0 {
		text += "?" + strings.Join(resource, "&")
	}
	h := hmac.New(sha1.New, []byte(secretKey))
	h.Write([]byte(text))
	s := base64.StdEncoding.EncodeToString(h.Sum(nil))
	if r.URL.RawQuery != "" {
		r.URL.RawQuery += "&"
	}
	r.URL.RawQuery += "AWSAccessKeyId=" + accessKey + "&Expires=" + expires + "&Signature=" + url.QueryEscape(s)
	return s
}

// chunked encodes content in chunks, signed if there is a seed. The trailer is a line
// without its end, or empty; its signature follows if it is to be signed.
func chunked(content []byte, size int, seed, trailer string, signTrailer bool) []byte {
	var b bytes.Buffer
	previous := seed
	chunk := func(data []byte) {
		fmt.Fprintf(&b, "%x", len(data))
		if seed != "" {
			previous = signText("AWS4-HMAC-SHA256-PAYLOAD\n" + date + "\n" + scope + "\n" + previous + "\n" + empty + "\n" + hexSHA(string(data)))
			b.WriteString(";chunk-signature=" + previous)
		}
		b.WriteString("\r\n")
	}
	for data := range slices.Chunk(content, size) {
		chunk(data)
		b.Write(data)
		b.WriteString("\r\n")
	}
	chunk(nil)
	if trailer != "" {
		b.WriteString(trailer + "\r\n")
	}
	if signTrailer {
		line := ""
		if trailer != "" {
			line = trailer + "\n"
		}
		s := signText("AWS4-HMAC-SHA256-TRAILER\n" + date + "\n" + scope + "\n" + previous + "\n" + hexSHA(line))
		b.WriteString("x-amz-trailer-signature:" + s + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func request(method, target string, body []byte, headers ...string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		panic(err)
	}
	r := &http.Request{Method: method, URL: u, Host: "examplebucket.s3.amazonaws.com", Header: http.Header{}, ProtoMajor: 1, ProtoMinor: 1}
	setBody(r, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func setBody(r *http.Request, body []byte) {
	r.ContentLength, r.Body = int64(len(body)), http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
}

func code(err error) sigv4.Code {
	var e *sigv4.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// check verifies a request and reads its body: "" is for good ones.
func check(t testing.TB, v *sigv4.Verifier, r *http.Request) (content []byte, refusal sigv4.Code) {
	t.Helper()
	req, err := v.Verify(r)
	if err == nil {
		content, err = io.ReadAll(req.Body)
	}
	if err == nil {
		return content, ""
	}
	if refusal = code(err); refusal == "" {
		t.Fatalf("an error without a code: %v", err)
	}
	if strings.Contains(err.Error(), secretKey) {
		t.Errorf("the secret is in %q", err)
	}
	if req != nil {
		if algorithm, _ := req.Checksum(); algorithm != 0 || req.MD5() != nil {
			t.Errorf("a %s of content that was refused", algorithm)
		}
		if n, again := req.Body.Read(make([]byte, 1)); n != 0 || code(again) != refusal {
			t.Errorf("read again: %d bytes and %v, after %v", n, again, err)
		}
	}
	return nil, refusal
}
