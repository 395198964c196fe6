package node_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// between is a store in which something happens right after an object was deleted, or
// right before one is put.
type between struct {
	*store.Store
	deleted, putting func(name object.Name)
}

func (s *between) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	err := s.Store.Delete(ctx, name, cond)
	if s.deleted != nil {
		s.deleted(name)
	}
	return err
}

func (s *between) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if s.putting != nil {
		s.putting(name)
	}
	return s.Store.Put(ctx, name, r, opts)
}

// TestFactsOfTheNext writes and tags an object anew while the one before is being
// deleted, or tagged. Those tags were acknowledged and must stay.
func TestFactsOfTheNext(t *testing.T) {
	ctx := t.Context()
	inner, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: fault.NewMemory(1), Name: "memory"}}})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, inner.Run)
	s := &between{Store: inner}
	n := nodetest.New(t, s, "bucket")
	name := object.Name{Bucket: "bucket", Key: "key"}
	write := func(tag string) object.Info {
		t.Helper()
		info, err := n.Put(ctx, name, strings.NewReader(tag), object.PutOptions{})
		if err == nil {
			err = n.SetFacts(ctx, info, node.Facts{Tags: map[string]string{"is": tag}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	check := func(when string) {
		t.Helper()
		info, err := n.Stat(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok, err := n.Facts(ctx, info); err != nil || !ok || f.Tags["is"] != "new" {
			t.Errorf("%s: the new object has %v, %v, %v", when, f, ok, err)
		}
	}

	write("old")
	s.deleted = func(of object.Name) {
		if of.Bucket == "bucket" {
			s.deleted = nil
			write("new")
		}
	}
	if _, err := n.Remove(ctx, name, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	check("written while the old one was deleted")

	old := write("old")
	s.putting = func(of object.Name) {
		if of.Bucket != "bucket" {
			s.putting = nil
			write("new")
		}
	}
	if err := n.SetFacts(ctx, old, node.Facts{Tags: map[string]string{"is": "older"}}); err != nil && !object.Is(err, object.NotFound) {
		t.Fatal(err)
	}
	check("written while the old one was tagged")

	if _, err := n.Remove(ctx, name, object.Condition{}); err != nil {
		t.Fatal(err)
	}
	if left := inner.Usage(object.Beside("bucket", "facts")); left.Objects != 0 {
		t.Errorf("%d facts about nothing are left", left.Objects)
	}
}
