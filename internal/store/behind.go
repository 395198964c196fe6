package store

import (
	"maps"
	"slices"
	"sync/atomic"
)

// A disk that fails, or does not take a tombstone, falls behind: the others may
// get newer records of names it holds, and it goes on believing in the old ones.
// Nothing is wrong with that as long as all of them can be asked, since the newest
// version counts. But when one that is ahead is lost, what a disk behind it holds
// may be old and is not served. The roster tells who is behind whom; when a disk is
// well again a sweep buries what is old, and it has caught up.
type standing struct {
	behind   atomic.Int64 // how often it may have been passed; zero when it has caught up
	recorded atomic.Bool  // the roster tells
	suspect  bool         // behind disks that are absent
}

// trusted reports whether what the disk holds is the newest there is.
func (p *standing) trusted() bool { return p.behind.Load() == 0 && !p.suspect }

// passed notes that newer records may have been written without d. The first time
// the roster tells before anybody is answered.
func (s *Store) passed(d *drive) {
	d.behind.Add(1)
	if !d.recorded.CompareAndSwap(false, true) {
		return
	}
	if err := s.roster.behind(d); err != nil {
		d.recorded.Store(false)
		s.log.Warn("it cannot be noted that a disk is behind the others", "disk", d.name, "error", err)
	}
}

// allReadable reports whether every disk that is here can be asked.
func (s *Store) allReadable() bool {
	return !slices.ContainsFunc(s.drives, func(d *drive) bool { return d.readable() != nil })
}

// behind makes the roster tell that d is behind all others that are here.
func (r *roster) behind(d *drive) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ahead := slices.Clone(r.facts.Behind[d.id.ID])
	for _, other := range r.drives {
		if other != d && !slices.Contains(ahead, other.id.ID) {
			ahead = append(ahead, other.id.ID)
		}
	}
	r.facts.Behind = maps.Clone(r.facts.Behind)
	if r.facts.Behind == nil {
		r.facts.Behind = make(map[string][]string)
	}
	r.facts.Behind[d.id.ID] = ahead
	return r.raiseLocked()
}

// caughtUp is called after a sweep of d that began when it had been passed so
// often, and during which every disk here could be asked.
func (r *roster) caughtUp(d *drive, passed int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.recorded.Store(false) // whoever passes it from now on tells again
	if d.behind.Load() != passed || d.suspect {
		return nil
	}
	if r.facts.Behind[d.id.ID] != nil {
		r.facts.Behind = maps.Clone(r.facts.Behind)
		delete(r.facts.Behind, d.id.ID)
		if err := r.raiseLocked(); err != nil {
			return err
		}
	}
	d.behind.CompareAndSwap(passed, 0)
	return nil
}

// standings tells the disks what the roster knows of them.
func (r *roster) standings() {
	for _, d := range r.drives {
		ahead := r.facts.Behind[d.id.ID]
		if ahead == nil {
			continue
		}
		d.behind.Store(1)
		d.recorded.Store(true)
		d.suspect = slices.ContainsFunc(ahead, func(id string) bool {
			return slices.Contains(r.facts.Members, id) && !slices.ContainsFunc(r.drives, func(d *drive) bool { return d.id.ID == id })
		})
	}
}
