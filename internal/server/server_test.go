package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server in this process.
type running struct {
	server.Started
	stop func() error // ends it, and returns what Run did
}

// start runs a server until the test ends, if it is not stopped before.
func start(t *testing.T, o server.Options) *running {
	t.Helper()
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	started := make(chan server.Started, 1)
	o.Ready = func(s server.Started) { started <- s }
	s, err := server.New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{}
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case r.Started = <-started:
	case err := <-done:
		done <- err
		t.Fatalf("the server ended: %v", err)
	}
	return r
}

func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func want(t *testing.T, status int, method, url, body string, headers ...string) string {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	answer, err := client(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Errorf("%s %s: %d %s (%v), want %d", method, url, answer.StatusCode, data, err, status)
	}
	return string(data)
}

func TestRestart(t *testing.T) {
	data := []server.Data{{Dir: t.TempDir() + "/a"}, {Dir: t.TempDir() + "/b", Kind: "ssd"}}
	var fresh auth.Credentials
	for round := range 3 {
		s := start(t, server.Options{Data: data, Name: "one"})
		want(t, 200, "GET", s.URL+"/readyz", "")
		if round == 0 {
			fresh = s.Fresh
			if fresh.AccessKey == "" || fresh.SecretKey == "" || fresh.Token == "" {
				t.Errorf("the first start made %+v", fresh)
			}
			want(t, 201, "PUT", s.URL+"/v1/buckets/bucket", "")
			want(t, 200, "PUT", s.URL+"/v1/objects/bucket/small", "data")
			want(t, 200, "PUT", s.URL+"/v1/objects/bucket/large", strings.Repeat("x", 3<<20))
		} else if s.Fresh != (auth.Credentials{}) {
			t.Error("credentials are made, or shown, twice")
		}
		if got := want(t, 200, "GET", s.URL+"/v1/objects/bucket/small", ""); got != "data" {
			t.Errorf("start %d: the object is %q", round, got)
		}
		if got := want(t, 200, "GET", s.URL+"/v1/objects/bucket/large", ""); len(got) != 3<<20 {
			t.Errorf("start %d: the object has %d bytes", round, len(got))
		}
		want(t, 200, "GET", s.URL+"/v1/buckets", "", "Authorization: Bearer "+fresh.Token.Reveal())
		want(t, 401, "GET", s.URL+"/v1/buckets", "", "Authorization: Bearer wrong-token")
		if disks := want(t, 200, "GET", s.URL+"/v1/disks", ""); strings.Count(disks, `"state":"ok"`) != 2 {
			t.Errorf("the disks are %s", disks)
		}
		if lines := want(t, 200, "POST", s.URL+"/v1/scrub", ""); !strings.Contains(lines, `{"report":{`) || strings.Contains(lines, `{"finding"`) {
			t.Errorf("scrub says %s", lines)
		}
		if err := s.stop(); err != nil {
			t.Errorf("a stop that was asked for: %v", err)
		}
	}
	for _, d := range data { // what the files hold is nobody else's business
		filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 && path != d.Dir {
				t.Errorf("%s has mode %v (%v)", path, info.Mode(), err)
			}
			return nil
		})
	}
}

func TestSeveralInOneProcess(t *testing.T) {
	var all []*running
	for i := range 3 {
		all = append(all, start(t, server.Options{Data: []server.Data{{Dir: t.TempDir()}}, Name: fmt.Sprint("node-", i)}))
	}
	for i, s := range all {
		if got := want(t, 200, "GET", s.URL+"/", ""); !strings.Contains(got, fmt.Sprint("node-", i)) {
			t.Errorf("node %d says %q", i, got)
		}
		want(t, 201, "PUT", s.URL+"/v1/buckets/"+fmt.Sprint("bucket-", i), "")
		if got := want(t, 200, "GET", s.URL+"/v1/buckets", ""); strings.Count(got, `"name"`) != 1 {
			t.Errorf("node %d has the buckets %s", i, got)
		}
	}
}

func TestValidate(t *testing.T) {
	for words, o := range map[string]server.Options{
		"certificate":     {TLSCert: "x"},
		"no name":         {Data: []server.Data{{}}},
		"given twice":     {Data: []server.Data{{Dir: "a"}, {Dir: "./a"}}},
		"quota":           {Data: []server.Data{{Dir: "a", Quota: -1}}},
		"at least 16MiB":  {Data: []server.Data{{Dir: "a", Quota: 10}}},
		"b lies inside":   {Data: []server.Data{{Dir: "a"}, {Dir: "c"}, {Dir: "a/b"}}},
		"d lies inside":   {Data: []server.Data{{Dir: "c/d"}, {Dir: "c"}}},
		"cannot listen":   {Listen: "7400"},
		"99999":           {Listen: "127.0.0.1:99999"},
		"given together":  {Root: auth.Credentials{AccessKey: "abc"}},
		"characters":      {Root: auth.Credentials{Token: "short"}},
		"visible ASCII":   {Root: auth.Credentials{Token: "with a space in it"}},
		"drain":           {Drain: -1},
		"native door":     {Limits: httpapi.Limits{Requests: -1}},
		"size of packs":   {PackSize: -1},
		"at least 1MiB":   {PackSize: 1},
		"no such file":    {TLSCert: "/no/cert", TLSKey: "/no/key", Listen: "127.0.0.1:0"},
		"address already": {Listen: occupied(t)},
	} {
		s, err := server.New(context.Background(), o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want something about %q", o, err, words)
		}
	}
	var o server.Options
	if err := o.Validate(); err != nil || o.Listen != "127.0.0.1:7400" || o.Data[0].Dir != "penstock-data" || o.Name == "" {
		t.Errorf("the defaults are %+v, %v", o, err)
	}
}

func occupied(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestBeyondLoopback(t *testing.T) {
	data := []server.Data{{Dir: t.TempDir()}}
	_, err := server.New(context.Background(), server.Options{Data: data, Listen: "0.0.0.0:0"})
	if !object.Is(err, object.Denied) || !strings.Contains(err.Error(), "listening beyond loopback without credentials is refused") {
		t.Errorf("without credentials: %v", err)
	}
	_, err = server.New(context.Background(), server.Options{Data: data, Listen: "0.0.0.0:0", Root: auth.Credentials{AccessKey: "access", SecretKey: "secret-key"}})
	if !object.Is(err, object.Denied) {
		t.Errorf("with a key pair, which the native door does not take: %v", err)
	}
	open := func(s *running) string {
		_, port, _ := net.SplitHostPort(s.Address)
		return "http://127.0.0.1:" + port
	}
	s := start(t, server.Options{Data: data, Listen: "0.0.0.0:0", Root: auth.Credentials{Token: "a-good-token"}})
	want(t, 401, "GET", open(s)+"/v1/buckets", "")
	want(t, 200, "GET", open(s)+"/v1/buckets", "", "Authorization: Bearer a-good-token")
	want(t, 200, "GET", open(s)+"/healthz", "")
	if s.Fresh.Token != "" {
		t.Error("a token was made though one was given")
	}
	s.stop()

	data = []server.Data{{Dir: t.TempDir()}}
	first := start(t, server.Options{Data: data})
	first.stop()
	s = start(t, server.Options{Data: data, Listen: "0.0.0.0:0"})
	want(t, 401, "GET", open(s)+"/v1/buckets", "")
	want(t, 200, "GET", open(s)+"/v1/buckets", "", "Authorization: Bearer "+first.Fresh.Token.Reveal())
}

func TestDirectoryInUse(t *testing.T) {
	data := []server.Data{{Dir: t.TempDir()}}
	first := start(t, server.Options{Data: data})
	if s, err := server.New(context.Background(), server.Options{Data: data, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on the same directory: %v", err)
		if err == nil {
			s.Close()
		}
	}
	first.stop()
	start(t, server.Options{Data: data})
}

func TestCloseWithoutRun(t *testing.T) {
	data := []server.Data{{Dir: t.TempDir()}}
	s, err := server.New(context.Background(), server.Options{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	start(t, server.Options{Data: data})
}

// TestSecretsStaySecret looks for the credentials everywhere they must not be.
func TestSecretsStaySecret(t *testing.T) {
	var log lockedBuffer
	given := auth.Credentials{AccessKey: "an-access-key", SecretKey: "a-secret-key", Token: "a-good-token"}
	s := start(t, server.Options{Data: []server.Data{{Dir: t.TempDir()}}, Root: given, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	header := "Authorization: Bearer " + given.Token.Reveal()
	var shown strings.Builder
	for _, path := range []string{"/", "/metrics", "/v1/disks", "/v1/map", "/v1/openapi.json", "/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/v1/buckets"} {
		shown.WriteString(want(t, 200, "GET", s.URL+path, "", header))
	}
	shown.WriteString(want(t, 401, "GET", s.URL+"/v1/buckets", "", header+"x"))
	fmt.Fprintf(&shown, "%v %+v %#v %s", given, given, given, given.Token)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	shown.WriteString(log.String())
	for _, secret := range []string{given.SecretKey.Reveal(), given.Token.Reveal()} {
		if i := strings.Index(shown.String(), secret); i >= 0 {
			t.Errorf("a secret is shown: ...%s...", shown.String()[max(0, i-80):i])
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
