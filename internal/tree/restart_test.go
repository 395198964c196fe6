package tree_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

// restartAtPage kills the node before the n-th page of a listing is asked for, and
// starts it again when somebody asks whether it is there.
func (r *rig) restartAtPage(n int64) {
	var pages atomic.Int64
	var down atomic.Bool
	before := func(req *http.Request) {
		switch {
		case req.URL.Path == "/v1/objects/"+bucket && pages.Add(1) == n:
			r.node.Kill()
			down.Store(true)
		case req.URL.Path == "/readyz" && down.CompareAndSwap(true, false):
			if err := r.node.Start(); err != nil {
				r.Error(err)
			}
		}
	}
	r.before.Store(&before)
}

// TestListingWhileNodeRestarts shows that all acts wait for a node that goes away
// while they list what there is, and go on where they were.
func TestListingWhileNodeRestarts(t *testing.T) {
	r := newRig(t)
	const n = 2500 // three pages
	dir, size := manyFiles(t, n)
	opts, told := options()
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "a", opts)
	r.want(report, err, tree.Report{Files: n, Bytes: size})

	r.restartAtPage(2)
	report, err = tree.Put(t.Context(), r.client, dir, bucket, "a", opts)
	r.want(report, err, tree.Report{Unchanged: n})

	back := t.TempDir()
	r.restartAtPage(3)
	report, err = tree.Get(t.Context(), r.client, bucket, "a", back, opts)
	r.want(report, err, tree.Report{Files: n, Bytes: size})
	sameFiles(t, back, dir)

	r.restartAtPage(4)
	report, err = tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket, Prefix: "b"}, tree.Place{Bucket: bucket, Prefix: "a"}, opts)
	r.want(report, err, tree.Report{Files: n, Bytes: size})

	r.restartAtPage(4) // this time the target has pages, too
	report, err = tree.Copy(t.Context(), r.client, tree.Place{Bucket: bucket, Prefix: "b"}, tree.Place{Bucket: bucket, Prefix: "a"}, opts)
	r.want(report, err, tree.Report{Unchanged: n})

	r.restartAtPage(2)
	report, err = tree.Remove(t.Context(), r.client, bucket, "", opts)
	r.want(report, err, tree.Report{Files: 2 * n, Bytes: 2 * size})
	r.wantNames(told.failed)
	if keys := r.keys(""); len(keys) != 0 {
		t.Errorf("%d are left", len(keys))
	}
}

// TestListingStops where the node goes away for good, or each time it is asked.
func TestListingStops(t *testing.T) {
	r := newRig(t)
	dir, _ := manyFiles(t, 1100)
	opts, _ := options()
	if _, err := tree.Put(t.Context(), r.client, dir, bucket, "", opts); err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	restarts := func(req *http.Request) {
		switch {
		case req.URL.Query().Get("after") != "":
			r.node.Kill()
			down.Store(true)
		case req.URL.Path == "/readyz" && down.CompareAndSwap(true, false):
			if err := r.node.Start(); err != nil {
				t.Error(err)
			}
		}
	}
	r.before.Store(&restarts)
	if report, err := tree.Get(t.Context(), r.client, bucket, "", t.TempDir(), opts); !penstock.Is(err, penstock.Unavailable) {
		t.Errorf("%+v, %v", report, err)
	}
	if err := r.node.Restart(); err != nil {
		t.Fatal(err)
	}
	opts.Patience = 100 * time.Millisecond
	r.atRequest(2, "/v1/objects/"+bucket, r.node.Kill)
	if report, err := tree.Get(t.Context(), r.client, bucket, "", t.TempDir(), opts); !penstock.Is(err, penstock.Unavailable) {
		t.Errorf("%+v, %v", report, err)
	}
}
