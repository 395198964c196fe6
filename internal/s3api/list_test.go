package s3api_test

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/s3api"
)

type listing struct {
	Name, Prefix, Delimiter, Marker, NextMarker, EncodingType string
	StartAfter, ContinuationToken, NextContinuationToken      string
	MaxKeys, KeyCount                                         int
	IsTruncated                                               bool
	Contents                                                  []struct {
		Key, LastModified, ETag, StorageClass string
		Size                                  int64
		Owner                                 *struct{ ID, DisplayName string }
	}
	CommonPrefixes []struct{ Prefix string }
}

// String returns keys and, in brackets, prefixes.
func (l *listing) String() string {
	var all []string
	for _, c := range l.Contents {
		all = append(all, c.Key)
	}
	for _, p := range l.CommonPrefixes {
		all = append(all, "["+p.Prefix+"]")
	}
	return strings.Join(all, " ")
}

func (d *door) list(t testing.TB, query string) *listing {
	t.Helper()
	var l listing
	d.ok(t, d.alice, "GET", "/bucket?"+query, "").read(t, &l)
	return &l
}

func fill(t testing.TB, d *door, keys ...string) {
	t.Helper()
	d.ok(t, d.alice, "PUT", "/bucket", "")
	for _, key := range keys {
		d.ok(t, d.alice, "PUT", "/bucket/"+(&url.URL{Path: key}).EscapedPath(), key)
	}
}

func TestListObjects(t *testing.T) {
	d := open(t)
	fill(t, d, "asdf", "boo/bar", "boo/baz/xyzzy", "cquux/thud", "cquux/bla", "d e+f", "g&<>")
	for query, want := range map[string]string{
		"":                                  "asdf boo/bar boo/baz/xyzzy cquux/bla cquux/thud d e+f g&<>",
		"delimiter=/":                       "asdf d e+f g&<> [boo/] [cquux/]",
		"delimiter=/&prefix=boo/":           "boo/bar [boo/baz/]",
		"prefix=boo/baz/xyzzyx":             "",
		"marker=boo/bar":                    "boo/baz/xyzzy cquux/bla cquux/thud d e+f g&<>",
		"marker=zzz":                        "",
		"max-keys=0":                        "",
		"max-keys=2":                        "asdf boo/bar",
		"max-keys=":                         "asdf boo/bar boo/baz/xyzzy cquux/bla cquux/thud d e+f g&<>",
		"max-keys=2147483647&prefix=c":      "cquux/bla cquux/thud",
		"encoding-type=url&prefix=d":        "d%20e%2Bf",
		"encoding-type=url&prefix=g":        "g%26%3C%3E",
		"delimiter=a":                       "cquux/thud d e+f g&<> [a] [boo/ba] [cquux/bla]",
		"allow-unordered=true&prefix=boo/b": "boo/bar boo/baz/xyzzy",
	} {
		if got := d.list(t, query).String(); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if strings.Contains(query, "marker") {
			continue
		}
		l := d.list(t, "list-type=2&"+query)
		if got := l.String(); got != want {
			t.Errorf("V2 %s: %s, want %s", query, got, want)
		}
		if l.KeyCount != len(l.Contents)+len(l.CommonPrefixes) {
			t.Errorf("V2 %s: KeyCount %d", query, l.KeyCount)
		}
	}
	l := d.list(t, "max-keys=2000&prefix=a")
	c := l.Contents[0]
	if l.MaxKeys != 1000 || l.Name != "bucket" || l.Prefix != "a" || l.IsTruncated || c.Size != 4 || c.ETag != `"912ec803b2ce49e4a541068d495ab570"` ||
		c.StorageClass != "STANDARD" || c.Owner == nil || c.Owner.ID != "alice" || len(c.LastModified) != len("2006-01-02T15:04:05.000Z") {
		t.Errorf("%+v", l)
	}
	if c := d.list(t, "list-type=2").Contents[0]; c.Owner != nil {
		t.Errorf("an owner nobody asked for: %+v", c)
	}
	if c := d.list(t, "list-type=2&fetch-owner=true").Contents[0]; c.Owner == nil || c.Owner.DisplayName != "alice" {
		t.Errorf("no owner: %+v", c)
	}
	if l := d.list(t, "delimiter=%0A&marker=%0A&encoding-type=url"); l.Delimiter != "%0A" || l.Marker != "%0A" || l.EncodingType != "url" {
		t.Errorf("%+v", l)
	}
	if l := d.list(t, "list-type=2&continuation-token=&start-after=b"); l.StartAfter != "b" || l.IsTruncated || len(l.Contents) != 6 {
		t.Errorf("%+v", l)
	}
	for _, query := range []string{
		"max-keys=blah", "max-keys=-1", "max-keys=2147483648", "encoding-type=base64", "list-type=1", "list-type=2&continuation-token=x",
		"list-type=2&continuation-token=AAAAAGFzZGY", "prefix=%ff", "allow-unordered=true&delimiter=/", "prefix=" + strings.Repeat("x", 1025),
		"versions&version-id-marker=null", "versions&key-marker=a&version-id-marker=x",
	} {
		d.want(t, 400, "InvalidArgument", d.alice, "GET", "/bucket?"+query, "")
	}
	d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket", "")
	d.want(t, 403, "AccessDenied", nobody, "GET", "/bucket?list-type=2", "")
	d.want(t, 404, "NoSuchBucket", d.alice, "GET", "/nothing?list-type=2", "")
}

// TestPages walks through listings of all forms in pages of all sizes.
func TestPages(t *testing.T) {
	d := open(t)
	var keys []string
	for i := range 23 {
		keys = append(keys, fmt.Sprintf("%c/%d", 'a'+i%4, i), fmt.Sprintf("%c", 'e'+i))
	}
	fill(t, d, keys...)
	for _, more := range []string{"", "&delimiter=/", "&prefix=b/", "&prefix=b&delimiter=/", "&encoding-type=url&delimiter=/"} {
		whole := d.list(t, "max-keys=1000"+more)
		want := strings.Fields(whole.String())
		slices.Sort(want)
		for _, size := range []int{1, 2, 3, 7, len(want), 1000} {
			for _, form := range []string{"1", "2"} {
				var got []string
				mark := ""
				for range 100 {
					query := fmt.Sprintf("max-keys=%d%s", size, more)
					if form == "2" {
						query += "&list-type=2&continuation-token=" + mark
					} else {
						query += "&marker=" + url.QueryEscape(mark)
					}
					l := d.list(t, query)
					page := strings.Fields(l.String())
					if len(page) > size || l.IsTruncated != (l.NextContinuationToken != "") && form == "2" {
						t.Fatalf("%s: %+v", query, l)
					}
					got = append(got, page...)
					if !l.IsTruncated {
						break
					}
					switch {
					case form == "2":
						mark = l.NextContinuationToken
					case strings.Contains(more, "delimiter"):
						mark, _ = url.QueryUnescape(l.NextMarker)
					default:
						mark = page[len(page)-1]
					}
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("form %s in pages of %d with %q: %s, want %s", form, size, more, got, want)
				}
			}
		}
	}
}

type versionList struct {
	KeyMarker, VersionIDMarker string `xml:",omitempty"`
	NextKeyMarker              string
	NextVersionID              string `xml:"NextVersionIdMarker"`
	IsTruncated                bool
	All                        []versionLine `xml:",any"`
}

type versionLine struct {
	XMLName  struct{ Local string } `xml:"-"`
	Key      string
	ID       string `xml:"VersionId"`
	IsLatest bool
	Size     *int64
	Owner    struct{ ID string }
}

func TestListVersions(t *testing.T) {
	d := open(t)
	fill(t, d, "key")
	d.ok(t, d.alice, "PUT", "/bucket?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	want := []string{"key null"}
	add := func(key, id string) { want = slices.Insert(want, 0, key+" "+id) }
	for range 3 {
		add("key", d.ok(t, d.alice, "PUT", "/bucket/key", "x").header.Get("X-Amz-Version-Id"))
	}
	add("key", d.ok(t, d.alice, "DELETE", "/bucket/key", "").header.Get("X-Amz-Version-Id"))
	want = append(want, "other "+d.ok(t, d.alice, "PUT", "/bucket/other", "x").header.Get("X-Amz-Version-Id"))

	list := func(query string) (l versionList, lines []string) {
		d.ok(t, d.alice, "GET", "/bucket?versions&"+query, "").read(t, &l)
		for _, v := range l.All {
			if v.ID == "" {
				continue // another element
			}
			lines = append(lines, v.Key+" "+v.ID)
			if newest := v.ID == strings.Fields(want[0])[1] || v.Key == "other"; v.IsLatest != newest || v.Owner.ID != "alice" {
				t.Errorf("%+v", v)
			}
			if marker := v.ID == strings.Fields(want[0])[1]; marker != (v.Size == nil) {
				t.Errorf("%+v", v)
			}
		}
		return l, lines
	}
	if _, got := list(""); !slices.Equal(got, want) {
		t.Fatalf("%s, want %s", got, want)
	}
	if a := d.ok(t, d.alice, "GET", "/bucket?versions", ""); strings.Count(a.body, "<DeleteMarker>") != 1 || strings.Count(a.body, "<Version>") != 5 {
		t.Errorf("%s", a.body)
	}
	if _, got := list("key-marker=key"); !slices.Equal(got, want[5:]) {
		t.Errorf("behind the key: %s", got)
	}
	for size := 1; size < 7; size++ {
		var got []string
		key, id := "", ""
		for range 10 {
			l, lines := list(fmt.Sprintf("max-keys=%d&key-marker=%s&version-id-marker=%s", size, key, id))
			got = append(got, lines...)
			if !l.IsTruncated {
				break
			}
			key, id = l.NextKeyMarker, l.NextVersionID
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %s, want %s", size, got, want)
		}
	}
	d.want(t, 403, "AccessDenied", d.bob, "GET", "/bucket?versions", "")
}

// lame is a store of which a disk cannot be read.
type lame struct {
	node.Store
	node.Keeper
}

func (lame) List(context.Context, string, object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) { yield(object.Entry{}, object.ErrIncomplete) }
}

// TestIncomplete sees that a listing that lacks something is not given out as whole.
func TestIncomplete(t *testing.T) {
	d := openWith(t, func(s node.Store) node.Store { return lame{s, s.(node.Keeper)} }, s3api.Options{})
	d.ok(t, d.alice, "PUT", "/bucket", "")
	d.want(t, 503, "ServiceUnavailable", d.alice, "GET", "/bucket", "")
	d.want(t, 503, "ServiceUnavailable", d.alice, "GET", "/bucket?list-type=2", "")
}

// BenchmarkList lists over HTTP in pages of 1000 keys.
func BenchmarkList(b *testing.B) {
	d := open(b)
	d.ok(b, d.alice, "PUT", "/bucket", "")
	const count = 20_000
	var batch []object.Upload
	for i := range count {
		batch = append(batch, object.Upload{Key: fmt.Sprintf("train/shard-%05d/sample-%09d.jpg", i/1000, i), Bytes: []byte("x")})
	}
	for part := range slices.Chunk(batch, 1000) {
		for _, err := range d.node.PutMany(b.Context(), "bucket", part) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	keys := 0
	for b.Loop() {
		token := ""
		for {
			a := d.ok(b, d.alice, "GET", "/bucket?list-type=2&encoding-type=url&continuation-token="+token, "")
			keys += 1000
			_, rest, more := strings.Cut(a.body, "<NextContinuationToken>")
			if !more {
				break
			}
			token, _, _ = strings.Cut(rest, "<")
		}
	}
	b.ReportMetric(float64(keys)/b.Elapsed().Seconds(), "keys/s")
}
