package s3api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestMissing holds that who may list a bucket learns what is not there, though he could
// not read it.
func TestMissing(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "", "X-Amz-Acl: public-read")
	d.ok(t, d.alice, "PUT", "/bucket/key", "content")
	d.want(t, 404, "NoSuchKey", nobody, "GET", "/bucket/none", "")
	d.want(t, 404, "NoSuchKey", d.bob, "GET", "/bucket/none", "")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/key", "")
	d.want(t, 403, "AccessDenied", nobody, "DELETE", "/bucket/none", "")
	d.ok(t, d.alice, "PUT", "/bucket?acl", "", "X-Amz-Acl: private")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket/none", "")
	d.ok(t, d.alice, "PUT", "/bucket?policy", `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket",
		"Resource": "arn:aws:s3:::bucket", "Condition": {"StringLike": {"s3:prefix": "public/*"}}}]}`)
	d.want(t, 404, "", d.bob, "HEAD", "/bucket/public/none", "")
	d.want(t, 404, "NoSuchKey", d.bob, "GET", "/bucket/public/none", "")
	d.want(t, 403, "", d.bob, "HEAD", "/bucket/private/none", "")
	d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket?prefix=private/", "")
	d.want(t, 200, "", d.bob, "GET", "/bucket?prefix=public/", "")
	if a := d.want(t, 404, "", d.alice, "HEAD", "/bucket/none", ""); a.header.Get("X-Amz-Delete-Marker") != "false" {
		t.Error(a.header)
	}
}

// TestUnknownLength stores bodies that do not say how long they are.
func TestUnknownLength(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	for _, size := range []int{0, 1, 3 << 20} {
		content := strings.Repeat("x", size)
		for _, payload := range []string{hexSHA(content), "UNSIGNED-PAYLOAD"} {
			r := d.request(t, "PUT", "/bucket/key", "", "X-Amz-Content-Sha256: "+payload)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(content)), -1
			signHeader(r, d.alice)
			if a := d.send(t, r); a.status != 200 {
				t.Fatalf("%d: %d %s", size, a.status, a.body)
			}
			if a := d.ok(t, d.alice, "GET", "/bucket/key", ""); a.body != content {
				t.Errorf("%d bytes of %d", len(a.body), size)
			}
		}
	}
	before := d.state(t)
	r := d.request(t, "PUT", "/bucket/key", "", "X-Amz-Content-Sha256: "+hexSHA("other"))
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("content")), -1
	signHeader(r, d.alice)
	if a := d.send(t, r); a.status != 400 || d.state(t) != before {
		t.Errorf("other content: %d %s", a.status, a.body)
	}
}

// TestContinue holds that a client which waits to be told to send its body is refused at
// once, or told.
func TestContinue(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	ask := func(want string) {
		t.Helper()
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "PUT /bucket/key HTTP/1.1\r\nHost: %s\r\nContent-Length: 123\r\nExpect: 100-continue\r\n\r\n", d.addr)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Errorf("%q %v, want %s", line, err, want)
		}
	}
	ask("403")
	d.ok(t, d.alice, "PUT", "/bucket?acl", "", "X-Amz-Acl: public-read-write")
	ask("100")
}

// TestPreflight holds what browsers are told that ask for CORS.
func TestPreflight(t *testing.T) {
	d := open(t)
	r := d.request(t, http.MethodOptions, "/bucket/key?AWSAccessKeyId=a&Signature=b&Expires=1", "")
	if a := d.send(t, r); a.status != 400 || a.code() != "BadRequest" {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.Header.Set("Origin", "https://example.com")
	if a := d.send(t, r); a.status != 403 || a.code() != "AccessForbidden" || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestListPrefix holds that a prefix is repeated such that it is the same decoded or not,
// where that can be.
func TestListPrefix(t *testing.T) {
	d := open(t)
	d.ok(t, d.alice, "PUT", "/bucket", "")
	for sent, want := range map[string]string{
		"%0A": "&#xA;", "a%20b": "a b", "%C3%A9%F0%9F%98%80": "é😀", "a%2Bb": "a%2Bb", "a%25b": "a%25b", "%01": "%01",
	} {
		a := d.ok(t, d.alice, "GET", "/bucket?encoding-type=url&prefix="+sent, "")
		if !strings.Contains(a.body, "<Prefix>"+want+"</Prefix>") {
			t.Errorf("%s: %s", sent, a.body)
		}
	}
}
