package dataset_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/dataset"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/testcluster"
)

const testBucket = "sets"

// nodeBinary is the node that tests run, built when one is first needed.
var nodeBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-dataset-test-")
	if err != nil {
		return "", err
	}
	built = dir
	return testcluster.Build(dir)
})

var built string // is removed at the end

// rig is a node, and a maker of versions in a bucket of it.
type rig struct {
	*maker
	node   *testcluster.Node
	client *penstock.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	path, err := nodeBinary()
	must(t, err)
	r := &rig{maker: newMaker(t), node: testcluster.Start(t, testcluster.Options{Binary: path})}
	r.client, err = penstock.New(penstock.Options{Endpoint: r.node.Endpoint})
	must(t, err)
	t.Cleanup(r.client.Close)
	_, err = r.client.CreateBucket(t.Context(), testBucket, penstock.BucketOptions{})
	must(t, err)
	r.place = func() dataset.Place {
		place, err := dataset.Bucket(t.Context(), r.client, "set", testBucket)
		must(t, err)
		return place
	}
	return r
}

// keys returns the keys of the bucket under a prefix.
func (r *rig) keys(prefix string) (keys []string) {
	r.Helper()
	for entry, err := range r.client.List(r.Context(), testBucket, penstock.ListOptions{Prefix: prefix}) {
		must(r, err)
		keys = append(keys, entry.Info.Name.Key)
	}
	return keys
}

// noRubbish checks that the bucket has nothing but the published versions.
func (r *rig) noRubbish(versions ...int) {
	r.Helper()
	known := map[string]bool{}
	d, err := r.client.Dataset(r.Context(), "set")
	must(r, err)
	for _, v := range d.Versions {
		known[v.Manifest] = true
	}
	for _, i := range versions {
		known[fmt.Sprintf("set/%06d/origin", i)] = true
		v := r.open(uint64(i))
		for s := range v.Shards() {
			shard, err := v.Shard(s)
			must(r, err)
			known["set/"+shard.Name] = true
		}
	}
	for _, key := range r.keys("set/") {
		if !known[key] {
			r.Errorf("%s is left", key)
		}
	}
}

// TestBucketHoldsVersions: what is made in a bucket is what was made in a directory,
// and the node knows it.
func TestBucketHoldsVersions(t *testing.T) {
	r := newRig(t)
	random := seeded(t)
	tree := randomTree(random, 150)
	tree.write(t, r.tree)
	opts := dataset.Options{ShardSize: 200 << 10}
	report := r.mustCreate(opts)
	first := maps.Clone(tree)
	v := r.holds(1, tree)
	d, err := r.client.Dataset(t.Context(), "set")
	must(t, err)
	hash := v.Hash()
	if d.Newest != 1 || d.Bucket != testBucket || d.Versions[0].Samples != report.Samples || d.Versions[0].Bytes != report.Bytes ||
		d.Versions[0].Logical != fmt.Sprintf("%x", hash) || d.Versions[0].Manifest != "set/manifest-000001" {
		t.Errorf("%+v", d)
	}
	// A directory gets the same version.
	dir := newMaker(t)
	dir.tree = r.tree
	dir.mustCreate(opts)
	if dir.open(1).Hash() != hash {
		t.Error("the version in a directory is another one")
	}
	// And so does another bucket of the same node, from the exported files as objects.
	objects := newRigAt(r)
	for path, data := range tree {
		_, err := r.client.Put(t.Context(), penstock.Name{Bucket: testBucket, Key: "files/" + path}, strings.NewReader(data), penstock.PutOptions{})
		must(t, err)
	}
	objects.origin = func() dataset.Origin { return dataset.Objects(r.client, testBucket, "files") }
	dir.to = filepath.Join(t.TempDir(), "again")
	dir.origin = objects.origin
	opts.KeepOrder = true
	dir.mustCreate(opts)
	dir.holds(1, tree)

	// Further versions, from the tree and from the objects, which have checksums.
	opts.KeepOrder = false
	added, changed, removed := disturb(t, random, r.tree, tree)
	report = r.mustCreate(opts)
	if report.Version != 2 || report.Added != int64(added) || report.Changed != int64(changed) || report.Removed != int64(removed) {
		t.Errorf("%+v, want %d %d %d", report, added, changed, removed)
	}
	r.holds(1, first)
	r.holds(2, tree)
	r.origin = objects.origin
	if report = r.mustCreate(opts); report.Version != 3 || report.Added != int64(removed) || report.Changed != int64(changed) || report.Removed != int64(added) {
		t.Errorf("%+v, want %d %d %d", report, removed, changed, added)
	}
	r.holds(3, first)
	if report = r.mustCreate(opts); report.Published {
		t.Errorf("%+v", report)
	}
	r.noRubbish(1, 2, 3)

	// A dataset of all that is in its bucket is no part of itself.
	all := newRigAt(r)
	all.origin = func() dataset.Origin { return dataset.Objects(r.client, "all", "") }
	all.place = func() dataset.Place {
		place, err := dataset.Bucket(t.Context(), r.client, "whole", "all")
		must(t, err)
		return place
	}
	_, err = r.client.CreateBucket(t.Context(), "all", penstock.BucketOptions{})
	must(t, err)
	_, err = r.client.Put(t.Context(), penstock.Name{Bucket: "all", Key: "a.jpg"}, strings.NewReader("x"), penstock.PutOptions{})
	must(t, err)
	for range 2 {
		all.mustCreate(dataset.Options{Name: "whole", Repack: true})
		all.holds(0, content{"a.jpg": "x"})
	}

	// Versions are removed one by one; shards stay as long as one needs them.
	must(t, dataset.Remove(t.Context(), r.place(), 1))
	r.holds(2, tree)
	r.holds(3, first)
	r.noRubbish(2, 3)
	must(t, dataset.Remove(t.Context(), r.place(), 0))
	if keys := r.keys("set/"); len(keys) > 0 {
		t.Errorf("left: %v", keys)
	}
	if _, err := dataset.Find(t.Context(), r.client, "set"); !object.Is(err, object.NotFound) {
		t.Errorf("%v", err)
	}
	// The numbers are not used again.
	if report = r.mustCreate(opts); report.Version != 4 {
		t.Errorf("%+v", report)
	}
	r.holds(0, first)
}

func newRigAt(r *rig) *rig { return &rig{maker: newMakerAt(r.maker), node: r.node, client: r.client} }

// TestBucketAfterKill: what a killed run left is taken over, from files and objects.
func TestBucketAfterKill(t *testing.T) {
	r := newRig(t)
	tree := randomTree(seeded(t), 400)
	tree.write(t, r.tree)
	settle()
	r.killedWhen(r.node.Endpoint, func() bool { return len(r.keys("set/000001/")) > 8 })
	if d, err := r.client.Datasets(t.Context()); err != nil || len(d) > 0 {
		t.Logf("the run was done before it was killed: %v, %v", d, err)
		r.holds(1, tree)
		return
	}
	left := r.keys("set/000001/")
	// Something of another plan, which must go.
	_, err := r.client.Put(t.Context(), penstock.Name{Bucket: testBucket, Key: "set/000001/000999.tar"}, strings.NewReader("x"), penstock.PutOptions{})
	must(t, err)
	// And a manifest that was stored, but not published.
	_, err = r.client.Put(t.Context(), penstock.Name{Bucket: testBucket, Key: "set/manifest-000001"}, strings.NewReader("x"), penstock.PutOptions{})
	must(t, err)
	report := r.mustCreate(childOptions)
	if report.Reused < 5 || report.Reused > int64(len(left))+2 { // two may still have been on their way
		t.Errorf("%d were left: %+v", len(left), report)
	}
	r.holds(1, tree)
	r.noRubbish(1)
}

// TestTwoWritersInABucket: one of them fails, and the version is whole.
func TestTwoWritersInABucket(t *testing.T) {
	r := newRig(t)
	tree := randomTree(seeded(t), 200)
	tree.write(t, r.tree)
	other := newRigAt(r)
	other.tree = t.TempDir()
	others := randomTree(seeded(t), 200)
	others.write(t, other.tree)
	other.origin = func() dataset.Origin { return dataset.Tree(other.tree) }
	opts := dataset.Options{ShardSize: 100 << 10}
	opts.SetClock(func() func() time.Time {
		calls := 0
		return func() time.Time {
			if calls++; calls == 2 {
				other.mustCreate(dataset.Options{ShardSize: 100 << 10})
			}
			return time.Now()
		}
	}())
	if _, err := r.create(opts); !object.Is(err, object.Stale) {
		t.Errorf("the first one: %v", err)
	}
	r.holds(1, others)
	report := r.mustCreate(dataset.Options{ShardSize: 100 << 10})
	if report.Version != 2 {
		t.Errorf("%+v", report)
	}
	r.holds(2, tree)
}

// TestNodeGoesAway: a node that is restarted is waited for.
func TestNodeGoesAway(t *testing.T) {
	r := newRig(t)
	tree := randomTree(seeded(t), 300)
	tree.write(t, r.tree)
	opts := dataset.Options{ShardSize: 50 << 10, Workers: 2}
	restarted := make(chan error, 1)
	go func() {
		for len(r.keys("set/000001/")) < 5 {
			time.Sleep(time.Millisecond)
		}
		r.node.Kill()
		restarted <- r.node.Start()
	}()
	report := r.mustCreate(opts)
	must(t, <-restarted)
	r.holds(1, tree)
	if report.Version != 1 {
		t.Errorf("%+v", report)
	}
	r.noRubbish(1)
	if slices.Contains(r.problems, "") {
		t.Error(r.problems)
	}
}

// TestRemoveBesideCreate: whichever of them comes first, no version that is there lacks
// a shard. A Create whose base is gone publishes nothing.
func TestRemoveBesideCreate(t *testing.T) {
	r := newRig(t)
	random := seeded(t)
	tree := randomTree(random, 40)
	tree.write(t, r.tree)
	r.mustCreate(dataset.Options{ShardSize: 50 << 10})
	change := func(i int) {
		more := content{fmt.Sprintf("more/%d.jpg", i): fmt.Sprint("new ", i)}
		more.write(t, r.tree)
		maps.Copy(tree, more)
	}

	// The base goes after it was read.
	change(0)
	looked := 0
	var opts dataset.Options
	opts.SetClock(func() time.Time {
		if looked++; looked == 2 {
			must(t, dataset.Remove(t.Context(), r.place(), 1))
		}
		return time.Now()
	})
	if _, err := r.create(opts); !object.Is(err, object.NotFound) || !strings.Contains(err.Error(), "version 1 of dataset set") {
		t.Fatalf("a base that is gone: %v, looked %d times", err, looked)
	}
	if d, err := r.client.Dataset(t.Context(), "set"); err != nil || len(d.Versions) != 0 || d.Next != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	r.mustCreate(dataset.Options{ShardSize: 50 << 10})
	r.holds(2, tree)
	r.noRubbish(2)

	// And at any other moment.
	failed := 0
	for i := 1; i <= 12; i++ {
		change(i)
		before, err := dataset.Versions(t.Context(), r.place())
		must(t, err)
		gone := before[len(before)-1]
		wait := time.Duration(random.IntN(30)) * time.Millisecond
		var removing sync.WaitGroup
		removing.Go(func() {
			time.Sleep(wait) // it is the race that is looked for
			if err := dataset.Remove(t.Context(), r.place(), gone); err != nil {
				t.Errorf("removing %d: %v", gone, err)
			}
		})
		_, err = r.create(dataset.Options{})
		removing.Wait()
		if err != nil {
			failed++
			if !object.Is(err, object.NotFound) && !object.Is(err, object.Busy) {
				t.Errorf("creating: %v", err)
			}
			r.mustCreate(dataset.Options{ShardSize: 50 << 10})
		}
		r.holds(0, tree)
	}
	t.Logf("%d of 12 found their base gone", failed)
}
