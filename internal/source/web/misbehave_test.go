package web_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
	"penstock.dev/penstock/internal/source/misbehave"
	"penstock.dev/penstock/internal/source/web"
)

// behind opens a tree on nginx through a proxy that misbehaves.
func behind(t *testing.T, opts web.Options) (*web.Source, *misbehave.Proxy) {
	t.Helper()
	nginx := startNginx(t)
	proxy := misbehave.New(nginx.url)
	t.Cleanup(proxy.Close)
	_, files := nginx.tree(t, "/html", "", opts)
	put(t, files, "file", fileData)
	trees, err := filepath.Glob(filepath.Join(nginx.root, "tree*"))
	if err != nil || len(trees) != 1 {
		t.Fatal(trees, err)
	}
	return openURL(t, proxy.URL+"/html/"+filepath.Base(trees[0]), opts), proxy
}

var fileData = strings.Repeat("0123456789abcdef", 8192)

var quick = web.Options{ConnectTimeout: time.Second, HeaderTimeout: time.Second, IdleTimeout: time.Second}

func TestMisbehaviour(t *testing.T) {
	s, proxy := behind(t, quick)
	info, err := s.Stat(t.Context(), name("file"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what  string
		fault misbehave.Fault
		kind  object.Kind
	}{
		{"SlowDown", misbehave.SlowDown(), object.Busy},
		{"too many", misbehave.TooMany(7 * time.Second), object.Busy},
		{"500", misbehave.Failure(), object.Unavailable},
		{"503 with a body that hangs", func(w http.ResponseWriter, r *http.Request, _ misbehave.Forward) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusServiceUnavailable)
			http.NewResponseController(w).Flush() //nolint:errcheck // the client sees it
			<-r.Context().Done()
		}, object.Busy},
		{"403", misbehave.Status(http.StatusForbidden, ""), object.Denied},
		{"hang before the header", misbehave.HangBefore(), object.Unavailable},
		{"hang after the header", misbehave.HangAfter(0), object.Unavailable},
		{"hang in the body", misbehave.HangAfter(1000), object.Unavailable},
		{"reset in the body", misbehave.Reset(1000), object.Unavailable},
		{"short body", misbehave.Short(1000), object.Corrupt},
		{"short body without a byte", misbehave.Short(0), object.Corrupt},
		{"length too large", misbehave.WrongLength(10), object.Corrupt},
		{"length too small", misbehave.WrongLength(-10), object.Corrupt},
		{"an error inside", misbehave.ErrorInside(), object.Invalid},
		{"an error inside, with an ETag", misbehave.Status(http.StatusOK, "<Error/>", `ETag: "e"`), object.Stale},
		{"another ETag", misbehave.Header(`ETag: "other"`), object.Stale},
		{"another range", misbehave.Header("Content-Range: bytes 0-4095/131072"), object.Corrupt},
		{"no range", misbehave.Header("Content-Range:"), object.Corrupt},
		{"a redirect in circles", misbehave.Redirect(""), object.Invalid},
		{"a redirect to another scheme", misbehave.Redirect("ftp://127.0.0.1/file"), object.Denied},
		{"a redirect with a password", misbehave.Redirect("http://user:secret@127.0.0.1/file"), object.Denied},
		{"a redirect to a file of ours", misbehave.Redirect("file:///etc/passwd"), object.Denied},
	} {
		t.Run(tt.what, func(t *testing.T) {
			proxy.Always(tt.fault)
			begin := time.Now()
			data, err := read(s.OpenVersion(t.Context(), name("file"), object.Range{Offset: 4096, Length: 65536}, info.ETag))
			if !object.Is(err, tt.kind) {
				t.Errorf("%v (%v) after %d bytes, want %v", err, object.KindOf(err), len(data), tt.kind)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("a secret is told: %v", err)
			}
			if !strings.HasPrefix(fileData, data) { // offset 4096 is a multiple of the pattern
				t.Errorf("%d wrong bytes were given", len(data))
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	proxy.Always(misbehave.TooMany(7 * time.Second))
	if _, err := s.Stat(t.Context(), name("file")); source.RetryAfter(err) != 7*time.Second || !source.Retryable(err) {
		t.Errorf("%v: to be repeated after %v", err, source.RetryAfter(err))
	}
	proxy.Set(nil)
	if data, err := read(s.OpenVersion(t.Context(), name("file"), object.Range{}, info.ETag)); err != nil || data != fileData {
		t.Errorf("when all is well again: %d bytes, %v", len(data), err)
	}
}

// TestLongBody sends a whole object in chunks without a length: who does not say how long
// it is does not get believed; a range says so, and has to keep it.
func TestLongBody(t *testing.T) {
	s, proxy := behind(t, quick)
	proxy.Always(misbehave.Long(5))
	_, err := read(s.Open(t.Context(), name("file"), object.Range{}))
	wantKind(t, "the whole", err, object.Invalid)
	data, err := read(s.Open(t.Context(), name("file"), object.Range{Length: 4096}))
	wantKind(t, "a range", err, object.Corrupt)
	if len(data) > 4096 {
		t.Errorf("%d bytes of a range of 4096", len(data))
	}
}

// TestServerWithout takes powers away from the server: what is left is right or Stale.
func TestServerWithout(t *testing.T) {
	s, proxy := behind(t, quick)
	info, err := s.Stat(t.Context(), name("file"))
	if err != nil {
		t.Fatal(err)
	}
	proxy.Always(misbehave.WithoutRequest("Range", "If-Range"))
	data, err := read(s.OpenVersion(t.Context(), name("file"), object.Range{Offset: 5000, Length: 100}, info.ETag))
	if err != nil || data != fileData[5000:5100] {
		t.Errorf("without ranges: %d bytes, %v", len(data), err)
	}
	proxy.Always(misbehave.WithoutRequest("If-Match", "If-Range"))
	_, err = s.OpenVersion(t.Context(), name("file"), object.Range{Offset: 5000, Length: 100}, "other")
	wantKind(t, "without conditions", err, object.Stale)
	proxy.Always(misbehave.Header("ETag:", "Last-Modified:"))
	_, err = s.Stat(t.Context(), name("file"))
	wantKind(t, "without versions", err, object.Invalid)
	proxy.Set(func(r *http.Request, _ int) misbehave.Fault {
		if r.Method == http.MethodHead {
			return misbehave.Status(http.StatusMethodNotAllowed, "")
		}
		return nil
	})
	if again, err := s.Stat(t.Context(), name("file")); err != nil || again.Size != info.Size || again.ETag != info.ETag {
		t.Errorf("without HEAD: %+v, %v", again, err)
	}
	proxy.Always(misbehave.Header("ETag: W/\"weak\""))
	if weak, err := s.Stat(t.Context(), name("file")); err != nil || !strings.HasPrefix(weak.ETag, "modified-") {
		t.Errorf("with a weak ETag: %+v, %v", weak, err)
	}
}

// TestDrip shows that what comes slowly is taken, and that a caller may leave.
func TestDrip(t *testing.T) {
	s, proxy := behind(t, quick)
	proxy.Always(misbehave.Drip(4096, 10*time.Millisecond))
	if data, err := read(s.Open(t.Context(), name("file"), object.Range{})); err != nil || data != fileData {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Open(ctx, name("file"), object.Range{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = read(r, nil)
	wantKind(t, "a reader whose caller left", err, object.Canceled)
}

func TestNoConnection(t *testing.T) {
	deaf, err := misbehave.NewDeaf()
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for what, s := range map[string]*web.Source{
		"nobody accepts": openURL(t, "http://"+deaf.Addr, quick),
		"no such name":   openURL(t, "http://nowhere.example", web.Options{Lookup: misbehave.NoSuchName}),
		"nobody listens": openURL(t, "http://"+freePort(t), quick),
	} {
		_, err := s.Stat(t.Context(), name("file"))
		wantKind(t, what, err, object.Unavailable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = openURL(t, "http://"+deaf.Addr, web.Options{}).Stat(ctx, name("file"))
	wantKind(t, "the caller's time is up", err, object.Canceled)
}

func TestSameHost(t *testing.T) {
	opts := quick
	opts.SameHost = true
	s, proxy := behind(t, opts)
	proxy.Set(func(r *http.Request, n int) misbehave.Fault {
		if n == 0 {
			return misbehave.Redirect(strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1) + r.URL.Path)
		}
		return nil
	})
	_, err := s.Stat(t.Context(), name("file"))
	wantKind(t, "a redirect to another host", err, object.Denied)
	proxy.Set(func(r *http.Request, n int) misbehave.Fault {
		if n < 3 {
			return misbehave.Redirect(r.URL.RequestURI())
		}
		return nil
	})
	if _, err := s.Stat(t.Context(), name("file")); err != nil {
		t.Errorf("three redirects: %v", err)
	}
}
