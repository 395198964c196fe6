package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
)

func TestBuckets(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore())
	ctx := t.Context()
	if len(n.Buckets()) != 0 {
		t.Errorf("a new node has buckets: %v", n.Buckets())
	}
	for _, name := range []string{"zebra", "apple"} {
		if _, err := n.CreateBucket(ctx, name, node.Properties{Quota: 100}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := n.CreateBucket(ctx, "apple", node.Properties{})
	wantKind(t, "create twice", err, object.Exists, "exists already")
	for _, bad := range []string{"", "UPPER", "../x", "a"} {
		_, err := n.CreateBucket(ctx, bad, node.Properties{})
		wantKind(t, "create "+bad, err, object.Invalid)
		wantKind(t, "delete "+bad, n.DeleteBucket(ctx, bad), object.Invalid)
		_, err = n.SetBucket(ctx, bad, nil)
		wantKind(t, "set "+bad, err, object.Invalid)
	}
	if all := n.Buckets(); len(all) != 2 || all[0].Name != "apple" || all[1].Name != "zebra" || all[0].Quota != 100 || all[0].Created.IsZero() {
		t.Errorf("buckets are %+v", all)
	}
	b, err := n.SetBucket(ctx, "apple", []byte(`{"verify":"always"}`))
	if err != nil || b.Verify != node.VerifyAlways || b.Quota != 100 {
		t.Errorf("set gives %+v, %v; want the quota kept", b, err)
	}
	if b, err = n.SetBucket(ctx, "apple", []byte(`{"verify":null,"quota":0}`)); err != nil || b.Properties != (node.Properties{}) {
		t.Errorf("set back gives %+v, %v", b, err)
	}
	if again, err := n.Bucket("apple"); err != nil || !reflect.DeepEqual(again, b) {
		t.Errorf("the bucket is %+v, %v; want %+v", again, err, b)
	}
	_, err = n.SetBucket(ctx, "missing", nil)
	wantKind(t, "set missing", err, object.NotFound, "bucket missing does not exist")
	wantKind(t, "delete missing", n.DeleteBucket(ctx, "missing"), object.NotFound, "bucket missing does not exist")
	_, err = n.Bucket("missing")
	wantKind(t, "get missing", err, object.NotFound)

	if err := put(t, n, "apple/k", "x"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "delete with an object", n.DeleteBucket(ctx, "apple"), object.Exists, "bucket apple is not empty")
	if err := put(t, n, "apple/l", "x"); err != nil {
		t.Errorf("after a refused delete: %v", err)
	}
	for _, key := range []string{"k", "l"} {
		if err := n.Delete(ctx, object.Name{Bucket: "apple", Key: key}, object.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.DeleteBucket(ctx, "apple"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "put after the delete", put(t, n, "apple/k", "x"), object.NotFound)
	if _, err := n.CreateBucket(ctx, "apple", node.Properties{}); err != nil {
		t.Fatal(err)
	}
	if err := put(t, n, "apple/k", "x"); err != nil {
		t.Errorf("in the bucket made anew: %v", err)
	}
}

func TestBucketsSurvive(t *testing.T) {
	control := nodetest.Control(t)
	nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "kept")
	again := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control})
	if _, err := again.Bucket("kept"); err != nil {
		t.Error(err)
	}
}

func TestProperties(t *testing.T) {
	for _, tt := range []struct {
		patch string
		want  node.Properties
		words string // of the error
	}{
		{patch: "", want: node.Properties{Quota: 7, Verify: "always"}},
		{patch: "  \n", want: node.Properties{Quota: 7, Verify: "always"}},
		{patch: `{}`, want: node.Properties{Quota: 7, Verify: "always"}},
		{patch: `{"quota":9223372036854775807}`, want: node.Properties{Quota: 1<<63 - 1, Verify: "always"}},
		{patch: `{"quota":null,"verify":""}`},
		{patch: `{"source":null,"ec":null,"quota":0,"verify":null}`},
		{patch: `{"source":"s3://b"}`, words: `cannot give a bucket the property "source"`},
		{patch: `{"mirror":2}`, words: `"mirror"`},
		{patch: `{"ec":"4+2"}`, words: `"ec"`},
		{patch: `{"cache":"pin"}`, words: `"cache"`},
		{patch: `{"quotta":1}`, words: `"quotta" is not a property`},
		{patch: `{"name":"x"}`, words: `cannot be set`},
		{patch: `{"quota":-1}`, words: `makes no sense`},
		{patch: `{"quota":1.5}`, words: `number of bytes`},
		{patch: `{"quota":"1GiB"}`, words: `number of bytes`},
		{patch: `{"quota":9223372036854775808}`, words: `number of bytes`},
		{patch: `{"verify":"sometimes"}`, words: `"always" or nothing`},
		{patch: `{"verify":true}`, words: `"always" or nothing`},
		{patch: `[]`, words: `one JSON object`},
		{patch: `{} {}`, words: `something follows`},
		{patch: `{"quota":`, words: `one JSON object`},
		{patch: `quota=5`, words: `one JSON object`},
	} {
		got, err := node.Properties{Quota: 7, Verify: "always"}.Merge([]byte(tt.patch))
		if tt.words != "" {
			wantKind(t, tt.patch, err, object.Invalid, tt.words)
		} else if err != nil || got != tt.want {
			t.Errorf("%s gives %+v, %v; want %+v", tt.patch, got, err, tt.want)
		}
	}
}

// stepReader is a body that can be watched and led.
type stepReader struct {
	reading, finish chan struct{}
	once            sync.Once
}

func (r *stepReader) Read([]byte) (int, error) {
	r.once.Do(func() { close(r.reading) })
	<-r.finish
	return 0, io.EOF
}

func TestDeleteWaitsForNoWrite(t *testing.T) {
	n := nodetest.New(t, nodetest.NewStore(), "bucket")
	body := &stepReader{reading: make(chan struct{}), finish: make(chan struct{})}
	done := make(chan error)
	go func() {
		_, err := n.Put(context.Background(), object.Name{Bucket: "bucket", Key: "k"}, body, object.PutOptions{})
		done <- err
	}()
	<-body.reading
	wantKind(t, "delete during a write", n.DeleteBucket(t.Context(), "bucket"), object.Busy, "a write to bucket bucket is going on")
	close(body.finish)
	if err := <-done; err != nil {
		t.Errorf("the write: %v", err)
	}
	wantKind(t, "delete after the write", n.DeleteBucket(t.Context(), "bucket"), object.Exists)
}

// emptied calls a hook when a bucket is looked at for emptiness.
type emptied struct {
	*nodetest.Store
	hook func(call int)
	call int
	err  error
}

func (e *emptied) Empty(ctx context.Context, bucket string) (bool, error) {
	e.call++
	if e.hook != nil {
		e.hook(e.call)
	}
	if e.err != nil && e.call > 1 {
		return false, e.err
	}
	return e.Store.Empty(ctx, bucket)
}

func TestWritesDuringDelete(t *testing.T) {
	store := &emptied{Store: nodetest.NewStore()}
	n := nodetest.New(t, store, "bucket")
	store.hook = func(call int) {
		if call == 2 { // the gate is shut
			wantKind(t, "put", put(t, n, "bucket/k", "x"), object.Busy, "being deleted")
			_, err := n.Copy(t.Context(), object.Name{Bucket: "bucket", Key: "l"}, object.Name{Bucket: "bucket", Key: "k"}, object.PutOptions{})
			wantKind(t, "copy", err, object.Busy)
		}
	}
	if err := n.DeleteBucket(t.Context(), "bucket"); err != nil {
		t.Fatal(err)
	}
	if objects, _ := store.Count("bucket"); objects != 0 {
		t.Errorf("%d objects are left", objects)
	}
}

func TestDeleteThatFailsLetsWritesIn(t *testing.T) {
	store := &emptied{Store: nodetest.NewStore(), err: object.Errorf(object.Unavailable, "a disk is gone")}
	n := nodetest.New(t, store, "bucket")
	wantKind(t, "delete", n.DeleteBucket(t.Context(), "bucket"), object.Unavailable)
	if err := put(t, n, "bucket/k", "x"); err != nil {
		t.Errorf("put after a failed delete: %v", err)
	}
}

// TestDeleteRace lets writers and deleters fight for a bucket. After each delete
// nothing may be left, and nothing may come.
func TestDeleteRace(t *testing.T) {
	store := nodetest.NewStore()
	n := nodetest.New(t, store, "bucket")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := object.Name{Bucket: "bucket", Key: fmt.Sprint(w, i%3)}
				n.Put(ctx, name, strings.NewReader("x"), object.PutOptions{})
				n.Delete(ctx, name, object.Condition{})
				runtime.Gosched()
			}
		})
	}
	for deleted := 0; deleted < 30; {
		err := n.DeleteBucket(ctx, "bucket")
		if object.Is(err, object.Exists) || object.Is(err, object.Busy) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		deleted++
		if objects, _ := store.Count("bucket"); objects != 0 {
			t.Fatalf("%d objects outlived their bucket", objects)
		}
		if _, err := n.CreateBucket(ctx, "bucket", node.Properties{}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	writers.Wait()
}

// flaky is a Control whose transactions fail on demand, before or after they
// have happened.
type flaky struct {
	cluster.Control
	txn func(cluster.Txn) (before, after error)
}

func (f *flaky) Txn(ctx context.Context, txn cluster.Txn) (int64, error) {
	var before, after error
	if f.txn != nil {
		before, after = f.txn(txn)
	}
	if before != nil {
		return 0, before
	}
	revision, err := f.Control.Txn(ctx, txn)
	return revision, errors.Join(err, after)
}

func TestDeleteWithUnknownOutcome(t *testing.T) {
	lost := object.Errorf(object.Unavailable, "the control records cannot be reached")
	isDelete := func(txn cluster.Txn) bool { return txn.Then[0].Delete }
	for _, tt := range []struct {
		name    string
		txn     func(cluster.Txn) (before, after error)
		deleted bool
		writes  bool // go on afterwards
	}{
		{"it did not happen", func(txn cluster.Txn) (error, error) {
			if isDelete(txn) {
				return lost, nil
			}
			return nil, nil
		}, false, true},
		{"it did happen", func(txn cluster.Txn) (error, error) {
			if isDelete(txn) {
				return nil, lost
			}
			return nil, nil
		}, true, false},
		{"nothing can be learned", func(cluster.Txn) (error, error) { return lost, nil }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			control := &flaky{Control: nodetest.Control(t)}
			n := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "bucket")
			control.txn = tt.txn
			err := n.DeleteBucket(t.Context(), "bucket")
			if tt.deleted != (err == nil) {
				t.Errorf("delete answers %v", err)
			}
			if err := put(t, n, "bucket/k", "x"); (err == nil) != tt.writes {
				t.Errorf("a write afterwards: %v", err)
			}
			control.txn = nil
			if tt.writes {
				n.Delete(t.Context(), object.Name{Bucket: "bucket", Key: "k"}, object.Condition{})
			}
			if err := n.DeleteBucket(t.Context(), "bucket"); err != nil && !tt.deleted {
				t.Errorf("repeating it: %v", err)
			}
			if _, err := n.CreateBucket(t.Context(), "bucket", node.Properties{}); err != nil {
				t.Errorf("making it anew: %v", err)
			}
			if err := put(t, n, "bucket/k", "x"); err != nil {
				t.Errorf("a write to the new one: %v", err)
			}
		})
	}
}

// TestSetReopens shows the other way out of a delete whose outcome is not known:
// a changed record cannot be deleted by it any more.
func TestSetReopens(t *testing.T) {
	control := &flaky{Control: nodetest.Control(t)}
	n := nodetest.Open(t, node.Options{Store: nodetest.NewStore(), Control: control}, "bucket")
	lost := object.Errorf(object.Unavailable, "the control records cannot be reached")
	control.txn = func(cluster.Txn) (error, error) { return lost, nil }
	wantKind(t, "delete", n.DeleteBucket(t.Context(), "bucket"), object.Unavailable, "not known")
	wantKind(t, "put", put(t, n, "bucket/k", "x"), object.Busy)
	control.txn = nil
	if _, err := n.SetBucket(t.Context(), "bucket", []byte(`{"quota":100}`)); err != nil {
		t.Fatal(err)
	}
	if err := put(t, n, "bucket/k", "x"); err != nil {
		t.Error(err)
	}
}
