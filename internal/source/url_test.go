package source_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"s3://data":                        "s3://data",
		"s3://data/":                       "s3://data",
		"S3://data/a/b/":                   "s3://data/a/b",
		"s3://data/a%20b?region=eu-west-1": "s3://data/a%20b?region=eu-west-1",
		"s3://data?path-style=true&endpoint=http://10.0.0.1:9000&anonymous=true": "s3://data?anonymous=true&endpoint=http%3A%2F%2F10.0.0.1%3A9000&path-style=true",
		"s3://data/x?profile=team_1":            "s3://data/x?profile=team_1",
		"file:///":                              "file:///",
		"file:///lustre/data/":                  "file:///lustre/data",
		"file:///with%20space/%25":              "file:///with%20space/%25",
		"http://Example.org:80/a/":              "http://example.org/a",
		"https://example.org:443":               "https://example.org",
		"https://example.org:8443/x?index=auto": "https://example.org:8443/x?index=auto",
		"http://[::1]:8080/x":                   "http://[::1]:8080/x",
		"http://h/x?index=list:meta/list.txt":   "http://h/x?index=list%3Ameta%2Flist.txt",
		"penstock://node-1:9400/images":         "penstock://node-1:9400/images",
		"gs://my_bucket/x":                      "gs://my_bucket/x",
		"az://account/container/x":              "az://account/container/x",
	} {
		u, err := source.ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if u.String() != want {
			t.Errorf("%s is %s, want %s", text, u, want)
		}
		if again, err := source.ParseURL(u.String()); err != nil || again.String() != want {
			t.Errorf("%s is read again as %s, %v", want, again, err)
		}
	}
	u, err := source.ParseURL("s3://data/a/b?endpoint=http://h:1&anonymous=true&path-style=false")
	if err != nil || u.Host != "data" || u.Prefix() != "a/b/" || u.Option("endpoint") != "http://h:1" || !u.True("anonymous") || u.True("path-style") || u.Option("region") != "" {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"", "data", "/data", "data/a", "ftp://host/x", "javascript:" + secret, "://x", "s3:data", "s3:/data", "s3://",
		"s3://user:" + secret + "@data", "https://" + secret + "@host/x", "http://:" + secret + "@host/",
		"s3://data?secret=" + secret, "s3://data?X-Amz-Signature=" + secret, "https://host/x?sig=" + secret, "https://host/x?" + secret,
		"s3://data?endpoint=http://user:" + secret + "@h", "s3://data?endpoint=" + secret, "s3://data?endpoint=file:///etc", "s3://data?endpoint=http://h/path",
		"s3://data?endpoint=http://h?x=" + secret, "s3://data#" + secret, "s3://data#", "s3://Data", "s3://a", "s3://data:80", "s3://127.0.0.1",
		"s3://data/../other", "s3://data/./x", "s3://data//x", "s3://data/a/%2e%2e/b", "s3://data/a%2Fb", "s3://data/a%2f..%2fb", "s3://data/a%00b", "s3://data/a%5Cb", "s3://data/a\nb", "s3://data/%ff", "s3://data//",
		"s3://data?region=a&region=b", "s3://data?anonymous=yes", "s3://data?region=", "s3://data?profile=../x", "s3://data?region=%zz",
		"file://host/x", "file:///a/../b", "file:///a//b", "file:x", "file:///x?index=auto", "file://localhost/x",
		"http://", "http:///x", "http://host:0/", "http://host:99999/", "http://host:/", "http://ho st/", "http://[::1/x", "http://host/x?index=list:", "http://host/x?index=list:../../y", "http://host/x?index=other",
		"http://127.0.0.1:80@evil/" + secret, "http://host\\evil/", "http://host%2fevil/",
		"penstock://host", "penstock://host/", "penstock://host/a/b", "az://account", "az://account/", "gs://",
	} {
		u, err := source.ParseURL(text)
		if !object.Is(err, object.Invalid) {
			t.Errorf("%q is %+v, %v (%v), want Invalid", text, u, err, object.KindOf(err))
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q is told: %v", text, err)
		}
	}
	_, err := source.ParseURL("ftp://host/x")
	if err == nil || !strings.Contains(err.Error(), "az, file, gs, http, https, penstock, s3") {
		t.Errorf("the known schemes are not told: %v", err)
	}
}

func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"s3://data/a?region=x", "file:///a/b", "http://h:1/x?index=list:a", "penstock://h/b", "s3://u:p@data", "file:///%2e%2e/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := source.ParseURL(text)
		if err != nil {
			return
		}
		again, err := source.ParseURL(u.String())
		if err != nil || again.String() != u.String() || again.Path != u.Path || again.Host != u.Host {
			t.Fatalf("%q is %+v, and then %+v, %v", text, u, again, err)
		}
		if u.Path != "" && !source.PathKey(u.Path) {
			t.Fatalf("%q has the path %q", text, u.Path)
		}
	})
}

func TestAllowed(t *testing.T) {
	for _, tt := range []struct {
		prefixes, url string
		kind          object.Kind // Internal: allowed
	}{
		{"s3://data/a", "s3://data/a", object.Internal},
		{"s3://data/a", "s3://data/a/", object.Internal},
		{"s3://data/a/", "s3://data/a", object.Internal},
		{"s3://data/a", "s3://data/a/b?region=x", object.Internal},
		{"s3://data", "s3://data/a/b", object.Internal},
		{"s3://", "s3://data/a/b", object.Internal},
		{"file:///x s3://data", "s3://data", object.Internal},
		{"file:///", "file:///etc", object.Internal},
		{"file:///lustre/data", "file:///lustre/data/a", object.Internal},
		{"https://h/x", "https://H:443/x/y?index=auto", object.Internal},
		{"az://account", "az://account/container", object.Internal},
		{"penstock://host:1/", "penstock://host:1/bucket", object.Internal},
		{"s3://data?endpoint=http://h:1", "s3://data/a?endpoint=http://h:1", object.Internal},

		{"", "s3://data", object.Denied},
		{"s3://data/a", "s3://data/ab", object.Denied},
		{"s3://data/a", "s3://data", object.Denied},
		{"s3://data", "s3://data2", object.Denied},
		{"s3://data", "gs://data", object.Denied},
		{"s3://", "gs://data", object.Denied},
		{"s3://data", "s3://data?endpoint=http://169.254.169.254", object.Denied},
		{"s3://", "s3://data?endpoint=http://169.254.169.254", object.Denied},
		{"s3://data", "s3://data?profile=admin", object.Denied},
		{"s3://data?profile=team", "s3://data", object.Denied},
		{"file:///lustre/data", "file:///lustre/database", object.Denied},
		{"file:///lustre/data", "file:///lustre", object.Denied},
		{"http://h/x", "https://h/x", object.Denied},
		{"http://h/x", "http://h:81/x", object.Denied},
		{"http://h", "http://h.evil/", object.Denied},
		{"penstock://host:1/", "penstock://host:2/bucket", object.Denied},

		{"file:///lustre/data", "file:///lustre/data/../../etc", object.Invalid},
		{"file:///lustre/data", "file:///lustre/data/%2e%2e/x", object.Invalid},
		{"http://h/x", "http://h@evil/x", object.Invalid},
		{"s3://data", "nonsense", object.Invalid},
		{"nonsense s3://data", "s3://data", object.Invalid},
		{"ftp:// s3://data", "s3://data", object.Invalid},
	} {
		err := source.Allowed(strings.Fields(tt.prefixes), tt.url)
		if tt.kind == object.Internal && err != nil {
			t.Errorf("%q by %q: %v, want allowed", tt.url, tt.prefixes, err)
		}
		if tt.kind != object.Internal && !object.Is(err, tt.kind) {
			t.Errorf("%q by %q: %v, want %v", tt.url, tt.prefixes, err, tt.kind)
		}
	}
}

func TestOpener(t *testing.T) {
	here := errors.New("opened")
	opener := source.Opener{Schemes: map[string]source.OpenFunc{
		"file": func(_ context.Context, u source.URL) (source.Source, error) { return nil, here },
		"s3":   func(_ context.Context, u source.URL) (source.Source, error) { return nil, errors.New("the wrong one") },
	}}
	if _, err := opener.Open(t.Context(), "file:///x"); !errors.Is(err, here) {
		t.Error(err)
	}
	if _, err := opener.Open(t.Context(), "gs://bucket"); !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), "file, s3") {
		t.Error(err)
	}
	if _, err := opener.Open(t.Context(), "bucket"); !object.Is(err, object.Invalid) {
		t.Error(err)
	}
}
