package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
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
			err = n.SetFacts(ctx, info, tagged(tag))
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
	if err := n.SetFacts(ctx, old, tagged("older")); err != nil && !object.Is(err, object.NotFound) {
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

func tagged(tag string) func(node.Facts, bool) (node.Facts, error) {
	return func(f node.Facts, _ bool) (node.Facts, error) {
		f.Tags = map[string]string{"is": tag}
		return f, nil
	}
}

// TestFactsTogether changes different facts at the same time: none is lost.
func TestFactsTogether(t *testing.T) {
	ctx := t.Context()
	inner, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: fault.NewMemory(1), Name: "memory"}}})
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Run(t, inner.Run)
	n := nodetest.New(t, inner, "bucket")
	info, err := n.Put(ctx, object.Name{Bucket: "bucket", Key: "key"}, strings.NewReader("x"), object.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 10
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for j := range each {
				err := n.SetFacts(ctx, info, func(f node.Facts, set bool) (node.Facts, error) {
					if set != (f.Tags != nil) {
						t.Error(set, f)
					}
					f.Tags = maps.Clone(f.Tags)
					if f.Tags == nil {
						f.Tags = make(map[string]string)
					}
					f.Tags[fmt.Sprint(i, "-", j)] = ""
					return f, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if f, _, err := n.Facts(ctx, info); err != nil || len(f.Tags) != writers*each {
		t.Errorf("%d of %d facts are left, %v", len(f.Tags), writers*each, err)
	}
	if err := n.SetFacts(ctx, info, func(f node.Facts, _ bool) (node.Facts, error) { return node.Facts{}, errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if f, _, err := n.Facts(ctx, info); err != nil || len(f.Tags) != writers*each {
		t.Errorf("a change that failed left %d facts, %v", len(f.Tags), err)
	}
}
