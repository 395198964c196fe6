package s3api_test

import (
	"encoding/base64"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/s3api"
)

// bodies are the forms that a body can have. bad is one whose content is not what the
// head of the request says, or whose chunks are not signed by who signed the head.
type bodyForm struct {
	name    string
	declare func(r *http.Request, content string) // before the head is signed
	encode  func(k keys, r *http.Request, seed, content string, bad bool) string
}

func crcTrailer(content string) string {
	sum := crc32.ChecksumIEEE([]byte(content))
	return "x-amz-checksum-crc32:" + base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

func streaming(name, payload string, signed, trailer bool) bodyForm {
	return bodyForm{name, func(r *http.Request, content string) {
		r.Header.Set("X-Amz-Content-Sha256", payload)
		r.Header.Set("X-Amz-Decoded-Content-Length", lengthOf(content))
		r.Header.Set("Content-Encoding", "aws-chunked")
		if trailer {
			r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
		}
	}, func(k keys, r *http.Request, seed, content string, bad bool) string {
		line := ""
		if trailer {
			line = crcTrailer(content)
			if bad {
				line = crcTrailer(content + "x")
			}
		}
		if !signed {
			seed = ""
		} else if bad {
			k.secret += "x"
		}
		date := r.Header.Get("X-Amz-Date")
		if date == "" {
			date = r.URL.Query().Get("X-Amz-Date")
		}
		if date == "" { // version 2 has none
			date = time.Now().UTC().Format(dateForm)
		}
		return k.chunked(content, 7, date, seed, line, signed && trailer)
	}}
}

func lengthOf(s string) string {
	digits := ""
	for n := len(s); n > 0 || digits == ""; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return digits
}

func bodyForms() []bodyForm {
	plain := func(_ keys, _ *http.Request, _, content string, bad bool) string {
		if bad {
			return strings.ToUpper(content)
		}
		return content
	}
	return []bodyForm{
		{"signed", func(r *http.Request, content string) { r.Header.Set("X-Amz-Content-Sha256", hexSHA(content)) }, plain},
		{"unsigned with an MD5", func(r *http.Request, content string) {
			r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
			r.Header.Set("Content-Md5", md5Base64(content))
		}, plain},
		streaming("signed chunks", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", true, false),
		streaming("signed chunks and trailer", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", true, true),
		streaming("unsigned chunks and trailer", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", false, true),
	}
}

// signWay is a way to authenticate badly: it signs a request such that it must be refused.
type signWay struct {
	name string
	sign func(d *door, r *http.Request) (seed string)
}

func badWays() []signWay {
	old := func(ago time.Duration) func(*door, *http.Request) string {
		return func(d *door, r *http.Request) string {
			r.Header.Set("X-Amz-Date", time.Now().Add(-ago).UTC().Format(dateForm))
			return signHeader(r, d.root)
		}
	}
	wrong := func(d *door) keys { return keys{d.root.access, d.root.secret + "x"} }
	root := func(d *door) keys { return d.root }
	old2 := func(left time.Duration, as func(*door) keys, add string) func(*door, *http.Request) string {
		return func(d *door, r *http.Request) string {
			signOld(r, as(d), time.Now().Add(left))
			r.URL.RawQuery += add
			return strings.Repeat("0", 64)
		}
	}
	return []signWay{
		{"header, wrong secret", func(d *door, r *http.Request) string { return signHeader(r, wrong(d)) }},
		{"header, another's secret", func(d *door, r *http.Request) string { return signHeader(r, keys{d.root.access, d.bob.secret}) }},
		{"header, unknown key", func(_ *door, r *http.Request) string { return signHeader(r, keys{"unknown", "unknown-secret"}) }},
		{"header, old", old(16 * time.Minute)},
		{"header, of the future", old(-16 * time.Minute)},
		{"header, another path", func(d *door, r *http.Request) string {
			path := r.URL.Path
			r.URL.Path = "/other" + path
			seed := signHeader(r, d.root)
			r.URL.Path = path
			return seed
		}},
		{"header, a header that is not signed", func(d *door, r *http.Request) string {
			seed := signHeader(r, d.root)
			r.Header.Set("X-Amz-Meta-Added", "x")
			return seed
		}},
		{"header, a parameter that is not signed", func(d *door, r *http.Request) string {
			seed := signHeader(r, d.root)
			r.URL.RawQuery += "&added=1"
			return seed
		}},
		{"header, malformed", func(d *door, r *http.Request) string {
			seed := signHeader(r, d.root)
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 "+d.root.access)
			return seed
		}},
		{"header, version 2", func(d *door, r *http.Request) string {
			seed := signHeader(r, d.root)
			r.Header.Set("Authorization", "AWS "+d.root.access+":AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
			return seed
		}},
		{"query, wrong secret", func(d *door, r *http.Request) string { return signQuery(r, wrong(d), time.Now(), 60) }},
		{"query, unknown key", func(_ *door, r *http.Request) string {
			return signQuery(r, keys{"unknown", "unknown-secret"}, time.Now(), 60)
		}},
		{"query, expired", func(d *door, r *http.Request) string {
			return signQuery(r, d.root, time.Now().Add(-2*time.Minute), 60)
		}},
		{"query, a parameter that is not signed", func(d *door, r *http.Request) string {
			seed := signQuery(r, d.root, time.Now(), 60)
			r.URL.RawQuery += "&added=1"
			return seed
		}},
		{"query of version 2, wrong secret", old2(time.Minute, wrong, "")},
		{"query of version 2, another's secret", old2(time.Minute, func(d *door) keys { return keys{d.root.access, d.bob.secret} }, "")},
		{"query of version 2, unknown key", old2(time.Minute, func(*door) keys { return keys{"unknown", "unknown-secret"} }, "")},
		{"query of version 2, expired", old2(-time.Minute, root, "")},
		{"query of version 2, a parameter that is not signed", old2(time.Minute, root, "&added=1")},
		{"query of version 2, a sub-resource that is not signed", old2(time.Minute, root, "&legal-hold")},
		{"query of version 2 and header", func(d *door, r *http.Request) string {
			signOld(r, d.root, time.Now().Add(time.Minute))
			return signHeader(r, d.root)
		}},
		{"query and header", func(d *door, r *http.Request) string {
			signQuery(r, d.root, time.Now(), 60)
			return signHeader(r, d.root)
		}},
		{"nobody", func(_ *door, r *http.Request) string {
			r.Header.Set("X-Amz-Date", time.Now().UTC().Format(dateForm))
			return strings.Repeat("0", 64)
		}},
	}
}

// contentFor is a body that an operation could use, if it were let in.
func contentFor(op s3api.OperationInfo) string {
	switch op.Name {
	case "PutBucketVersioning":
		return "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
	case "PutBucketPolicy":
		return policyOf("Allow", `"*"`, "s3:GetObject", "bucket/*")
	case "PutBucketAcl", "PutObjectAcl":
		return strings.Replace(acl("root:FULL_CONTROL", allUsers+":READ"), "<ID>alice", "<ID>root", 1)
	case "PutObjectTagging", "PutBucketTagging":
		return "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
	case "PutPublicAccessBlock":
		return "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>"
	case "DeleteObjects":
		return "<Delete><Object><Key>key</Key></Object></Delete>"
	case "CreateBucket":
		return "<CreateBucketConfiguration></CreateBucketConfiguration>"
	}
	return "some content"
}

// TestRouteMatrix sends, for every operation of the table, every form of body in every
// way to authenticate badly: each is refused, and nothing is stored. The same requests
// signed well but with content that is not what was signed are not acted on, either.
func TestRouteMatrix(t *testing.T) {
	d := open(t)
	d.ok(t, d.root, "PUT", "/bucket", "")
	d.ok(t, d.root, "PUT", "/bucket/key", "content")
	upload := d.ok(t, d.root, "POST", "/bucket/key?uploads", "").element("UploadId")
	before := d.state(t)
	for _, op := range s3api.Operations() {
		target, headers := targetOf(op)
		if i := strings.Index(target, "uploadId="); i >= 0 && upload != "" {
			target = target[:i] + "uploadId=" + upload
		}
		if op.Name == "CreateBucket" {
			target = "/new-bucket"
		}
		content := contentFor(op)
		for _, form := range bodyForms() {
			build := func(way signWay, bad bool) *http.Request {
				r := d.request(t, op.Method, target, "", headers...)
				form.declare(r, content)
				if op.Name == "PostObject" {
					r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
				}
				seed := way.sign(d, r)
				setBody(r, form.encode(d.root, r, seed, content, bad))
				return r
			}
			for _, way := range badWays() {
				if way.name == "nobody" && op.Name == "ListBuckets" {
					continue // who is told of nothing
				}
				a := d.send(t, build(way, false))
				if op.Name == "DeleteObjects" && way.name == "nobody" && strings.Contains(a.body, "<Code>AccessDenied</Code>") {
					continue // said of each key
				}
				if a.status != 403 && a.status != 400 {
					t.Errorf("%s, %s, %s: %d %.200s", op.Name, form.name, way.name, a.status, a.body)
				}
			}
			if op.Method == "GET" || op.Method == "HEAD" {
				continue
			}
			for _, way := range []signWay{
				{"header", func(d *door, r *http.Request) string { return signHeader(r, d.root) }},
				{"query", func(d *door, r *http.Request) string { return signQuery(r, d.root, time.Now(), 60) }},
				{"query of version 2", func(d *door, r *http.Request) string {
					signOld(r, d.root, time.Now().Add(time.Minute))
					return strings.Repeat("0", 64)
				}},
			} {
				if a := d.send(t, build(way, true)); a.status < 400 && a.status != 204 {
					t.Errorf("%s, bad content as %s, %s: %d %.200s", op.Name, form.name, way.name, a.status, a.body)
				}
				if after := d.state(t); after != before {
					t.Fatalf("%s, bad content as %s, %s: %s\nbecame\n%s", op.Name, form.name, way.name, before, after)
				}
			}
		}
		if after := d.state(t); after != before {
			t.Fatalf("%s: %s\nbecame\n%s", op.Name, before, after)
		}
	}
}

// TestMatrixIsReal sees that the matrix's requests are good but for what is bad in them.
func TestMatrixIsReal(t *testing.T) {
	d := open(t)
	d.ok(t, d.root, "PUT", "/bucket", "")
	for _, form := range bodyForms() {
		for _, way := range []string{"header", "query", "version 2"} {
			if way == "version 2" && strings.HasPrefix(form.name, "signed chunks") {
				continue // there are none
			}
			r := d.request(t, "PUT", "/bucket/key", "")
			form.declare(r, form.name)
			var seed string
			switch way {
			case "header":
				seed = signHeader(r, d.root)
			case "query":
				seed = signQuery(r, d.root, time.Now(), 60)
			default:
				signOld(r, d.root, time.Now().Add(time.Minute))
			}
			setBody(r, form.encode(d.root, r, seed, form.name, false))
			if a := d.send(t, r); a.status != 200 {
				t.Errorf("%s, %s: %d %s", form.name, way, a.status, a.body)
			}
			if a := d.ok(t, d.root, "GET", "/bucket/key", ""); a.body != form.name {
				t.Errorf("%s is %q", form.name, a.body)
			}
		}
	}
}
