package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/testcluster"
)

// s3Bad is a node whose S3 door gets what no good client would send.
type s3Bad struct {
	testing.TB
	node   *testcluster.Node
	client *testcluster.S3
}

// newS3Bad starts a node with a bucket that keeps versions, an object and an upload.
func newS3Bad(t *testing.T, args ...string) (s *s3Bad, uploadID string) {
	t.Helper()
	s = &s3Bad{TB: t}
	s.node, s.client = startS3(t, []string{dataDir(t)}, append(small, args...)...)
	mustS3(t, s.client, 200, testcluster.S3Request{Method: "PUT", Bucket: "bad"})
	mustS3(t, s.client, 200, testcluster.S3Request{
		Method: "PUT", Bucket: "bad", Query: url.Values{"versioning": {""}},
		Body: []byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
	})
	mustS3(t, s.client, 200, testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: "good", Body: []byte("good")})
	a := mustS3(t, s.client, 200, testcluster.S3Request{Method: "POST", Bucket: "bad", Key: "upload", Query: url.Values{"uploads": {""}}})
	var begun struct{ UploadId string }
	if err := xml.Unmarshal(a.Body, &begun); err != nil {
		t.Fatal(err)
	}
	return s, begun.UploadId
}

// state is all that clients can see of the bucket.
func (s *s3Bad) state() string {
	s.Helper()
	var all strings.Builder
	for _, query := range []string{"versions", "uploads", "versioning", "acl"} {
		a := mustS3(s, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Query: url.Values{query: {""}}})
		all.Write(a.Body)
	}
	a := mustS3(s, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "good", Query: url.Values{"tagging": {""}}})
	all.Write(a.Body)
	return all.String()
}

// unchanged runs f and wants the bucket to be as before.
func (s *s3Bad) unchanged(what string, f func()) {
	s.Helper()
	before := s.state()
	f()
	if after := s.state(); after != before {
		s.Errorf("%s has changed\n%s\ninto\n%s", what, before, after)
	}
}

// memory returns what the node uses, in MiB.
func (s *s3Bad) memory() int {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.node.Pid()))
	if err != nil {
		s.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		s.Fatal(err)
	}
	return kib >> 10
}

// send sends the head of a request with another length, and as much of a body; then,
// if it is to, it says that there is no more. It returns what was answered, nil if
// nothing was.
func (s *s3Bad) send(r testcluster.S3Request, length string, body []byte, end bool) *testcluster.S3Answer {
	s.Helper()
	request, err := s.client.Request(s.Context(), r)
	if err != nil {
		s.Fatal(err)
	}
	c, err := net.Dial("tcp", request.URL.Host)
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	c.Write(append(head(request, length), body...))
	if end {
		c.(*net.TCPConn).CloseWrite()
	}
	response, err := http.ReadResponse(bufio.NewReader(c), request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return &testcluster.S3Answer{Status: response.StatusCode, Header: response.Header, Body: text}
}

// head is the head of a request as it goes over the wire. The length is the whole line,
// or lines, that tell it.
func head(r *http.Request, length string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n%s", r.Method, r.URL.RequestURI(), r.URL.Host, length)
	r.Header.Write(&b)
	b.WriteString("\r\n")
	return b.Bytes()
}

func TestS3BadXML(t *testing.T) {
	s, id := newS3Bad(t)
	routes := []struct {
		name string
		r    testcluster.S3Request
		root string
		one  string // an element that may be there many times
	}{
		{"delete", testcluster.S3Request{Method: "POST", Bucket: "bad", Query: url.Values{"delete": {""}}}, "Delete", "<Object><Key>%d</Key></Object>"},
		{"complete", testcluster.S3Request{Method: "POST", Bucket: "bad", Key: "upload", Query: url.Values{"uploadId": {id}}}, "CompleteMultipartUpload", "<Part><PartNumber>%d</PartNumber><ETag>x</ETag></Part>"},
		{"tagging", testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: "good", Query: url.Values{"tagging": {""}}}, "Tagging", "<TagSet><Tag><Key>%d</Key><Value>v</Value></Tag></TagSet>"},
		{"versioning", testcluster.S3Request{Method: "PUT", Bucket: "bad", Query: url.Values{"versioning": {""}}}, "VersioningConfiguration", "<Status>%d</Status>"},
		{"acl", testcluster.S3Request{Method: "PUT", Bucket: "bad", Query: url.Values{"acl": {""}}}, "AccessControlPolicy", "<AccessControlList>%d</AccessControlList>"},
		{"object acl", testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: "good", Query: url.Values{"acl": {""}}}, "AccessControlPolicy", "<AccessControlList>%d</AccessControlList>"},
		{"create", testcluster.S3Request{Method: "PUT", Bucket: "badder"}, "CreateBucketConfiguration", "<LocationConstraint>%d</LocationConstraint>"},
		{"policy", testcluster.S3Request{Method: "PUT", Bucket: "bad", Query: url.Values{"policy": {""}}}, "Policy", "<Statement>%d</Statement>"},
		{"cors", testcluster.S3Request{Method: "PUT", Bucket: "bad", Query: url.Values{"cors": {""}}}, "CORSConfiguration", "<CORSRule>%d</CORSRule>"},
	}
	many := func(one string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, one, i)
		}
		return b.String()
	}
	const laughs = `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]>`
	before := s.memory()
	for _, route := range routes {
		open, end := "<"+route.root+">", "</"+route.root+">"
		documents := map[string]string{
			"nothing":           "",
			"spaces":            strings.Repeat(" ", 1000),
			"garbage":           "\x00\x01\xff\xfe<<<>>>&&&",
			"not UTF-8":         open + "\xff\xc0" + end,
			"entities":          laughs + open + many(route.one, 1) + "&d;" + end,
			"external entity":   `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>` + open + "&e;" + end,
			"unknown entity":    open + "&e;" + end,
			"instruction":       `<?php system("id") ?>` + open + many(route.one, 1) + end,
			"deep":              open + strings.Repeat("<a>", 20000) + strings.Repeat("</a>", 20000) + end,
			"deep and open":     open + strings.Repeat("<a>", 100000),
			"cut off":           open + many(route.one, 3)[:20],
			"wrong end":         open + many(route.one, 1) + "</Other>",
			"another root":      "<Other>" + many(route.one, 1) + "</Other>",
			"attributes":        "<" + route.root + strings.Repeat(` a="b"`, 50000) + ">" + end,
			"long name":         "<" + strings.Repeat("a", 1<<20) + "/>",
			"long text":         open + strings.Repeat("a", 20<<20) + end,
			"comments":          strings.Repeat("<!-- -->", 1<<20) + open,
			"many":              open + many(route.one, 200000) + end,
			"encoding":          `<?xml version="1.0" encoding="UTF-16"?>` + open + many(route.one, 1) + end,
			"character":         open + "&#x0;&#xFFFFFFFF;" + end,
			"cdata":             open + "<![CDATA[" + strings.Repeat("]]", 100000) + end,
			"deep JSON":         strings.Repeat("[", 1<<20),
			"deeper JSON":       strings.Repeat(`{"Statement":`, 100000),
			"long JSON":         `{"Version":"` + strings.Repeat("a", 20<<20) + `"}`,
			"numbers":           open + strings.Replace(many(route.one, 1), "0", strings.Repeat("9", 10000), 1) + end,
			"billion namespace": "<" + route.root + strings.Repeat(` xmlns:a="b"`, 30000) + ">" + end,
		}
		s.unchanged(route.name, func() {
			for name, text := range documents {
				r := route.r
				r.Body = []byte(text)
				sum, _ := hex.DecodeString(hexMD5(r.Body))
				r.Header = http.Header{"Content-Md5": {base64.StdEncoding.EncodeToString(sum)}}
				switch a, err := s.client.Do(t.Context(), r); {
				case err != nil && len(text) < 64<<10: // a long one may be cut off while it is sent
					t.Errorf("%s, %s: %v", route.name, name, err)
				case err != nil:
				case a.Status == 200 && route.name == "delete" && name == "numbers", // a long key: each item is answered
					a.Status == 200 && route.name == "create" && strings.TrimSpace(text) == "": // it need not say where
				case (a.Status < 400 || a.Status >= 500) && a.Status != http.StatusNotImplemented, a.Code() == "":
					t.Errorf("%s, %s: %s", route.name, name, a)
				}
			}
		})
	}
	if now := s.memory(); now > before+256 {
		t.Errorf("the node uses %d MiB, and used %d before", now, before)
	} else {
		t.Logf("%d documents; the node uses %d MiB, and used %d before", len(routes)*26, now, before)
	}
}

func TestS3WrongLengths(t *testing.T) {
	s, id := newS3Bad(t, "--pace", "2s", "--header-timeout", "2s")
	data := state{Of: "x", Number: 1, Size: 200 << 10}.bytes()
	targets := map[string]testcluster.S3Request{
		"put":  {Method: "PUT", Bucket: "bad", Key: "short"},
		"good": {Method: "PUT", Bucket: "bad", Key: "good"},
		"part": {Method: "PUT", Bucket: "bad", Key: "upload", Query: url.Values{"uploadId": {id}, "partNumber": {"1"}}},
	}
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	sent := 0
	for name, r := range targets {
		r.Body = data
		s.unchanged(name, func() {
			for how := range testcluster.S3Bodies {
				r.How = testcluster.S3Body(how)
				request, err := s.client.Request(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(request.Body)
				wrong := []struct {
					what   string
					length string
					body   []byte
				}{
					{"cut off early", length(len(body)), body[:100]},
					{"cut off in the middle", length(len(body)), body[:len(body)/2]},
					{"cut off before the last byte", length(len(body)), body[:len(body)-1]},
					{"longer than said", length(len(body) + 1), body},
					{"no body", length(len(body)), nil},
					{"shorter length", length(len(body) - 1), body},
					{"zero length", length(0), body},
					{"negative", "Content-Length: -5\r\n", body},
					{"no number", "Content-Length: many\r\n", body},
					{"two lengths", length(len(body)) + length(len(body)-1), body},
					{"length and chunks", length(len(body)) + "Transfer-Encoding: chunked\r\n", body},
					{"bad chunks", "Transfer-Encoding: chunked\r\n", []byte("zz\r\nabc")},
					{"cut off chunks", "Transfer-Encoding: chunked\r\n", append([]byte("1000\r\n"), body[:1000]...)},
					{"a huge chunk", "Transfer-Encoding: chunked\r\n", []byte("ffffffffffffffff\r\nabc")},
					{"too much", "Content-Length: 99999999999999999999999\r\n", body},
				}
				for _, w := range wrong {
					if r.How == testcluster.S3Unsigned && strings.Contains("shorter length, zero length", w.what) {
						continue // nobody could tell
					}
					sent++
					a := s.send(r, w.length, w.body, true)
					if a != nil && (a.Status < 400 || a.Status >= 500) && a.Status != 501 {
						t.Errorf("%s, form %d, %s: %s", name, how, w.what, a)
					}
				}
			}
		})
	}
	t.Logf("%d requests", sent)
	mustS3(t, s.client, 404, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "short"})
}

// TestS3SlowClients lets many send their bodies, and heads, a byte at a time. They are
// thrown out; others do not notice them.
func TestS3SlowClients(t *testing.T) {
	s, id := newS3Bad(t, "--pace", "1s", "--header-timeout", "1s")
	before := s.memory()
	s.unchanged("slow clients", func() {
		var all sync.WaitGroup
		begin := time.Now()
		longest := make(chan time.Duration, 100)
		for i := range 60 {
			r := testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: "slow", Body: make([]byte, 100<<10), How: testcluster.S3Body(i % testcluster.S3Bodies)}
			if i%3 == 1 {
				r.Key, r.Query = "upload", url.Values{"uploadId": {id}, "partNumber": {"1"}}
			}
			request, err := s.client.Request(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			text := head(request, "Content-Length: 102400\r\n")
			if i%3 == 2 {
				text = text[:40] // not even its head
			}
			all.Go(func() {
				c, err := net.Dial("tcp", request.URL.Host)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.Write(text)
				for time.Since(begin) < 20*time.Second {
					if _, err := c.Write([]byte("x")); err != nil {
						break
					}
					time.Sleep(100 * time.Millisecond) // that is slow
				}
				longest <- time.Since(begin)
			})
		}
		for range 50 {
			mustS3(t, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "good"})
		}
		all.Wait()
		close(longest)
		var most time.Duration
		for d := range longest {
			most = max(most, d)
		}
		if most > 15*time.Second {
			t.Errorf("a slow client was borne for %v", most)
		}
		t.Logf("60 slow clients; the last was thrown out after %v", most)
	})
	if now := s.memory(); now > before+64 {
		t.Errorf("the node uses %d MiB, and used %d before", now, before)
	}
}

// TestS3SlowReaders lets many ask for a large object and not read it.
func TestS3SlowReaders(t *testing.T) {
	s, _ := newS3Bad(t, "--pace", "1s", "--header-timeout", "1s")
	mustS3(t, s.client, 200, testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: "large", Body: make([]byte, 32<<20)})
	before := s.memory()
	for range 40 {
		request, err := s.client.Request(t.Context(), testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "large"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", request.URL.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write(head(request, ""))
		if _, err := io.ReadFull(c, make([]byte, 12)); err != nil { // it has begun, and no more is read
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for s.connections() > 20 {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%d connections of clients that do not read are still open", s.connections())
		}
		mustS3(t, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "good"})
		time.Sleep(50 * time.Millisecond) // there is no event for it
	}
	if now := s.memory(); now > before+64 {
		t.Errorf("the node uses %d MiB, and used %d before", now, before)
	}
	t.Logf("40 clients that do not read; they were thrown out after %v", time.Since(begin))
}

// TestS3RefusedEarly sends large bodies that are refused before they are read. The
// client must hear why, and not only that the connection was reset.
func TestS3RefusedEarly(t *testing.T) {
	s, _ := newS3Bad(t)
	reset := 0
	const all = 50
	for i := range all {
		r := testcluster.S3Request{Method: "PUT", Bucket: "nowhere", Key: "large", Body: make([]byte, 20<<20), How: testcluster.S3Body(i % testcluster.S3Bodies)}
		switch a, err := s.client.Do(t.Context(), r); {
		case err != nil:
			reset++
		case a.Status != 404:
			t.Errorf("%s", a)
		}
	}
	if reset > 0 {
		t.Errorf("%d of %d were not answered", reset, all)
	}
}

// TestS3Gone leaves in the middle of writes.
func TestS3Gone(t *testing.T) {
	random := newRandom(t)
	s, id := newS3Bad(t)
	s.unchanged("clients that left", func() {
		var before int
		rounds := setting(t, "S3_GONE", 150)
		for i := range rounds {
			if i == rounds/3 {
				before = s.memory()
			}
			size := int64(1 + random.IntN(64<<10))
			if i%3 == 0 {
				size = int64(4<<20 + random.IntN(4<<20))
			}
			r := testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: fmt.Sprintf("gone%d", i), Body: state{Of: "gone", Number: i, Size: size}.bytes(), How: testcluster.S3Body(random.IntN(testcluster.S3Bodies))}
			if i%2 == 1 {
				r.Key, r.Query = "upload", url.Values{"uploadId": {id}, "partNumber": {strconv.Itoa(1 + i%5)}}
			}
			request, err := s.client.Request(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(request.Body)
			c, err := net.Dial("tcp", request.URL.Host)
			if err != nil {
				t.Fatal(err)
			}
			c.Write(head(request, fmt.Sprintf("Content-Length: %d\r\n", len(body))))
			c.Write(body[:random.IntN(len(body))])
			if i%5 == 0 {
				c.(*net.TCPConn).SetLinger(0) // a reset
			}
			c.Close()
		}
		if now := s.memory(); now > before+96 {
			t.Errorf("the node uses %d MiB, and used %d after a third", now, before)
		}
	})
	mustS3(t, s.client, 204, testcluster.S3Request{Method: "DELETE", Bucket: "bad", Key: "upload", Query: url.Values{"uploadId": {id}}})
	for range 100 { // the node may still be reading what was sent
		if left := measure(t, s.node.Data()[0]); left.blobs == 0 && len(left.temporary) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // there is no event for it
	}
	left := measure(t, s.node.Data()[0])
	t.Errorf("%d blobs are left, and %v", left.blobs, left.temporary)
}

func TestS3OddNames(t *testing.T) {
	s, _ := newS3Bad(t)
	names := []string{
		".", "..", "../..", "a/../b", "./a", "/", "//", "///a", "a//b", "a/", "/a", "a/.", "a/..", " ", "  ", " a ", "+", "a+b", "a b", "%", "%2F", "%00", "%25", "a%2Fb",
		"?", "?versionId=null", "a?b=c", "&", "a&b", "=", "#", "a#b", ";", ":", "@", "!", "$", "'", `"`, "*", "(", ")", "[", "]", "{", "}", "|", `\`, "^", "`", "~", "<a>", "&amp;", "]]>",
		"\x00", "a\x00b", "\x01", "a\tb", "a\nb", "a\rb", "\x7f", "a\x1bb", "\u0085", "\u2028", "\u200b", "\ufeff", "\ufffd", "\ufffe", "\U0001f600", "e\u0301", "\u00e9", "\u202e", "日本語", "Ω", "مرحبا",
		"\u0378", "\ue000", "\U0010ffff", strings.Repeat("a", 1024), strings.Repeat("é", 512), strings.Repeat("a/", 512), strings.Repeat("../", 341), "uploads", "policy", "?uploads", "con", "aux.txt", "-rf", "CON", "a.tar/b",
	}
	for i, name := range names {
		body := fmt.Appendf(nil, "content of %d", i)
		r := testcluster.S3Request{Bucket: "bad", Key: name}
		r.Method, r.Body = "PUT", body
		put := mustS3(t, s.client, 200, r)
		r.Method, r.Body = "GET", nil
		if a := mustS3(t, s.client, 200, r); !bytes.Equal(a.Body, body) {
			t.Errorf("%q holds %q", name, a.Body)
		}
		r.Method = "HEAD"
		if a := mustS3(t, s.client, 200, r); a.VersionID() != put.VersionID() {
			t.Errorf("%q has version %s, not %s", name, a.VersionID(), put.VersionID())
		}
		copied := testcluster.S3Request{Method: "PUT", Bucket: "bad", Key: "copy of odd", Header: http.Header{"X-Amz-Copy-Source": {"bad/" + testcluster.S3Escape(name, true)}}}
		mustS3(t, s.client, 200, copied)
		if a := mustS3(t, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "copy of odd"}); !bytes.Equal(a.Body, body) {
			t.Errorf("the copy of %q holds %q", name, a.Body)
		}
		list := mustS3(t, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Query: url.Values{"list-type": {"2"}, "prefix": {name}, "max-keys": {"1"}, "encoding-type": {"url"}}})
		var found struct{ Contents []struct{ Key string } }
		if err := xml.Unmarshal(list.Body, &found); err != nil || len(found.Contents) != 1 {
			t.Errorf("%q is listed as %s, %v", name, list, err)
		} else if key, err := url.PathUnescape(found.Contents[0].Key); err != nil || key != name {
			t.Errorf("%q is listed as %q, %v", name, key, err)
		}
		r.Method, r.Query = "PUT", url.Values{"tagging": {""}}
		r.Body = []byte("<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>")
		mustS3(t, s.client, 200, r)
		r.Method, r.Query, r.Body = "POST", url.Values{"uploads": {""}}, nil
		begun := mustS3(t, s.client, 200, r)
		var upload struct{ UploadId string }
		if err := xml.Unmarshal(begun.Body, &upload); err != nil {
			t.Errorf("upload of %q: %v", name, err)
		}
		r.Method, r.Query = "DELETE", url.Values{"uploadId": {upload.UploadId}}
		mustS3(t, s.client, 204, r)
	}
	for _, name := range []string{"\xff", "a\xc0\xafb", "\xed\xa0\x80", strings.Repeat("a", 1025), strings.Repeat("日", 342)} {
		for _, method := range []string{"PUT", "GET", "DELETE", "HEAD"} {
			a, err := s.client.Do(t.Context(), testcluster.S3Request{Method: method, Bucket: "bad", Key: name})
			if err != nil || a.Status != 400 {
				t.Errorf("%s %.20q: %v, %v", method, name, a, err)
			}
		}
	}
	// All that must still be so after a restart.
	s.node.Kill()
	if err := s.node.Start(); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		a := mustS3(t, s.client, 200, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: name})
		if want := fmt.Sprintf("content of %d", i); string(a.Body) != want {
			t.Errorf("after a restart %q holds %q", name, a.Body)
		}
		mustS3(t, s.client, 204, testcluster.S3Request{Method: "DELETE", Bucket: "bad", Key: name, Query: url.Values{"versionId": {a.VersionID()}}})
		mustS3(t, s.client, 404, testcluster.S3Request{Method: "GET", Bucket: "bad", Key: name})
	}
}

// TestS3Idle holds thousands of connections that do nothing: bare ones, ones in the
// middle of a head, ones between two requests.
func TestS3Idle(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	count := min(setting(t, "S3_IDLE", 3000), int(limit.Cur)-500)
	s, _ := newS3Bad(t, "--header-timeout", "2m", "--max-connections", strconv.Itoa(count+100))
	before := s.memory()
	get := testcluster.S3Request{Method: "GET", Bucket: "bad", Key: "good"}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	request, err := s.client.Request(ctx, get)
	if err != nil {
		t.Fatal(err)
	}
	whole := head(request, "")
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for i := range count {
		c, err := net.Dial("tcp", request.URL.Host)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		all = append(all, c)
		switch i % 3 {
		case 1:
			c.Write(whole[:len(whole)/2])
		case 2:
			c.Write(whole)
			response, err := http.ReadResponse(bufio.NewReader(c), request)
			if err != nil || response.StatusCode != 200 {
				t.Fatalf("connection %d: %v, %v", i, response, err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	during := s.memory()
	begin := time.Now()
	for range 200 {
		mustS3(t, s.client, 200, get)
	}
	t.Logf("%d idle connections: %d MiB, %d before; 200 requests took %v", count, during, before, time.Since(begin))
	if grown := during - before; grown > 32+count/20 && os.Getenv("PENSTOCK_CHAOS_RACE") == "" { // about 50 KiB each
		t.Errorf("%d idle connections take %d MiB", count, grown)
	}
	for _, c := range all {
		c.Close()
	}
	all = nil
	for range 300 {
		if a := mustS3(t, s.client, 200, get); a != nil && s.connections() < 20 {
			return
		}
		time.Sleep(50 * time.Millisecond) // there is no event for it
	}
	t.Errorf("%d connections are open after they were closed", s.connections())
}

// connections counts the descriptors of the node that are sockets.
func (s *s3Bad) connections() int {
	s.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.node.Pid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, _ := os.Readlink(dir + "/" + e.Name()); strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
