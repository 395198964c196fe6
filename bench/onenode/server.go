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
	name string
	url  string // to which an object's name is appended
	cmd  *exec.Cmd
	logs *bytes.Buffer
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func start(ctx context.Context, name, ready string, args ...string) (*server, error) {
	s := &server{name: name, logs: new(bytes.Buffer)}
	s.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.logs, s.logs
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for range 600 {
		if resp, err := http.Get(ready); err == nil {
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return s, nil
			}
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

func startPenstock(ctx context.Context, o options, dir string) (*server, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, "penstock", "http://"+addr+"/readyz", o.binary, "serve", "--data", dir, "--listen", addr)
	if err != nil {
		return nil, err
	}
	s.url = "http://" + addr + "/v1/objects/bench/"
	return s, nil
}

func startBare(ctx context.Context, o options, dir string) (*server, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, "bare Go", "http://"+addr+"/", o.bare, addr, dir)
	if err != nil {
		return nil, err
	}
	s.url = "http://" + addr + "/"
	return s, nil
}

// startNginx runs nginx at its best for this: sendfile, an open-file cache, no
// log, connections kept.
func startNginx(ctx context.Context, dir, scratch string) (*server, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	conf := fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log stderr crit; user root; worker_processes 2;
events { worker_connections 1024; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600; default_type application/octet-stream;
open_file_cache max=100000 inactive=600s; open_file_cache_valid 600s;
client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
server { listen %[2]s; root %[3]s; } }`, scratch, addr, dir)
	path := filepath.Join(scratch, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx"
	}
	s, err := start(ctx, "nginx", "http://"+addr+"/", nginx, "-c", path)
	if err != nil {
		return nil, err
	}
	s.url = "http://" + addr + "/"
	return s, nil
}

// cpu returns the processor time the server and its children have taken.
func (s *server) cpu() (time.Duration, error) {
	pids := []int{s.cmd.Process.Pid}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pids[0], pids[0]))
	if err == nil {
		for _, f := range strings.Fields(string(children)) {
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
