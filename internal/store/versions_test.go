package store_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// parts is the bucket of what is put together later.
var parts = object.Beside("bkt", "parts")

// wrongAnswer is an answer that no fault of a drive excuses.
type wrongAnswer struct{ error }

func wrong(format string, args ...any) error { return wrongAnswer{fmt.Errorf(format, args...)} }

// client does random work on names that nobody else uses.
type client struct {
	*keeper
	s     *store.Store
	r     *rand.Rand
	mine  []object.Name
	parts []object.Name
}

func newClient(k *keeper, s *store.Store, r *rand.Rand, prefix string) *client {
	c := &client{keeper: k, s: s, r: r}
	for _, key := range []string{"a", "a/b", "a/b/c", "a\x00", "a\x00b", "a\x00\xc2\x80", "b/x", "b/y", "ä", "../up"} {
		c.mine = append(c.mine, object.Name{Bucket: "bkt", Key: prefix + key})
	}
	for i := range 5 {
		c.parts = append(c.parts, object.Name{Bucket: parts, Key: fmt.Sprintf("%spart%d", prefix, i)})
	}
	return c
}

func (c *client) any() object.Name { return c.mine[c.r.IntN(len(c.mine))] }

// step does one thing. What a worker does after an error it does not know.
func (c *client) step() error {
	name := c.any()
	switch op := c.r.IntN(20); {
	case op < 8:
		return c.put(name, c.r.IntN(3) > 0, object.PutOptions{})
	case op < 11:
		return c.mark(name, c.r.IntN(3) > 0)
	case op < 15:
		return c.delete(name)
	case op < 17:
		return c.copy(name, c.any())
	default:
		return c.compose(name)
	}
}

// condition returns a random condition on a name, and the kind of error it leads to,
// Internal for none.
func (c *client) condition(name object.Name) (cond object.Condition, kind object.Kind, err error) {
	_, absent := c.only(name).find(object.Version{})
	there := absent == object.Internal
	switch c.r.IntN(8) {
	case 0:
		if there {
			kind = object.Exists
		}
		return object.Condition{IfNoneMatch: "*"}, kind, nil
	case 1:
		if !there {
			kind = object.NotFound
		}
		return object.Condition{IfMatch: "*"}, kind, nil
	case 2:
		if kind = object.Stale; !there {
			kind = object.NotFound
		}
		return object.Condition{IfMatch: "another"}, kind, nil
	case 3:
		if there {
			info, err := c.s.Stat(ctx, name)
			return object.Condition{IfMatch: info.ETag}, kind, err
		}
	}
	return cond, kind, nil
}

// answered checks what a write was answered with. It returns true if it was refused as
// it should be.
func answered(what string, name object.Name, err error, kind object.Kind) (bool, error) {
	switch {
	case kind != object.Internal && object.Is(err, kind):
		return true, nil
	case kind != object.Internal && err == nil:
		return false, wrong("%s %s: want %v", what, name, kind)
	case err != nil && !object.Is(err, object.Unavailable):
		return false, wrong("%s %s: %w (want kind %v)", what, name, err, kind)
	case kind != object.Internal:
		return true, err // it would have been refused
	}
	return false, err
}

func written(info object.Info, keep bool, n int) version {
	v := version{null: !keep, marker: n == 0, n: n, at: info.Version}
	if keep {
		v.id = info.Version
	}
	return v
}

func (c *client) put(name object.Name, keep bool, o object.PutOptions) error {
	cond, kind, err := c.condition(name)
	if err != nil {
		return err
	}
	n, data := c.fresh()
	o.Condition, o.Keep = cond, keep
	if c.r.IntN(2) == 0 {
		o.SizeHint = int64(len(data))
	}
	etag := ""
	switch c.r.IntN(3) {
	case 0:
		sum := md5.Sum(data)
		etag = hex.EncodeToString(sum[:])
	case 1:
		etag = "told-at-the-end"
	}
	o.Metadata = map[string]string{"n": fmt.Sprint(n)}
	o.Finish = func() (object.Finish, error) {
		return object.Finish{ETag: etag, Metadata: map[string]string{"End": fmt.Sprint(n)}}, nil
	}
	info, err := c.s.Put(ctx, name, bytes.NewReader(data), o)
	if refused, err := answered("put", name, err, kind); refused || errors.As(err, new(wrongAnswer)) {
		return err
	}
	c.note(name, err, func(h versions) versions { return h.with(written(info, keep, n)) })
	if err != nil {
		return err
	}
	if want := c.only(name)[0].id; info.Name.ID != want {
		return wrong("put %s has ID %s, not %s", name, info.Name.ID, want)
	}
	got, err := c.s.Stat(ctx, name)
	if err == nil && (got.ETag != info.ETag || etag != "" && got.ETag != etag || got.Metadata["n"] != fmt.Sprint(n) || got.Metadata["End"] != fmt.Sprint(n)) {
		return wrong("put %s told %+v, stat %+v", name, info, got)
	}
	return err
}

func (c *client) mark(name object.Name, keep bool) error {
	cond, kind, err := c.condition(name)
	if err != nil {
		return err
	}
	info, err := c.s.Mark(ctx, name, keep, cond)
	if refused, err := answered("mark", name, err, kind); refused || errors.As(err, new(wrongAnswer)) {
		return err
	}
	c.note(name, err, func(h versions) versions { return h.with(written(info, keep, 0)) })
	if err == nil && !info.Marker {
		return wrong("mark %s: %+v", name, info)
	}
	return err
}

func (c *client) delete(name object.Name) error {
	h := c.only(name)
	of, kind := name, object.NotFound
	gone := func(v version) bool { return v.null }
	if len(h) > 0 && c.r.IntN(4) > 0 {
		v := h[c.r.IntN(len(h))]
		of = v.name(name)
		gone = func(old version) bool { return old == v }
	}
	if slices.ContainsFunc(h, gone) {
		kind = object.Internal
	}
	err := c.s.Delete(ctx, of, object.Condition{})
	if refused, err := answered("delete", of, err, kind); refused || errors.As(err, new(wrongAnswer)) {
		return err
	}
	c.note(name, err, func(h versions) versions { return h.without(gone) })
	return err
}

// source returns a name that can be read, or not, with or without an ID.
func (c *client) source(name object.Name) (of object.Name, v version, kind object.Kind) {
	h := c.only(name)
	if len(h) > 0 && c.r.IntN(2) == 0 {
		name = h[c.r.IntN(len(h))].name(name)
	}
	v, kind = h.find(name.ID)
	return name, v, kind
}

func (c *client) copy(dst, src object.Name) error {
	from, v, kind := c.source(src)
	keep := c.r.IntN(3) > 0
	info, err := c.s.Copy(ctx, dst, from, object.PutOptions{Keep: keep})
	if refused, err := answered("copy of "+from.String()+" to", dst, err, kind); refused || errors.As(err, new(wrongAnswer)) {
		return err
	}
	c.note(dst, err, func(h versions) versions { return h.with(written(info, keep, v.n)) })
	return err
}

// compose puts an object together from parts beside the bucket, and from versions of
// objects.
func (c *client) compose(dst object.Name) error {
	var from []object.Name
	var of []version
	used := c.r.Perm(len(c.parts))[:1+c.r.IntN(4)]
	for _, i := range used {
		part := c.parts[i]
		if len(c.only(part)) == 0 {
			n, data := c.fresh()
			info, err := c.s.Put(ctx, part, bytes.NewReader(data), object.PutOptions{Near: dst})
			c.note(part, err, func(h versions) versions { return h.with(written(info, false, n)) })
			if err != nil {
				return err
			}
		}
		from, of = append(from, part), append(of, c.only(part)[0])
		if name, v, kind := c.source(c.any()); kind == object.Internal && c.r.IntN(4) == 0 {
			from, of = append(from, name), append(of, v)
		}
	}
	n, data := c.joined(of)
	keep := c.r.IntN(3) > 0
	o := object.PutOptions{Keep: keep, Finish: func() (object.Finish, error) { return object.Finish{ETag: fmt.Sprintf("x-%d", len(of))}, nil }}
	info, err := c.s.Compose(ctx, dst, refs(from...), o)
	if _, err := answered("compose", dst, err, object.Internal); errors.As(err, new(wrongAnswer)) {
		return err
	}
	c.note(dst, err, func(h versions) versions { return h.with(written(info, keep, n)) })
	if err != nil {
		return err
	}
	if info.Size != int64(len(data)) {
		return wrong("%s is put together from %d bytes, not %d", dst, info.Size, len(data))
	}
	if c.r.IntN(2) == 0 {
		return nil
	}
	for _, i := range used {
		part := c.parts[i]
		err := c.s.Delete(ctx, part, object.Condition{})
		c.note(part, err, func(versions) versions { return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// look compares a random listing and a random name.
func (c *client) look(t *testing.T) {
	t.Helper()
	pick := func(all ...string) string { return all[c.r.IntN(len(all))] }
	name := c.any()
	o := object.ListOptions{
		Prefix: pick("", "", "a", "a/", "a\x00", "b", "a/b/c", "none"), Delimiter: pick("", "/", "\x00", "b"),
		After: pick("", name.Key, name.Key, "a/", "b", "a\x00"), Limit: c.r.IntN(2) * (1 + c.r.IntN(6)),
	}
	c.list(t, c.s, "bkt", o)
	after := object.Version{}
	if of, _, _ := c.source(name); o.After == name.Key && c.r.IntN(4) > 0 {
		after = of.ID
	} else if o.After == name.Key && c.r.IntN(2) == 0 {
		after = []object.Version{object.NullID, {Map: 1, Counter: c.r.Uint64N(1 << 21)}}[c.r.IntN(2)]
	}
	c.listVersions(t, c.s, "bkt", o, after)
	c.checkRead(t, c.s, name)
}

// TestVersions does random work with versions and compares every answer with a map in
// memory, over restarts, lost indexes and compaction.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_VERSIONS", 4, func(t *testing.T, seed uint64) {
				r := random(seed, 91)
				box, k := newMachine(disks, seed), newKeeper()
				for range 4 {
					s, stop, err := running(box.options(false, plain))
					must(t, err)
					c := newClient(k, s, r, "")
					for range 90 {
						must(t, c.step())
						c.look(t)
					}
					k.check(t, s)
					if r.IntN(2) == 0 {
						tidy(t, s)
						k.check(t, s)
					}
					scrubbed(t, s)
					must(t, stop())
					for _, d := range box.drives {
						if r.IntN(2) == 0 {
							erase(t, d, "index")
						}
					}
				}
				s, stop, err := running(box.options(false, plain))
				must(t, err)
				k.check(t, s)
				must(t, stop())
			})
		})
	}
}

// TestVersionsMachineDies cuts the power, or kills the process, under work with
// versions. Every version that was acknowledged is there and nothing that was deleted
// comes back; what was under way took place as a whole or not at all, and parts are
// there until they are deleted.
func TestVersionsMachineDies(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_CUTS", 12, func(t *testing.T, seed uint64) { versionsDie(t, disks, seed) })
		})
	}
}

func versionsDie(t *testing.T, disks int, seed uint64) {
	r := random(seed, 92)
	box, k := newMachine(disks, seed), newKeeper()
	for range 4 {
		wrap, end := box.die(1+r.Int64N(900), r.IntN(3) == 0)
		if s, stop, err := running(box.options(false, wrap)); err == nil {
			var wg sync.WaitGroup
			for w := range 3 {
				c := newClient(k, s, rand.New(rand.NewPCG(r.Uint64(), 93)), fmt.Sprintf("w%d/", w))
				wg.Go(func() {
					for range 80 {
						if err := c.step(); errors.As(err, new(wrongAnswer)) {
							t.Error(err)
						} else if err == nil {
							continue
						}
						return
					}
				})
			}
			wg.Wait()
			end()
			stop() //nolint:errcheck // the power is cut
		}
		end()
		for round := range 1 + r.IntN(2) {
			for _, d := range box.drives {
				if round > 0 && r.IntN(2) == 0 {
					erase(t, d, "index")
				}
			}
			s, stop, err := running(box.options(false, plain))
			must(t, err)
			k.check(t, s)
			scrubbed(t, s)
			must(t, stop())
		}
	}
}

// TestVersionsAtFaults fails operations of one drive during work with versions.
// When the fault is over every version that was acknowledged is there, and no other.
func TestVersionsAtFaults(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_FAULTS", 10, func(t *testing.T, seed uint64) { versionsAtFaults(t, disks, seed) })
		})
	}
}

func versionsAtFaults(t *testing.T, disks int, seed uint64) {
	r := random(seed, 94)
	k := newKeeper()
	g := newGate()
	drives := make([]*fault.Memory, disks)
	fs := make([]disk.FS, disks)
	for i := range drives {
		drives[i] = fault.NewMemory(seed + uint64(i))
		fs[i] = drives[i]
	}
	bad := r.IntN(disks)
	fs[bad] = fault.Inject(drives[bad], g.Hook)
	s, stop, err := running(quick(small(fs...)))
	must(t, err)
	for range 6 {
		f := randomFailure(r)
		t.Logf("operation %d, ever %v, %v", f.n, f.ever, f.err)
		g.set(f.hook())
		c := newClient(k, s, r, "")
		for range 40 {
			if err := c.step(); errors.As(err, new(wrongAnswer)) {
				t.Fatal(err)
			} else if err != nil {
				break // it does not know what is there now
			}
		}
		g.set(nil)
		allWell(t, s)
		k.check(t, s)
	}
	must(t, stop())
	for i := range drives {
		drives[i] = drives[i].Crash()
		if fs[i] = drives[i]; r.IntN(2) == 0 {
			erase(t, drives[i], "index")
		}
	}
	s, stop, err = running(quick(small(fs...)))
	must(t, err)
	k.check(t, s)
	scrubbed(t, s)
	must(t, stop())
}

// TestNewestIsNeverMissed reads and lists a key whose newest version is always
// replaced by a newer one before it is deleted: somebody who asks for the key must
// find one of them.
func TestNewestIsNeverMissed(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			p := newMachine(disks, 1)
			s, stop, err := running(p.options(false, plain))
			must(t, err)
			name := key("k")
			last, err := s.Put(ctx, name, bytes.NewReader([]byte("0")), object.PutOptions{Keep: true})
			must(t, err)
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				defer close(done)
				for i := range 400 {
					info, err := s.Put(ctx, name, bytes.NewReader(content(i)), object.PutOptions{Keep: i%5 > 0})
					if err == nil {
						err = s.Delete(ctx, inexactOf(last.Name), object.Condition{})
					}
					if err != nil && !(i%5 == 0 && object.Is(err, object.NotFound)) {
						t.Error(err)
						return
					}
					last = info
				}
			})
			look := func(what string, do func() error) {
				wg.Go(func() {
					for n := 0; ; n++ {
						if err := do(); err != nil {
							t.Errorf("%s %d: %v", what, n, err)
							return
						}
						select {
						case <-done:
							return
						default:
						}
					}
				})
			}
			look("read", func() error { _, err := readName(s, name); return err })
			look("stat", func() error { _, err := s.Stat(ctx, name); return err })
			look("list", func() error {
				n := 0
				for e, err := range s.List(ctx, "bkt", object.ListOptions{}) {
					if err != nil || e.Info.Name.Key != "k" {
						return fmt.Errorf("%+v, %w", e, err)
					}
					n++
				}
				if n != 1 {
					return fmt.Errorf("%d entries", n)
				}
				return nil
			})
			look("batch", func() error {
				for _, err := range s.Batch(ctx, []object.Ref{{Name: name}, {Name: name}}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			wg.Wait()
			must(t, stop())
		})
	}
}

// inexactOf returns the name by which to ask for what an Info describes.
func inexactOf(name object.Name) object.Name {
	if name.ID == (object.Version{}) {
		name.ID = object.NullID
	}
	return name
}

// TestVersionsOnAbsentDisk takes the disk away that has the newest version. What is
// older, and lies elsewhere, must not pass for the object.
func TestVersionsOnAbsentDisk(t *testing.T) {
	p := newPair(7)
	s, stop := start(t, p.options(0, 1))
	p.on(t, s, 0, "k", []byte("old"))
	p.on(t, s, 0, "unversioned", []byte("old"))
	p.gates[0].set(fault.FailMatching(func(op fault.Op) bool { return op.Kind&fault.Mutations != 0 }, syscall.EROFS))
	var info object.Info
	until(t, "a version is written elsewhere", func() (ok bool) {
		var err error
		info, err = s.Put(ctx, key("k"), bytes.NewReader([]byte("new")), object.PutOptions{Keep: true})
		return err == nil
	})
	p.gates[0].set(nil)
	allWell(t, s)
	holds(t, s, "k", []byte("new"))
	other := object.Name{Bucket: "other", Key: "k"}
	_, err := s.Put(ctx, other, bytes.NewReader([]byte("plain")), object.PutOptions{})
	must(t, err)
	stop()
	for _, lost := range []string{"", "index"} {
		s, stop = start(t, p.options(0))
		if lost != "" {
			stop()
			erase(t, p.drives[0], lost)
			s, stop = start(t, p.options(0))
		}
		_, err = get(s, "k")
		wantKind(t, "read", err, object.Unavailable)
		_, err = s.Stat(ctx, key("k"))
		wantKind(t, "stat", err, object.Unavailable)
		for _, err := range s.Batch(ctx, []object.Ref{{Name: key("k")}}) {
			wantKind(t, "batch", err, object.Unavailable)
		}
		_, err = s.Put(ctx, key("k"), bytes.NewReader(nil), object.PutOptions{Condition: object.Condition{IfMatch: "*"}})
		wantKind(t, "conditional put", err, object.Unavailable)
		old := key("k")
		old.ID = object.NullID
		if got, err := readName(s, old); err != nil || string(got) != "old" {
			t.Fatalf("the version on the disk that is here: %q, %v", got, err)
		}
		stop()
	}
	s, _ = start(t, p.options(0, 1))
	holds(t, s, "k", []byte("new"))
	must(t, s.Delete(ctx, info.Name, object.Condition{}))
	holds(t, s, "k", []byte("old"))
}

// TestVersionsByPages goes through all versions page by page, as a client does, and
// deletes each page before it asks for the next: in the end there is nothing.
func TestVersionsByPages(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		for _, limit := range []int{1, 2, 3, 7} {
			box, k := newMachine(disks, 1), newKeeper()
			s := still(t, box.options(false, plain))
			c := newClient(k, s, random(uint64(limit), 97), "")
			for range 60 {
				must(t, c.step())
			}
			for _, remove := range []bool{false, true} {
				seen := 0
				var after object.Name
				for pages := 0; ; pages++ {
					var page []object.Name
					for e, err := range s.Versions(ctx, "bkt", object.ListOptions{After: after.Key, Limit: limit}, after.ID) {
						must(t, err)
						page = append(page, inexactOf(e.Info.Name))
					}
					if len(page) == 0 {
						break
					}
					seen += len(page)
					after = page[len(page)-1]
					for _, name := range page {
						if remove {
							must(t, s.Delete(ctx, name, object.Condition{}))
						}
					}
				}
				want := 0
				for _, name := range c.mine {
					want += len(k.only(name))
				}
				if seen != want {
					t.Fatalf("saw %d versions of %d", seen, want)
				}
			}
			if empty, err := s.Empty(ctx, "bkt"); !empty || err != nil {
				t.Fatal(empty, err)
			}
			must(t, s.Close())
		}
	}
}
