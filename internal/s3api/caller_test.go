package s3api_test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/s3api"
)

// caller is somebody at a door, root unless said otherwise.
type caller struct {
	*door
	as keys
}

// begin opens a door with empty buckets of root's.
func begin(t testing.TB, buckets ...string) *caller {
	t.Helper()
	return beginOn(t, nil, buckets...)
}

// beginOn is begin on another store.
func beginOn(t testing.TB, wrap func(node.Store) node.Store, buckets ...string) *caller {
	t.Helper()
	d := openWith(t, wrap, s3api.Options{})
	c := &caller{d, d.root}
	for _, bucket := range buckets {
		c.must(t, 200, "PUT", "/"+bucket, "")
	}
	return c
}

// by is the same door and another user.
func (c *caller) by(as keys) *caller { return &caller{c.door, as} }

// grant gives a user a right on a bucket.
func (c *caller) grant(t testing.TB, bucket, user, right string) {
	t.Helper()
	_, err := c.node.SetAccess(t.Context(), bucket, func(a object.Access) (object.Access, error) { return c.authority.Grant(a, user, right) })
	if err != nil {
		t.Fatal(err)
	}
}

// version sets whether a bucket keeps versions.
func (c *caller) version(t testing.TB, bucket, versioning string) {
	t.Helper()
	if _, err := c.node.SetBucket(t.Context(), bucket, fmt.Appendf(nil, `{"versioning":%q}`, versioning)); err != nil {
		t.Fatal(err)
	}
}

// must sends a request that must be answered with a status. Headers are names and
// values.
func (c *caller) must(t testing.TB, status int, method, target, body string, headers ...string) *answer {
	t.Helper()
	a := c.send(t, method, target, body, headers...)
	if a.status != status {
		t.Fatalf("%s %s: %d, not %d: %.400s", method, target, a.status, status, a.body)
	}
	return a
}

// fails sends a request that must be answered with an error.
func (c *caller) fails(t testing.TB, status int, code, method, target, body string, headers ...string) *answer {
	t.Helper()
	a := c.send(t, method, target, body, headers...)
	if a.status != status || (method != "HEAD" && a.code() != code) {
		t.Fatalf("%s %s: %d %s, not %d %s: %.400s", method, target, a.status, a.code(), status, code, a.body)
	}
	return a
}

func (c *caller) send(t testing.TB, method, target, body string, headers ...string) *answer {
	t.Helper()
	lines := make([]string, 0, len(headers)/2)
	for i := 0; i < len(headers); i += 2 {
		lines = append(lines, headers[i]+": "+headers[i+1])
	}
	return c.do(t, c.as, method, target, body, lines...)
}

// element returns the text of the first element of that name.
func (a *answer) element(name string) string {
	_, rest, _ := strings.Cut(a.body, "<"+name+">")
	text, _, _ := strings.Cut(rest, "</")
	return strings.ReplaceAll(text, "&quot;", `"`)
}

// etag is the ETag of the header, without quotes.
func (a *answer) etag() string { return strings.Trim(a.header.Get("Etag"), `"`) }

// id is the version that the header names.
func (a *answer) id() string { return a.header.Get("X-Amz-Version-Id") }

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

func md5Base64(s string) string {
	sum := md5.Sum([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}
