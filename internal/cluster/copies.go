package cluster

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"slices"
	"sync"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// The names on each disk.
const (
	snapshotName  = "control"
	temporaryName = "control.tmp"
)

// quorum is the number of disks, of so many, that must hold a write before it is
// acknowledged. With two, losing any one disk at any time leaves a copy of
// everything acknowledged; so records may be opened as long as fewer than two of
// their members are missing.
func quorum(disks int) int { return min(2, disks) }

// copies are the snapshots on all disks. They belong to one goroutine, but for
// status.
type copies struct {
	logger      *slog.Logger
	disks       []*copyOn
	head        head // of the last write; head.disk is not used
	established bool // a quorum knows this start
	saved       int64
	body        []byte // kept for its memory
	mu          sync.Mutex
}

// copyOn is the copy on one disk.
type copyOn struct {
	name string
	fsys disk.FS
	id   diskID

	// From opening on:
	found *snapshot // nil: there was no good one; dropped when all is open
	was   error     // what was wrong with it

	// Guarded by copies.mu:
	repaired string // was, once that is repaired
	err      error  // why it is not of the last write
}

// DiskStatus says how the copy on one disk is.
type DiskStatus struct {
	Name     string
	Repaired string // what was found wrong with it at the start and is repaired; mostly empty
	Err      error  // why it is behind the others; nil: it is not
}

func (c *copies) status() []DiskStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]DiskStatus, len(c.disks))
	for i, d := range c.disks {
		all[i] = DiskStatus{Name: d.name, Repaired: d.repaired, Err: d.err}
	}
	return all
}

// behind reports whether some copy is not of the last write.
func (c *copies) behind() bool {
	return slices.ContainsFunc(c.status(), func(s DiskStatus) bool { return s.Err != nil })
}

// save makes the next state durable, given the present one. If it fails, next may
// still turn up after a restart, unless a later save succeeds before.
func (c *copies) save(present, next *state) error {
	if !c.established {
		if err := c.establish(present); err != nil {
			return err
		}
		c.established = true
		c.head.number = number{start: c.head.start}
	}
	c.head.number.write++ // also after one that failed: what is left of it must be older than the next
	return c.writeAll(next)
}

// establish makes the start known to a quorum before anything is written in it, so
// that no other start can have its number. Meanwhile the records keep the number
// they have: until a quorum has this start, a copy of it must not win over writes
// acknowledged in another one. It is repeated until all disks that took it are on
// record as members.
func (c *copies) establish(present *state) error {
	for {
		before := len(c.head.members)
		if err := c.writeAll(present); len(c.head.members) == before {
			return err
		}
	}
}

// writeAll writes one snapshot to all disks and waits for all. A disk that had no
// copy becomes a member when it has one, not before: if we die in between, the
// copies there are must not miss it.
func (c *copies) writeAll(s *state) error {
	c.head.revision = s.revision
	var count uint32
	c.body, count = appendBody(c.body[:0], c.head.members, s.records)
	crc := crc32.ChecksumIEEE(c.body)

	errs := make([]error, len(c.disks))
	var group sync.WaitGroup
	for i, d := range c.disks {
		h := c.head
		h.disk = d.id
		group.Go(func() { errs[i] = d.write(appendHead(nil, &h, count, len(c.body), crc), c.body) })
	}
	group.Wait()
	c.note(errs)

	good := 0
	for i, d := range c.disks {
		if errs[i] != nil {
			continue
		}
		good++
		if !slices.Contains(c.head.members, d.id) {
			c.head.members = append(c.head.members, d.id)
		}
	}
	if need := quorum(len(c.disks)); good < need {
		return object.Errorf(object.Unavailable, "the control records were written to %d of %d disks, and %d are needed; a disk that stays bad must be replaced or left out: %w",
			good, len(c.disks), need, errors.Join(errs...))
	}
	c.saved = s.revision
	return nil
}

// note remembers and logs how writing went.
func (c *copies) note(errs []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range c.disks {
		switch {
		case errs[i] != nil && d.err == nil:
			c.logger.Warn("control records cannot be written", "disk", d.name, "error", errs[i])
		case errs[i] == nil && d.was != nil && d.repaired == "":
			d.repaired = d.was.Error()
			c.logger.Warn("control records repaired", "disk", d.name, "was", d.was)
		case errs[i] == nil && d.err != nil:
			c.logger.Info("control records can be written again", "disk", d.name)
		}
		d.err = errs[i]
	}
}

// write replaces the copy in one step. Until the rename the old copy stands; after
// a failure of the rename or later it is unknown which one does.
func (d *copyOn) write(head, body []byte) error {
	err := d.prepare(head, body)
	if err == nil {
		err = d.fsys.Rename(temporaryName, snapshotName)
	}
	if err != nil {
		_ = d.fsys.Remove(temporaryName) // on a full disk it takes space; the next attempt removes it otherwise
		return fmt.Errorf("disk %s: %w", d.name, err)
	}
	if err := d.fsys.SyncDir("."); err != nil {
		return fmt.Errorf("disk %s: %w", d.name, err)
	}
	return nil
}

// prepare makes the temporary file, durably.
func (d *copyOn) prepare(head, body []byte) error {
	f, err := d.fsys.Create(temporaryName)
	if errors.Is(err, fs.ErrExist) {
		if err := d.fsys.Remove(temporaryName); err != nil {
			return err
		}
		f, err = d.fsys.Create(temporaryName)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(body, int64(len(head))); err != nil {
		return err
	}
	return f.Sync()
}
