// Package testcluster runs real nodes for tests: the real binary as a child
// process, with a data directory, a free port, and ways to kill, stop and restart
// it.
//
// Build makes the binary, once per test process, from TestMain. Start runs a node
// and returns when it is ready; it learns the port from the line the node prints,
// so nobody polls and no port is raced for. Every child is ended by its pid when
// the test ends, and by the kernel should the test process die before it.
//
// A Node's methods are for one goroutine at a time.
package testcluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build compiles the penstock command into dir and returns its path. flags go to
// `go build`, for example "-race".
func Build(dir string, flags ...string) (string, error) {
	binary := filepath.Join(dir, "penstock")
	args := append([]string{"build", "-o", binary}, flags...)
	out, err := exec.Command("go", append(args, "penstock.dev/penstock/cmd/penstock")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// T is what a node wants of the test that runs it; every testing.TB has it.
type T interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	TempDir() string
}

// Options describe a node. Only Binary must be given.
type Options struct {
	Binary string
	Data   []string // arguments of --data; one fresh directory if empty
	Listen string   // 127.0.0.1:0 if empty
	S3     string   // argument of --s3; none is given if empty
	Args   []string // further arguments of `penstock serve`
	Env    []string // further variables, NAME=VALUE; PENSTOCK_* of the test process are not passed on
	Dir    string   // where the node runs; a fresh directory if empty

	// Timeout is how long to wait for a node to get ready or to stop; a minute if
	// zero.
	Timeout time.Duration
}

// Node is one child process, or what is left of it until it is restarted.
type Node struct {
	t    T
	opts Options

	// Endpoint is where the node answers. A restarted node keeps its port.
	Endpoint string

	// S3 is where its S3 door is, if the options asked for one; likewise.
	S3 string

	cmd    *exec.Cmd
	stderr *tail
	stdout *tail
	exited chan struct{} // closed when the process has been waited for
	err    error         // what Wait said; valid after exited
}

// Start runs a node and waits until it is ready. The test fails if it does not
// get so far.
func Start(t T, opts Options) *Node {
	t.Helper()
	n := New(t, opts)
	if err := n.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	return n
}

// New returns a node that does not run yet.
func New(t T, opts Options) *Node {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if len(opts.Data) == 0 {
		opts.Data = []string{filepath.Join(opts.Dir, "data")}
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	n := &Node{t: t, opts: opts}
	t.Cleanup(func() {
		n.end()
		if t.Failed() && n.stderr != nil {
			t.Logf("node %s, standard error:\n%s", n.Endpoint, n.stderr)
		}
	})
	return n
}

// Start runs the process and waits until it is ready.
func (n *Node) Start() error {
	if n.Running() {
		return errors.New("testcluster: the node is running")
	}
	args := []string{"serve", "--listen", n.opts.Listen}
	for _, data := range n.opts.Data {
		args = append(args, "--data", data)
	}
	if n.opts.S3 != "" {
		args = append(args, "--s3", n.opts.S3)
	}
	args = append(args, n.opts.Args...)
	cmd := exec.Command(n.opts.Binary, args...)
	cmd.Dir = n.opts.Dir
	cmd.Env = append(Environ(), n.opts.Env...)
	// Should this process die, its children do not stay.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	n.stdout, n.stderr = new(tail), new(tail)
	cmd.Stderr = n.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.exited = cmd, make(chan struct{})
	ready := make(chan started, 1)
	go n.watch(cmd, stdout, ready)
	return n.waitReady(ready)
}

// readyLine is what a node prints when it answers, and s3Line what it prints with that
// if it has an S3 door.
var (
	readyLine = regexp.MustCompile(`^penstock .* ready at (https?://\S+)`)
	s3Line    = regexp.MustCompile(`^S3 at (https?://\S+)`)
)

// started is what a node says of itself when it answers.
type started struct{ endpoint, s3 string }

// watch reads the child's output to its end and then waits for the child.
func (n *Node) watch(cmd *exec.Cmd, stdout io.Reader, ready chan<- started) {
	var said started
	plain := n.opts.S3 == "" || n.opts.S3 == "off"
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		n.stdout.Write([]byte(line))
		if m := s3Line.FindStringSubmatch(line); m != nil {
			said.s3 = m[1]
		}
		if m := readyLine.FindStringSubmatch(line); m != nil {
			said.endpoint = m[1]
		}
		if said.endpoint != "" && (said.s3 != "" || plain) {
			select {
			case ready <- said:
			default:
			}
		}
		if err != nil {
			break
		}
	}
	n.err = cmd.Wait()
	close(n.exited)
}

func (n *Node) waitReady(ready <-chan started) error {
	timeout := time.NewTimer(n.opts.Timeout)
	defer timeout.Stop()
	select {
	case said := <-ready:
		n.Endpoint, n.S3 = said.endpoint, said.s3
	case <-n.exited:
		return fmt.Errorf("testcluster: the node ended before it was ready: %w\n%s", n.err, n.stderr)
	case <-timeout.C:
		n.end()
		return fmt.Errorf("testcluster: the node was not ready after %s\n%s", n.opts.Timeout, n.stderr)
	}
	// The next start takes the same port, so that clients find it again.
	n.opts.Listen = hostPort(n.Endpoint)
	if n.opts.S3 != "" && n.S3 != "" && n.opts.S3 != "off" {
		n.opts.S3 = hostPort(n.S3)
	}
	if strings.HasPrefix(n.Endpoint, "https:") {
		return nil // its certificate is the test's business
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.Endpoint+"/readyz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("testcluster: %w\n%s", err, n.stderr)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("testcluster: /readyz says %s\n%s", resp.Status, n.stderr)
	}
	return nil
}

// Environ returns the environment of this process without its PENSTOCK_*
// variables.
func Environ() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PENSTOCK_") {
			env = append(env, v)
		}
	}
	return env
}

func hostPort(endpoint string) string {
	return regexp.MustCompile(`^https?://([^/]+).*$`).ReplaceAllString(endpoint, "$1")
}

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 64 << 10

// Write keeps p, and forgets the oldest bytes beyond the bound.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > 2*tailSize {
		t.data = append([]byte(nil), t.data[len(t.data)-tailSize:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
