package web_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/object/objecttest"
	"penstock.dev/penstock/internal/source"
	"penstock.dev/penstock/internal/source/dir"
	"penstock.dev/penstock/internal/source/sourcetest"
	"penstock.dev/penstock/internal/source/web"
)

func name(key string) object.Name { return object.Name{Bucket: objecttest.Bucket, Key: key} }

func wantKind(t *testing.T, what string, err error, kind object.Kind) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Errorf("%s: %v (%v), want %v", what, err, object.KindOf(err), kind)
	}
}

func TestConformance(t *testing.T) {
	nginx := startNginx(t)
	lacks := objecttest.Lacks{Sums: true, Versions: true, Metadata: true, Buckets: true, Nested: true, Conditions: true, Keys: listable}
	for _, way := range []string{"/html", "/json", "/dated"} {
		t.Run(way, func(t *testing.T) {
			objecttest.Run(t, func(t *testing.T) objecttest.Holder {
				s, files := nginx.tree(t, way, "", web.Options{})
				return around{s, files}
			}, objecttest.Options{Lacks: lacks, Steps: 150})
		})
	}
}

func TestSourceLaws(t *testing.T) {
	nginx := startNginx(t)
	for _, way := range []string{"/html", "/json", "/dated"} {
		t.Run(way, func(t *testing.T) {
			sourcetest.Run(t, func(t *testing.T) sourcetest.Place {
				s, files := nginx.tree(t, way, "", web.Options{})
				return sourcetest.Place{
					Source: s,
					Write: func(key string, data []byte) error {
						_, err := files.Put(context.Background(), name(key), bytes.NewReader(data), object.PutOptions{})
						return err
					},
					Remove: func(key string) error { return files.Delete(context.Background(), name(key), object.Condition{}) },
				}
			}, sourcetest.Options{
				ReadOnly: true, Rewrites: 60, Unlisted: func(key string) bool { return !listable(key) },
				Possible: dir.Possible,
			})
		})
	}
}

func put(t *testing.T, s object.Sink, key, data string) {
	t.Helper()
	if _, err := s.Put(t.Context(), name(key), strings.NewReader(data), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func read(r object.Reader, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func keys(t *testing.T, s source.Source, opts object.ListOptions) (all []string) {
	t.Helper()
	for e, err := range s.List(t.Context(), objecttest.Bucket, opts) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Mark())
	}
	return all
}

func TestListFile(t *testing.T) {
	nginx := startNginx(t)
	s, files := nginx.tree(t, "/json", "?index=list:meta/list.tsv", web.Options{})
	for _, key := range []string{"b", "a/2", "a/1", "a-b", ".hidden"} {
		put(t, files, key, "this is "+key)
	}
	wantKind(t, "without the list", firstError(s), object.NotFound)
	b, err := s.Stat(t.Context(), name("b"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, files, "meta/list.tsv", fmt.Sprintf("b\t%d\t%s\r\na/2\na/1\t11\n\n.hidden\na/gone\na-b\n", b.Size, b.ETag))
	if got := keys(t, s, object.ListOptions{}); !slices.Equal(got, []string{".hidden", "a-b", "a/1", "a/2", "b"}) {
		t.Errorf("listed: %q", got)
	}
	if got := keys(t, s, object.ListOptions{Delimiter: "/", After: "a-b"}); !slices.Equal(got, []string{"a/", "b"}) {
		t.Errorf("listed: %q", got)
	}
	for e, err := range s.List(t.Context(), objecttest.Bucket, object.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if info, err := s.Stat(t.Context(), e.Info.Name); err != nil || info.Size != e.Info.Size || info.ETag != e.Info.ETag {
			t.Errorf("the entry %+v is stat's %+v, %v", e.Info, info, err)
		}
	}
	put(t, files, "meta/list.tsv", "b\n") // a new list is noticed
	if got := keys(t, s, object.ListOptions{}); !slices.Equal(got, []string{"b"}) {
		t.Errorf("listed: %q", got)
	}
	for _, bad := range []string{"../b\n", "b\tmany\n", "a//b\n", "\xff\n"} {
		put(t, files, "meta/list.tsv", bad)
		wantKind(t, fmt.Sprintf("a list with %q", bad), firstError(s), object.Invalid)
	}
	small := openURL(t, nginx.url+"/json?index=list:big", web.Options{MaxIndex: 1000})
	if err := os.WriteFile(filepath.Join(nginx.root, "big"), bytes.Repeat([]byte("key\n"), 300), 0o644); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a list beyond the bound", firstError(small), object.Invalid)
}

func firstError(s source.Source) error {
	for _, err := range s.List(context.Background(), objecttest.Bucket, object.ListOptions{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestPythonServer reads from a server without ranges, ETags and conditions.
func TestPythonServer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 for its web server")
	}
	addr := freePort(t)
	_, port, _ := strings.Cut(addr, ":")
	root := t.TempDir()
	server := start(t, "http://"+addr, root, python, "-m", "http.server", "--bind", "127.0.0.1", port)
	s, files := server.tree(t, "", "", web.Options{MaxSkip: 100})
	data := strings.Repeat("0123456789", 100)
	for _, key := range []string{"a", "a b&c<d>\"e\"", "d/é", "d/100%", "d-/x", ".hidden"} {
		put(t, files, key, data)
	}
	if got := keys(t, s, object.ListOptions{}); !slices.Equal(got, []string{".hidden", "a", "a b&c<d>\"e\"", "d-/x", "d/100%", "d/é"}) {
		t.Errorf("listed: %q", got)
	}
	info, err := s.Stat(t.Context(), name("d/100%"))
	if err != nil || info.Size != 1000 || info.ETag == "" {
		t.Fatalf("%+v, %v", info, err)
	}
	for _, r := range []object.Range{{}, {Offset: 7, Length: 20}, {Offset: 100}} {
		offset, length, _ := r.Resolve(1000)
		if got, err := read(s.OpenVersion(t.Context(), name("d/100%"), r, info.ETag)); err != nil || got != data[offset:offset+length] {
			t.Errorf("%+v: %q, %v", r, got, err)
		}
	}
	_, err = s.Open(t.Context(), name("d/100%"), object.Range{Offset: 101})
	wantKind(t, "a range too far in", err, object.Invalid)
	put(t, files, "d/100%", data)
	_, err = s.OpenVersion(t.Context(), name("d/100%"), object.Range{}, info.ETag)
	wantKind(t, "the version before", err, object.Stale)
	_, err = s.Stat(t.Context(), name("d"))
	wantKind(t, "a directory", err, object.NotFound)
}

func TestDirectoryIsNoObject(t *testing.T) {
	s, files := startNginx(t).tree(t, "/html", "", web.Options{})
	put(t, files, "d/x", "x")
	for _, key := range []string{"d", "d/", "nothing"} {
		_, err := s.Stat(t.Context(), name(key))
		wantKind(t, "stat "+key, err, object.NotFound)
		_, err = s.Open(t.Context(), name(key), object.Range{})
		wantKind(t, "open "+key, err, object.NotFound)
	}
}

// TestHTTPS reads from a server with a certificate, and not from one without a good one;
// what was encrypted stays so.
func TestHTTPS(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(root))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "http://"+r.Host+"/file", http.StatusFound)
			return
		}
		files.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s := openURL(t, server.URL, web.Options{TLS: &tls.Config{RootCAs: roots}})
	if data, err := read(s.Open(t.Context(), name("file"), object.Range{Offset: 1, Length: 3})); err != nil || data != "ont" {
		t.Errorf("%q, %v", data, err)
	}
	if got := keys(t, s, object.ListOptions{}); !slices.Equal(got, []string{"file"}) {
		t.Errorf("listed: %q", got)
	}
	_, err := s.Stat(t.Context(), name("moved"))
	wantKind(t, "a redirect to http", err, object.Denied)
	_, err = openURL(t, server.URL, web.Options{}).Stat(t.Context(), name("file"))
	wantKind(t, "a certificate of nobody", err, object.Unavailable)
}

func TestGuard(t *testing.T) {
	nginx := startNginx(t)
	s := openURL(t, nginx.url+"/html", web.Options{Guard: source.PublicOnly})
	_, err := s.Stat(t.Context(), name("x"))
	wantKind(t, "an address inside", err, object.Denied)
	_, port, _ := strings.Cut(strings.TrimPrefix(nginx.url, "http://"), ":")
	lookups := 0
	s = openURL(t, "http://files.example:"+port+"/html", web.Options{
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			lookups++
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Guard: source.PublicOnly,
	})
	_, err = s.Stat(t.Context(), name("x"))
	wantKind(t, "a name that leads inside", err, object.Denied)
	if lookups != 1 {
		t.Errorf("%d lookups for one connection", lookups)
	}
}
