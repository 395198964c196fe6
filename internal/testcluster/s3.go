package testcluster

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// S3 is a client of a node's S3 door that hides nothing: it asks once, signs as it is
// told, and sends what it is given. It may be used concurrently.
type S3 struct {
	Endpoint  string // http://host:port
	AccessKey string
	SecretKey string

	HTTP http.Client
}

// S3Body is a way in which a body can be signed.
type S3Body int

// The ways in which clients sign bodies.
const (
	S3Signed   S3Body = iota // its SHA-256 is part of the signature
	S3Unsigned               // UNSIGNED-PAYLOAD
	S3Chunked                // aws-chunked, each chunk signed
	S3Trailer                // aws-chunked, unsigned, with a CRC32 behind it
	s3Bodies
)

// S3Bodies is the number of these ways.
const S3Bodies = int(s3Bodies)

// S3Request is one request. Only Method must be given.
type S3Request struct {
	Method string
	Bucket string
	Key    string
	Query  url.Values
	Header http.Header
	Body   []byte
	How    S3Body
}

// S3Answer is what it was answered. An error of S3 is an answer.
type S3Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code is the code of an error, empty if it is none.
func (a *S3Answer) Code() string {
	var e struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	if a.Status < 300 || xml.Unmarshal(a.Body, &e) != nil {
		return ""
	}
	return e.Code
}

// ETag is the ETag of the header, without its quotes.
func (a *S3Answer) ETag() string { return strings.Trim(a.Header.Get("Etag"), `"`) }

// VersionID is that of the header, empty if there is none.
func (a *S3Answer) VersionID() string { return a.Header.Get("X-Amz-Version-Id") }

func (a *S3Answer) String() string {
	return fmt.Sprintf("%d %s %.300s", a.Status, a.Code(), a.Body)
}

// Do sends a request and reads the whole answer.
func (c *S3) Do(ctx context.Context, r S3Request) (*S3Answer, error) {
	request, err := c.Request(ctx, r)
	if err != nil {
		return nil, err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &S3Answer{response.StatusCode, response.Header, body}, nil
}

// Request returns the signed request, for those who want to send it in their own way.
func (c *S3) Request(ctx context.Context, r S3Request) (*http.Request, error) {
	path := "/" + r.Bucket
	if r.Key != "" {
		path += "/" + r.Key
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, c.Endpoint, nil)
	if err != nil {
		return nil, err
	}
	request.URL.Path, request.URL.RawPath = path, S3Escape(path, true)
	request.URL.RawQuery = canonicalQuery(r.Query)
	for key, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(key)] = values
	}
	date := time.Now().UTC().Format("20060102T150405Z")
	request.Header.Set("X-Amz-Date", date)
	payload := hexSHA256(r.Body)
	switch r.How {
	case S3Unsigned:
		payload = "UNSIGNED-PAYLOAD"
	case S3Chunked:
		payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	case S3Trailer:
		payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
		request.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
	}
	if r.How == S3Chunked || r.How == S3Trailer {
		request.Header.Set("X-Amz-Decoded-Content-Length", strconv.Itoa(len(r.Body)))
		request.Header.Set("Content-Encoding", "aws-chunked")
	}
	request.Header.Set("X-Amz-Content-Sha256", payload)
	s := signer{key: c.key(date), date: date}
	seed := s.request(request, c.AccessKey, payload)
	body := r.Body
	switch r.How {
	case S3Chunked:
		body = s.chunks(r.Body, seed, "")
	case S3Trailer:
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(r.Body))
		body = s.chunks(r.Body, "", "x-amz-checksum-crc32:"+base64.StdEncoding.EncodeToString(sum))
	}
	request.Body, request.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	return request, nil
}

const s3Scope = "/us-east-1/s3/aws4_request"

func (c *S3) key(date string) []byte {
	return mac(mac(mac(mac([]byte("AWS4"+c.SecretKey), date[:8]), "us-east-1"), "s3"), "aws4_request")
}

// signer signs what belongs to one request.
type signer struct {
	key  []byte
	date string
}

func (s signer) sign(kind, text string) string {
	return hex.EncodeToString(mac(s.key, kind+"\n"+s.date+"\n"+s.date[:8]+s3Scope+"\n"+text))
}

// request adds the signature of a request to it, and returns it.
func (s signer) request(r *http.Request, accessKey, payload string) string {
	names := []string{"host"}
	for name := range r.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	lines := []string{r.Method, r.URL.RawPath, r.URL.RawQuery}
	for _, name := range names {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = r.URL.Host
		}
		lines = append(lines, name+":"+strings.Join(strings.Fields(value), " "))
	}
	signed := strings.Join(names, ";")
	lines = append(lines, "", signed, payload)
	signature := s.sign("AWS4-HMAC-SHA256", hexSHA256([]byte(strings.Join(lines, "\n"))))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/"+s.date[:8]+s3Scope+
		", SignedHeaders="+signed+", Signature="+signature)
	return signature
}

// chunks encodes content, signed if there is a seed, with a trailer if there is one.
func (s signer) chunks(content []byte, seed, trailer string) []byte {
	const size = 64 << 10
	b := bytes.NewBuffer(make([]byte, 0, len(content)+len(content)/500+512))
	previous, nothing := seed, hexSHA256(nil)
	head := func(data []byte) {
		fmt.Fprintf(b, "%x", len(data))
		if seed != "" {
			previous = s.sign("AWS4-HMAC-SHA256-PAYLOAD", previous+"\n"+nothing+"\n"+hexSHA256(data))
			b.WriteString(";chunk-signature=" + previous)
		}
		b.WriteString("\r\n")
	}
	for data := range slices.Chunk(content, size) {
		head(data)
		b.Write(data)
		b.WriteString("\r\n")
	}
	head(nil)
	if trailer != "" {
		b.WriteString(trailer + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func canonicalQuery(query url.Values) string {
	var all []string
	for name, values := range query {
		for _, value := range values {
			all = append(all, S3Escape(name, false)+"\x00"+S3Escape(value, false))
		}
	}
	slices.Sort(all)
	return strings.ReplaceAll(strings.Join(all, "&"), "\x00", "=")
}

// S3Escape writes a path, or another text, as S3 wants it signed: every byte that is
// not unreserved as %XX.
func S3Escape(s string, path bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0, c == '/' && path:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
