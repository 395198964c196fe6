package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// beginPut starts to store an object and leaves off in the middle of it. It
// returns when the node is waiting for the rest.
func beginPut(t *testing.T, node *testcluster.Node) net.Conn {
	t.Helper()
	client, err := penstock.New(penstock.Options{Endpoint: node.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateBucket(t.Context(), "slow", penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(node.Endpoint, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "PUT /v1/objects/slow/object HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n", address)
	answer := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, answer); err != nil || !strings.Contains(string(answer), " 100 ") {
		t.Fatalf("%q, %v", answer, err)
	}
	return conn
}

func start(t *testing.T) *testcluster.Node {
	t.Helper()
	binary, err := exec.LookPath("penstock")
	if err != nil {
		t.Fatal(err)
	}
	return testcluster.Start(t, testcluster.Options{Binary: binary})
}

// TestDrain shows that a request that is under way at SIGTERM may finish.
func TestDrain(t *testing.T) {
	node := start(t)
	conn := beginPut(t, node)
	if err := node.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitRefused(t, node)
	fmt.Fprint(conn, "0123456789")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", answer, err)
	}
	<-node.Exited()
	if status := node.ExitCode(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	client, err := penstock.New(penstock.Options{Endpoint: node.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if data, err := client.Get(t.Context(), penstock.Name{Bucket: "slow", Key: "object"}); string(data) != "0123456789" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestSecondSignal shows that the second signal does not wait for anything.
func TestSecondSignal(t *testing.T) {
	node := start(t)
	beginPut(t, node)
	if err := node.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitRefused(t, node)
	if !node.Running() {
		t.Fatal("the node did not wait for the request")
	}
	if err := node.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-node.Exited()
	if node.ExitCode() == 0 {
		t.Error("a stop that broke off a request exits with 0")
	}
}

// TestNohup shows that a node that is told to ignore hangups does: the signal after
// one is the first, and lets the request finish.
func TestNohup(t *testing.T) {
	script := filepath.Join(t.TempDir(), "penstock")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap '' HUP\nexec penstock \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	node := testcluster.Start(t, testcluster.Options{Binary: script})
	conn := beginPut(t, node)
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if err := node.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	waitRefused(t, node)
	fmt.Fprint(conn, "0123456789")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", answer, err)
	}
	<-node.Exited()
	if status := node.ExitCode(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// waitRefused waits until a node that was told to stop takes no new connections.
func waitRefused(t *testing.T, node *testcluster.Node) {
	t.Helper()
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(node.Endpoint, "http://"))
		if err != nil {
			return
		}
		conn.Close()
	}
}
