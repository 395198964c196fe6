package store

import (
	"errors"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// pending is a record whose name is locked, on its way to be committed: prepare
// gives it its version, then one disk takes it into its log, then conclude puts
// tombstones of the same version on the other disks that know the name, so that
// none of them can bring back what it had.
type pending struct {
	store   *Store
	rec     pack.Record
	buf     []byte   // room for the head, then the payload
	parents []string // paths that plain tar needs as directories from now on
	all     []entry  // what the disks know of the name
	epoch   uint64   // of the store when they were asked
	keep    bool     // its version becomes its ID

	draft      *pack.Draft
	candidates []*drive // in the order in which they are tried
	hash       uint64
}

// commit takes a record all the way. One over blobs must go to their disk.
func (p *pending) commit(on *drive) (*entry, error) {
	if err := p.prepare(on); err != nil {
		return nil, err
	}
	p.store.hot.begin(p.hash)
	return p.conclude(p.try(nil, nil))
}

// prepare gives the record its version and lays it out.
func (p *pending) prepare(on *drive) error {
	if p.keep {
		if err := p.store.keepVersions(p.rec.Name.Bucket); err != nil {
			return err
		}
	}
	version, err := p.store.roster.versions(p.store.opts.Map, 1)
	if err != nil {
		return err
	}
	if p.keep {
		p.rec.Name.ID = version
	}
	p.hash = hashName(p.rec.Name)
	if err := p.address(version, p.store.opts.Clock(), on); err != nil {
		return err
	}
	p.draft = pack.NewDraft(p.rec, p.buf)
	return p.draft.Validate()
}

// address gives the record its version and time, and chooses its disk.
func (p *pending) address(version object.Version, now time.Time, on *drive) error {
	s := p.store
	if len(p.all) > 0 && !version.After(p.all[0].Version) {
		return object.Errorf(object.Internal, "%s has version %s: a write under map %d would be lost", p.rec.Name, p.all[0].Version, s.opts.Map)
	}
	p.rec.Version, p.rec.Modified = version, now.UTC()
	p.candidates = []*drive{on}
	if on == nil {
		p.candidates = s.candidates(p.rec.Name, p.all)
	}
	return nil
}

// change returns what is to be committed on a disk, replacing what that knew.
func (p *pending) change(d *drive) (*change, error) {
	c := new(change)
	return c, p.describe(c, d)
}

func (p *pending) describe(c *change, d *drive) error {
	*c = change{draft: p.draft, epoch: p.epoch, parents: p.parents}
	// The mark of a deletion gives space back only if something goes for it.
	c.essential = p.rec.Kind == pack.Tombstone || (p.rec.Kind == pack.Marker && current(p.all) != nil)
	return p.store.replacing(d, c, p.all)
}

// try commits on one disk after the other until one takes it, beginning with what
// came of the first one if that was tried already.
func (p *pending) try(done *change, err error) (*change, error) {
	rest := p.candidates
	if done != nil || err != nil {
		rest = rest[1:]
	}
	for ; (done == nil || err != nil) && len(rest) > 0; rest = rest[1:] {
		if err != nil && !object.Is(err, object.Unavailable) {
			break
		}
		if done, err = p.change(rest[0]); err == nil {
			err = rest[0].log.commit(done)
		}
	}
	return done, err
}

// conclude does what follows from a commit, or from its failure.
func (p *pending) conclude(done *change, err error) (*entry, error) {
	s := p.store
	if err != nil {
		s.hot.end(p.hash, place{})
		return nil, err
	}
	if err := s.supersede(p.rec, p.all, p.epoch, done.entry.drive); err != nil {
		// That disk is ill: when it is well again the sweep puts the tombstone there.
		s.log.Warn("an older version stays on a disk that takes no writes", "object", p.rec.Name.String(), "error", err)
	}
	for _, d := range s.drives {
		if d != done.entry.drive && d.readable() != nil {
			s.passed(d) // it was not asked, and may hold an older version
		}
	}
	for _, path := range p.parents {
		done.entry.drive.parents.add(hashName(object.Name{Bucket: p.rec.Name.Bucket, Key: path}))
	}
	var hot place
	if p.rec.Kind == pack.Object {
		hot = done.entry.place(p.hash)
	}
	s.hot.end(p.hash, hot)
	return &done.entry, nil
}

// replacing completes a change with what the disk knew of the name.
func (s *Store) replacing(d *drive, c *change, all []entry) error {
	if err := d.readable(); err != nil {
		return err
	}
	for i := range all {
		if all[i].drive != d {
			continue
		}
		c.old = &all[i]
		if c.old.Extents {
			rec, err := d.head(c.old)
			switch {
			case err == nil:
				c.oldBlobs = rec.Extents
			case object.Is(err, object.Unavailable):
				return err
			default: // damaged: to be replaced all the more; its blobs are swept with the next rebuild
				s.log.Warn("a damaged record is replaced", "disk", d.name, "object", c.draft.Name.String(), "error", err)
			}
		}
	}
	return nil
}

// supersede puts tombstones over what other disks than the winner believe to be
// the object.
func (s *Store) supersede(rec pack.Record, all []entry, epoch uint64, winner *drive) error {
	var errs []error
	for i := range all {
		d := all[i].drive
		if d == winner || all[i].Kind == pack.Tombstone {
			continue
		}
		stone := pack.Record{Kind: pack.Tombstone, Name: rec.Name, Version: rec.Version, Modified: rec.Modified}
		c := &change{draft: pack.NewDraft(stone, make([]byte, pack.HeadLen(&stone))), epoch: epoch, essential: true}
		err := s.replacing(d, c, all)
		if err == nil {
			err = d.log.commit(c)
		}
		if err != nil {
			s.passed(d)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
