package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// revisionJump is how far the revision is ahead after a start. Changes to leased
// records are not written, so the revisions they used are not known afterwards; a
// snapshot is due when half of the jump is used up. Only after a start that could
// write to no disk at all may the next one use a leased record's revision again.
const revisionJump = 1 << 20

// recoverCopies reads the copies on all disks and returns them with the newest
// state. Nothing is written yet.
func recoverCopies(disks []Disk, acceptLoss bool, random io.Reader, logger *slog.Logger) (*copies, *state, error) {
	c := &copies{logger: logger}
	var group sync.WaitGroup
	for _, named := range disks {
		d := &copyOn{name: named.Name, fsys: named.FS}
		c.disks = append(c.disks, d)
		group.Go(func() { d.found, d.was = d.read() })
	}
	group.Wait()

	newest, err := c.choose()
	if err != nil {
		return nil, nil, err
	}
	present := &state{revision: 1}
	if newest != nil {
		if err := c.checkLoss(newest); err != nil && !acceptLoss {
			return nil, nil, err
		}
		c.head.set, c.head.number = newest.set, newest.number
		present.records = newest.records
	} else if _, err := io.ReadFull(random, c.head.set[:]); err != nil {
		return nil, nil, fmt.Errorf("random number: %w", err)
	}
	for _, r := range present.records {
		present.size += recordSize(r)
	}
	for _, d := range c.disks {
		if d.found != nil {
			present.revision = max(present.revision, d.found.revision+revisionJump)
			c.head.start = max(c.head.start, d.found.start)
		}
	}
	c.saved = present.revision
	c.head.start++
	return c, present, c.join(newest, random)
}

// choose returns the newest of the copies found, nil if all disks are fresh. It
// fails where the newest may be one that cannot be read.
func (c *copies) choose() (*snapshot, error) {
	var newest *snapshot
	var bad []error
	for _, d := range c.disks {
		switch {
		case errors.Is(d.was, errUnknownFormat):
			return nil, d.explain()
		case d.found != nil && (newest == nil || d.found.before(newest)):
			newest = d.found
		case d.found == nil && !object.Is(d.was, object.NotFound):
			bad = append(bad, d.explain())
		}
	}
	if newest == nil && len(bad) > 0 {
		return nil, object.Errorf(object.KindOf(bad[0]), "no disk has a good copy: %w", errors.Join(bad...))
	}
	for _, d := range c.disks {
		switch s := d.found; {
		case s == nil:
		case s.set != newest.set:
			return nil, object.Errorf(object.Invalid, "the control records on disk %s are of cluster %x, others of %x", d.name, s.set, newest.set)
		case s.number == newest.number && !bytes.Equal(s.raw, newest.raw):
			return nil, object.Errorf(object.Corrupt, "the control records on disk %s differ from others of the same number %s: the disks were used apart from each other", d.name, s.number)
		}
	}
	return newest, nil
}

// explain returns what is wrong with a copy in an error of its kind.
func (d *copyOn) explain() error {
	return object.Errorf(object.KindOf(d.was), "control records on disk %s: %w", d.name, d.was)
}

// before reports whether s is to be preferred to t: for newer records or, where
// those are the same, for newer knowledge of the members.
func (s *snapshot) before(t *snapshot) bool {
	switch {
	case s.number != t.number:
		return s.number.newer(t.number)
	case s.start != t.start:
		return s.start > t.start
	}
	return len(s.members) > len(t.members)
}

// checkLoss fails if so many members are missing that there may have been a newer
// copy than the newest found.
func (c *copies) checkLoss(newest *snapshot) error {
	lost := 0
	for _, id := range newest.members {
		if !slices.ContainsFunc(c.disks, func(d *copyOn) bool { return d.found != nil && d.found.disk == id }) {
			lost++
		}
	}
	if lost == 0 || lost < quorum(len(newest.members)) {
		return nil
	}
	return object.Errorf(object.Unavailable, "%d of the %d disks that hold the control records are missing or damaged: newer records than those on the others may be lost",
		lost, len(newest.members))
}

// join makes a set of all disks: those that have a copy keep their identity and are
// members, the others get one and become members when they have a copy.
func (c *copies) join(newest *snapshot, random io.Reader) error {
	for _, d := range c.disks {
		found := d.found
		d.found = nil
		switch {
		case newest == nil:
			d.was = nil // it is fresh, as are all others
		case found != nil && newest.number.newer(found.number):
			d.was = fmt.Errorf("it was older: number %s, not %s", found.number, newest.number)
		}
		if found != nil && !slices.Contains(c.head.members, found.disk) { // it does if a disk was copied
			d.id = found.disk
			c.head.members = append(c.head.members, d.id)
			continue
		}
		var b [8]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return fmt.Errorf("random number: %w", err)
		}
		d.id = diskID(little.Uint64(b[:]))
	}
	return nil
}

// read returns the copy on the disk: NotFound if there is none, Corrupt if it is
// damaged, Invalid if its format is unknown, Unavailable if it cannot be read.
func (d *copyOn) read() (*snapshot, error) {
	f, err := d.fsys.Open(snapshotName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, object.Errorf(object.NotFound, "there is no copy")
	}
	if err != nil {
		return nil, object.Errorf(object.Unavailable, "%w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, object.Errorf(object.Unavailable, "%w", err)
	}
	// The head comes first: a damaged or newer file may be of any size.
	b := make([]byte, min(size, headSize))
	if err := readAt(f, b, 0); err != nil {
		return nil, err
	}
	length, err := decodeHead(b)
	if err != nil {
		return nil, err
	}
	if size != headSize+length {
		return nil, damagef("it has %d bytes, not %d", size, headSize+length)
	}
	b = append(b, make([]byte, length)...)
	if err := readAt(f, b[headSize:], headSize); err != nil {
		return nil, err
	}
	return decode(b)
}

func readAt(f disk.File, b []byte, offset int64) error {
	n, err := f.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return damagef("it ends after %d bytes", offset+int64(n))
	}
	return object.Errorf(object.Unavailable, "%w", err)
}
