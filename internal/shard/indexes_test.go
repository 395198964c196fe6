package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// objects are tars that count how often they are opened.
type objects struct {
	opened atomic.Int64
	closed atomic.Int64
}

func (o *objects) open(data []byte) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		o.opened.Add(1)
		return counted{bytes.NewReader(data), &o.closed}, nil
	}
}

type counted struct {
	io.Reader
	closed *atomic.Int64
}

func (c counted) Close() error {
	c.closed.Add(1)
	return nil
}

// gate is a tar that gives nothing until it is opened, or its context ends.
type gate struct {
	data    []byte
	reached chan struct{} // closed when somebody reads
	pass    chan struct{}
	ended   chan struct{} // closed when the reader is closed
}

func newGate(data []byte) *gate {
	return &gate{data: data, reached: make(chan struct{}), pass: make(chan struct{}), ended: make(chan struct{})}
}

func (g *gate) open(ctx context.Context) (io.ReadCloser, error) {
	return &gated{gate: g, wait: func() error {
		select {
		case <-g.pass:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}, nil
}

type gated struct {
	*gate
	wait func() error
	r    *bytes.Reader
}

func (g *gated) Read(p []byte) (int, error) {
	if g.r == nil {
		close(g.reached)
		if err := g.wait(); err != nil {
			return 0, err
		}
		g.r = bytes.NewReader(g.data)
	}
	return g.r.Read(p)
}

func (g *gated) Close() error {
	close(g.ended)
	return nil
}

func newIndexes(t *testing.T, opts shard.Options) *shard.Indexes {
	t.Helper()
	c, err := shard.NewIndexes(opts)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func named(key string) object.Name { return object.Name{Bucket: "bkt", Key: key} }

func version(n int) object.Version { return object.Version{Map: 1, Counter: uint64(n)} }

// TestIndexIsBuiltOnce, however many ask.
func TestIndexIsBuiltOnce(t *testing.T) {
	c := newIndexes(t, shard.Options{})
	var o objects
	data := archive(t, member{name: "a", content: "1"})
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			x, err := c.Get(t.Context(), named("k"), version(1), o.open(data))
			if err != nil {
				t.Error(err)
			} else if _, ok := x.Find("a"); !ok {
				t.Error("a is not there")
			}
		})
	}
	group.Wait()
	if o.opened.Load() != 1 || o.closed.Load() != 1 {
		t.Errorf("opened %d times, closed %d times", o.opened.Load(), o.closed.Load())
	}
}

// TestVersions: each has its own index, and a newer one ends the life of an older.
func TestVersions(t *testing.T) {
	c := newIndexes(t, shard.Options{})
	var o objects
	get := func(v int, wantOpened int64) {
		t.Helper()
		member := fmt.Sprint(v)
		x, err := c.Get(t.Context(), named("k"), version(v), o.open(archive(t, bare(member))))
		must(t, err)
		if _, ok := x.Find(member); !ok || o.opened.Load() != wantOpened {
			t.Fatalf("version %d: %v, opened %d times", v, ok, o.opened.Load())
		}
	}
	get(1, 1)
	get(1, 1)
	get(2, 2) // drops 1
	get(1, 3) // somebody still reads the old state: it is kept as well
	get(1, 3)
	get(2, 3) // drops 1
	get(1, 4)
}

func bare(name string) member { return member{name: name} }

// TestLeastRecentlyUsedGoes when there are too many bytes.
func TestLeastRecentlyUsedGoes(t *testing.T) {
	data := archive(t, bare(strings.Repeat("n", 4000)))
	c := newIndexes(t, shard.Options{Bytes: 15_000}) // three of them
	var o objects
	get := func(key string) bool {
		before := o.opened.Load()
		_, err := c.Get(t.Context(), named(key), version(1), o.open(data))
		must(t, err)
		return o.opened.Load() == before
	}
	for _, step := range []struct {
		key  string
		kept bool
	}{
		{"a", false},
		{"b", false},
		{"c", false},
		{"a", true},
		{"d", false}, // b goes
		{"a", true},
		{"c", true},
		{"d", true},
		{"b", false}, // a goes
		{"c", true},
		{"a", false},
	} {
		if kept := get(step.key); kept != step.kept {
			t.Fatalf("%s: kept %v, should be %v", step.key, kept, step.kept)
		}
	}
}

// TestTooLargeAnIndex is refused, and remembered as such.
func TestTooLargeAnIndex(t *testing.T) {
	c := newIndexes(t, shard.Options{Bytes: 5000})
	var o objects
	data := archive(t, bare(strings.Repeat("n", 4000)), bare(strings.Repeat("m", 4000)))
	for range 3 {
		_, err := c.Get(t.Context(), named("k"), version(1), o.open(data))
		if !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), "more than 5000 bytes") {
			t.Fatal(err)
		}
	}
	if o.opened.Load() != 1 {
		t.Errorf("opened %d times", o.opened.Load())
	}
}

// TestFailures: that it is no tar stays known; all else is tried again.
func TestFailures(t *testing.T) {
	c := newIndexes(t, shard.Options{})
	var o objects
	for range 3 {
		if _, err := c.Get(t.Context(), named("no tar"), version(1), o.open([]byte("hello"))); !object.Is(err, object.Invalid) {
			t.Fatal(err)
		}
	}
	if o.opened.Load() != 1 || o.closed.Load() != 1 {
		t.Errorf("opened %d times, closed %d times", o.opened.Load(), o.closed.Load())
	}
	good := archive(t, bare("a"))
	_, err := c.Get(t.Context(), named("no tar"), version(2), o.open(good))
	must(t, err)

	for _, kind := range object.Kinds() {
		cause := object.Errorf(kind, "cause")
		name := named(kind.String())
		_, err := c.Get(t.Context(), name, version(1), func(context.Context) (io.ReadCloser, error) { return nil, cause })
		if !errors.Is(err, cause) {
			t.Errorf("%v: opening fails with %v", kind, err)
		}
		_, err = c.Get(t.Context(), name, version(1), func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(failing{bytes.NewReader(good[:700]), cause}), nil
		})
		if !errors.Is(err, cause) || object.KindOf(err) != kind {
			t.Errorf("%v: reading fails with %v", kind, err)
		}
		_, err = c.Get(t.Context(), name, version(1), o.open(good))
		must(t, err)
	}
}

// TestOneLeaves: who goes away does not disturb the others.
func TestOneLeaves(t *testing.T) {
	c := newIndexes(t, shard.Options{})
	g := newGate(archive(t, bare("a")))
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, named("k"), version(1), g.open)
		first <- err
	}()
	<-g.reached
	joined := make(chan struct{})
	go func() {
		_, err := c.Get(announce{t.Context(), sync.OnceFunc(func() { close(joined) })}, named("k"), version(1), g.open)
		second <- err
	}()
	<-joined
	cancel()
	if err := <-first; !object.Is(err, object.Canceled) {
		t.Error(err)
	}
	close(g.pass)
	must(t, <-second)
}

// announce is a context that says when somebody begins to wait for its end.
type announce struct {
	context.Context
	waiting func()
}

func (a announce) Done() <-chan struct{} {
	a.waiting()
	return a.Context.Done()
}

// TestAllLeave: the build ends, and who comes later gets one of its own.
func TestAllLeave(t *testing.T) {
	c := newIndexes(t, shard.Options{})
	data := archive(t, bare("a"))
	g := newGate(data)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	var joined sync.WaitGroup
	for range 3 {
		joined.Add(1)
		go func() {
			_, err := c.Get(announce{ctx, sync.OnceFunc(joined.Done)}, named("k"), version(1), g.open)
			left <- err
		}()
	}
	joined.Wait()
	<-g.reached
	cancel()
	for range 3 {
		if err := <-left; !object.Is(err, object.Canceled) {
			t.Error(err)
		}
	}
	<-g.ended
	var o objects
	_, err := c.Get(t.Context(), named("k"), version(1), o.open(data))
	must(t, err)
	if _, err := c.Get(ctx, named("k"), version(1), o.open(data)); !object.Is(err, object.Canceled) {
		t.Error(err)
	}
}

// TestBuildsTakeTurns: no more are read at a time than the option says, and one
// that waits for its turn can be given up.
func TestBuildsTakeTurns(t *testing.T) {
	c := newIndexes(t, shard.Options{Builds: 2})
	data := archive(t, bare("a"))
	var now, most atomic.Int64
	open := func(context.Context) (io.ReadCloser, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return closing{bytes.NewReader(data), func() { now.Add(-1) }}, nil
	}
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if _, err := c.Get(t.Context(), named(fmt.Sprint(i)), version(1), open); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most.Load() > 2 {
		t.Errorf("%d at a time", most.Load())
	}

	a, b := newGate(data), newGate(data)
	for i, g := range []*gate{a, b} {
		group.Go(func() {
			if _, err := c.Get(t.Context(), named(fmt.Sprint("gate", i)), version(1), g.open); err != nil {
				t.Error(err)
			}
		})
		<-g.reached
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Get(announce{ctx, cancel}, named("waits"), version(1), open)
	if !object.Is(err, object.Canceled) {
		t.Error(err)
	}
	close(a.pass)
	close(b.pass)
	group.Wait()
}

type closing struct {
	io.Reader
	close func()
}

func (c closing) Close() error {
	c.close()
	return nil
}

// TestClose ends what is going on, and waits for it.
func TestClose(t *testing.T) {
	c, err := shard.NewIndexes(shard.Options{})
	must(t, err)
	g := newGate(nil)
	got := make(chan error)
	go func() {
		_, err := c.Get(t.Context(), named("k"), version(1), g.open)
		got <- err
	}()
	<-g.reached
	must(t, c.Close())
	select {
	case <-g.ended:
	default:
		t.Error("the build still runs")
	}
	if err := <-got; !object.Is(err, object.Unavailable) {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), named("k"), version(1), g.open); !object.Is(err, object.Unavailable) {
		t.Error(err)
	}
	must(t, c.Close())
}

func TestOptions(t *testing.T) {
	for _, o := range []shard.Options{{Bytes: -1}, {Builds: -1}} {
		if _, err := shard.NewIndexes(o); !object.Is(err, object.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
