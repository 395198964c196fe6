package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// TestInterruptedTree shows that a command that is interrupted in the middle of a
// tree says so and how far it got, and that the next one does the rest. A proxy
// before the node holds the second batch back.
func TestInterruptedTree(t *testing.T) {
	node := start(t)
	client, err := penstock.New(penstock.Options{Endpoint: node.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateBucket(t.Context(), "trees", penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i := range 60 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 200<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target, err := url.Parse(node.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var batches atomic.Int64
	stored, held := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/put-batch" {
			proxy.ServeHTTP(w, r)
			return
		}
		switch batches.Add(1) {
		case 1:
			proxy.ServeHTTP(w, r)
			close(stored)
			return
		case 2:
			<-stored
			close(held)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // until the command has gone away
	}))
	defer server.Close()

	var stdout, stderr bytes.Buffer
	put := exec.Command("penstock", "put", "-r", dir, "trees/in")
	put.Env = append(testcluster.Environ(), "PENSTOCK_ENDPOINT="+server.URL)
	put.Stdout, put.Stderr = &stdout, &stderr
	if err := put.Start(); err != nil {
		t.Fatal(err)
	}
	<-held
	if err := put.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = put.Wait()
	if status := put.ProcessState.ExitCode(); status != 1 || !strings.HasSuffix(stderr.String(), "penstock: interrupted; run the command again to go on\n") {
		t.Errorf("exit status %d, %q", status, stderr.String())
	}
	if !strings.HasPrefix(stdout.String(), "stored ") || !strings.HasSuffix(stdout.String(), " 0 failed\n") {
		t.Errorf("%q", stdout.String())
	}
	again := exec.Command("penstock", "put", "-r", dir, "trees/in")
	again.Env = append(testcluster.Environ(), "PENSTOCK_ENDPOINT="+node.Endpoint)
	out, err := again.CombinedOutput()
	if err != nil || strings.Contains(string(out), "stored 60 ") || !strings.Contains(string(out), " 0 failed\n") {
		t.Errorf("%q, %v", out, err)
	}
	if b, err := client.Bucket(t.Context(), "trees"); err != nil || b.Objects != 60 {
		t.Errorf("%+v, %v", b, err)
	}
}
