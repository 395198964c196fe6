package node_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/object/objecttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objecttest.Holder {
		return nodetest.New(t, nodetest.NewStore(), objecttest.Bucket, objecttest.Other)
	}, objecttest.Options{Steps: 200})
}

func TestConformanceWithPropertiesSet(t *testing.T) {
	objecttest.Run(t, func(t *testing.T) objecttest.Holder {
		n := nodetest.New(t, nodetest.NewStore(), objecttest.Bucket, objecttest.Other)
		for _, b := range []string{objecttest.Bucket, objecttest.Other} {
			if _, err := n.SetBucket(t.Context(), b, []byte(`{"quota": 1000000000, "verify": "always"}`)); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}, objecttest.Options{Steps: 200})
}

func wantKind(t *testing.T, what string, err error, kind object.Kind, words ...string) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Errorf("%s: %v (%v), want %v", what, err, object.KindOf(err), kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func put(t *testing.T, n *node.Node, name, data string) error {
	t.Helper()
	parsed, err := object.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Put(t.Context(), parsed, strings.NewReader(data), object.PutOptions{SizeHint: int64(len(data))})
	return err
}

func TestObjectsNeedABucket(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "there")
	ctx, missing, there := t.Context(), object.Name{Bucket: "missing", Key: "k"}, object.Name{Bucket: "there", Key: "k"}
	_, err := n.Stat(ctx, missing)
	wantKind(t, "stat", err, object.NotFound, "bucket missing does not exist")
	_, err = n.Open(ctx, missing, object.Range{})
	wantKind(t, "open", err, object.NotFound, "bucket missing")
	_, err = n.Put(ctx, missing, strings.NewReader("x"), object.PutOptions{})
	wantKind(t, "put", err, object.NotFound, "bucket missing")
	wantKind(t, "delete", n.Delete(ctx, missing, object.Condition{}), object.NotFound, "bucket missing")
	_, err = n.Copy(ctx, there, missing, object.PutOptions{})
	wantKind(t, "copy from", err, object.NotFound, "bucket missing")
	_, err = n.Copy(ctx, missing, there, object.PutOptions{})
	wantKind(t, "copy to", err, object.NotFound, "bucket missing")
	for _, err := range n.List(ctx, "missing", object.ListOptions{}) {
		wantKind(t, "list", err, object.NotFound, "bucket missing")
	}
	_, err = n.Stat(ctx, there)
	wantKind(t, "stat in a bucket", err, object.NotFound, "there/k")
}

// verifying counts how objects are opened.
type verifying struct {
	*nodetest.Store
	plain, verified int
}

func (v *verifying) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	v.plain++
	return v.Store.Open(ctx, name, r)
}

func (v *verifying) OpenVerified(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	v.verified++
	return v.Store.Open(ctx, name, r)
}

func TestVerifyAlways(t *testing.T) {
	store := &verifying{Store: nodetest.NewStore()}
	n := nodetest.New(t, store, "plain", "checked")
	if _, err := n.SetBucket(t.Context(), "checked", []byte(`{"verify":"always"}`)); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{"plain", "checked"} {
		if err := put(t, n, bucket+"/k", "data"); err != nil {
			t.Fatal(err)
		}
		r, err := n.Open(t.Context(), object.Name{Bucket: bucket, Key: "k"}, object.Range{})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	if store.plain != 1 || store.verified != 1 {
		t.Errorf("%d plain opens and %d verified, want one each", store.plain, store.verified)
	}
}

// TestSeesOthers changes buckets through one node and looks at another.
func TestSeesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := nodetest.Control(t)
		a := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control})
		b := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "early")
		synctest.Wait()
		if _, err := a.Bucket("early"); err != nil {
			t.Error(err)
		}
		if _, err := a.SetBucket(t.Context(), "early", []byte(`{"quota": 5}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := b.Bucket("early"); err != nil || got.Quota != 5 {
			t.Errorf("the other node has %+v, %v", got, err)
		}
		wantKind(t, "put beyond the quota", put(t, b, "early/k", "123456"), object.Denied)
		if err := a.DeleteBucket(t.Context(), "early"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantKind(t, "put after the delete", put(t, b, "early/k", "1"), object.NotFound)
	})
}

// TestRunEnds shows that Run tells of a control plane that ends.
func TestRunEnds(t *testing.T) {
	control := nodetest.Control(t)
	n, err := node.Open(t.Context(), node.Options{Store: nodetest.NewStore(), Control: control})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); err != nil {
		t.Errorf("Run answers %v to the end of its context", err)
	}
}

func TestNewerRecordIsRefused(t *testing.T) {
	control := nodetest.Control(t)
	for key, value := range map[string]string{
		"buckets/newer":   `{"created":"2026-01-01T00:00:00Z","source":"s3://x"}`,
		"buckets/broken":  `{"created":`,
		"buckets/strange": `{"created":"2026-01-01T00:00:00Z","verify":"sometimes"}`,
		"buckets/good":    `{"created":"2026-01-01T00:00:00Z"}`,
	} {
		if _, err := control.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.Put(key, []byte(value))}}); err != nil {
			t.Fatal(err)
		}
	}
	n := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control})
	for _, bucket := range []string{"newer", "broken", "strange"} {
		wantKind(t, "put", put(t, n, bucket+"/k", "x"), object.Unavailable, bucket)
		_, err := n.SetBucket(t.Context(), bucket, []byte(`{"quota":1}`))
		wantKind(t, "set", err, object.Unavailable)
		wantKind(t, "delete", n.DeleteBucket(t.Context(), bucket), object.Unavailable)
		if b, err := n.Bucket(bucket); err != nil || b.Problem == "" {
			t.Errorf("%s is shown as %+v, %v; want its problem", bucket, b, err)
		}
	}
	if err := put(t, n, "good/k", "x"); err != nil {
		t.Error(err)
	}
	if len(n.Buckets()) != 4 {
		t.Errorf("%d buckets are shown, want all 4", len(n.Buckets()))
	}
}

func TestOneScrubAtATime(t *testing.T) {
	store := nodetest.NewStore()
	started, finish := make(chan struct{}), make(chan struct{})
	store.ScrubAll = func(context.Context, node.ScrubOptions, func(node.Finding)) (node.ScrubReport, error) {
		close(started)
		<-finish
		return node.ScrubReport{}, nil
	}
	n := nodetest.New(t, store)
	done := make(chan error)
	go func() {
		_, err := n.Scrub(context.Background(), node.ScrubOptions{}, nil)
		done <- err
	}()
	<-started
	_, err := n.Scrub(t.Context(), node.ScrubOptions{}, nil)
	wantKind(t, "a second scrub", err, object.Busy)
	close(finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// BenchmarkOpen is what the node adds to the store on the way of a read.
func BenchmarkOpen(b *testing.B) {
	n := nodetest.New(b, &still{Store: nodetest.NewStore(), reader: nothing{}}, "bucket")
	name := object.Name{Bucket: "bucket", Key: "k"}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Open(ctx, name, object.Range{}); err != nil {
			b.Fatal(err)
		}
	}
}

type still struct {
	*nodetest.Store
	reader object.Reader
}

func (s *still) Open(context.Context, object.Name, object.Range) (object.Reader, error) {
	return s.reader, nil
}

type nothing struct{ bytes.Reader }

func (nothing) Info() object.Info                { return object.Info{} }
func (nothing) Bounds() (int64, int64)           { return 0, 0 }
func (nothing) Close() error                     { return nil }
func (nothing) Read([]byte) (int, error)         { return 0, io.EOF }
func (nothing) WriteTo(io.Writer) (int64, error) { return 0, nil }
