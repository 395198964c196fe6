package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a program under load.
type server struct {
	name    string
	address string // of its S3 door
	native  string // of penstock's other one
	cmd     *exec.Cmd
	logs    *bytes.Buffer
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// start runs a program with the key pair in its environment, and waits until it answers.
func start(ctx context.Context, name, address string, args ...string) (*server, error) {
	s := &server{name: name, address: address, logs: new(bytes.Buffer)}
	s.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	s.cmd.Env = append(os.Environ(), "PENSTOCK_ACCESS_KEY="+accessKey, "PENSTOCK_SECRET_KEY="+secretKey,
		"ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	s.cmd.Stdout, s.cmd.Stderr = s.logs, s.logs
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for range 600 {
		if resp, err := http.Get("http://" + address + "/"); err == nil {
			resp.Body.Close()
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s did not get ready:\n%s", name, s.logs)
}

func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may be gone
	s.cmd.Wait()                          //nolint:errcheck // stopped on purpose
}

func startPenstock(ctx context.Context, o options, name, binary, dir string) (*server, error) {
	native, err := freePort()
	if err != nil {
		return nil, err
	}
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, name, address, binary, "serve", "--data", dir, "--listen", native, "--s3", address)
	if err != nil {
		return nil, err
	}
	s.native = native
	if o.show {
		fmt.Println(name, "native door at", native, "S3 at", address)
	}
	return s, nil
}

func startSigned(ctx context.Context, o options, dir string) (*server, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	return start(ctx, "bare, signed", address, o.signed, address, dir)
}

// startVersitygw runs it over a directory, with connections kept and no log of requests.
func startVersitygw(ctx context.Context, o options, dir string) (*server, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return start(ctx, "versitygw", address, o.versitygw, "--port", address, "--quiet", "--keep-alive", "--region", region, "posix", dir)
}

// startNginx runs nginx at its best for this: sendfile, an open-file cache, no
// log, connections kept. It looks at no signature.
func startNginx(ctx context.Context, dir, scratch string) (*server, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	conf := fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log stderr crit; user root; worker_processes 2;
events { worker_connections 1024; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600; default_type application/octet-stream;
open_file_cache max=100000 inactive=600s; open_file_cache_valid 600s;
client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
server { listen %[2]s; root %[3]s; } }`, scratch, address, dir)
	path := filepath.Join(scratch, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx"
	}
	return start(ctx, "nginx", address, nginx, "-c", path)
}

// cpu returns the processor time the server and its children have taken.
func (s *server) cpu() (time.Duration, error) {
	pids := []int{s.cmd.Process.Pid}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pids[0], pids[0]))
	if err == nil {
		for f := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	var sum time.Duration
	for _, pid := range pids {
		d, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// cpuOf reads the scheduler's own account, which counts nanoseconds, summed over
// the threads.
func cpuOf(pid int) (sum time.Duration, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, err
	}
	for _, t := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, t.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
