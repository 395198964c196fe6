package penstock_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// stage stores a manifest and describes the version it is of.
func stage(t *testing.T, c *penstock.Client, dataset string, version int64) penstock.DatasetVersion {
	t.Helper()
	key := fmt.Sprintf("%s/manifest-%06d", dataset, version)
	info, err := c.Put(t.Context(), penstock.Name{Bucket: "photos", Key: key}, strings.NewReader(key), penstock.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return penstock.DatasetVersion{
		Bucket: "photos", Manifest: key, ETag: info.ETag, Samples: 3, Bytes: 12, Fields: []string{"jpg"}, Columns: []string{"cls"},
		Logical: strings.Repeat("0a", 32),
	}
}

// TestDatasets publishes versions, removes them, and finds them again after the node
// was killed.
func TestDatasets(t *testing.T) {
	node := testcluster.Start(t, testcluster.Options{Binary: binary})
	c, err := penstock.New(penstock.Options{Endpoint: node.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx := t.Context()
	makeBucket(t, c, "photos")
	_, err = c.Dataset(ctx, "cats")
	wantKind(t, err, penstock.NotFound)
	wantKind(t, c.RemoveDataset(ctx, "cats", 0), penstock.NotFound)
	for version := int64(1); version <= 3; version++ {
		v := stage(t, c, "cats", version)
		made, err := c.PublishDataset(ctx, "cats", version, v)
		if err != nil || made.Version != version || made.Bucket != "photos" || made.Created.IsZero() || made.ETag != v.ETag {
			t.Fatalf("%+v, %v", made, err)
		}
		_, err = c.PublishDataset(ctx, "cats", version, made) // as it came back
		wantKind(t, err, penstock.Exists)
		_, err = c.PublishDataset(ctx, "cats", version+2, v)
		wantKind(t, err, penstock.Stale)
	}
	v := stage(t, c, "birds", 1)
	v.ETag = "other"
	_, err = c.PublishDataset(ctx, "birds", 1, v)
	wantKind(t, err, penstock.Invalid)
	if err := c.RemoveDataset(ctx, "cats", 3); err != nil {
		t.Fatal(err)
	}
	wantKind(t, c.RemoveDataset(ctx, "cats", 3), penstock.NotFound)
	for _, bad := range []string{"", "a/b", "-x", "../etc"} {
		_, err := c.Dataset(ctx, bad)
		wantKind(t, err, penstock.Invalid)
		_, err = c.PublishDataset(ctx, bad, 1, v)
		wantKind(t, err, penstock.Invalid)
		wantKind(t, c.RemoveDataset(ctx, bad, 1), penstock.Invalid)
	}
	_, err = c.PublishDataset(ctx, "cats", -1, v)
	wantKind(t, err, penstock.Invalid)

	node.Kill()
	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	d, err := c.Dataset(ctx, "cats")
	if err != nil || d.Bucket != "photos" || d.Newest != 2 || d.Next != 4 || len(d.Versions) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if v := d.Versions[1]; v.Version != 2 || v.Bucket != "photos" || v.Manifest != "cats/manifest-000002" || v.Samples != 3 || v.Bytes != 12 || v.Fields[0] != "jpg" || v.Columns[0] != "cls" {
		t.Errorf("%+v", v)
	}
	all, err := c.Datasets(ctx)
	if err != nil || len(all) != 1 || all[0].Name != "cats" || all[0].Versions[0].Bucket != "photos" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := c.RemoveDataset(ctx, "cats", 0); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Datasets(ctx); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if d, err := c.Dataset(ctx, "cats"); err != nil || d.Newest != 0 || d.Next != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestPublishAgain loses the answer to a publish: the version that is there when it is
// repeated is the client's own, or somebody else's.
func TestPublishAgain(t *testing.T) {
	for etag, kind := range map[string]penstock.Kind{"mine": 0, "other": penstock.Exists} {
		var puts atomic.Int32
		c, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // whatever it is
			switch {
			case r.Method == http.MethodGet:
				fmt.Fprintf(w, `{"name":"cats","bucket":"photos","newest":1,"next":2,"versions":[{"version":1,"manifest":"cats/m","etag":%q}]}`, etag)
			case puts.Add(1) == 1:
				panic(http.ErrAbortHandler)
			default:
				fail(w, http.StatusConflict, "Exists", "dataset cats has a version 1 already")
			}
		})
		v, err := c.PublishDataset(t.Context(), "cats", 1, penstock.DatasetVersion{Bucket: "photos", Manifest: "cats/m", ETag: "mine"})
		if kind != 0 {
			wantKind(t, err, kind)
		} else if err != nil || v.Version != 1 {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

// TestManyDatasets: a listing goes on over all pages.
func TestManyDatasets(t *testing.T) {
	node := testcluster.Start(t, testcluster.Options{Binary: binary})
	c, err := penstock.New(penstock.Options{Endpoint: node.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	makeBucket(t, c, "photos")
	v := stage(t, c, "cats", 1)
	const count = 1001 // pages have 1000
	for i := range count {
		if _, err := c.PublishDataset(t.Context(), fmt.Sprintf("set-%04d", i), 1, v); err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.Datasets(t.Context())
	if err != nil || len(all) != count {
		t.Fatalf("%d, %v", len(all), err)
	}
	for i, d := range all {
		if d.Name != fmt.Sprintf("set-%04d", i) || d.Versions[0].Bucket != "photos" {
			t.Fatalf("%d: %+v", i, d)
		}
	}
	v.Base = 7
	_, err = c.PublishDataset(t.Context(), "set-0000", 2, v)
	wantKind(t, err, penstock.NotFound)
}
