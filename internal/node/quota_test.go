package node_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func quotaNode(t *testing.T, quota int64) (*node.Node, *nodetest.Store) {
	t.Helper()
	store := nodetest.NewStore()
	n := nodetest.New(t, store)
	if _, err := n.CreateBucket(t.Context(), "bucket", node.Properties{Quota: quota}); err != nil {
		t.Fatal(err)
	}
	return n, store
}

func TestQuota(t *testing.T) {
	n, store := quotaNode(t, 10)
	if err := put(t, n, "bucket/a", "12345"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "one too large", put(t, n, "bucket/b", "123456"), object.Denied, "quota of 10 bytes", "5 are in use")
	if err := put(t, n, "bucket/b", "12345"); err != nil {
		t.Errorf("one that just fits: %v", err)
	}
	wantKind(t, "one more byte", put(t, n, "bucket/c", "1"), object.Denied)
	if err := put(t, n, "bucket/c", ""); err != nil {
		t.Errorf("an empty object in a full bucket: %v", err)
	}
	if err := put(t, n, "bucket/a", "54321"); err != nil {
		t.Errorf("overwriting in place: %v", err)
	}
	wantKind(t, "overwriting with more", put(t, n, "bucket/a", "123456"), object.Denied)
	_, err := n.Copy(t.Context(), object.Name{Bucket: "bucket", Key: "d"}, object.Name{Bucket: "bucket", Key: "a"}, object.PutOptions{})
	wantKind(t, "copy", err, object.Denied)
	if _, err := n.Copy(t.Context(), object.Name{Bucket: "bucket", Key: "b"}, object.Name{Bucket: "bucket", Key: "a"}, object.PutOptions{}); err != nil {
		t.Errorf("copy in place of another: %v", err)
	}
	if err := n.Delete(t.Context(), object.Name{Bucket: "bucket", Key: "a"}, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := put(t, n, "bucket/e", "12345"); err != nil {
		t.Errorf("into the room of a deleted one: %v", err)
	}
	if _, bytes := store.Count("bucket"); bytes != 10 {
		t.Errorf("the bucket holds %d bytes", bytes)
	}
}

// TestQuotaOfUnknownSize sends bodies that do not say how long they are.
func TestQuotaOfUnknownSize(t *testing.T) {
	n, store := quotaNode(t, 1000)
	send := func(key string, size int) error {
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", size/2)), strings.NewReader(strings.Repeat("y", size-size/2)))
		_, err := n.Put(t.Context(), object.Name{Bucket: "bucket", Key: key}, body, object.PutOptions{})
		return err
	}
	wantKind(t, "too much", send("a", 1001), object.Denied, "quota")
	if objects, _ := store.Count("bucket"); objects != 0 {
		t.Error("a refused object is stored")
	}
	for range 3 { // a refused or finished write gives its room back
		if err := send("a", 1000); err != nil {
			t.Error(err)
		}
	}
	wantKind(t, "another", send("b", 1), object.Denied)
}

// TestQuotaOfMany lets more writers in than there is room for.
func TestQuotaOfMany(t *testing.T) {
	n, store := quotaNode(t, 100)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			name := object.Name{Bucket: "bucket", Key: strings.Repeat("k", i+1)}
			_, err := n.Put(context.Background(), name, strings.NewReader("0123456789"), object.PutOptions{})
			if err != nil && !object.Is(err, object.Denied) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, bytes := store.Count("bucket"); bytes > 100 {
		t.Errorf("the bucket holds %d bytes, its quota is 100", bytes)
	}
	for i := range 11 { // the claims of those that were refused are gone
		if err := put(t, n, "bucket/"+strings.Repeat("k", i+1), ""); err != nil {
			t.Error(err)
		}
	}
}
