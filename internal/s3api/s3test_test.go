package s3api_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/s3api"
	"penstock.dev/penstock/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keys are somebody's; without a secret a request is not signed.
type keys struct{ access, secret string }

var nobody keys

// door is an S3 door on a real socket, over a real store on a drive in memory.
type door struct {
	node      *node.Node
	authority *auth.Authority
	api       *s3api.API
	addr      string
	client    *http.Client

	root, alice, bob keys
}

func open(t testing.TB) *door { return openWith(t, nil, s3api.Options{}) }

// openWith opens a door; what wrap makes of the store is put in its place.
func openWith(t testing.TB, wrap func(node.Store) node.Store, o s3api.Options) *door {
	t.Helper()
	memory, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: fault.NewMemory(1), Name: "memory"}}})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, memory.Run)
	var kept node.Store = memory
	if wrap != nil {
		kept = wrap(kept)
	}
	control := nodetest.Control(t)
	d := &door{node: nodetest.Open(t, node.Options{Name: "test-node", Address: "127.0.0.1:1", Store: kept, Control: control})}
	d.root = keys{"root-key", "root-secret"}
	given := auth.Credentials{AccessKey: d.root.access, SecretKey: auth.Secret(d.root.secret), Token: "a-good-token"}
	if d.authority, _, err = auth.Open(context.Background(), control, auth.Options{Given: given}); err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, d.authority.Run)
	d.alice, d.bob = d.user(t, "alice"), d.user(t, "bob")
	o.Node, o.Authority = d.node, d.authority
	api, err := s3api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	d.api = api
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.addr = inner.Addr().String()
	server, transport := api.Server(), &http.Transport{DisableCompression: true}
	d.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	done := make(chan error)
	go func() { done <- server.Serve(api.Listen(inner, true)) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return d
}

func (d *door) user(t testing.TB, name string) keys {
	t.Helper()
	k := keys{name + "-key", name + "-secret"}
	if _, err := d.authority.AddUser(context.Background(), name, auth.Credentials{AccessKey: k.access, SecretKey: auth.Secret(k.secret)}); err != nil {
		t.Fatal(err)
	}
	return k
}

// answer is what a request was answered.
type answer struct {
	status int
	header http.Header
	body   string
}

// code returns the code of an error, empty if it is none.
func (a *answer) code() string {
	var e struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	if xml.Unmarshal([]byte(a.body), &e) != nil {
		return ""
	}
	return e.Code
}

// read reads the answer's document.
func (a *answer) read(t testing.TB, v any) {
	t.Helper()
	if err := xml.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// do sends a signed request; headers are "Name: value".
func (d *door) do(t testing.TB, as keys, method, target, body string, headers ...string) *answer {
	t.Helper()
	r := d.request(t, method, target, body, headers...)
	if as.secret != "" {
		if r.Header.Get("X-Amz-Content-Sha256") == "" {
			r.Header.Set("X-Amz-Content-Sha256", hexSHA(body))
		}
		signHeader(r, as)
	}
	return d.send(t, r)
}

func (d *door) request(t testing.TB, method, target, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+d.addr+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	return r
}

func (d *door) send(t testing.TB, r *http.Request) *answer {
	t.Helper()
	response, err := d.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return &answer{response.StatusCode, response.Header, string(text)}
}

// want is do, and says if the answer has another status, or its error another code.
func (d *door) want(t testing.TB, status int, code string, as keys, method, target, body string, headers ...string) *answer {
	t.Helper()
	a := d.do(t, as, method, target, body, headers...)
	if a.status != status || a.code() != code {
		t.Errorf("%s %s: %d %s, want %d %s: %.400s", method, target, a.status, a.code(), status, code, a.body)
	}
	return a
}

// ok is want of a success.
func (d *door) ok(t testing.TB, as keys, method, target, body string, headers ...string) *answer {
	t.Helper()
	a := d.do(t, as, method, target, body, headers...)
	if a.status/100 != 2 {
		t.Fatalf("%s %s: %d %.400s", method, target, a.status, a.body)
	}
	return a
}

// state describes all that the node keeps, to see that a request changed nothing.
func (d *door) state(t testing.TB) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	for _, bucket := range d.node.Buckets() {
		fmt.Fprintf(&b, "%s %+v %+v %v\n", bucket.Name, bucket.Properties, bucket.Access, bucket.Tags)
		for e, err := range d.node.Versions(ctx, bucket.Name, object.ListOptions{}, object.Version{}) {
			if err != nil {
				t.Fatal(err)
			}
			facts, ok, err := d.node.Facts(ctx, e.Info)
			fmt.Fprintf(&b, "%s %v %v %+v %v %v\n", e.Info.Name, e.Info.Version, e.Info.Marker, facts, ok, err)
		}
		for e, err := range d.node.Uploads(ctx, bucket.Name, object.ListOptions{}, object.Version{}) {
			if err != nil {
				t.Fatal(err)
			}
			u := node.Upload{Name: object.Name{Bucket: bucket.Name, Key: e.Info.Name.Key}, ID: e.Info.Name.ID}
			fmt.Fprintf(&b, "upload %s %v\n", u.Name, u.ID)
			for part, err := range d.node.Parts(ctx, u, 0, 0) {
				fmt.Fprintf(&b, "part %v %s %v\n", part.Name, part.ETag, err)
			}
		}
	}
	return b.String()
}

// What follows signs requests as clients do, in the plainest way.

const (
	region   = "us-east-1"
	dateForm = "20060102T150405Z"
	emptySHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexSHA(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func scope(date string) string { return date[:8] + "/" + region + "/s3/aws4_request" }

func (k keys) sign(date, text string) string {
	key := mac(mac(mac(mac([]byte("AWS4"+k.secret), date[:8]), region), "s3"), "aws4_request")
	return hex.EncodeToString(mac(key, text))
}

func uriEncode(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "%7E", "~")
}

func (k keys) signature(r *http.Request, headers []string, payload, date string) string {
	var q []string
	for name, values := range r.URL.Query() {
		for _, value := range values {
			if name != "X-Amz-Signature" {
				q = append(q, uriEncode(name)+"="+uriEncode(value))
			}
		}
	}
	slices.SortFunc(q, func(a, b string) int { // by name first: "=" comes behind "-"
		return strings.Compare(strings.Replace(a, "=", "\x00", 1), strings.Replace(b, "=", "\x00", 1))
	})
	lines := []string{r.Method, strings.ReplaceAll(uriEncode(r.URL.Path), "%2F", "/"), strings.Join(q, "&")}
	for _, name := range headers {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			if value = r.Host; value == "" {
				value = r.URL.Host
			}
		}
		lines = append(lines, name+":"+strings.Join(strings.Fields(value), " "))
	}
	lines = append(lines, "", strings.Join(headers, ";"), payload)
	return k.sign(date, "AWS4-HMAC-SHA256\n"+date+"\n"+scope(date)+"\n"+hexSHA(strings.Join(lines, "\n")))
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
func signHeader(r *http.Request, k keys) string {
	date := r.Header.Get("X-Amz-Date")
	if date == "" {
		date = time.Now().UTC().Format(dateForm)
		r.Header.Set("X-Amz-Date", date)
	}
	headers := toSign(r)
	s := k.signature(r, headers, r.Header.Get("X-Amz-Content-Sha256"), date)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+k.access+"/"+scope(date)+
		", SignedHeaders="+strings.Join(headers, ";")+", Signature="+s)
	return s
}

// signQuery signs a request with its query.
func signQuery(r *http.Request, k keys, made time.Time, expires int) string {
	headers, date := toSign(r), made.UTC().Format(dateForm)
	q := r.URL.Query()
	q.Set("X-Amz-Algorithm", "AWS4-HMAC-SHA256")
	q.Set("X-Amz-Credential", k.access+"/"+scope(date))
	q.Set("X-Amz-Date", date)
	q.Set("X-Amz-Expires", fmt.Sprint(expires))
	q.Set("X-Amz-SignedHeaders", strings.Join(headers, ";"))
	r.URL.RawQuery = q.Encode()
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		payload = "UNSIGNED-PAYLOAD"
	}
	s := k.signature(r, headers, payload, date)
	r.URL.RawQuery += "&X-Amz-Signature=" + s
	return s
}

// signOld signs a request with its query by version 2.
func signOld(r *http.Request, k keys, until time.Time) {
	expires := fmt.Sprint(until.Unix())
	var resource, amz []string
	for name, values := range r.URL.Query() {
		if slices.Contains([]string{"list-type", "prefix"}, name) {
			continue
		}
		if values[0] != "" {
			name += "=" + values[0]
		}
		resource = append(resource, name)
	}
	slices.Sort(resource)
	for key, values := range r.Header {
		if key = strings.ToLower(key); strings.HasPrefix(key, "x-amz-") {
			amz = append(amz, key+":"+strings.Join(values, ",")+"\n")
		}
	}
	slices.Sort(amz)
	text := strings.Join([]string{r.Method, r.Header.Get("Content-Md5"), r.Header.Get("Content-Type"), expires, strings.Join(amz, "")}, "\n")
	if bucket, inHost := strings.CutSuffix(r.Host, ".localhost"); inHost {
		text += "/" + bucket
	}
	text += r.URL.EscapedPath()
	if len(resource) > 0 {
		text += "?" + strings.Join(resource, "&")
	}
	if r.URL.RawQuery != "" {
		r.URL.RawQuery += "&"
	}
	h := hmac.New(sha1.New, []byte(k.secret))
	h.Write([]byte(text))
	r.URL.RawQuery += "AWSAccessKeyId=" + k.access + "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(h.Sum(nil))) + "&Expires=" + expires
}

// chunked encodes content in chunks of size, signed if there is a seed. The trailer is
// a line without its end, or empty; its signature follows if it is to be signed.
func (k keys) chunked(content string, size int, date, seed, trailer string, signTrailer bool) string {
	var b bytes.Buffer
	previous := seed
	chunk := func(data []byte) {
		fmt.Fprintf(&b, "%x", len(data))
		if seed != "" {
			previous = k.sign(date, "AWS4-HMAC-SHA256-PAYLOAD\n"+date+"\n"+scope(date)+"\n"+previous+"\n"+emptySHA+"\n"+hexSHA(string(data)))
			b.WriteString(";chunk-signature=" + previous)
		}
		b.WriteString("\r\n")
	}
	for data := range slices.Chunk([]byte(content), size) {
		chunk(data)
		b.Write(data)
		b.WriteString("\r\n")
	}
	chunk(nil)
	if trailer != "" {
		b.WriteString(trailer + "\r\n")
	}
	if signTrailer {
		s := k.sign(date, "AWS4-HMAC-SHA256-TRAILER\n"+date+"\n"+scope(date)+"\n"+previous+"\n"+hexSHA(trailer+"\n"))
		b.WriteString("x-amz-trailer-signature:" + s + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

func setBody(r *http.Request, body string) {
	r.ContentLength, r.Body = int64(len(body)), http.NoBody
	if body != "" {
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	r.GetBody = nil
}
