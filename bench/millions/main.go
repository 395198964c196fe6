// Command millions measures a node with millions of small objects: memory, start
// after a clean stop and after SIGKILL, rebuilding the index, a page of a
// listing, disk use.
//
//	go run ./bench/millions [-objects 5000000] [-size 1024] [-penstock bin/penstock] [-dir DIR]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

func main() {
	objects := flag.Int("objects", 5_000_000, "how many")
	size := flag.Int("size", 1024, "bytes of each")
	binary := flag.String("penstock", "bin/penstock", "the binary to measure")
	dir := flag.String("dir", "", "where to put data; default: a temporary directory")
	flag.Parse()
	if err := run(*objects, *size, *binary, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "millions:", err)
		os.Exit(1)
	}
}

func name(i int) string { return fmt.Sprintf("train/n%05d/sample-%09d.bin", i%1000, i) }

func run(objects, size int, binary, parent string) error {
	dir, err := os.MkdirTemp(parent, "penstock-millions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addr, err := freePort()
	if err != nil {
		return err
	}
	n := &node{binary: binary, dir: dir, addr: addr}
	if err := n.start("first start (empty)"); err != nil {
		return err
	}
	if err := n.request(http.MethodPut, "/v1/buckets/bench", nil); err != nil {
		return err
	}
	if err := n.stop(syscall.SIGTERM); err != nil {
		return err
	}
	if err := fill(dir, objects, size); err != nil {
		return err
	}
	steps := []func() error{
		func() error { return n.start("start after a clean stop") },
		n.memory, func() error { return n.reads(objects, 50000) }, func() error { return n.pages(objects) }, n.memory,
		func() error { return n.writes(50000, size) },
		func() error { return n.stop(syscall.SIGKILL) },
		func() error { return n.start("start after SIGKILL under writes") },
		func() error { return n.stop(syscall.SIGTERM) },
		func() error { return os.RemoveAll(filepath.Join(dir, "index")) },
		func() error {
			begin := time.Now()
			if err := n.start("start without an index"); err != nil {
				return err
			}
			took := time.Since(begin)
			fmt.Printf("index rebuilt at %.0f objects/s\n", float64(objects)/took.Seconds())
			return nil
		},
		n.memory, func() error { return n.reads(objects, 20000) },
		func() error { return n.stop(syscall.SIGTERM) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			n.stop(syscall.SIGKILL) //nolint:errcheck // it may not run
			return err
		}
	}
	return use(dir, objects)
}

// fill writes through the engine itself, many at a time: the doors for that come
// with batches.
func fill(dir string, objects, size int) error {
	begin := time.Now()
	s, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: disk.NewDir(dir), Name: dir}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	body := bytes.Repeat([]byte("m"), size)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= objects || failed.Load() != nil {
					return
				}
				if _, err := s.Put(ctx, object.Name{Bucket: "bench", Key: name(i)}, bytes.NewReader(body), object.PutOptions{SizeHint: int64(size)}); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	err = errors.Join(<-done, s.Close())
	if p := failed.Load(); p != nil {
		err = *p
	}
	took := time.Since(begin)
	fmt.Printf("filled %d objects of %d bytes, durably, in %v (%.0f/s)\n", objects, size, took.Round(time.Second), float64(objects)/took.Seconds())
	return err
}

type node struct {
	binary, dir, addr string
	cmd               *exec.Cmd
	logs              bytes.Buffer
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (n *node) start(what string) error {
	begin := time.Now()
	n.logs.Reset()
	n.cmd = exec.Command(n.binary, "serve", "--data", n.dir, "--listen", n.addr)
	n.cmd.Stdout, n.cmd.Stderr = &n.logs, &n.logs
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	for time.Since(begin) < 10*time.Minute {
		if n.request(http.MethodGet, "/readyz", nil) == nil {
			fmt.Printf("%s: %.2f s\n", what, time.Since(begin).Seconds())
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("%s: not ready:\n%s", what, &n.logs)
}

func (n *node) stop(sig syscall.Signal) error {
	if err := n.cmd.Process.Signal(sig); err != nil {
		return err
	}
	err := n.cmd.Wait()
	if sig == syscall.SIGKILL {
		return nil
	}
	return err
}

func (n *node) request(method, path string, body []byte) error {
	req, err := http.NewRequest(method, "http://"+n.addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return err
}

func (n *node) memory() error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			kb, _ := strconv.Atoi(strings.Fields(line)[1])
			fmt.Printf("%s %d MiB  ", strings.Fields(line)[0], kb/1024)
		}
	}
	fmt.Println()
	return nil
}

func (n *node) reads(objects, count int) error {
	begin := time.Now()
	for range count {
		if err := n.request(http.MethodGet, "/v1/objects/bench/"+name(rand.IntN(objects)), nil); err != nil {
			return err
		}
	}
	fmt.Printf("%d random reads over one connection: %.0f µs each\n", count, float64(time.Since(begin).Microseconds())/float64(count))
	return nil
}

func (n *node) writes(count, size int) error {
	body := bytes.Repeat([]byte("w"), size)
	for i := range count {
		if err := n.request(http.MethodPut, "/v1/objects/bench/late/"+strconv.Itoa(i), body); err != nil {
			return err
		}
	}
	return nil
}

// pages asks for 1,000 keys in the middle, several times, and takes the best and
// the median.
func (n *node) pages(objects int) error {
	var times []time.Duration
	for i := range 50 {
		begin := time.Now()
		resp, err := http.Get("http://" + n.addr + "/v1/objects/bench?limit=1000&after=" + name(objects/2+i*7919))
		if err != nil {
			return err
		}
		var page struct {
			Entries []json.RawMessage `json:"entries"`
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil || len(page.Entries) != 1000 {
			return fmt.Errorf("page of %d entries: %v", len(page.Entries), err)
		}
		times = append(times, time.Since(begin))
	}
	best, sum := times[0], time.Duration(0)
	for _, t := range times {
		best = min(best, t)
		sum += t
	}
	fmt.Printf("a page of 1,000 keys in the middle: %.1f ms mean, %.1f ms best, read and decoded\n", float64(sum.Microseconds())/1e3/float64(len(times)), float64(best.Microseconds())/1e3)
	return nil
}

func use(dir string, objects int) error {
	sizes := make(map[string]int64)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		part, _, _ := strings.Cut(rel, "/")
		sizes[part] += st.Blocks * 512
		return nil
	})
	var sum int64
	for _, s := range sizes {
		sum += s
	}
	fmt.Printf("disk use: %d bytes an object (packs %d, index %d)\n", sum/int64(objects), sizes["packs"]/int64(objects), sizes["index"]/int64(objects))
	return err
}
