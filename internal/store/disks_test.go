package store_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// pair is a store of two drives of which each can be taken away, refuse writes,
// or be dead for a while.
type pair struct {
	drives []*fault.Memory
	gates  []*gate
}

func newPair(seed uint64) *pair {
	p := &pair{}
	for i := range uint64(2) {
		p.drives = append(p.drives, fault.NewMemory(seed+i))
		p.gates = append(p.gates, newGate())
	}
	return p
}

// options are those of a store with the drives of these numbers.
func (p *pair) options(numbers ...int) store.Options {
	var fs []disk.FS
	for _, i := range numbers {
		fs = append(fs, fault.Inject(p.drives[i], p.gates[i].Hook))
	}
	o := small(fs...)
	for j, i := range numbers {
		o.Disks[j].Name = fmt.Sprintf("disk%d", i)
	}
	return quick(o)
}

// on writes an object to one of the drives: the other refuses writes meanwhile.
func (p *pair) on(t *testing.T, s *store.Store, number int, k string, data []byte) {
	t.Helper()
	other := p.gates[1-number]
	other.set(fault.FailMatching(func(op fault.Op) bool { return op.Kind&fault.Mutations != 0 }, syscall.EROFS))
	until(t, k+" is written", func() bool {
		_, err := s.Put(ctx, key(k), bytes.NewReader(data), object.PutOptions{})
		return err == nil
	})
	other.set(nil)
	allWell(t, s)
}

func allWell(t *testing.T, s *store.Store) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%+v", s.Disks())
		}
	}()
	until(t, "all disks are well", func() bool {
		return !slices.ContainsFunc(s.Disks(), func(d store.DiskStatus) bool { return d.State != "ok" })
	})
}

func usage(t *testing.T, s *store.Store, objects, bytes int) {
	t.Helper()
	want := store.Usage{Objects: int64(objects), Bytes: int64(bytes)}
	until(t, fmt.Sprintf("usage is %+v (it is %+v)", want, s.Usage("bkt")), func() bool { return s.Usage("bkt") == want })
}

// TestDiskReturns takes a disk away, overwrites and deletes what it holds, and
// brings it back: nothing old reappears, also not when tombstones and garbage are
// cleared away and the indexes rebuilt.
func TestDiskReturns(t *testing.T) {
	p := newPair(1)
	s, stop := start(t, p.options(0, 1))
	for _, k := range []string{"overwritten", "deleted", "kept"} {
		p.on(t, s, 0, k, bytesOf(k, 2000))
	}
	p.on(t, s, 1, "other", bytesOf("other", 2000))
	stop()

	s, stop = start(t, p.options(1))
	for _, k := range []string{"overwritten", "deleted", "kept"} {
		_, err := get(s, k)
		wantKind(t, "read of "+k, err, object.Unavailable)
		_, err = s.Put(ctx, key(k), strings.NewReader("x"), object.PutOptions{Condition: object.Condition{IfNoneMatch: "*"}})
		wantKind(t, "conditional put of "+k, err, object.Unavailable)
		wantKind(t, "delete of "+k, s.Delete(ctx, key(k), object.Condition{}), object.Unavailable)
	}
	_, err := get(s, "never")
	wantKind(t, "read of what never was", err, object.Unavailable)
	if got := names(t, s, object.ListOptions{}); !slices.Equal(got, []string{"?", "other"}) {
		t.Fatalf("listed %v", got)
	}
	if empty, err := s.Empty(ctx, "bkt"); empty || err == nil {
		t.Fatalf("empty: %v, %v", empty, err)
	}
	put(t, s, "overwritten", []byte("new"))
	put(t, s, "deleted", []byte("new"))
	del(t, s, "deleted")
	holds(t, s, "overwritten", []byte("new"))
	_, err = get(s, "deleted")
	wantKind(t, "read of what was deleted here", err, object.NotFound, object.Unavailable)
	stop()

	exact := func(s *store.Store) {
		t.Helper()
		holds(t, s, "overwritten", []byte("new"))
		holds(t, s, "kept", bytesOf("kept", 2000))
		missing(t, s, "deleted")
		if got := names(t, s, object.ListOptions{}); !slices.Equal(got, []string{"kept", "other", "overwritten"}) {
			t.Fatalf("listed %v", got)
		}
	}
	for range 3 {
		s, stop = start(t, p.options(0, 1))
		exact(s)
		usage(t, s, 3, 2000+2000+3)
		churn(t, s) // garbage is cleared away
		exact(s)
		scrubbed(t, s)
		stop()
		erase(t, p.drives[0], "index")
		erase(t, p.drives[1], "index")
	}
}

// churn writes and deletes until compaction has seen every pack.
func churn(t *testing.T, s *store.Store) {
	t.Helper()
	for i := range 300 {
		put(t, s, fmt.Sprintf("churn%d", i%10), bytesOf("churn", 3000))
	}
	for i := range 10 {
		del(t, s, fmt.Sprintf("churn%d", i))
	}
}

// tidy waits until there is hardly any garbage.
func tidy(t *testing.T, s *store.Store) {
	t.Helper()
	until(t, "garbage is cleared away", func() bool {
		for _, d := range s.Disks() {
			if d.Used-d.Live > d.Live/4+32<<10 {
				return false
			}
		}
		return true
	})
}

// TestTombstoneElsewhere deletes an object of a disk that refuses writes. The
// tombstone lies on another disk and must outlive the object.
func TestTombstoneElsewhere(t *testing.T) {
	p := newPair(2)
	s, stop := start(t, p.options(0, 1))
	p.on(t, s, 0, "k", []byte("old"))
	p.gates[0].set(fault.FailMatching(func(op fault.Op) bool { return op.Kind&fault.Mutations != 0 }, syscall.EROFS))
	s.Put(ctx, key("x"), strings.NewReader("x"), object.PutOptions{}) //nolint:errcheck // makes the store notice
	until(t, "the delete is taken", func() bool { return s.Delete(ctx, key("k"), object.Condition{}) == nil })
	missing(t, s, "k")
	p.gates[0].set(nil)
	allWell(t, s)
	missing(t, s, "k")
	s.Delete(ctx, key("x"), object.Condition{}) //nolint:errcheck // it may not be there
	for range 2 {
		churn(t, s)
		missing(t, s, "k")
		usage(t, s, 0, 0)
		stop()
		erase(t, p.drives[0], "index")
		erase(t, p.drives[1], "index")
		s, stop = start(t, p.options(0, 1))
	}
	missing(t, s, "k")
}

// TestDiskFailsAtStart fails one operation of one disk while a store opens. The
// disk is isolated and comes back by itself, with all it holds.
func TestDiskFailsAtStart(t *testing.T) {
	t.Parallel()
	p := newPair(3)
	s, stop := start(t, p.options(0, 1))
	m := newModel()
	m.steps(t, s, random(3, 1), 60)
	stop()
	// What the index does not know yet: the power went at once.
	s, stop = start(t, p.options(0, 1))
	m.steps(t, s, random(3, 2), 60)
	before := []*fault.Memory{p.drives[0].Image(), p.drives[1].Image()}
	m2 := m.clone()
	stop()
	for n := int64(1); ; n++ {
		p.drives = []*fault.Memory{before[0].Image(), before[1].Image()}
		var seen atomic.Int64
		p.gates[0].set(fault.FailMatching(func(op fault.Op) bool {
			return op.Kind != fault.OpMkdir && seen.Add(1) >= n
		}, syscall.EIO))
		s, end, err := running(p.options(0, 1))
		if err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		p.gates[0].set(nil)
		if s.Disks()[len(s.Disks())-1].State == "absent" { // it did not even say which disk it is
			must(t, end())
			s, end, err = running(p.options(0, 1))
			must(t, err)
		}
		allWell(t, s)
		m2.clone().check(t, s)
		must(t, end())
		if seen.Load() < n {
			t.Logf("%d operations", n)
			return
		}
	}
}

func (m *model) clone() *model {
	c := newModel()
	c.next = m.next
	for name, states := range m.possible {
		c.possible[name] = slices.Clone(states)
	}
	return c
}

// TestDiskRefusesToOpen has one disk answer nothing but errors at start: the
// others serve what they have.
func TestDiskRefusesToOpen(t *testing.T) {
	p := newPair(4)
	s, stop := start(t, p.options(0, 1))
	p.on(t, s, 0, "a", []byte("a"))
	p.on(t, s, 1, "b", []byte("b"))
	stop()
	p.gates[0].set(fault.FailMatching(func(fault.Op) bool { return true }, &fs.PathError{Op: "open", Path: "x", Err: syscall.EIO}))
	s, stop = start(t, p.options(0, 1))
	holds(t, s, "b", []byte("b"))
	_, err := get(s, "a")
	wantKind(t, "read from the dead disk", err, object.Unavailable)
	if got := names(t, s, object.ListOptions{}); !slices.Equal(got, []string{"?", "b"}) {
		t.Fatalf("listed %v", got)
	}
	put(t, s, "c", []byte("c"))
	stop()
	p.gates[0].set(nil)
	s, _ = start(t, p.options(0, 1))
	holds(t, s, "a", []byte("a"))
	holds(t, s, "b", []byte("b"))
	holds(t, s, "c", []byte("c"))
}

// TestLargeObjectFindsRoom writes large objects while the first choice is full.
func TestLargeObjectFindsRoom(t *testing.T) {
	p := newPair(5)
	s, _ := start(t, p.options(0, 1))
	p.drives[0].SetCapacity(1 << 10)
	for i := range 20 {
		put(t, s, fmt.Sprintf("large%d", i), bytesOf("large", 100<<10))
	}
	p.drives[0].SetCapacity(fault.DefaultCapacity)
	allWell(t, s)
}

// TestBlobsFailOnOneDisk has one of two disks take no blobs: large objects go to
// the other one after the first failure.
func TestBlobsFailOnOneDisk(t *testing.T) {
	p := newPair(13)
	o := p.options(0, 1)
	o.MaintainEvery = time.Hour // nobody tries whether it is well again
	s, _ := start(t, o)
	p.gates[0].set(always(syscall.EIO, fault.OpWrite, "blobs/"))
	failed := 0
	for i := range 30 {
		if _, err := s.Put(ctx, key(fmt.Sprintf("large%d", i)), bytes.NewReader(bytesOf("large", 100<<10)), object.PutOptions{}); err != nil {
			wantKind(t, "put", err, object.Unavailable)
			failed++
		}
	}
	if failed > 2 {
		t.Errorf("%d of 30 failed", failed)
	}
}

// TestForgottenDisk is refused for ever, and what it held is gone.
func TestForgottenDisk(t *testing.T) {
	p := newPair(6)
	s, stop := start(t, p.options(0, 1))
	p.on(t, s, 0, "a", []byte("a"))
	p.on(t, s, 1, "b", []byte("b"))
	id := s.Disks()[0].ID
	stop()
	o := p.options(1)
	o.Forget = []string{id}
	s, stop = start(t, o)
	missing(t, s, "a")
	holds(t, s, "b", []byte("b"))
	if got := names(t, s, object.ListOptions{}); !slices.Equal(got, []string{"b"}) {
		t.Fatalf("listed %v", got)
	}
	put(t, s, "a", []byte("another"))
	del(t, s, "a")
	stop()
	for range 2 {
		_, err := store.Open(ctx, p.options(0, 1))
		wantKind(t, "open with the forgotten disk", err, object.Invalid)
		s, stop = start(t, p.options(1))
		missing(t, s, "a")
		stop()
	}
}

// TestOldCopyOfDisk puts a copy of a disk in its place that was made before
// objects on it were deleted: it is refused.
func TestOldCopyOfDisk(t *testing.T) {
	p := newPair(7)
	s, stop := start(t, p.options(0, 1))
	p.on(t, s, 0, "a", []byte("a"))
	p.on(t, s, 0, "b", []byte("b"))
	copied := take(t, p.drives[0], ".")
	del(t, s, "a")
	put(t, s, "b", []byte("new"))
	stop()
	now := p.drives[0]
	p.drives[0] = copied.drive(t, 70)
	_, err := store.Open(ctx, p.options(0, 1))
	wantKind(t, "open with an old copy", err, object.Invalid)
	// With the right one all is well, and the copy is still refused later.
	p.drives[0] = now
	s, stop = start(t, p.options(0, 1))
	missing(t, s, "a")
	holds(t, s, "b", []byte("new"))
	stop()
	p.drives[0] = copied.drive(t, 71)
	_, err = store.Open(ctx, p.options(0, 1))
	wantKind(t, "open with an old copy", err, object.Invalid)
	// The other disk alone goes on, and knows that one is away.
	s, _ = start(t, p.options(1))
	_, err = get(s, "b")
	wantKind(t, "read", err, object.Unavailable)
}

// TestSameDiskTwice refuses a disk beside its own copy.
func TestSameDiskTwice(t *testing.T) {
	p := newPair(8)
	s, stop := start(t, p.options(0))
	put(t, s, "a", []byte("a"))
	stop()
	p.drives[1] = take(t, p.drives[0], ".").drive(t, 80)
	_, err := store.Open(ctx, p.options(0, 1))
	wantKind(t, "open of a disk and its copy", err, object.Invalid)
}

// TestRosterUnreadable fails the reading of the roster while another disk is
// absent: that disk must not be forgotten for it.
func TestRosterUnreadable(t *testing.T) {
	p := newPair(10)
	s, stop := start(t, p.options(0, 1))
	p.on(t, s, 0, "a", []byte("a"))
	p.on(t, s, 1, "b", []byte("b"))
	stop()
	for _, kind := range []fault.OpKind{fault.OpOpen, fault.OpRead, fault.OpSize} {
		p.gates[0].set(once(syscall.EIO, func(op fault.Op) bool { return op.Kind == kind && op.Name == "roster" }))
		if s, err := store.Open(ctx, p.options(0)); err == nil {
			_, err = get(s, "b")
			wantKind(t, "read from the absent disk", err, object.Unavailable)
			must(t, s.Close())
		} else {
			wantKind(t, "open", err, object.Unavailable)
		}
	}
	p.gates[0].set(nil)
	s, _ = start(t, p.options(0, 1))
	holds(t, s, "a", []byte("a"))
	holds(t, s, "b", []byte("b"))
}

// TestIdentityUnreadable has the listing of packs fail on a disk that has lost its
// identity: it must not be taken for an empty one.
func TestIdentityUnreadable(t *testing.T) {
	p := newPair(11)
	s, stop := start(t, p.options(0))
	put(t, s, "a", []byte("a"))
	stop()
	must(t, p.drives[0].Remove("identity"))
	must(t, p.drives[0].Remove("identity.copy"))
	p.gates[0].set(always(syscall.EIO, fault.OpReadDir, "packs"))
	_, err := store.Open(ctx, p.options(0))
	wantKind(t, "open", err, object.Unavailable, object.Corrupt)
	p.gates[0].set(nil)
	_, err = store.Open(ctx, p.options(0))
	wantKind(t, "open", err, object.Corrupt)
}

// TestOlderMap refuses to write under an older map number than an object has:
// a rebuilt index would take the old one for the newer.
func TestOlderMap(t *testing.T) {
	p := newPair(12)
	o := p.options(0)
	o.Map = 7
	s, stop := start(t, o)
	put(t, s, "a", []byte("new"))
	stop()
	s, stop = start(t, p.options(0))
	if _, err := s.Put(ctx, key("a"), strings.NewReader("lost"), object.PutOptions{}); err == nil {
		t.Error("an overwrite with an older version was taken")
	}
	if err := s.Delete(ctx, key("a"), object.Condition{}); err == nil {
		t.Error("a delete with an older version was taken")
	}
	put(t, s, "b", []byte("b"))
	stop()
	erase(t, p.drives[0], "index")
	s, _ = start(t, p.options(0))
	holds(t, s, "a", []byte("new"))
	holds(t, s, "b", []byte("b"))
}
