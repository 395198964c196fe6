package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/bench"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/server"
)

// drive asks of a driver what every driver must do.
func drive(t *testing.T, driver bench.Driver) {
	t.Helper()
	t.Cleanup(driver.Close)
	ctx := t.Context()
	conn, err := driver.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	large := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // more than any buffer
	contents := [][]byte{[]byte("one\r\n"), {}, large}
	if err := conn.PutBatch(ctx, []string{"p/1", "p/2", "p/3"}, contents); err != nil {
		t.Fatal(err)
	}
	if err := conn.Put(ctx, "p/4", []byte("four")); err != nil {
		t.Fatal(err)
	}
	contents = append(contents, []byte("four"))
	for i, want := range contents {
		var got bytes.Buffer
		if err := conn.Get(ctx, "p/"+strconv.Itoa(i+1), &got); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("object %d: %d bytes, %v", i+1, got.Len(), err)
		}
	}
	if err := conn.Get(ctx, "p/missing", io.Discard); !object.Is(err, object.NotFound) {
		t.Errorf("a missing object: %v", err)
	}
	keys, at := []string{"p/3", "p/missing", "p/1", "p/2"}, 0
	err = conn.Batch(ctx, keys, func(content []byte, err error) {
		want := map[string][]byte{"p/1": contents[0], "p/2": contents[1], "p/3": contents[2]}[keys[at]]
		if missing := keys[at] == "p/missing"; object.Is(err, object.NotFound) != missing || (!missing && !bytes.Equal(content, want)) {
			t.Errorf("%s in a batch: %d bytes, %v", keys[at], len(content), err)
		}
		at++
	})
	if err != nil || at != len(keys) {
		t.Errorf("%d items of %d, %v", at, len(keys), err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := conn.Get(ended, "p/1", io.Discard); !object.Is(err, object.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	if err := conn.Get(ctx, "p/1", io.Discard); err != nil {
		t.Errorf("after that: %v", err)
	}
	loads(t, driver)
}

// loads runs every load on a driver.
func loads(t *testing.T, driver bench.Driver) {
	t.Helper()
	for _, op := range []bench.Op{bench.Put, bench.Get, bench.Batch, bench.PutBatch, bench.Mixed} {
		work := bench.Workload{Op: op, Prefix: "load/", Keys: 100, Count: 300, Batch: 32, Workers: 4, Writes: 0.5, Verify: true}
		work.Sizes, _ = bench.Lognormal(2000, 1)
		report, err := bench.Run(t.Context(), bench.Options{Workload: work, Fill: op == bench.Get, Targets: []bench.Target{{Name: "it", Driver: driver}}})
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if r := report.Targets[0].Total; r.Objects != 300 || r.Errors != 0 {
			t.Errorf("%s: %+v", op, r)
		}
	}
}

// serve runs a node with the bucket "bench" until the test ends.
func serve(t *testing.T) *penstock.Client {
	client, _ := serveAt(t)
	return client
}

// serveAt tells where the node is, too.
func serveAt(t *testing.T) (*penstock.Client, string) {
	t.Helper()
	started, ended := make(chan server.Started, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	node, err := server.New(ctx, server.Options{
		Data: []server.Data{{Dir: t.TempDir()}}, Listen: "127.0.0.1:0", Ready: func(s server.Started) { started <- s },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !object.Is(err, object.Canceled) {
			t.Error(err)
		}
	})
	url := (<-started).URL
	client, err := penstock.New(penstock.Options{Endpoint: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := client.CreateBucket(t.Context(), "bench", penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return client, url
}

func TestPenstock(t *testing.T) {
	client := serve(t)
	if _, err := (&bench.Penstock{Client: client, Bucket: "missing"}).Connect(t.Context()); !object.Is(err, object.NotFound) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	drive(t, &bench.Penstock{Client: client, Bucket: "bench"})
}

func TestHTTP(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	files := http.FileServer(http.Dir(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			files.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		path := filepath.Join(dir, filepath.FromSlash(r.URL.Path))
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path+".new", data, 0o644)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(s.Close)
	driver, err := bench.NewHTTP(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	drive(t, driver)
	for _, text := range []string{"", "127.0.0.1:80", "ftp://x/", "http://", "http://x/?q"} {
		if _, err := bench.NewHTTP(text); !object.Is(err, object.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHTTPWithFiller reads by HTTP what was stored as files, as with nginx.
func TestHTTPWithFiller(t *testing.T) {
	dir := t.TempDir()
	files := http.FileServer(http.Dir(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "read only", http.StatusMethodNotAllowed)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer s.Close()
	driver, _ := bench.NewHTTP(s.URL)
	defer driver.Close()
	work := bench.Workload{Op: bench.Get, Prefix: "a b/?#%/", Keys: 20, Count: 40, Verify: true}
	work.Sizes, _ = bench.Fixed(1000)
	target := bench.Target{Name: "http", Driver: driver, Filler: &bench.Files{Dir: dir}}
	report, err := bench.Run(t.Context(), bench.Options{Workload: work, Fill: true, Targets: []bench.Target{target}})
	if err != nil || report.Errors() != 0 || report.Targets[0].Total.Bytes != 40_000 {
		t.Errorf("%v, %+v", err, report.Targets)
	}
	// Such a server takes no PUT.
	work.Op, work.Count = bench.Put, 3
	report, err = bench.Run(t.Context(), bench.Options{Workload: work, Targets: []bench.Target{target}})
	if err != nil || report.Targets[0].Total.ErrorKinds["Invalid"] != 3 {
		t.Errorf("%v, %+v", err, report.Targets)
	}
}

func TestFiles(t *testing.T) {
	for _, sync := range []bool{false, true} {
		dir := t.TempDir()
		drive(t, &bench.Files{Dir: dir, Sync: sync})
		if left, _ := filepath.Glob(filepath.Join(dir, ".penstock-bench*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	conn, err := (&bench.Files{Dir: t.TempDir()}).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Put(t.Context(), "../outside", nil); !object.Is(err, object.Invalid) {
		t.Errorf("a key that leads outside: %v", err)
	}
	if _, err := (&bench.Files{Dir: filepath.Join(t.TempDir(), "missing")}).Connect(t.Context()); !object.Is(err, object.NotFound) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestRedis(t *testing.T) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed; TestRedisProtocol has a server of its own")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	cmd := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "eady to accept connections") {
		t.Log(lines.Text())
	}
	drive(t, &bench.Redis{Address: socket})
}

func TestRedisProtocol(t *testing.T) {
	s := startRESP(t)
	driver, err := bench.ParseRedis("redis://" + s.listener.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	drive(t, driver)
	conn, err := driver.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// An error the server answers with leaves the connection as it is; what is no
	// answer at all ends it, and the next request makes another one.
	for name, text := range map[string]string{
		"refused": "-OOM command not allowed\r\n", "nonsense": "hello\r\n", "nothing": "\r\n", "length": "$lots\r\n",
		"huge": "$99999999999\r\n", "short": "$5\r\nab", "endless": strings.Repeat("x", 100_000),
	} {
		s.answerNext(text)
		if err := conn.Get(t.Context(), "load/00000000", io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := conn.Put(t.Context(), "k", []byte("v")); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	s.answerNext("*1\r\n$-1\r\n")
	if err := conn.Batch(t.Context(), []string{"a", "b"}, func([]byte, error) {}); err == nil {
		t.Error("too few values: no error")
	}
	for _, text := range []string{"", "127.0.0.1", "redis://"} {
		if _, err := bench.ParseRedis(text); !object.Is(err, object.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (&bench.Redis{Address: filepath.Join(t.TempDir(), "no.sock")}).Connect(t.Context()); err == nil {
		t.Error("connected to nothing")
	}
}

// respServer is the little of Redis that is needed here.
type respServer struct {
	listener net.Listener
	mu       sync.Mutex
	values   map[string][]byte
	next     string // sent instead of the next answer, after which the connection is closed if it is no error
}

func startRESP(t *testing.T) *respServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &respServer{listener: listener, values: map[string][]byte{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait() // every client has closed its connections
	})
	return s
}

func (s *respServer) answerNext(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = text
}

func (s *respServer) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer, keep := s.answer(args)
		if _, err := io.WriteString(conn, answer); err != nil || !keep {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	number := func(prefix string) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, prefix)))
	}
	n, err := number("*")
	args := make([]string, 0, n)
	for range n {
		size, err := number("$")
		if err != nil {
			return nil, err
		}
		data := make([]byte, size+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		args = append(args, string(data[:size]))
	}
	return args, err
}

func (s *respServer) answer(args []string) (text string, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.next; text != "" {
		s.next = ""
		return text, text[0] == '-'
	}
	bulk := func(key string) string {
		value, ok := s.values[key]
		if !ok {
			return "$-1\r\n"
		}
		return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	}
	switch args[0] {
	case "SET":
		s.values[args[1]] = []byte(args[2])
		return "+OK\r\n", true
	case "GET":
		return bulk(args[1]), true
	case "MGET":
		text = fmt.Sprintf("*%d\r\n", len(args)-1)
		for _, key := range args[1:] {
			text += bulk(key)
		}
		return text, true
	}
	return "-ERR unknown command\r\n", true
}
