package node_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// newUploads returns a node on a real store, and what begins an upload with a part.
func newUploads(t *testing.T) (*node.Node, *store.Store, func(key string) node.Upload) {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: fault.NewMemory(1), Name: "memory"}}})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, s.Run)
	n := nodetest.New(t, s, "bucket")
	return n, s, func(key string) node.Upload {
		t.Helper()
		u, err := n.BeginUpload(t.Context(), object.Name{Bucket: "bucket", Key: key}, object.PutOptions{})
		if err == nil {
			_, err = n.PutPart(t.Context(), u, 1, strings.NewReader(key), object.PutOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
}

// TestPartsLeftBehind ends a node between the two steps of the end of an upload. The
// parts go with the next cleaning, however young they are: nobody can ask for them any
// more, and the quota counts them. Those of an upload that goes on stay.
func TestPartsLeftBehind(t *testing.T) {
	ctx := t.Context()
	n, s, begin := newUploads(t)
	ended, going := begin("ended"), begin("going")
	if err := s.Delete(ctx, object.Name{Bucket: object.Beside("bucket", "uploads"), Key: "ended", ID: ended.ID}, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := n.CleanUploads(ctx, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for part, err := range n.Parts(ctx, ended, 0, 0) {
		t.Errorf("%v was left behind, %v", part.Name, err)
	}
	if part, err := n.Part(ctx, going, 1); err != nil {
		t.Errorf("%v is gone: %v", part.Name, err)
	}
}

// TestCompletedTwice lets several complete an upload at once, as clients do that were
// not answered in time. One makes the object; to the others the upload is gone.
func TestCompletedTwice(t *testing.T) {
	ctx := t.Context()
	n, _, begin := newUploads(t)
	if _, err := n.SetBucket(ctx, "bucket", []byte(`{"versioning":"enabled"}`)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		u := begin("key")
		part, err := n.Part(ctx, u, 1)
		if err != nil {
			t.Fatal(err)
		}
		var made atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				switch _, err := n.CompleteUpload(ctx, u, []object.Info{part}, object.PutOptions{}); {
				case err == nil:
					made.Add(1)
				case !object.Is(err, object.NotFound):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 {
			t.Fatalf("an upload has become %d objects", made.Load())
		}
	}
}
