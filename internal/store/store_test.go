package store_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object/objecttest"
	"penstock.dev/penstock/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store on real directories and runs it until the test ends.
func open(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func disks(t *testing.T, n int) []store.Disk {
	var all []store.Disk
	for range n {
		dir := t.TempDir()
		all = append(all, store.Disk{FS: disk.NewDir(dir), Name: dir})
	}
	return all
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", n), func(t *testing.T) {
			objecttest.Run(t, func(t *testing.T) objecttest.Holder { return open(t, store.Options{Disks: disks(t, n)}) }, objecttest.Options{})
		})
	}
}
