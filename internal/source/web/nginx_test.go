package web_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
	"penstock.dev/penstock/internal/source/dir"
	"penstock.dev/penstock/internal/source/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a real one with files below root.
type server struct {
	url  string
	root string
}

// start runs a server until the test ends, and waits until it answers.
func start(t *testing.T, url, root string, args ...string) server {
	t.Helper()
	var logs bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &logs, &logs, root
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait() //nolint:errcheck // stopped on purpose
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 400 {
		if resp, err := client.Get(url); err == nil {
			resp.Body.Close()
			return server{url: url, root: root}
		}
		time.Sleep(25 * time.Millisecond)
	}
	cancel()
	cmd.Wait() //nolint:errcheck // stopped on purpose
	t.Fatalf("%s does not get ready:\n%s", args[0], &logs)
	return server{}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startNginx serves one directory in several ways: /html/ and /json/ with index pages,
// /dated/ without ETags.
func startNginx(t *testing.T) server {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx"
	}
	addr, scratch, root := freePort(t), t.TempDir(), t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	conf := fmt.Sprintf(`daemon off; pid %[1]s/nginx.pid; error_log stderr crit; %[4]s worker_processes 1;
events { worker_connections 256; }
http { access_log off; sendfile on; default_type ""; types {}
client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
server { listen %[2]s; autoindex on;
location /html/ { alias %[3]s/; }
location /json/ { alias %[3]s/; autoindex_format json; }
location /dated/ { alias %[3]s/; etag off; autoindex_format json; } } }`, scratch, addr, root, user)
	path := filepath.Join(scratch, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	return start(t, "http://"+addr, root, nginx, "-c", path, "-e", "stderr")
}

// tree opens a new directory on a server, and the way around the server.
func (s server) tree(t *testing.T, way, query string, opts web.Options) (*web.Source, *dir.Source) {
	t.Helper()
	path, err := os.MkdirTemp(s.root, "tree")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := dir.New(path, dir.Options{Clock: seconds()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return openURL(t, s.url+way+"/"+filepath.Base(path)+query, opts), files
}

func openURL(t *testing.T, text string, opts web.Options) *web.Source {
	t.Helper()
	u, err := source.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(u, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// seconds is a clock on which every write has a second of its own: a web server knows no
// finer time, and nginx makes its ETags from it.
func seconds() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return time.Unix(1_600_000_000+n.Add(1), 0) }
}

// listable are the keys that nginx shows on its index pages.
func listable(key string) bool {
	return dir.Possible(key) && !strings.HasPrefix(key, ".") && !strings.Contains(key, "/.")
}

// around is a tree that is read over the web and written as files.
type around struct {
	*web.Source
	files *dir.Source
}

func (a around) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if object.ValidateKey(name.Key) == nil && !listable(name.Key) {
		return object.Info{}, object.Errorf(object.Invalid, "%q is not shown on index pages", name.Key)
	}
	if _, err := a.files.Put(ctx, name, r, opts); err != nil {
		return object.Info{}, err
	}
	return a.Stat(ctx, name)
}

func (a around) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	return a.files.Delete(ctx, name, cond)
}
