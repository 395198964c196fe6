package s3api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

func TestCopy(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket", "other")
	for _, content := range []string{"", "small", strings.Repeat("large", 1<<18)} {
		put := d.must(t, 200, "PUT", "/bucket/a%20b%3Fc", content, "Content-Type", "text/bla", "Cache-Control", "no-store", "x-amz-meta-color", "red",
			"x-amz-acl", "public-read", "x-amz-website-redirect-location", "/there")
		for _, source := range []string{"bucket/a%20b%3Fc", "/bucket/a%20b%3Fc", "%2Fbucket%2Fa%20b%3Fc"} {
			a := d.must(t, 200, "PUT", "/other/copy", "", "x-amz-copy-source", source)
			if a.element("ETag") != `"`+put.etag()+`"` || a.element("LastModified") == "" || a.element("ChecksumType") != "FULL_OBJECT" {
				t.Errorf("the answer is %s", a.body)
			}
			if a.id() != "" || a.header.Get("X-Amz-Copy-Source-Version-Id") != "" {
				t.Errorf("IDs where there are none: %v", a.header)
			}
		}
		a := d.must(t, 200, "GET", "/other/copy", "")
		if a.body != content || a.etag() != put.etag() {
			t.Errorf("the copy is %.20q with ETag %s", a.body, a.etag())
		}
		h := a.header
		if h.Get("Content-Type") != "text/bla" || h.Get("Cache-Control") != "no-store" || h.Get("X-Amz-Meta-Color") != "red" || h.Get("X-Amz-Website-Redirect-Location") != "" {
			t.Errorf("the copy's headers are %v", h)
		}
		if got := d.by(nobody).send(t, "GET", "/other/copy", ""); got.status != 403 {
			t.Errorf("the ACL was copied, too: %d", got.status)
		}
	}
}

func TestCopyReplaces(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "content", "Content-Type", "text/bla", "Cache-Control", "no-store", "x-amz-meta-color", "red")
	source := []string{"x-amz-copy-source", "bucket/key"}
	d.fails(t, 400, "InvalidRequest", "PUT", "/bucket/key", "", source...)
	d.fails(t, 400, "InvalidRequest", "PUT", "/bucket/key", "", append(source, "x-amz-checksum-algorithm", "CRC32")...) // it has that already
	d.fails(t, 400, "InvalidArgument", "PUT", "/bucket/key", "", append(source, "x-amz-metadata-directive", "MERGE")...)
	d.must(t, 200, "PUT", "/bucket/key", "", append(source, "x-amz-metadata-directive", "REPLACE", "x-amz-meta-size", "big", "x-amz-acl", "public-read")...)
	a := d.must(t, 200, "GET", "/bucket/key", "")
	if h := a.header; a.body != "content" || h.Get("Content-Type") != "binary/octet-stream" || h.Get("Cache-Control") != "" || h.Get("X-Amz-Meta-Color") != "" || h.Get("X-Amz-Meta-Size") != "big" {
		t.Errorf("%q with %v", a.body, h)
	}
	if got := d.by(nobody).send(t, "GET", "/bucket/key", ""); got.status != 200 {
		t.Errorf("the ACL of the copy was not set: %d", got.status)
	}
	// Metadata that comes with COPY is of no use.
	d.must(t, 200, "PUT", "/bucket/second", "", append(source, "x-amz-meta-size", "small", "Content-Type", "text/html")...)
	if h := d.must(t, 200, "HEAD", "/bucket/second", "").header; h.Get("X-Amz-Meta-Size") != "big" || h.Get("Content-Type") != "binary/octet-stream" {
		t.Errorf("%v", h)
	}
}

func TestCopyTags(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.must(t, 200, "PUT", "/bucket/key", "content", "x-amz-tagging", "at=first")
	source := []string{"x-amz-copy-source", "bucket/key"}
	check := func(want string, headers ...string) {
		t.Helper()
		d.must(t, 200, "PUT", "/bucket/copy", "", append(source, headers...)...)
		if got := d.tags(t, "/bucket/copy?tagging"); got != want {
			t.Errorf("the copy has %q, not %q", got, want)
		}
	}
	check("at=first")
	check("at=first", "x-amz-metadata-directive", "REPLACE")
	d.must(t, 200, "PUT", "/bucket/key?tagging", tagsXML("at", "last/least @"))
	check("at=last/least @")
	check("at=last/least @", "x-amz-tagging", "no=1")
	check("new=1", "x-amz-tagging-directive", "REPLACE", "x-amz-tagging", "new=1")
	check("", "x-amz-tagging-directive", "REPLACE")
	d.must(t, 204, "DELETE", "/bucket/key?tagging", "")
	check("")
	d.fails(t, 400, "InvalidArgument", "PUT", "/bucket/copy", "", append(source, "x-amz-tagging-directive", "MERGE")...)
}

func TestCopyConditions(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	etag := d.must(t, 200, "PUT", "/bucket/key", "content").header.Get("Etag")
	past, future := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	const prefix = "x-amz-copy-source-if-"
	for _, test := range []struct {
		holds   bool
		headers []string
	}{
		{true, []string{prefix + "match", etag}},
		{false, []string{prefix + "match", `"bad"`}},
		{true, []string{prefix + "none-match", `"bad"`}},
		{false, []string{prefix + "none-match", etag}},
		{true, []string{prefix + "modified-since", past}},
		{false, []string{prefix + "modified-since", future}},
		{true, []string{prefix + "unmodified-since", future}},
		{false, []string{prefix + "unmodified-since", past}},
		{true, []string{prefix + "match", etag, prefix + "unmodified-since", past}},
		{false, []string{prefix + "none-match", etag, prefix + "modified-since", past}},
		{true, []string{"If-None-Match", "*"}},
		{false, []string{"If-Match", `"bad"`}},
	} {
		d.must(t, 204, "DELETE", "/bucket/copy", "")
		if !test.holds && test.headers[0] == "If-Match" {
			d.must(t, 200, "PUT", "/bucket/copy", "other")
		}
		headers := append([]string{"x-amz-copy-source", "bucket/key"}, test.headers...)
		if test.holds {
			d.must(t, 200, "PUT", "/bucket/copy", "", headers...)
		} else {
			d.fails(t, 412, "PreconditionFailed", "PUT", "/bucket/copy", "", headers...)
		}
	}
	d.fails(t, 404, "NoSuchKey", "PUT", "/bucket/absent", "", "x-amz-copy-source", "bucket/key", "If-Match", "*")
}

func TestCopyFromWhatIsNotThere(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	d.version(t, "bucket", node.VersioningEnabled)
	d.must(t, 200, "PUT", "/bucket/key", "content")
	marker := d.must(t, 204, "DELETE", "/bucket/key", "").id()
	for _, test := range []struct {
		source, code string
		status       int
	}{
		{"absent/key", "NoSuchBucket", 404},
		{"bucket/absent", "NoSuchKey", 404},
		{"bucket/key", "NoSuchKey", 404},
		{"bucket/key?versionId=" + marker, "InvalidRequest", 400},
		{"bucket/key?versionId=000000010000000000000099", "NoSuchVersion", 404},
		{"bucket/key?versionId=nonsense", "InvalidArgument", 400},
		{"bucket", "InvalidArgument", 400},
		{"bucket/", "InvalidArgument", 400},
		{"/", "InvalidArgument", 400},
		{"bucket/%zz", "InvalidArgument", 400},
	} {
		d.fails(t, test.status, test.code, "PUT", "/bucket/copy", "", "x-amz-copy-source", test.source)
	}
	d.fails(t, 404, "NoSuchKey", "GET", "/bucket/copy", "")
}

func TestCopyVersions(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket", "plain")
	d.version(t, "bucket", node.VersioningEnabled)
	v1 := d.must(t, 200, "PUT", "/bucket/key", "one").id()
	v2 := d.must(t, 200, "PUT", "/bucket/key", "two").id()
	a := d.must(t, 200, "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/key?versionId="+v1)
	if a.header.Get("X-Amz-Copy-Source-Version-Id") != v1 || a.id() == "" || a.id() == v1 {
		t.Errorf("%v", a.header)
	}
	if got := d.must(t, 200, "GET", "/bucket/copy", ""); got.body != "one" || got.id() != a.id() {
		t.Errorf("%q %v", got.body, got.header)
	}
	a = d.must(t, 200, "PUT", "/plain/copy", "", "x-amz-copy-source", "bucket/key")
	if a.header.Get("X-Amz-Copy-Source-Version-Id") != v2 || a.id() != "" {
		t.Errorf("%v", a.header)
	}
	// An old version becomes the newest.
	d.must(t, 200, "PUT", "/bucket/key", "", "x-amz-copy-source", "bucket/key?versionId="+v1)
	if got := d.must(t, 200, "GET", "/bucket/key", ""); got.body != "one" {
		t.Errorf("%q", got.body)
	}
	d.version(t, "bucket", node.VersioningSuspended)
	d.must(t, 200, "PUT", "/bucket/key", "null")
	a = d.must(t, 200, "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/key")
	if a.header.Get("X-Amz-Copy-Source-Version-Id") != "null" || a.id() != "" {
		t.Errorf("%v", a.header)
	}
	if got := d.must(t, 200, "GET", "/bucket/copy?versionId=null", ""); got.body != "null" {
		t.Errorf("%q", got.body)
	}
}

func TestCopyChecksums(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	content := strings.Repeat("checked ", 200_000)
	d.must(t, 200, "PUT", "/bucket/key", content, "x-amz-checksum-sha1", sumOf("SHA1", content))
	shown := func(key string) http.Header {
		return d.must(t, 200, "HEAD", "/bucket/"+key, "", "x-amz-checksum-mode", "ENABLED").header
	}
	a := d.must(t, 200, "PUT", "/bucket/same", "", "x-amz-copy-source", "bucket/key")
	if a.element("ChecksumSHA1") != sumOf("SHA1", content) || shown("same").Get("X-Amz-Checksum-Sha1") != sumOf("SHA1", content) {
		t.Errorf("the checksum was not kept: %s", a.body)
	}
	for _, algorithm := range []string{"CRC32", "CRC32C", "CRC64NVME", "SHA256"} {
		a := d.must(t, 200, "PUT", "/bucket/other", "", "x-amz-copy-source", "bucket/key", "x-amz-checksum-algorithm", algorithm)
		want := sumOf(algorithm, content)
		h := shown("other")
		if a.element("Checksum"+algorithm) != want || h.Get("X-Amz-Checksum-"+algorithm) != want || h.Get("X-Amz-Checksum-Sha1") != "" {
			t.Errorf("%s: %s %v", algorithm, a.body, h)
		}
	}
	d.must(t, 200, "PUT", "/bucket/key", "", "x-amz-copy-source", "bucket/key", "x-amz-checksum-algorithm", "SHA256") // a change
	d.fails(t, 400, "InvalidRequest", "PUT", "/bucket/other", "", "x-amz-copy-source", "bucket/key", "x-amz-checksum-algorithm", "MD4")
}

func TestCopyRights(t *testing.T) {
	t.Parallel()
	d := begin(t, "secret", "shown", "mine")
	d.must(t, 200, "PUT", "/secret/key", "secret")
	d.must(t, 200, "PUT", "/shown/key", "shown")
	d.must(t, 200, "PUT", "/shown/public", "public", "x-amz-acl", "public-read")
	d.grant(t, "mine", "alice", auth.Write)
	d.grant(t, "shown", "alice", auth.Read)
	alice := d.by(d.alice)
	alice.must(t, 200, "PUT", "/mine/copy", "", "x-amz-copy-source", "shown/key")
	for _, source := range []string{"secret/key", "secret/absent"} {
		alice.fails(t, 403, "AccessDenied", "PUT", "/mine/other", "", "x-amz-copy-source", source)
	}
	alice.fails(t, 403, "AccessDenied", "PUT", "/shown/copy", "", "x-amz-copy-source", "shown/key")
	d.grant(t, "mine", "bob", auth.Write)
	d.by(d.bob).must(t, 200, "PUT", "/mine/copy", "", "x-amz-copy-source", "shown/public")
	d.must(t, 200, "PUT", "/shown/public?tagging", tagsXML("secret", "1"))
	d.by(d.bob).fails(t, 403, "AccessDenied", "PUT", "/mine/copy", "", "x-amz-copy-source", "shown/public") // its tags he may not see
	d.by(d.bob).must(t, 200, "PUT", "/mine/copy", "", "x-amz-copy-source", "shown/public", "x-amz-tagging-directive", "REPLACE")
	d.fails(t, 404, "NoSuchKey", "GET", "/mine/other", "")
}

func TestCopyRefusesHuge(t *testing.T) {
	t.Parallel()
	d := beginOn(t, func(s node.Store) node.Store { return hugeStore{s.(keepingStore)} }, "bucket")
	d.must(t, 200, "PUT", "/bucket/huge", "content")
	d.fails(t, 400, "InvalidRequest", "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/huge")
}

type keepingStore interface {
	node.Store
	node.Keeper
}

// hugeStore tells of objects that are called huge that they are.
type hugeStore struct{ keepingStore }

func (s hugeStore) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	info, err := s.keepingStore.Stat(ctx, name)
	if name.Key == "huge" {
		info.Size = 5<<30 + 1
	}
	return info, err
}

// TestCopyOfWhatChanges replaces the source all the time: a copy has the content and
// the metadata of one state of it.
func TestCopyOfWhatChanges(t *testing.T) {
	t.Parallel()
	d := begin(t, "bucket")
	write := func(i int) {
		content := strings.Repeat(string(rune('a'+i%2)), 4+i%2*600_000)
		if a := d.send(t, "PUT", "/bucket/key", content, "x-amz-meta-is", content[:1]); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	write(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
				write(i)
			}
		}
	})
	defer wg.Wait()
	defer close(done)
	copied := 0
	for range 40 {
		a := d.send(t, "PUT", "/bucket/copy", "", "x-amz-copy-source", "bucket/key")
		if a.code() == "SlowDown" {
			continue
		}
		copied++
		got := d.must(t, 200, "GET", "/bucket/copy", "")
		if is := got.header.Get("X-Amz-Meta-Is"); is == "" || got.body[:1] != is || got.etag() != md5Hex(got.body) {
			t.Fatalf("content %q with metadata %q", got.body[:1], is)
		}
	}
	if copied == 0 {
		t.Error("no copy succeeded")
	}
}
