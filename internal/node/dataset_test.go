package node_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

const logical = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// manifest stores one and describes the version it is of.
func manifest(t *testing.T, n *node.Node, bucket, name string, version int64) node.DatasetVersion {
	t.Helper()
	key := fmt.Sprintf("%s/manifest-%06d", name, version)
	info, err := n.Put(t.Context(), object.Name{Bucket: bucket, Key: key}, strings.NewReader(key), object.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node.DatasetVersion{
		Version: version, Manifest: key, ETag: info.ETag, Samples: 10, Bytes: 1000, Fields: []string{"jpg"}, Columns: []string{"cls"}, Logical: logical,
	}
}

func publish(t *testing.T, n *node.Node, bucket, name string, version int64) error {
	t.Helper()
	_, err := n.PublishDataset(t.Context(), name, bucket, manifest(t, n, bucket, name, version), 0)
	return err
}

func numbers(d node.Dataset) (all []int64) {
	for _, v := range d.Versions {
		all = append(all, v.Version)
	}
	return all
}

func TestDatasets(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "first", "second")
	ctx := t.Context()
	_, err := n.Dataset(ctx, "cats")
	wantKind(t, "before the first", err, object.NotFound, "dataset cats does not exist")
	wantKind(t, "removing it", n.RemoveDataset(ctx, "cats", 0), object.NotFound)
	wantKind(t, "beginning with 2", publish(t, n, "first", "cats", 2), object.Stale, "the next version of dataset cats is 1")
	for version := int64(1); version <= 3; version++ {
		if err := publish(t, n, "first", "cats", version); err != nil {
			t.Fatal(err)
		}
		wantKind(t, "again", publish(t, n, "first", "cats", version), object.Exists, "has a version")
	}
	wantKind(t, "another bucket", publish(t, n, "second", "cats", 4), object.Invalid, "is in bucket first")
	if err := publish(t, n, "second", "birds", 1); err != nil {
		t.Fatal(err)
	}
	d, err := n.Dataset(ctx, "cats")
	if err != nil || fmt.Sprint(numbers(d)) != "[1 2 3]" || d.Newest() != 3 || d.Next != 4 || d.Bucket != "first" || d.Versions[2].Created.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
	all, err := n.Datasets(ctx)
	if err != nil || len(all) != 2 || all[0].Name != "birds" || all[1].Name != "cats" {
		t.Errorf("%+v, %v", all, err)
	}

	// A number is never given out twice.
	if err := n.RemoveDataset(ctx, "cats", 3); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "removing it again", n.RemoveDataset(ctx, "cats", 3), object.NotFound, "has no version 3")
	wantKind(t, "the removed one", publish(t, n, "first", "cats", 3), object.Stale, "is 4, not 3")
	if d, _ := n.Dataset(ctx, "cats"); d.Newest() != 2 || d.Next != 4 {
		t.Errorf("%+v", d)
	}
	if err := n.RemoveDataset(ctx, "cats", 0); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "removing all again", n.RemoveDataset(ctx, "cats", 0), object.NotFound)
	if all, _ := n.Datasets(ctx); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if d, err := n.Dataset(ctx, "cats"); err != nil || d.Newest() != 0 || d.Next != 4 || d.Bucket != "" {
		t.Errorf("%+v, %v", d, err)
	}
	wantKind(t, "from the beginning", publish(t, n, "second", "cats", 1), object.Stale)
	if err := publish(t, n, "second", "cats", 4); err != nil {
		t.Errorf("anew, in another bucket: %v", err)
	}
}

// TestABaseThatWasRemoved: a version keeps shards of another one only if that is there
// when it is published.
func TestABaseThatWasRemoved(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "bucket")
	ctx := t.Context()
	on := func(version, base int64) error {
		_, err := n.PublishDataset(ctx, "cats", "bucket", manifest(t, n, "bucket", "cats", version), base)
		return err
	}
	wantKind(t, "on nothing", on(1, 1), object.NotFound, "version 1 of dataset cats")
	for _, of := range []struct{ version, base int64 }{{1, 0}, {2, 1}, {3, 1}} {
		if err := on(of.version, of.base); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.RemoveDataset(ctx, "cats", 2); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "on one that was removed", on(4, 2), object.NotFound, "version 2 of dataset cats")
	wantKind(t, "on one that will never be", on(4, -1), object.NotFound)
	if err := on(4, 3); err != nil {
		t.Error(err)
	}
}

func TestDatasetsThatAreRefused(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "bucket")
	good := manifest(t, n, "bucket", "cats", 1)
	for _, name := range []string{"", ".cats", "-cats", "ca/ts", "cats@1", "cäts", "ca ts", "..", strings.Repeat("c", 129)} {
		_, err := n.PublishDataset(t.Context(), name, "bucket", good, 0)
		wantKind(t, name, err, object.Invalid)
		_, err = n.Dataset(t.Context(), name)
		wantKind(t, name, err, object.Invalid)
		wantKind(t, name, n.RemoveDataset(t.Context(), name, 0), object.Invalid)
	}
	for _, tt := range []struct {
		bucket string
		kind   object.Kind
		change func(v *node.DatasetVersion)
		words  string
	}{
		{"nowhere", object.NotFound, func(*node.DatasetVersion) {}, "bucket nowhere does not exist"},
		{"Bucket", object.Invalid, func(*node.DatasetVersion) {}, "bucket name"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Manifest = "gone" }, "the manifest bucket/gone does not exist"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Manifest = "" }, "key is empty"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.ETag = "other" }, `not "other"`},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.ETag = "" }, "has ETag"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Version = 0 }, "makes no sense"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Samples = -1 }, "makes no sense"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Bytes = -1 }, "makes no sense"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Logical = "" }, "64 hexadecimal digits"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Logical = strings.ToUpper(v.Logical) }, "64 hexadecimal digits"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Fields = make([]string, 65) }, "65 fields"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Fields = []string{"jpg", ""} }, "name of field"},
		{"bucket", object.Invalid, func(v *node.DatasetVersion) { v.Columns = []string{"\xff"} }, "name of column"},
	} {
		v := good
		tt.change(&v)
		_, err := n.PublishDataset(t.Context(), "cats", tt.bucket, v, 0)
		wantKind(t, tt.words, err, tt.kind, tt.words)
	}
	if _, err := n.Dataset(t.Context(), "cats"); !object.Is(err, object.NotFound) {
		t.Errorf("something was published: %v", err)
	}
	good.Fields, good.Columns = nil, nil
	if v, err := n.PublishDataset(t.Context(), "cats", "bucket", good, 0); err != nil || v.Fields == nil || v.Columns == nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestDatasetKeepsItsBucket: a bucket that a dataset lies in is not deleted, even if
// its objects are.
func TestDatasetKeepsItsBucket(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "bucket")
	if err := publish(t, n, "bucket", "cats", 1); err != nil {
		t.Fatal(err)
	}
	if err := n.Delete(t.Context(), object.Name{Bucket: "bucket", Key: "cats/manifest-000001"}, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "delete", n.DeleteBucket(t.Context(), "bucket"), object.Exists, "bucket bucket holds dataset cats")
	if err := put(t, n, "bucket/k", "x"); err != nil {
		t.Errorf("a write afterwards: %v", err)
	}
	if err := n.Delete(t.Context(), object.Name{Bucket: "bucket", Key: "k"}, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := n.RemoveDataset(t.Context(), "cats", 1); err != nil {
		t.Fatal(err)
	}
	if err := n.DeleteBucket(t.Context(), "bucket"); err != nil {
		t.Error(err)
	}
}

// TestPublishRace has writers who all want the same versions, through two nodes: each
// is published once.
func TestPublishRace(t *testing.T) {
	control, store := nodetest.Control(t), nodetest.NewStore()
	nodes := []*node.Node{
		nodetest.Open(t, node.Options{Store: store, Control: control}, "bucket"),
		nodetest.Open(t, node.Options{Store: store, Control: control}),
	}
	const versions = 20
	var described []node.DatasetVersion
	for version := range int64(versions) {
		described = append(described, manifest(t, nodes[0], "bucket", "cats", version+1))
	}
	var published atomic.Int64
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for _, v := range described {
				for done := false; !done; {
					_, err := nodes[w%2].PublishDataset(context.Background(), "cats", "bucket", v, 0)
					switch {
					case err == nil:
						published.Add(1)
						done = true
					case object.Is(err, object.Exists):
						done = true
					case !object.Is(err, object.Busy):
						t.Error(err)
						done = true
					}
				}
			}
		})
	}
	writers.Wait()
	if d, err := nodes[1].Dataset(t.Context(), "cats"); err != nil || len(d.Versions) != versions || published.Load() != versions {
		t.Errorf("%d published: %v, %v", published.Load(), numbers(d), err)
	}
}

// TestFullRecord publishes until there is no room, and goes on when some is made.
func TestFullRecord(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "bucket")
	v := manifest(t, n, "bucket", "cats", 1)
	for range 64 {
		v.Fields, v.Columns = append(v.Fields[:len(v.Fields):len(v.Fields)], strings.Repeat("f", 64)), append(v.Columns, strings.Repeat("\x01", 64))
	}
	v.Fields, v.Columns = v.Fields[1:], v.Columns[1:]
	var err error
	for err == nil {
		if _, err = n.PublishDataset(t.Context(), "cats", "bucket", v, 0); err == nil {
			v.Version++
		}
	}
	wantKind(t, "one too many", err, object.Denied, "remove old ones")
	if v.Version < 10 || v.Version > 1000 {
		t.Errorf("it is full with %d versions", v.Version-1)
	}
	if err := n.RemoveDataset(t.Context(), "cats", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := n.PublishDataset(t.Context(), "cats", "bucket", v, 0); err != nil {
		t.Error(err)
	}
}

// TestNewerDatasetIsRefused has records that another version wrote: they are shown,
// and nothing is done to them.
func TestNewerDatasetIsRefused(t *testing.T) {
	control := nodetest.Control(t)
	for key, value := range map[string]string{"datasets/newer": `{"next":2,"layout":"new"}`, "datasets/broken": `{`} {
		if _, err := control.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.Put(key, []byte(value))}}); err != nil {
			t.Fatal(err)
		}
	}
	n := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "bucket")
	if all, err := n.Datasets(t.Context()); err != nil || len(all) != 2 || all[0].Problem == "" || all[1].Name != "newer" {
		t.Errorf("%+v, %v", all, err)
	}
	_, err := n.Dataset(t.Context(), "newer")
	wantKind(t, "get", err, object.Unavailable, "dataset newer")
	wantKind(t, "publish", publish(t, n, "bucket", "newer", 2), object.Unavailable)
	wantKind(t, "remove", n.RemoveDataset(t.Context(), "newer", 0), object.Unavailable)
	if err := n.Delete(t.Context(), object.Name{Bucket: "bucket", Key: "newer/manifest-000002"}, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "delete its bucket, perhaps", n.DeleteBucket(t.Context(), "bucket"), object.Unavailable, "is not known")
}
