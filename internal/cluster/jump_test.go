package cluster

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

// TestRevisionsUsedUp is about the time when leased records have used up the
// revisions that need no write. It reaches inside, because they are a million.
func TestRevisionsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var count fault.Counter
		drive := fault.Inject(fault.NewMemory(1), func(op fault.Op) error {
			if broken.Load() && op.Kind == fault.OpSync {
				return syscall.EIO
			}
			return count.Hook(op)
		})
		a, err := OpenAlone(AloneOptions{Disks: []Disk{{Name: "a", FS: drive}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		lease, err := a.Grant(ctx, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		put := func() error {
			_, err := a.Txn(ctx, Txn{Then: []Op{PutLeased("k", nil, lease.ID)}})
			return err
		}
		use := func(n int64) { // as if so many revisions were used
			synctest.Wait()
			s := *a.state.Load()
			s.revision += n
			a.state.Store(&s)
		}

		before := count.Of(fault.OpRename)
		use(revisionJump/2 - 1)
		if err := put(); err != nil || count.Of(fault.OpRename) != before {
			t.Fatalf("half of the revisions took %d writes, error %v", count.Of(fault.OpRename)-before, err)
		}
		if err := put(); err != nil || count.Of(fault.OpRename) != before+1 {
			t.Fatalf("more took %d writes, error %v", count.Of(fault.OpRename)-before, err)
		}

		broken.Store(true)
		use(revisionJump - 1)
		if err := put(); err != nil {
			t.Fatalf("without a disk there should be one more revision: %v", err)
		}
		if err := put(); !object.Is(err, object.Unavailable) {
			t.Fatalf("when the revisions are used up the answer is %v", err)
		}
		// Nor can the record be deleted; but its lease has ended.
		time.Sleep(10*time.Minute + expiryRetry/2)
		if err := a.KeepAlive(ctx, lease.ID); !object.Is(err, object.NotFound) {
			t.Fatalf("an ended lease is kept alive: %v", err)
		}
		if _, err := a.Get(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := a.Get(ctx, "k"); !object.Is(err, object.NotFound) {
			t.Fatalf("a record outlives its lease: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
