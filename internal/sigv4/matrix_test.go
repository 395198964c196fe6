package sigv4_test

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/checksum"
	"penstock.dev/penstock/internal/sigv4"
)

// ways are all ways to authenticate. Each signs r and returns the signature.
var ways = map[string]func(r *http.Request) string{
	"anonymous": func(*http.Request) string { return "" },
	"header":    signHeader,
	"query":     func(r *http.Request) string { return signQuery(r, 60) },
	"version 2": func(r *http.Request) string { return signOld(r, now.Add(time.Minute)) },
}

// bodies are all forms of body; the empty one is no x-amz-content-sha256 at all.
var bodies = []string{
	"", "digest", "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
	"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
}

// proofs are what else a request may say of its content.
var proofs = []string{"", "md5", "header", "trailer"}

// upload is one cell of the matrix: how a request is made.
type upload struct{ way, body, proof string }

func (u upload) chunked() bool { return strings.HasPrefix(u.body, "STREAMING") }
func (u upload) signed() bool  { return strings.Contains(u.body, "HMAC") }

// possible reports whether there are such requests.
func (u upload) possible() bool {
	switch {
	case (u.way == "anonymous" || u.way == "version 2") && u.signed(), u.way == "header" && u.body == "":
		return false
	case u.proof == "trailer":
		return strings.HasSuffix(u.body, "-TRAILER")
	}
	return true
}

// proven reports whether changed content must be found.
func (u upload) proven() bool { return u.proof != "" || u.body == "digest" || u.signed() }

// build makes the request and returns its body too.
func (u upload) build(content []byte) (*http.Request, []byte) { return u.buildIn(content, 64) }

func (u upload) buildIn(content []byte, chunk int) (*http.Request, []byte) {
	sum := checksum.CRC32.New()
	sum.Write(content)
	crc := checksum.Encode(sum.Sum(nil))
	r := request("PUT", "/a//b/../c%20d?partNumber=1&uploadId=x", nil)
	switch u.body {
	case "":
	case "digest":
		r.Header.Set("X-Amz-Content-Sha256", hexSHA(string(content)))
	default:
		r.Header.Set("X-Amz-Content-Sha256", u.body)
	}
	trailer := ""
	switch u.proof {
	case "md5":
		sum := md5.Sum(content)
		r.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
	case "header":
		r.Header.Set("X-Amz-Checksum-Crc32", crc)
	case "trailer":
		r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
		trailer = "x-amz-checksum-crc32:" + crc
	}
	if u.chunked() {
		r.Header.Set("X-Amz-Decoded-Content-Length", fmt.Sprint(len(content)))
	}
	seed := ways[u.way](r)
	if !u.signed() {
		seed = ""
	}
	if u.chunked() {
		content = chunked(content, chunk, seed, trailer, u.signed() && strings.HasSuffix(u.body, "-TRAILER"))
	}
	setBody(r, content)
	return r, content
}

// essence is a body without what clients differ in: blank lines and line ends in the
// trailer, the case of its names.
func (u upload) essence(body []byte) string {
	text := string(body)
	end := strings.LastIndex(text, "\r\n0")
	if !u.chunked() || end < 0 {
		return text
	}
	var lines []string
	for line := range strings.Lines(text[end+2:]) {
		if !strings.HasSuffix(line, "\n") {
			lines = append(lines, "not a line")
		}
		if line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"); line != "" {
			name, value, _ := strings.Cut(line, ":")
			lines = append(lines, strings.ToLower(name)+":"+strings.Trim(value, " "))
		}
	}
	return text[:end+2] + strings.Join(lines, "\n")
}

func uploads(yield func(upload) bool) {
	for way := range ways {
		for _, body := range bodies {
			for _, proof := range proofs {
				if !yield(upload{way, body, proof}) {
					return
				}
			}
		}
	}
}

// TestMatrix goes through every way to authenticate, every form of body and every
// damage, and holds that the end of a body is given only for the content that was
// sent.
func TestMatrix(t *testing.T) {
	v := sigv4.New(options())
	content := []byte(strings.Repeat("0123456789abcdef", 5))
	for u := range uploads {
		if !u.possible() {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%s", u.way, u.body, u.proof), func(t *testing.T) {
			r, body := u.build(content)
			if got, refusal := check(t, v, r); refusal != "" || !bytes.Equal(got, content) {
				t.Fatalf("the good one: %q, %d bytes", refusal, len(got))
			}
			u.wrongSignature(t, v, content)
			// The damage is done under the length of the good body, under none, and
			// under its own.
			for _, length := range []int64{int64(len(body)), -1, -2} {
				damage := func(what string, at int, damaged []byte) {
					r := *r
					r.ContentLength, r.Body = int64(len(damaged)), io.NopCloser(bytes.NewReader(damaged))
					if length > -2 {
						r.ContentLength = length
					}
					got, refusal := check(t, v, &r)
					if refusal != "" {
						return
					}
					unseen := !u.proven() && (len(got) == len(content) || !u.chunked() && length < 0)
					if !unseen && (!bytes.Equal(got, content) || u.essence(damaged) != u.essence(body)) {
						t.Errorf("%s at %d, length %d: accepted %q", what, at, length, damaged)
					}
					if length >= 0 && len(damaged) != len(body) {
						t.Errorf("%s at %d: accepted %d bytes for %d", what, at, len(damaged), length)
					}
				}
				for i := range body {
					damage("cut", i, body[:i])
					for _, bit := range []byte{1, 0x20} {
						flipped := slices.Clone(body)
						flipped[i] ^= bit
						damage("flip", i, flipped)
					}
					if i%7 == 0 {
						damage("inserted", i, slices.Insert(slices.Clone(body), i, 'x'))
						damage("left out", i, slices.Delete(slices.Clone(body), i, i+1))
					}
				}
				for _, more := range []string{"x", "\r\nx", "0\r\n\r\n", "x-amz-checksum-crc32:AAAAAA==\r\n", string(body)} {
					damage("extended by "+more, len(body), append(slices.Clone(body), more...))
				}
			}
		})
	}
}

// wrongSignature holds that a signature with one digit changed is refused.
func (u upload) wrongSignature(t *testing.T, v *sigv4.Verifier, content []byte) {
	t.Helper()
	other := func(s string) string {
		last := byte('0')
		if s[len(s)-1] == '0' {
			last = '1'
		}
		return s[:len(s)-1] + string(last)
	}
	r, _ := u.build(content)
	switch u.way {
	case "header":
		r.Header.Set("Authorization", other(r.Header.Get("Authorization")))
	case "query":
		r.URL.RawQuery = other(r.URL.RawQuery)
	case "version 2":
		query, signature, _ := strings.Cut(r.URL.RawQuery, "&Signature=")
		r.URL.RawQuery = query + "&Signature=" + other(signature[:1]) + signature[1:]
	default:
		return
	}
	if _, err := v.Verify(r); code(err) != sigv4.SignatureDoesNotMatch {
		t.Errorf("a wrong signature: %v", err)
	}
	// What was signed is changed under the signature.
	for what, change := range map[string]func(r *http.Request){
		"method":     func(r *http.Request) { r.Method = "DELETE" },
		"path":       func(r *http.Request) { r.URL.Path = "/a/b/../c d" },
		"query":      func(r *http.Request) { r.URL.RawQuery += "&acl" },
		"host":       func(r *http.Request) { r.Host = "other" },
		"header":     func(r *http.Request) { r.Header.Add("X-Amz-Acl", "public-read") },
		"form":       func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER") },
		"plain form": func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") },
	} {
		r, _ := u.build(content)
		old := r.Header.Get("X-Amz-Content-Sha256")
		change(r)
		if strings.HasSuffix(what, "form") && r.Header.Get("X-Amz-Content-Sha256") == old {
			continue
		}
		if _, err := v.Verify(r); code(err).Status() != http.StatusForbidden {
			t.Errorf("%s changed: %v", what, err)
		}
	}
}

// TestImpossible holds that what cannot be is refused before the body is read.
func TestImpossible(t *testing.T) {
	v := sigv4.New(options())
	for u := range uploads {
		if u.possible() {
			continue
		}
		r, _ := u.build([]byte("content"))
		if _, err := v.Verify(r); err == nil {
			t.Errorf("%+v was accepted", u)
		}
	}
}

// TestServer sends every good upload through net/http, with and without a length.
func TestServer(t *testing.T) {
	v := sigv4.New(options())
	content := []byte(strings.Repeat("content ", 1000))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := v.Verify(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, content) {
			http.Error(w, fmt.Sprint(len(got), err), http.StatusBadRequest)
		}
	}))
	defer server.Close()
	for u := range uploads {
		if !u.possible() {
			continue
		}
		for _, length := range []bool{true, false} {
			r, _ := u.build(content)
			if !length {
				r.ContentLength = -1
			}
			r.URL.Scheme, r.URL.Host = "http", server.Listener.Addr().String()
			answer, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%+v: %s", u, text)
			}
		}
	}
}
