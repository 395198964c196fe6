// Package nodetest makes nodes for tests: over a map in memory instead of disks,
// with control records on a drive in memory.
package nodetest

import (
	"context"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object/objecttest"
)

// Store is an objecttest.Memory with what else a node asks of its store. Its
// fields are not to be changed in use.
type Store struct {
	*objecttest.Memory
	DiskList []node.Disk
	ScrubAll func(ctx context.Context, opts node.ScrubOptions, found func(node.Finding)) (node.ScrubReport, error)
}

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{Memory: objecttest.NewMemory()} }

// Usage implements node.Store.
func (s *Store) Usage(bucket string) node.Usage {
	objects, bytes := s.Count(bucket)
	return node.Usage{Objects: objects, Bytes: bytes}
}

// Disks implements node.Store.
func (s *Store) Disks() []node.Disk { return s.DiskList }

// Scrub implements node.Store.
func (s *Store) Scrub(ctx context.Context, opts node.ScrubOptions, found func(node.Finding)) (node.ScrubReport, error) {
	if s.ScrubAll == nil {
		return node.ScrubReport{}, nil
	}
	return s.ScrubAll(ctx, opts, found)
}

// Control returns control records that last until the test ends.
func Control(t testing.TB) cluster.Control {
	t.Helper()
	c, err := cluster.OpenAlone(cluster.AloneOptions{Disks: []cluster.Disk{{Name: "memory", FS: fault.NewMemory(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	Run(t, c.Run)
	return c
}

// Run runs something until the test ends, and waits for it.
func Run(t testing.TB, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// New returns a node that runs until the test ends, with the named buckets.
func New(t testing.TB, store node.Store, buckets ...string) *node.Node {
	t.Helper()
	return Open(t, node.Options{Name: "test", Address: "127.0.0.1:7400", Store: store, Control: Control(t)}, buckets...)
}

// Open is New with options.
func Open(t testing.TB, o node.Options, buckets ...string) *node.Node {
	t.Helper()
	n, err := node.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	Run(t, n.Run)
	for _, b := range buckets {
		if _, err := n.CreateBucket(context.Background(), b, node.Properties{}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}
