package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// command runs one command line and returns its exit status and what it printed.
func command(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	p := &program{in: strings.NewReader("x"), out: &out, err: &err, env: func(string) (string, bool) { return "", false }}
	status = p.run(ctx, args)
	return status, out.String(), err.String()
}

// TestWrongUse shows that what cannot work whatever the node says is wrong use:
// status 2, one line that says why, and a hint.
func TestWrongUse(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("real", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", "link"); err != nil {
		t.Fatal(err)
	}
	// A node that is started by mistake stops at once.
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct{ words, line string }{
		{`metadata key "sp ace"`, "put in photos/k --meta sp\u00a0ace=1"},
		{`metadata key "größe"`, "put in photos/k --meta größe=1"},
		{"cannot be sent", "put in photos/k --meta a=\a"},
		{"content type", "put in photos/k --content-type \a"},
		{"is not an ETag", `put in photos/k --if-match a"b`},
		{"is not an ETag", `cp photos/a photos/b --if-none-match a,b`},
		{"is not an ETag", `rm photos/a --if-match a,b`},
		{`want always or ""`, "bucket set photos --verify sometimes"},
		{`want always or ""`, "bucket create photos --verify Always"},
		{"cannot be the name of a user", "user add .x"},
		{"root is always there", "user rm root"},
		{"both --access-key and --secret-key", "user add alice --secret-key long-enough"},
		{"is no right: want read or write", "user grant alice photos all"},
		{"is not a size", "bucket create photos --quota 64M"},
		{"is not a size", "bucket set photos --quota -1"},
		{"is not a size", "get photos/k - --offset -1"},
		{"is not a size", "serve --max-body much"},
		{"is not a size", "serve --pack-size 8388608TiB"},
		{"is not a size", "serve --data a,quota=lots"},
		{"99999", "serve --listen 127.0.0.1:99999"},
		{"cannot listen", "serve --listen 127.0.0.1:-1"},
		{"cannot listen", "serve --listen 127.0.0.1:nosuchservice"},
		{"cannot listen", "doctor --listen 127.0.0.1:99999"},
		{"quota of a is 10 bytes", "serve --data a,quota=10"},
		{"quota of a is 10 bytes", "doctor --data a,quota=10"},
		{"at least 1MiB", "serve --pack-size 1"},
		{"--max-requests must be more than 0", "serve --max-requests 0"},
		{"--max-requests must be more than 0", "serve --max-requests -1"},
		{"--max-connections must be more than 0", "serve --max-connections 0"},
		{"--max-body must be more than 0", "serve --max-body 0"},
		{"--pace must be more than 0", "serve --pace 0s"},
		{"--header-timeout must be more than 0", "serve --header-timeout 0s"},
		{"--idle-timeout must be more than 0", "serve --idle-timeout -1s"},
		{"--drain must be more than 0", "serve --drain 0s"},
		{"a/b lies inside a", "serve --data a --data a/b"},
		{"a/b/c lies inside a", "serve --data a/b/c --data a"},
		{"link/c lies inside real", "serve --data real --data link/c"},
		{"given twice", "serve --data real --data link"},
		{"given twice", "serve --data a --data ./a"},
	} {
		args := strings.Split(tt.line, " ")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\u00a0", " ")
		}
		if args[0] == "serve" {
			args = append([]string{"serve", "--listen", "127.0.0.1:0"}, args[1:]...)
		} else {
			args = append(args, "--endpoint", "http://127.0.0.1:1")
		}
		status, _, said := command(stopped, args...)
		if status != exitUsage || !strings.Contains(said, tt.words) || !strings.Contains(said, "--help' for usage") {
			t.Errorf("%q exits with %d and says %q, want %q", tt.line, status, said, tt.words)
		}
	}
	// Neighbours whose names only look alike are fine, and a refused start leaves
	// nothing behind.
	names, err := os.ReadDir(".")
	if err != nil || len(names) != 2 {
		t.Errorf("there are %v (%v)", names, err)
	}
	if status, _, said := command(stopped, "serve", "--listen", "127.0.0.1:0", "--data", "a", "--data", "ab"); status != exitOK {
		t.Errorf("a and ab: %d, %s", status, said)
	}
}

// answering returns the flags that lead to a node that answers so.
func answering(t *testing.T, handler http.HandlerFunc) []string {
	node := httptest.NewServer(handler)
	t.Cleanup(node.Close)
	return []string{"--endpoint", node.URL}
}

// TestScrubSummary shows that the sum of a scrub is the last line of its output, in
// words and in JSON.
func TestScrubSummary(t *testing.T) {
	const report = `{"report":{"bytes":2048,"total_bytes":2048,"records":8,"blobs":1,"findings":1}}`
	const finding = `{"finding":{"disk":"d1","kind":"record","name":"b/k","file":"packs/1.tar","offset":5,"detail":"bad"}}`
	for _, tt := range []struct {
		lines  []string
		status int
		plain  string
	}{
		{
			[]string{`{"progress":{"bytes":1}}`, finding, report},
			exitFailed,
			"record  disk d1  packs/1.tar at 5  b/k: bad\nscrubbed 8 records and 1 blobs, 2KiB: 1 finding\n",
		},
		{[]string{strings.Replace(report, `"findings":1`, `"findings":0`, 1)}, exitOK, "scrubbed 8 records and 1 blobs, 2KiB: no damage\n"},
	} {
		node := answering(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Join(tt.lines, "\n")+"\n") })
		status, out, said := command(t.Context(), append(node, "scrub")...)
		if status != tt.status || out != tt.plain || said != "" {
			t.Errorf("scrub exits with %d and says\n%s\n%s", status, out, said)
		}
		want := strings.Join(tt.lines, "\n") + "\n"
		want = strings.TrimPrefix(want, `{"progress":{"bytes":1}}`+"\n")
		status, out, said = command(t.Context(), append(node, "scrub", "--json")...)
		if status != tt.status || out != want || said != "" {
			t.Errorf("scrub --json exits with %d and says\n%s\n%s", status, out, said)
		}
	}
	// A scrub that broke off has no sum.
	node := answering(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, finding+"\n") })
	if status, out, _ := command(t.Context(), append(node, "scrub", "--json")...); status != exitFailed || out != finding+"\n" {
		t.Errorf("a scrub that broke off exits with %d and says\n%s", status, out)
	}
}

// TestStatInFull shows that stat has the whole of the time, and says why it failed
// although HEAD has no body.
func TestStatInFull(t *testing.T) {
	node := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "lost") {
			w.Header().Set("X-Penstock-Error", "Corrupt: b1k/lost is damaged: pack 7: checksum: differs")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Etag", `"1-1"`)
		h.Set("Last-Modified", "Sun, 15 Nov 2026 01:00:00 GMT")
		h.Set("X-Penstock-Modified", "2026-11-15T01:00:00.123456789Z")
		h.Set("X-Penstock-Version", "1.1")
		h.Set("X-Penstock-Crc32", "00000000")
		h.Set("Content-Length", "0")
	})
	if status, out, said := command(t.Context(), append(node, "stat", "b1k/k")...); status != exitOK || !strings.Contains(out, " 2026-11-15T01:00:00.123456789Z\n") {
		t.Errorf("stat exits with %d and says\n%s\n%s", status, out, said)
	}
	if status, _, said := command(t.Context(), append(node, "stat", "b1k/lost")...); status != exitFailed || !strings.Contains(said, "b1k/lost is damaged: pack 7: checksum: differs") {
		t.Errorf("stat exits with %d and says\n%s", status, said)
	}
}
