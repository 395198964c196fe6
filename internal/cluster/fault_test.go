package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

var errIO = syscall.EIO

// The operations of one write: create, head, body, sync, rename, sync of the
// directory.
const opsPerWrite = 6

// failing is a drive that fails as its hook says, once it has one.
type failing struct {
	disk.FS
	hook atomic.Pointer[fault.Hook]
}

func newFailing(m *fault.Memory) *failing {
	f := &failing{}
	f.FS = fault.InjectOn(m, fault.Mutations, func(op fault.Op) error {
		if hook := f.hook.Load(); hook != nil {
			return (*hook)(op)
		}
		return nil
	})
	return f
}

func (f *failing) set(hook fault.Hook) { f.hook.Store(&hook) }

// TestOneFails fails each step of a write on one of three disks. Nothing is lost,
// and the next transaction brings the disk up.
func TestOneFails(t *testing.T) {
	for step := int64(1); step <= opsPerWrite; step++ {
		for _, cause := range []error{errIO, syscall.ENOSPC, &fault.Short{N: 7, Err: syscall.ENOSPC}} {
			all := drives(3)
			bad := newFailing(all[1])
			a := open(t, cluster.Disk{Name: "a", FS: all[0]}, cluster.Disk{Name: "b", FS: bad}, cluster.Disk{Name: "c", FS: all[2]})
			must(t, a.put("k", "1"))
			bad.set(fault.FailNth(step, fault.Mutations, cause))
			must(t, a.put("k", "2"))
			a.expect("k=2")
			a.expectDisks("ok", "bad", "ok")
			if err := a.Disks()[1].Err; !errors.Is(err, errIO) && !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "disk b") {
				t.Errorf("the disk is marked with %v", err)
			}
			must(t, a.put("k", "3"))
			a.expectDisks("ok", "ok", "ok")
			a.stop()
			for _, m := range all {
				if m.Files() != 1 {
					t.Errorf("step %d left %d files", step, m.Files())
				}
			}
			// Any two of them have it.
			a = open(t, disks(all[1], all[2])...)
			a.expect("k=3")
			a.stop()
		}
	}
}

// TestTooManyFail fails each step on so many disks that none are left, or one where
// two are needed. The transaction fails and nobody sees it; the next one succeeds.
func TestTooManyFail(t *testing.T) {
	for _, test := range []struct{ disks, bad int }{{1, 1}, {2, 1}, {2, 2}, {3, 2}, {3, 3}} {
		for step := int64(1); step <= opsPerWrite; step++ {
			all := drives(test.disks)
			var bad []*failing
			var named []cluster.Disk
			for i, m := range all {
				named = append(named, cluster.Disk{Name: fmt.Sprint(i), FS: m})
				if i < test.bad {
					bad = append(bad, newFailing(m))
					named[i].FS = bad[i]
				}
			}
			a := open(t, named...)
			must(t, a.put("k", "1"))
			before, err := a.List(t.Context(), "")
			must(t, err)
			for _, f := range bad {
				f.set(fault.FailNth(step, fault.Mutations, syscall.ENOSPC))
			}
			err = a.put("k", "never")
			wants(t, object.Unavailable, err)
			if !errors.Is(err, syscall.ENOSPC) || !disk.IsFull(err) {
				t.Errorf("the cause is not in %v", err)
			}
			a.expect("k=1")

			must(t, a.put("k", "2"))
			for change, err := range a.Watch(t.Context(), "", before.Revision) {
				must(t, err)
				if string(change.Events[0].Value) != "2" {
					t.Errorf("a transaction that failed is seen as %+v", change)
				}
				break
			}
			a.stop()
			a = open(t, disks(all...)...)
			a.expect("k=2")
			a.stop()
		}
	}
}

// TestUnknownOutcome restarts after a transaction that failed though one disk has
// it. It may have happened or not, but then it stays so.
func TestUnknownOutcome(t *testing.T) {
	for step := int64(1); step <= opsPerWrite; step++ {
		all := drives(2)
		bad := newFailing(all[0])
		a := open(t, cluster.Disk{Name: "a", FS: bad}, cluster.Disk{Name: "b", FS: all[1]})
		must(t, a.put("k", "1"))
		bad.set(fault.FailFrom(step, fault.Mutations, errIO))
		wants(t, object.Unavailable, a.put("k", "2"))
		a.stop()
		for i, m := range all {
			all[i] = m.Crash()
		}
		a = open(t, disks(all...)...)
		first := a.content()
		if first != "k=1" && first != "k=2" {
			t.Errorf("after the restart: %s", first)
		}
		a.stop()
		for i, m := range all {
			all[i] = m.Crash()
		}
		for _, m := range all {
			a := open(t, disks(m)...)
			a.expect(first)
			a.stop()
		}
	}
}

// TestFullDisk is about a real lack of space, from before the start on.
func TestFullDisk(t *testing.T) {
	m := fault.NewMemory(1)
	a := open(t, disks(m)...)
	must(t, a.put("a", strings.Repeat("v", 100<<10)))
	a.stop()
	m.SetCapacity(110 << 10)
	a = open(t, disks(m)...) // it opens, and can be read
	a.expectDisks("bad")
	if _, err := a.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	err := a.put("b", "")
	if wants(t, object.Unavailable, err); !disk.IsFull(err) {
		t.Errorf("the error does not say that the disk is full: %v", err)
	}
	lease, err := a.Grant(t.Context(), time.Hour) // leases need no disk
	must(t, err)
	_, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("leased", nil, lease.ID)}})
	must(t, err)
	if m.Files() != 1 {
		t.Errorf("%d files on a full disk", m.Files())
	}
	m.SetCapacity(1 << 20)
	must(t, a.put("b", ""))
	a.expectDisks("ok")
	a.stop()
	a = open(t, disks(m)...)
	if view, _ := a.List(t.Context(), ""); len(view.Records) != 2 {
		t.Errorf("%d records after the restart", len(view.Records))
	}
}

// TestMixedBatch fails the write of a batch in which some requests need none, and
// some have looked at what was not written.
func TestMixedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := newFailing(fault.NewMemory(1))
		a := open(t, disks(bad)...)
		lease, err := a.Grant(t.Context(), time.Hour)
		must(t, err)
		must(t, a.put("k", "1"))
		bad.set(fault.Chain(fault.Delay(time.Second, fault.OpCreate), fault.FailFrom(1, fault.OpSync, errIO)))
		first := make(chan error)
		go func() { first <- a.put("first", "") }() // the others gather behind it
		synctest.Wait()

		answers := map[string]chan error{}
		for name, txn := range map[string]cluster.Txn{
			"write":  {Then: []cluster.Op{cluster.Put("k", []byte("2"))}},
			"leased": {Then: []cluster.Op{cluster.PutLeased("leased", nil, lease.ID)}},
			"stale":  {If: []cluster.Condition{cluster.IfValue("k", []byte("2"))}, Then: []cluster.Op{cluster.PutLeased("never", nil, lease.ID)}},
			"checks": {If: []cluster.Condition{cluster.IfValue("k", []byte("1"))}},
		} {
			answer := make(chan error, 1)
			answers[name] = answer
			go func() { _, err := a.Txn(t.Context(), txn); answer <- err }()
			synctest.Wait() // in any order: the map's
		}
		wants(t, object.Unavailable, <-first)
		wants(t, object.Unavailable, <-answers["write"])
		must(t, <-answers["leased"])
		wants(t, object.Stale, <-answers["stale"])
		must(t, <-answers["checks"])
		a.expect("k=1 leased=")
	})
}

// TestRetry sees that a disk that was away is brought up without a transaction.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := drives(3)
		bad := newFailing(all[0])
		bad.set(fault.FailFrom(1, fault.Mutations, errIO))
		var log bytes.Buffer
		a := start(t, cluster.AloneOptions{
			Disks:  []cluster.Disk{{Name: "a", FS: bad}, {Name: "b", FS: all[1]}, {Name: "c", FS: all[2]}},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		must(t, a.put("k", "1"))
		a.expectDisks("bad", "ok", "ok")
		time.Sleep(time.Minute)
		a.expectDisks("bad", "ok", "ok")
		bad.set(func(fault.Op) error { return nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		a.expectDisks("ok", "ok", "ok")
		a.stop()
		if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 2 ||
			!strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "disk=a") || !strings.Contains(lines[1], "again") {
			t.Errorf("the log says\n%s", log.String())
		}
		a = open(t, disks(all[0], all[1])...)
		a.expect("k=1")
	})
}

// TestSlowDisk sees that a write that hangs ends no lease and holds up no reader,
// and that the callers can leave.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newFailing(fault.NewMemory(1))
		a := open(t, disks(slow)...)
		lease, err := a.Grant(t.Context(), time.Minute)
		must(t, err)
		_, err = a.Txn(t.Context(), cluster.Txn{Then: []cluster.Op{cluster.PutLeased("leased", nil, lease.ID)}})
		must(t, err)
		slow.set(fault.Delay(time.Hour, fault.OpSync))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = a.Txn(ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("k", nil)}})
		wants(t, object.Canceled, err)
		_, err = a.Txn(ctx, cluster.Txn{Then: []cluster.Op{cluster.Put("waiting", nil)}})
		wants(t, object.Canceled, err)
		for range 10 {
			time.Sleep(30 * time.Second)
			must(t, a.KeepAlive(t.Context(), lease.ID))
			a.expect("leased=")
		}
		time.Sleep(time.Minute)
		wants(t, object.NotFound, a.KeepAlive(t.Context(), lease.ID))
		time.Sleep(time.Hour)
		synctest.Wait()
		a.expect("k=") // it was under way when its caller left; the lease has ended
	})
}

// TestUnestablishedStart has a disk that alone took the writes of a start and was
// away during the next one. Those were not acknowledged, and must not win.
func TestUnestablishedStart(t *testing.T) {
	all := drives(3)
	a := open(t, disks(all...)...)
	must(t, a.put("k", "1"))
	a.stop()

	b, c := newFailing(all[1]), newFailing(all[2])
	b.set(fault.FailFrom(1, fault.Mutations, errIO))
	c.set(fault.FailFrom(1, fault.Mutations, errIO))
	a = open(t, cluster.Disk{Name: "a", FS: all[0]}, cluster.Disk{Name: "b", FS: b}, cluster.Disk{Name: "c", FS: c})
	for range 10 {
		wants(t, object.Unavailable, a.put("k", "never"))
	}
	a.stop()

	a = open(t, disks(all[1], all[2])...)
	must(t, a.put("k", "2"))
	a.stop()
	a = open(t, disks(all...)...)
	a.expect("k=2")
	a.expectDisks("repaired", "ok", "ok")
}
