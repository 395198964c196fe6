package s3api_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/s3api"
)

// hostile are documents that are made to hurt.
func hostile() map[string]string {
	return map[string]string{
		"nothing":           "",
		"no XML":            "hello",
		"an open element":   "<VersioningConfiguration>",
		"a DTD":             `<!DOCTYPE x><VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`,
		"entities":          `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><VersioningConfiguration><Status>&b;</Status></VersioningConfiguration>`,
		"a file":            `<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><VersioningConfiguration><Status>&f;</Status></VersioningConfiguration>`,
		"an entity":         `<VersioningConfiguration><Status>&unknown;</Status></VersioningConfiguration>`,
		"an instruction":    `<?xml-stylesheet href="x"?><VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`,
		"another character": "<?xml version=\"1.0\" encoding=\"UTF-16\"?><VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
		"deep nesting":      strings.Repeat("<a>", 10000) + strings.Repeat("</a>", 10000),
		"much":              "<VersioningConfiguration><Status>" + strings.Repeat("x", 80<<10) + "</Status></VersioningConfiguration>",
		"many elements":     "<VersioningConfiguration>" + strings.Repeat("<Status/>", 8000) + "</VersioningConfiguration>",
		"bad UTF-8":         "<VersioningConfiguration><Status>\xff\xfe</Status></VersioningConfiguration>",
		"a null byte":       "<VersioningConfiguration><Status>\x00</Status></VersioningConfiguration>",
		"crossed elements":  "<VersioningConfiguration><Status>Enabled</VersioningConfiguration></Status>",
		"two roots":         "<Delete/><Delete/>",
	}
}

// TestHostileXML sends each of them to every operation that takes a body.
func TestHostileXML(t *testing.T) {
	d := open(t)
	d.ok(t, d.root, "PUT", "/bucket", "")
	d.ok(t, d.root, "PUT", "/bucket/key", "content")
	upload := d.ok(t, d.root, "POST", "/bucket/key?uploads", "").element("UploadId")
	before := d.state(t)
	for _, op := range s3api.Operations() {
		if (op.Method != "PUT" && op.Method != "POST") || op.Name == "PutObject" || op.Name == "UploadPart" || op.Header != "" || op.Name == "CreateMultipartUpload" {
			continue
		}
		target, _ := targetOf(op)
		if i := strings.Index(target, "uploadId="); i >= 0 {
			target = target[:i] + "uploadId=" + upload
		}
		for what, document := range hostile() {
			if document == "" && op.Name == "CreateBucket" {
				continue
			}
			a := d.do(t, d.root, op.Method, target, document, "Content-Md5: "+md5Base64(document))
			if a.status != 400 && a.status != 501 && a.status != 405 && a.status != 412 {
				t.Errorf("%s with %s: %d %.300s", op.Name, what, a.status, a.body)
			}
		}
	}
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

// TestWrongLengths sends bodies that are shorter than they say.
func TestWrongLengths(t *testing.T) {
	d := open(t)
	d.ok(t, d.root, "PUT", "/bucket", "")
	before := d.state(t)
	document := "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
	for _, target := range []string{"/bucket?versioning", "/bucket?policy", "/bucket?acl", "/bucket/key", "/other"} {
		r := d.request(t, "PUT", target, "")
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		signHeader(r, d.root)
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		b.WriteString("PUT " + target + " HTTP/1.1\r\nHost: " + d.addr + "\r\nContent-Length: 1000\r\n")
		r.Header.Write(&b) //nolint:errcheck // never fails
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, b.String()+"\r\n"+document)
		conn.(*net.TCPConn).CloseWrite()
		text, _ := io.ReadAll(conn)
		conn.Close()
		if strings.HasPrefix(string(text), "HTTP/1.1 2") {
			t.Errorf("%s: %s", target, text)
		}
	}
	if after := d.state(t); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

func FuzzXML(f *testing.F) {
	for _, document := range hostile() {
		if len(document) < 1000 {
			f.Add(document)
		}
	}
	f.Fuzz(func(t *testing.T, document string) {
		var v struct {
			Status string
			Object []struct{ Key string }
		}
		if err := s3api.ParseXML([]byte(document), &v); err != nil && !strings.HasPrefix(err.Error(), "MalformedXML") {
			t.Errorf("%q: %v", document, err)
		}
	})
}
