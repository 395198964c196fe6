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
