package tree_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
	"penstock.dev/penstock/internal/tree"
)

// binary is the node that the tests of this package run, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-tree-")
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

const bucket = "trees"

// rig is a node with a bucket, and a client whose requests can be seen.
type rig struct {
	*testing.T
	node   *testcluster.Node
	client *penstock.Client

	before atomic.Pointer[func(*http.Request)] // called before each request
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, node: testcluster.Start(t, testcluster.Options{Binary: binary})}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	client, err := penstock.New(penstock.Options{Endpoint: r.node.Endpoint, HTTP: &http.Client{Transport: watchedTransport{r, transport}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = client
	if _, err := client.CreateBucket(t.Context(), bucket, penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

type watchedTransport struct {
	rig *rig
	*http.Transport
}

// RoundTrip shows the request to the rig first.
func (w watchedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if before := w.rig.before.Load(); before != nil {
		(*before)(req)
	}
	return w.Transport.RoundTrip(req)
}

// atRequest has f called once, before the n-th request to a path.
func (r *rig) atRequest(n int64, path string, f func()) {
	var count atomic.Int64
	before := func(req *http.Request) {
		if req.URL.Path == path && count.Add(1) == n {
			f()
		}
	}
	r.before.Store(&before)
}

// problems gathers what an act tells.
type problems struct{ failed, skipped map[string]string }

// options returns options that note problems.
func options() (tree.Options, *problems) {
	p := &problems{make(map[string]string), make(map[string]string)}
	return tree.Options{Problem: func(problem tree.Problem) {
		to := p.failed
		if problem.Skipped {
			to = p.skipped
		}
		to[problem.Path] = problem.Err.Error()
	}}, p
}

// want compares a report, times aside.
func (r *rig) want(got tree.Report, err error, want tree.Report) {
	r.Helper()
	got.Elapsed = 0
	if err != nil || got != want {
		r.Fatalf("%+v, %v; want %+v", got, err, want)
	}
}

// wantNames compares the names of problems.
func (r *rig) wantNames(got map[string]string, want ...string) {
	r.Helper()
	slices.Sort(want)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		r.Errorf("problems %q, want those with %q", got, want)
	}
}

func (r *rig) put(key string, content string) {
	r.Helper()
	if _, err := r.client.Put(r.Context(), penstock.Name{Bucket: bucket, Key: key}, strings.NewReader(content), penstock.PutOptions{}); err != nil {
		r.Fatal(err)
	}
}

// keys returns what the bucket has under a prefix.
func (r *rig) keys(prefix string) []string {
	r.Helper()
	keys := []string{}
	for entry, err := range r.client.List(r.Context(), bucket, penstock.ListOptions{Prefix: prefix}) {
		if err != nil {
			r.Fatal(err)
		}
		keys = append(keys, entry.Info.Name.Key)
	}
	return keys
}

// write makes a file, and the directories above it.
func write(t *testing.T, dir, path string, content []byte) {
	t.Helper()
	file := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// age sets a file's time.
func age(t *testing.T, dir, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(dir, path), at, at); err != nil {
		t.Fatal(err)
	}
}

// content returns bytes that no other file has.
func content(path string, size int) []byte {
	return bytes.Repeat([]byte(path+"|"), size/(len(path)+1)+1)[:size]
}

// files returns the files below a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameFiles compares two directories.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	a, b := files(t, got), files(t, want)
	if !maps.EqualFunc(a, b, bytes.Equal) {
		t.Errorf("%d files %q, want %d files %q", len(a), slices.Sorted(maps.Keys(a)), len(b), slices.Sorted(maps.Keys(b)))
	}
}

// manyFiles makes n small files in a few directories.
func manyFiles(t *testing.T, n int) (dir string, size int64) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		path := fmt.Sprintf("%02d/%04d", i%7, i)
		data := content(path, 2000+i%500)
		write(t, dir, path, data)
		size += int64(len(data))
	}
	return dir, size
}

// cancelAt returns a context that ends before the n-th request to a path.
func (r *rig) cancelAt(n int64, path string) context.Context {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	r.atRequest(n, path, cancel)
	return ctx
}
