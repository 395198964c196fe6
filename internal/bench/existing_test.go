package bench_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/bench"
	"penstock.dev/penstock/internal/object"
)

// asking notes which keys a driver is asked for.
type asking struct {
	bench.Driver
	mu   sync.Mutex
	keys []string
}

func (a *asking) Connect(ctx context.Context) (bench.Conn, error) {
	conn, err := a.Driver.Connect(ctx)
	return askingConn{conn, a}, err
}

func (a *asking) note(keys ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = append(a.keys, keys...)
}

type askingConn struct {
	bench.Conn
	asking *asking
}

func (c askingConn) Get(ctx context.Context, key string, w io.Writer) error {
	c.asking.note(key)
	return c.Conn.Get(ctx, key, w)
}

func (c askingConn) Batch(ctx context.Context, keys []string, item func([]byte, error)) error {
	c.asking.note(keys...)
	return c.Conn.Batch(ctx, keys, item)
}

// uploaded makes a directory and stores it under a prefix of the bucket.
func uploaded(t *testing.T, client *penstock.Client, prefix string, n int) (dir string, keys []string, size int64) {
	t.Helper()
	dir = t.TempDir()
	var objects []penstock.Upload
	for i := range n {
		path, content := fmt.Sprintf("%d/%03d.jpg", i%3, i), bytes.Repeat([]byte{byte(i)}, i*37)
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o644); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, penstock.Upload{Key: prefix + path, Bytes: content})
		keys, size = append(keys, prefix+path), size+int64(len(content))
	}
	if err := client.PutBatch(t.Context(), "bench", objects); err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return dir, keys, size
}

// TestExisting reads an uploaded tree and the directory it came from, each object
// once in an epoch.
func TestExisting(t *testing.T) {
	client := serve(t)
	dir, keys, size := uploaded(t, client, "train/", 211)
	uploaded(t, client, "test/", 5)
	existing, err := bench.List(t.Context(), client, "bench", "train/", false)
	if err != nil || existing.Len() != 211 {
		t.Fatal(existing.Len(), err)
	}
	for _, op := range []bench.Op{bench.Get, bench.Batch} {
		node := &asking{Driver: &bench.Penstock{Client: client, Bucket: "bench"}}
		files := &asking{Driver: &bench.Files{Dir: dir, Prefix: "train/"}}
		report, err := bench.Run(t.Context(), bench.Options{
			Workload: bench.Workload{Op: op, Existing: existing, Count: 211, Batch: 32, Verify: true},
			Targets:  []bench.Target{{Name: "node", Driver: node}, {Name: "files", Driver: files}},
		})
		if err != nil || report.Errors() != 0 {
			t.Fatalf("%v, %+v", err, report.Targets)
		}
		for i, asked := range [][]string{node.keys, files.keys} {
			if total := report.Targets[i].Total; total.Objects != 211 || total.Bytes != size {
				t.Errorf("%+v", total)
			}
			if slices.IsSorted(asked) {
				t.Error("an epoch in the order of the listing")
			}
			slices.Sort(asked)
			if !slices.Equal(asked, keys) {
				t.Errorf("%d keys were asked for, not each of %d once", len(asked), len(keys))
			}
		}
		if sizes := report.Workload.Sizes; report.Workload.Keys != 211 || sizes.Max() != 210*37 || int64(sizes.Mean()*211+0.5) != size {
			t.Errorf("%d keys, %v", report.Workload.Keys, sizes)
		}
	}
}

// TestExistingIsVerified: another length always shows, other bytes with Verify.
func TestExistingIsVerified(t *testing.T) {
	client := serve(t)
	dir, _, _ := uploaded(t, client, "", 20)
	existing, err := bench.List(t.Context(), client, "bench", "", false)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{"1/004.jpg": "short", "2/005.jpg": strings.Repeat("x", 5*37)} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, op := range []bench.Op{bench.Get, bench.Batch} {
		for verify, want := range map[bool]int64{false: 1, true: 2} {
			r := run(t, &bench.Files{Dir: dir}, bench.Workload{Op: op, Existing: existing, Count: 20, Verify: verify})
			if r.Errors != want || r.ErrorKinds["Corrupt"] != want || r.Objects != 20-want {
				t.Errorf("%s, verify %v: %+v", op, verify, r)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, "0/006.jpg")); err != nil {
		t.Fatal(err)
	}
	if r := run(t, &bench.Files{Dir: dir}, bench.Workload{Op: bench.Get, Existing: existing, Count: 20}); r.ErrorKinds["NotFound"] != 1 {
		t.Errorf("%+v", r)
	}
	if r := run(t, &bench.Files{Dir: dir, Prefix: "x/"}, bench.Workload{Op: bench.Get, Existing: existing, Count: 20}); r.ErrorKinds["Invalid"] != 20 {
		t.Errorf("%+v", r)
	}
}

// TestExistingIsOnlyRead, and has to be there.
func TestExistingIsOnlyRead(t *testing.T) {
	client := serve(t)
	if _, err := bench.List(t.Context(), client, "bench", "", false); !object.Is(err, object.NotFound) {
		t.Error(err)
	}
	if _, err := bench.List(t.Context(), client, "missing", "", false); !object.Is(err, object.NotFound) {
		t.Error(err)
	}
	uploaded(t, client, "", 2)
	existing, err := bench.List(t.Context(), client, "bench", "", false)
	if err != nil {
		t.Fatal(err)
	}
	opts := bench.Options{Targets: []bench.Target{{Name: "it", Driver: &memory{}}}}
	for _, op := range []bench.Op{bench.Put, bench.PutBatch, bench.Mixed} {
		opts.Workload = bench.Workload{Op: op, Existing: existing, Count: 1}
		if err := opts.Validate(); !object.Is(err, object.Invalid) {
			t.Errorf("%s: %v", op, err)
		}
	}
	opts.Workload.Op, opts.Fill = bench.Get, true
	if err := opts.Validate(); !object.Is(err, object.Invalid) {
		t.Error(err)
	}
}

// TestMembers reads the files inside of tars, asked for in binary and in JSON.
func TestMembers(t *testing.T) {
	client, url := serveAt(t)
	for n := range 3 {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for i := range 50 {
			content := bytes.Repeat([]byte{byte(i)}, 1+i*97)
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("dir/%d.bin", i), Mode: 0o644, Size: int64(len(content))}); err != nil {
				t.Fatal(err)
			}
			w.Write(content) //nolint:errcheck // Close tells
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		name := penstock.Name{Bucket: "bench", Key: fmt.Sprintf("tars/%d.tar", n)}
		if _, err := client.Put(t.Context(), name, &archive, penstock.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	existing, err := bench.List(t.Context(), client, "bench", "tars/", true)
	if err != nil || existing.Len() != 150 {
		t.Fatal(existing, err)
	}
	plain, err := bench.NewHTTP(url)
	if err != nil {
		t.Fatal(err)
	}
	node := bench.Penstock{Client: client, Bucket: "bench", Members: true}
	for name, driver := range map[string]bench.Driver{"binary": &node, "json": &bench.JSON{Penstock: bench.Penstock{Client: client, Bucket: "bench", Members: true}, HTTP: plain}} {
		r := run(t, driver, bench.Workload{Op: bench.Batch, Existing: existing, Count: 150, Batch: 32, Verify: true})
		if r.Errors != 0 || r.Objects != 150 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
