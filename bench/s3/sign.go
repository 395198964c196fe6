package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	accessKey = "bench-access-key"
	secretKey = "bench-secret-key-of-no-worth"
	region    = "us-east-1"
	unsigned  = "UNSIGNED-PAYLOAD"
	trailer   = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	nothing   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// field is a header.
type field struct{ name, value string }

// request is what is asked of a server. Names of headers are in lower case; those that
// begin with x-amz- are signed. Paths and queries are encoded already, and queries
// sorted.
type request struct {
	method, path, query string
	payload             string // x-amz-content-sha256; empty for a request that is not signed
	length              int64  // of the body; -1 for none
	fields              []field
}

// signer writes requests of one key pair to one host. It belongs to one goroutine.
type signer struct {
	host string
	day  string
	key  []byte
	text []byte
	all  []field
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (s *signer) scope(now string) string {
	if s.day != now[:8] {
		s.day = now[:8]
		s.key = mac(mac(mac(mac([]byte("AWS4"+secretKey), s.day), region), "s3"), "aws4_request")
	}
	return s.day + "/" + region + "/s3/aws4_request"
}

const dateForm = "20060102T150405Z"

// append appends the head of a request.
func (s *signer) append(b []byte, r *request) []byte {
	s.all = append(s.all[:0], field{"host", s.host})
	s.all = append(s.all, r.fields...)
	now := time.Now().UTC().Format(dateForm)
	if r.payload != "" {
		s.all = append(s.all, field{"x-amz-content-sha256", r.payload}, field{"x-amz-date", now})
		slices.SortFunc(s.all, func(a, b field) int { return strings.Compare(a.name, b.name) })
	}
	b = append(b, r.method...)
	b = append(b, ' ')
	b = append(b, r.path...)
	if r.query != "" {
		b = append(append(b, '?'), r.query...)
	}
	b = append(b, " HTTP/1.1\r\n"...)
	for _, f := range s.all {
		b = append(append(append(append(b, f.name...), ": "...), f.value...), "\r\n"...)
	}
	if r.length >= 0 {
		b = append(strconv.AppendInt(append(b, "content-length: "...), r.length, 10), "\r\n"...)
	}
	if r.payload != "" {
		scope := s.scope(now)
		names, signature := s.sign(r.method, r.path, r.query, r.payload, now, scope)
		b = append(b, "authorization: AWS4-HMAC-SHA256 Credential="+accessKey+"/"...)
		b = append(append(append(b, scope...), ", SignedHeaders="...), names...)
		b = append(append(append(b, ", Signature="...), signature...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// sign returns the names of the headers that are signed, of s.all, and the signature.
func (s *signer) sign(method, path, query, payload, now, scope string) (names, signature string) {
	t := append(s.text[:0], method...)
	t = append(append(t, '\n'), path...)
	t = append(append(t, '\n'), query...)
	t = append(t, '\n')
	list := make([]byte, 0, 128)
	for _, f := range s.all {
		if f.name != "host" && !strings.HasPrefix(f.name, "x-amz-") {
			continue
		}
		t = append(append(append(append(t, f.name...), ':'), f.value...), '\n')
		if len(list) > 0 {
			list = append(list, ';')
		}
		list = append(list, f.name...)
	}
	t = append(append(append(append(t, '\n'), list...), '\n'), payload...)
	sum := sha256.Sum256(t)
	t = append(append(append(append(t[:0], "AWS4-HMAC-SHA256\n"...), now...), '\n'), scope...)
	s.text = hex.AppendEncode(append(t, '\n'), sum[:])
	return string(list), hex.EncodeToString(mac(s.key, string(s.text)))
}

// presign returns the query by which anybody may get a path.
func (s *signer) presign(path string) string {
	now := time.Now().UTC().Format(dateForm)
	scope := s.scope(now)
	query := fmt.Sprintf("X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=%s&X-Amz-Date=%s&X-Amz-Expires=86400&X-Amz-SignedHeaders=host",
		url.QueryEscape(accessKey+"/"+scope), now)
	s.all = append(s.all[:0], field{"host", s.host})
	_, signature := s.sign("GET", path, query, unsigned, now, scope)
	return query + "&X-Amz-Signature=" + signature
}
