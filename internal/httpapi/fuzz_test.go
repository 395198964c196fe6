package httpapi_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/object"
)

func FuzzList(f *testing.F) {
	for _, s := range []string{"prefix=a&limit=5", "delimiter=%2F&after=b", "limit=0", "limit=00010", "prefix=%ff", "a;b", "%zz", "prefix&prefix"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		opts, err := httpapi.ParseList(query)
		if err != nil {
			if !object.Is(err, object.Invalid) {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatalf("%q was taken, but is no query: %v", query, err)
		}
		if opts.Prefix != values.Get("prefix") || opts.Delimiter != values.Get("delimiter") || opts.After != values.Get("after") {
			t.Fatalf("%q gives %+v", query, opts)
		}
		if opts.Limit < 1 || opts.Limit > 10000 || !utf8.ValidString(opts.Prefix+opts.Delimiter+opts.After) || len(opts.After) > object.MaxKey {
			t.Fatalf("%q gives %+v", query, opts)
		}
	})
}

// FuzzPath sends request targets through net/http's parser and the router. What
// comes out as a name must be exactly what the client wrote, split at its slashes
// and unescaped once; and writing that name in the usual way must lead back to it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/v1/objects/bucket/k", "/v1/objects/bucket/a%2Fb", "/v1/objects/bucket//", "/v1/objects/bucket/../x", "/v1/objects/b%2Fc/k", "/v1/objects/bucket/%00%25", "/v1/objects/bucket/a?x", "http://h/v1/objects/bucket/k", "/v1/objects/bucket/\xc3\xa9\"", "/v1/buckets/x", "/v1/datasets/cats/1", "/v1/datasets/c%61ts/01", "/v1/datasets/a%2Fb", "*"} {
		f.Add(s)
	}
	d := open(f, config{})
	for _, r := range httpapi.Routes() {
		if r.Name != "pprof" {
			d.api.SetHandler(r.Name, func() {})
		}
	}
	f.Fuzz(func(t *testing.T, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		if err != nil {
			return
		}
		name, route, err := d.api.Route(r)
		if route != "getObject" || err != nil {
			d.api.ServeHTTP(httptest.NewRecorder(), r) // for what may go wrong there
			return
		}
		path, _, _ := strings.Cut(target, "?")
		if _, rest, ok := strings.Cut(path, "://"); ok && !strings.HasPrefix(path, "/") {
			_, path, _ = strings.Cut(rest, "/")
			path = "/" + path
		}
		bucket, key, _ := strings.Cut(strings.TrimPrefix(path, "/v1/objects/"), "/")
		wantBucket, err1 := url.PathUnescape(bucket)
		wantKey, err2 := url.PathUnescape(key)
		if err1 != nil || err2 != nil || name.Bucket != wantBucket || name.Key != wantKey {
			t.Fatalf("%q is taken for %q, want %q / %q", target, name, wantBucket, wantKey)
		}
		usual := "/v1/objects/" + url.PathEscape(name.Bucket) + "/" + strings.ReplaceAll(url.PathEscape(name.Key), "%2F", "/")
		again, err := http.NewRequest("GET", "http://localhost"+usual, nil)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := d.api.Route(again); err != nil || back != name {
			t.Fatalf("%q written as %q is taken for %q (%v)", name, usual, back, err)
		}
	})
}
