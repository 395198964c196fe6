package testcluster_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/testcluster"
)

// binary is built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-testcluster-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, err = testcluster.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// answers reports whether a node answers at an endpoint.
func answers(endpoint string) bool {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get(endpoint + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func TestLife(t *testing.T) {
	n := testcluster.Start(t, testcluster.Options{Binary: binary})
	first, pid := n.Endpoint, n.Pid()
	if !answers(first) || pid == 0 {
		t.Fatalf("the node at %s does not answer", first)
	}
	if err := n.Start(); err == nil {
		t.Error("a running node was started")
	}
	n.Kill()
	if n.Running() || n.Pid() != 0 || answers(first) {
		t.Error("a killed node lives")
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("process %d is still there", pid)
	}
	if err := n.Restart(); err != nil {
		t.Fatal(err)
	}
	if n.Endpoint != first || n.Pid() == pid || !answers(first) {
		t.Errorf("restarted at %s with pid %d", n.Endpoint, n.Pid())
	}
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
	if err := n.Stop(); err == nil {
		t.Error("a stopped node was stopped")
	}
}

// TestS3 signs in every way, and in a wrong one.
func TestS3(t *testing.T) {
	keys := []string{"PENSTOCK_ACCESS_KEY=an-access-key", "PENSTOCK_SECRET_KEY=a-secret-key"}
	n := testcluster.Start(t, testcluster.Options{Binary: binary, S3: "127.0.0.1:0", Env: keys})
	at := n.S3
	if err := n.Restart(); err != nil || n.S3 != at || at == "" {
		t.Fatalf("the S3 door was at %q and is at %q: %v", at, n.S3, err)
	}
	c := &testcluster.S3{Endpoint: n.S3, AccessKey: "an-access-key", SecretKey: "a-secret-key"}
	c.HTTP.Transport = &http.Transport{}
	defer c.HTTP.CloseIdleConnections()
	want := func(status int, r testcluster.S3Request) *testcluster.S3Answer {
		t.Helper()
		a, err := c.Do(t.Context(), r)
		if err != nil || a.Status != status {
			t.Fatalf("%s %q: %v, %v", r.Method, r.Key, a, err)
		}
		return a
	}
	want(200, testcluster.S3Request{Method: "PUT", Bucket: "bucket"})
	body := strings.Repeat("0123456789", 20000)
	for how := range testcluster.S3Bodies {
		r := testcluster.S3Request{Method: "PUT", Bucket: "bucket", Key: fmt.Sprintf("a//../%d é%%?", how), Body: []byte(body), How: testcluster.S3Body(how)}
		put := want(200, r)
		r.Method, r.Body, r.How = "GET", nil, testcluster.S3Signed
		if a := want(200, r); string(a.Body) != body || a.ETag() != put.ETag() {
			t.Errorf("form %d: %d bytes come back", how, len(a.Body))
		}
	}
	c.SecretKey = "another-key"
	if a := want(403, testcluster.S3Request{Method: "GET", Bucket: "bucket", Key: "a"}); a.Code() != "SignatureDoesNotMatch" {
		t.Errorf("%s", a)
	}
}

func TestNotReady(t *testing.T) {
	n := testcluster.New(t, testcluster.Options{Binary: binary, Args: []string{"--frobnicate"}})
	err := n.Start()
	if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "frobnicate") {
		t.Errorf("%v does not say why", err)
	}
	n = testcluster.New(t, testcluster.Options{Binary: "/nowhere/penstock"})
	if err := n.Start(); err == nil {
		t.Error("nothing was started")
	}
}
