package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/cluster/clustertest"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

// TestAlone runs the suite with real time and real files.
func TestAlone(t *testing.T) {
	clustertest.Run(t, func(t *testing.T) cluster.Control {
		return open(t, disks(disk.NewDir(t.TempDir()), disk.NewDir(t.TempDir()))...)
	}, clustertest.Options{TTL: 500 * time.Millisecond, Rounds: 20})
}

// TestAloneInBubble runs the suite where time passes only when all wait for it.
func TestAloneInBubble(t *testing.T) {
	for _, test := range clustertest.Tests(clustertest.Options{TTL: time.Hour, Wait: 1000 * time.Hour, Rounds: 100}) {
		t.Run(test.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.Run(t, open(t, disks(drives(2)...)...))
			})
		})
	}
}

func TestReopen(t *testing.T) {
	for n := 1; n <= 4; n++ {
		all := drives(n)
		a := open(t, disks(all...)...)
		a.expectDisks("ok", "ok", "ok", "ok")
		must(t, a.put("a", "1"))
		must(t, a.put("b", "2"))
		must(t, a.put("a", "3"))
		want, err := a.Get(t.Context(), "a")
		must(t, err)
		a.stop()

		a = open(t, disks(all...)...)
		a.expect("a=3 b=2")
		a.expectDisks("ok", "ok", "ok", "ok")
		got, err := a.Get(t.Context(), "a")
		must(t, err)
		if got.Created != want.Created || got.Modified != want.Modified || got.Lease != 0 {
			t.Fatalf("%+v came back as %+v", want, got)
		}
		a.stop()
	}
}

// TestLeasedIsNotStored also sees that the revisions of leased records are not
// used again.
func TestLeasedIsNotStored(t *testing.T) {
	all := drives(2)
	a := open(t, disks(all...)...)
	lease, err := a.Grant(t.Context(), time.Hour)
	must(t, err)
	must(t, a.put("joined", "plain"))
	writes := bytes.Clone(file(t, all[0], "control"))
	_, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("leased", []byte("SECRET"), lease.ID)}})
	must(t, err)
	if !bytes.Equal(writes, file(t, all[0], "control")) {
		t.Error("a leased record caused a write")
	}
	// A record that joins a lease must not come back without it.
	revision, err := a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("joined", []byte("SECRET"), lease.ID)}})
	must(t, err)
	must(t, a.put("stays", "plain"))
	a.expect("joined=SECRET leased=SECRET stays=plain")
	for range 100 {
		revision, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("leased", nil, lease.ID)}})
		must(t, err)
	}
	a.stop()
	for _, m := range all {
		if control := file(t, m, "control"); bytes.Contains(control, []byte("SECRET")) || bytes.Contains(control, []byte("joined")) {
			t.Error("a leased record is on a disk")
		}
	}
	a = open(t, disks(all...)...)
	a.expect("stays=plain")
	view, err := a.List(t.Context(), "")
	must(t, err)
	if view.Revision < revision {
		t.Errorf("the revision went back from %d to %d", revision, view.Revision)
	}
	for _, err := range a.Watch(t.Context(), "", revision) {
		if !errors.Is(err, cluster.ErrCompacted) {
			t.Errorf("watching from before a restart gives %v, want ErrCompacted", err)
		}
	}
	wants(t, object.NotFound, a.KeepAlive(t.Context(), lease.ID))
}

func TestFileMode(t *testing.T) {
	dir := t.TempDir()
	a := open(t, disks(disk.NewDir(dir))...)
	must(t, a.put("user/root", "secret"))
	names, err := os.ReadDir(dir)
	must(t, err)
	if len(names) != 1 {
		t.Errorf("%d files, want one", len(names))
	}
	info, err := os.Stat(filepath.Join(dir, "control"))
	must(t, err)
	if info.Mode() != fs.FileMode(0o600) {
		t.Errorf("mode %s", info.Mode())
	}
}

// TestGroupCommit sees that those who wait for a slow disk share the next write.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count fault.Counter
		m := fault.NewMemory(1)
		a := open(t, disks(fault.Inject(m, fault.Chain(count.Hook, fault.Delay(time.Second, fault.OpRename))))...)
		before := count.Of(fault.OpRename)
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				if err := a.put(fmt.Sprint(i), ""); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := count.Of(fault.OpRename) - before; n > 2 {
			t.Errorf("100 transactions took %d writes", n)
		}
		a.stop()
		if view, _ := open(t, disks(m)...).List(t.Context(), ""); len(view.Records) != 100 {
			t.Errorf("%d records, want 100", len(view.Records))
		}
	})
}

// TestRun is about the time before, at the end of and after Run.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := cluster.OpenAlone(cluster.AloneOptions{Disks: disks(drives(1)...)})
		must(t, err)
		early := &alone{Alone: a, t: t}
		early.expect("")
		waits := make(chan error)
		go func() { waits <- early.put("a", "") }()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := a.Txn(ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("canceled", nil)}})
			waits <- err
		}()
		synctest.Wait()
		cancel()
		wants(t, object.Canceled, <-waits)

		running := run(t, a)
		must(t, <-waits)
		running.expect("a=")
		if err := a.Run(t.Context()); err == nil {
			t.Error("Run can be called twice")
		}

		watched := make(chan error)
		go func() {
			for _, err := range a.Watch(t.Context(), "none", 1) {
				watched <- err
			}
		}()
		synctest.Wait()
		running.stop()
		wants(t, object.Unavailable, <-watched)
		wants(t, object.Unavailable, running.put("b", ""))
		_, err = a.List(t.Context(), "")
		wants(t, object.Unavailable, err)
		_, err = a.Grant(t.Context(), time.Second)
		wants(t, object.Unavailable, err)
	})
}

// TestTotal fills all the room there is, with leased records because those are
// quick, and sees that deleting helps.
func TestTotal(t *testing.T) {
	a := open(t, disks(drives(1)...)...)
	lease, err := a.Grant(t.Context(), time.Hour)
	must(t, err)
	value := make([]byte, cluster.MaxValue)
	n := 0
	for ; err == nil; n++ {
		_, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased(fmt.Sprint(n), value, lease.ID)}})
	}
	wants(t, object.Unavailable, err)
	if n != cluster.MaxTotal/cluster.MaxValue {
		t.Errorf("%d records of 1 MiB fit into %d bytes", n-1, cluster.MaxTotal)
	}
	wants(t, object.Unavailable, a.put("one more", string(value)))
	must(t, a.put("0", "smaller"))
	_, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.Delete("1")}})
	must(t, err)
	must(t, a.put("one more", string(value)))
}

func TestForgottenChanges(t *testing.T) {
	a := open(t, disks(drives(1)...)...)
	lease, err := a.Grant(t.Context(), time.Hour)
	must(t, err)
	put := func(value []byte) int64 {
		revision, err := a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("a", value, lease.ID)}})
		must(t, err)
		return revision
	}
	for name, fill := range map[string]func(){
		"many changes": func() {
			for range 10000 {
				put(nil)
			}
		},
		"large changes": func() {
			for range 20 {
				put(make([]byte, cluster.MaxValue))
			}
		},
	} {
		view, err := a.List(t.Context(), "")
		must(t, err)
		put(nil)
		seen := 0
		var end error
		for _, err := range a.Watch(t.Context(), "a", view.Revision) {
			if seen++; seen == 1 {
				fill() // meanwhile this watcher does not read
			}
			end = err
		}
		if !errors.Is(end, cluster.ErrCompacted) || seen != 2 {
			t.Errorf("%s: a watcher that fell behind got %d changes and then %v", name, seen-1, end)
		}
	}
}

// TestFollowForgets sees that one who follows gets over what is forgotten.
func TestFollowForgets(t *testing.T) {
	a := open(t, disks(drives(1)...)...)
	lease, err := a.Grant(t.Context(), time.Hour)
	must(t, err)
	views := 0
	for view, err := range cluster.Follow(t.Context(), a, "a") {
		must(t, err)
		if views++; views == 1 {
			for i := range 10000 {
				_, err := a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("a", fmt.Append(nil, i), lease.ID)}})
				must(t, err)
			}
			continue
		}
		if string(view.Records[0].Value) != "9999" {
			t.Errorf("after what was forgotten comes %s", view.Records[0].Value)
		}
		break
	}
}

// TestRevokeThenPut has both in one batch: the record would stay for ever.
func TestRevokeThenPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(t, disks(fault.Inject(fault.NewMemory(1), fault.Delay(time.Second, fault.OpSync)))...)
		lease, err := a.Grant(t.Context(), time.Hour)
		must(t, err)
		first, revoked, put := make(chan error), make(chan error), make(chan error)
		go func() { first <- a.put("first", "") }() // the others gather behind it
		synctest.Wait()
		go func() { revoked <- a.Revoke(t.Context(), lease.ID) }()
		synctest.Wait()
		go func() {
			_, err := a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("leased", nil, lease.ID)}})
			put <- err
		}()
		must(t, <-first)
		must(t, <-revoked)
		wants(t, object.NotFound, <-put)
		a.expect("first=")
	})
}

// TestManyLeases ends more leases at once than a batch holds, and finds the limit.
func TestManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := open(t, disks(drives(1)...)...)
		_, err := a.Grant(t.Context(), time.Hour) // it must not make the others wait
		must(t, err)
		for i := range 300 {
			lease, err := a.Grant(t.Context(), time.Minute)
			must(t, err)
			_, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased(fmt.Sprint(i), nil, lease.ID)}})
			must(t, err)
		}
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if view, _ := a.List(t.Context(), ""); len(view.Records) != 300 {
			t.Errorf("%d records before the leases end", len(view.Records))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		a.expect("")
		for err == nil {
			_, err = a.Grant(t.Context(), time.Minute)
		}
		wants(t, object.Busy, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		_, err = a.Grant(t.Context(), time.Minute)
		must(t, err)
	})
}
