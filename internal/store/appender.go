package store

import (
	"context"
	"errors"
	"slices"
	"sync"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// appender is the end of a disk's log. Writers that come while a sync is under
// way wait together and share the next one: the first of them leads and does the
// work for all (group commit). There is no goroutine of its own.
type appender struct {
	drive *drive

	mu      sync.Mutex
	queue   []*ticket
	leading bool

	// Only the leader touches these.
	writer   *pack.Writer
	previous uint64 // log pack before the next one
	end      int64  // and where it ends
	short    bool   // of space, at the last group

	sealing sync.WaitGroup
}

// change is one record on its way into the log, and what follows from it.
type change struct {
	draft     *pack.Draft
	old       *entry        // the record of the same name it replaces on this disk
	oldBlobs  []pack.Extent // of old
	epoch     uint64        // of the store when old was looked up
	parents   []string      // paths that plain tar needs as directories from now on
	essential bool          // gives space back in the end: may use the headroom
	alone     func() error  // if not nil: no record, but work to be done while nothing is appended
	entry     entry         // set when done
	err       error
}

// ticket is changes that wait in the queue together.
type ticket struct {
	changes []*change
	turn    chan bool // true: lead; false: done
}

// maxGroup bounds the bytes that are synced together, if they come apart.
const maxGroup = 32 << 20

var noCancel = context.Background()

// commit makes the change durable and then visible.
func (a *appender) commit(c *change) error {
	a.commitAll([]*change{c})
	return c.err
}

// commitAll makes changes durable and visible, in one group, and sets the error of
// each.
func (a *appender) commitAll(changes []*change) {
	t := &ticket{changes: changes, turn: make(chan bool, 1)}
	a.mu.Lock()
	a.queue = append(a.queue, t)
	if !a.leading {
		a.leading = true
		t.turn <- true
	}
	a.mu.Unlock()
	if lead := <-t.turn; lead {
		a.lead()
	}
}

// lead writes the group that begins with the caller's ticket, and hands the lead on.
func (a *appender) lead() {
	a.mu.Lock()
	group := a.take()
	a.mu.Unlock()

	changes := slices.Clip(group[0].changes)
	for _, t := range group[1:] {
		changes = append(changes, t.changes...)
	}
	a.write(changes)

	a.mu.Lock()
	if len(a.queue) > 0 {
		a.queue[0].turn <- true
	} else {
		a.leading = false
	}
	a.mu.Unlock()
	for _, t := range group[1:] {
		t.turn <- false
	}
}

// exclusively does work between two groups: nothing is appended meanwhile.
func (a *appender) exclusively(work func() error) error {
	return a.commit(&change{alone: work})
}

// take removes from the queue what is to be written together. The caller's own
// ticket is at its head.
func (a *appender) take() []*ticket {
	var size int64
	n := 0
	for n < len(a.queue) && size < maxGroup && a.queue[n].changes[0].alone == nil {
		for _, c := range a.queue[n].changes {
			size += c.draft.Len()
		}
		n++
	}
	n = max(n, 1)
	group := a.queue[:n:n]
	a.queue = a.queue[n:]
	if len(a.queue) == 0 {
		a.queue = nil
	}
	return group
}

// write appends, syncs and publishes a group, and sets each change's error.
func (a *appender) write(group []*change) {
	d := a.drive
	if work := group[0].alone; work != nil {
		group[0].err = work()
		return
	}
	if err := d.limitMemory(); err != nil {
		setError(group, err)
		return
	}
	if group = a.current(group); len(group) == 0 {
		return
	}
	room, err := a.room(group)
	if err != nil {
		setError(group, err)
		return
	}
	group = room
	if len(group) == 0 {
		return
	}
	drafts := make([]*pack.Draft, len(group))
	for i, c := range group {
		drafts[i] = c.draft
	}
	if err := a.writer.Append(drafts...); err != nil {
		var full *pack.FullError
		if errors.As(err, &full) {
			d.wrote(err)
			setError(group, err)
			return
		}
		setError(group, a.abandon(err))
		return
	}
	if !d.store.opts.Relaxed {
		if err := a.writer.Sync(); err != nil {
			setError(group, a.abandon(err))
			return
		}
	}
	if !a.short { // else it takes only deletes, and is still full
		d.wrote(nil)
	}
	d.publish(a.writer.ID(), a.writer.End(), group)
	if d.idx().Full() {
		d.nudge()
	}
}

func setError(group []*change, err error) {
	for _, c := range group {
		c.err = err
	}
}

// current refuses changes of which the old record was looked up before a disk came
// back: it may have been somewhere else, or not to be seen.
func (a *appender) current(group []*change) []*change {
	now := a.drive.store.epoch.Load()
	old := func(c *change) bool { return c.epoch != now }
	if !slices.ContainsFunc(group, old) {
		return group
	}
	for _, c := range group {
		if old(c) {
			c.err = object.Errorf(object.Unavailable, "a disk came back meanwhile")
		}
	}
	return slices.DeleteFunc(slices.Clone(group), old)
}

// room makes sure of a pack to write to, and refuses what would use up the space
// that deletes and compaction need. It returns the changes that may go on.
func (a *appender) room(group []*change) ([]*change, error) {
	d := a.drive
	if group = a.afford(group); len(group) == 0 {
		return nil, nil
	}
	if a.writer != nil && a.writer.End() >= d.packSize {
		a.rotate()
	}
	if a.writer == nil {
		o := d.packOptions(d.nextPack.Add(1))
		o.Previous, o.End = a.previous, a.end
		w, err := pack.Create(d.fs, o)
		if err != nil {
			d.wrote(err)
			return nil, object.Errorf(object.Unavailable, "disk %s: %w", d.name, err)
		}
		a.writer = w
		d.uncut.Store(false) // the new pack's head says where the one before ends
		d.blobs.decided()
		d.apply.Lock()
		d.tally.pack(w.ID()).End = w.End()
		d.tally.pack(w.ID()).After = a.previous
		d.apply.Unlock()
	}
	return group, nil
}

// afford returns the changes that there is space for. Half of what is kept is for
// deletes; the rest is for compaction, without which no space comes back, except
// that a blob comes back at once.
func (a *appender) afford(group []*change) []*change {
	d := a.drive
	var size int64
	for _, c := range group {
		if !c.essential {
			size += c.draft.Len()
		}
	}
	err := d.space(size)
	a.short = err != nil
	if err == nil {
		return group
	}
	d.wrote(err)
	last := d.spare(0, 2)
	kept := group[:0:0]
	for _, c := range group {
		if c.essential && (last == nil || len(c.oldBlobs) > 0) {
			kept = append(kept, c)
		} else {
			c.err = err
		}
	}
	return kept
}

// rotate lets the full pack be sealed in the background and has the next change
// begin a new one.
func (a *appender) rotate() {
	w := a.writer
	a.previous, a.end, a.writer = w.ID(), w.End(), nil
	a.seal(w)
}

// seal seals a pack in the background. The records in it are safe; if it fails it
// is tried again.
func (a *appender) seal(w *pack.Writer) {
	d, end := a.drive, w.End()
	d.sealed(w.ID(), true, false)
	a.sealing.Go(func() {
		err := w.Seal()
		if err != nil {
			// A directory that was written but not synced must not be found later: the
			// page cache would show it, and the drive would not have it.
			cut := pack.Cut(d.fs, w.ID(), end)
			d.store.log.Warn("a pack could not be sealed", "disk", d.name, "pack", w.ID(), "error", err, "cut", cut)
		}
		d.sealed(w.ID(), false, err == nil)
		if object.Is(err, object.Corrupt) {
			d.damagedPack(w.ID())
		}
	})
}

// sealOpen seals packs that were given up or could not be sealed before.
func (a *appender) sealOpen() error {
	return a.exclusively(func() error {
		d := a.drive
		open := make(map[uint64]int64)
		d.apply.Lock()
		for id, p := range d.tally.Packs {
			if !p.Sealed && !p.sealing && !p.Damaged && (a.writer == nil || a.writer.ID() != id) {
				open[id] = p.End
			}
		}
		d.apply.Unlock()
		var errs []error
		for id, end := range open {
			w, err := pack.Resume(d.fs, d.packOptions(id), end)
			switch {
			case err == nil:
				d.files.forget(id)
				a.seal(w)
			case object.Is(err, object.Invalid): // it has lost its end
				d.damagedPack(id)
			default:
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// errUncertain says that a record could not be made durable, nor be taken back:
// the next start may find it.
var errUncertain = errors.New("it is uncertain whether the write took place")

// abandon gives up a pack after a failed write or sync: nothing behind its last
// good byte counts. It is cut there; if even that fails, the next pack's head
// says so. It returns what the writers are told.
func (a *appender) abandon(cause error) error {
	d, w := a.drive, a.writer
	end := w.Synced()
	if d.store.opts.Relaxed {
		end = w.End() // what was acknowledged
	}
	a.previous, a.end, a.writer = w.ID(), end, nil
	w.Discard() //nolint:errcheck // the pack is given up because of an error already
	d.files.forget(w.ID())
	d.wrote(cause)
	d.store.log.Error("a write failed; its pack is given up", "disk", d.name, "pack", a.previous, "end", a.end, "error", cause)
	if err := pack.Cut(d.fs, a.previous, a.end); err != nil {
		d.uncut.Store(true)
		return object.Errorf(object.Unavailable, "disk %s: %w: %w", d.name, errUncertain, cause)
	}
	return object.Errorf(object.Unavailable, "disk %s: %w", d.name, cause)
}

// sync makes durable what relaxed durability left in memory.
func (a *appender) sync() error {
	if a.writer == nil || !a.drive.store.opts.Relaxed {
		return nil
	}
	return a.writer.Sync()
}

// close waits for packs being sealed and closes the last.
func (a *appender) close() error {
	a.sealing.Wait()
	if a.writer == nil {
		return nil
	}
	err := a.writer.Sync()
	if derr := a.writer.Discard(); err == nil {
		err = derr
	}
	a.writer = nil
	return err
}
