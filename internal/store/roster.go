package store

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// The roster is what the disks of a store know of each other, a copy on each:
// which disks belong together, and a ceiling that no version given out has
// reached. A disk that was away therefore never holds a version newer than what
// was written without it later, and one that was forgotten is not taken back.
type roster struct {
	mu     sync.Mutex
	drives []*drive
	facts  rosterFacts
	next   atomic.Uint64 // next counter to give out
}

type rosterFacts struct {
	Store      string   `json:"store"`
	Generation uint64   `json:"generation"`
	Members    []string `json:"members"`
	Ceiling    uint64   `json:"ceiling"`

	// Seen is the last generation each disk is known to have stored. A disk that
	// has an older one is an old copy of itself.
	Seen map[string]uint64 `json:"seen,omitempty"`

	// Behind tells which disks may have newer records than a disk knows of.
	Behind map[string][]string `json:"behind,omitempty"`

	// Versioned are the buckets that hold something with an ID.
	Versioned []string `json:"versioned,omitempty"`
}

const (
	rosterFile   = "roster"
	rosterFormat = 1
	rosterStep   = 1 << 20 // versions per write of the roster
)

// openRoster reads the copies, takes the newest, adds new disks and leaves out
// forgotten ones.
func openRoster(drives []*drive, forget []string) (*roster, []string, error) {
	r := &roster{drives: drives}
	var fresh []*drive
	var unread error // a roster that may hold more could not be read
	seen := make(map[string]uint64)
	generations := make(map[*drive]uint64)
	for _, d := range drives {
		content, err := disk.ReadSealed(d.fs, rosterFile, "roster", rosterFormat)
		if object.Is(err, object.NotFound) {
			var has bool
			if has, err = d.hasPacks(); !has && err == nil {
				fresh = append(fresh, d)
				continue
			}
		}
		var f rosterFacts
		if err == nil {
			err = json.Unmarshal(content, &f)
		}
		if object.Is(err, object.Invalid) {
			return nil, nil, object.Errorf(object.Invalid, "%s: %w", d.name, err)
		}
		if object.Is(err, object.Unavailable) {
			unread = err
		}
		if err != nil {
			d.store.log.Warn("a disk's roster is unusable and will be written anew", "disk", d.name, "error", err)
			continue
		}
		if r.facts.Store != "" && f.Store != r.facts.Store {
			return nil, nil, object.Errorf(object.Invalid, "%s belongs to another store than the disks before it", d.name)
		}
		generations[d] = f.Generation
		for id, generation := range f.Seen {
			seen[id] = max(seen[id], generation)
		}
		ceiling := max(f.Ceiling, r.facts.Ceiling)
		if f.Generation >= r.facts.Generation {
			r.facts = f
		}
		r.facts.Ceiling = ceiling
	}
	r.facts.Seen = seen
	for d, generation := range generations {
		if generation < seen[d.id.ID] {
			return nil, nil, object.Errorf(object.Invalid, "%s (disk %s) is an old copy of that disk and may hold what was deleted since: give the disk itself or an empty directory", d.name, d.id.ID)
		}
	}
	if r.facts.Store == "" {
		if unread != nil {
			return nil, nil, unread // it may tell of disks that are absent
		}
		r.facts.Store = drives[0].id.ID
	}
	absent := r.settle(fresh, forget)
	if len(absent) > 0 && len(fresh) > 0 {
		return nil, nil, object.Errorf(object.Invalid, "%s is empty while disk %s is absent: is its drive not mounted? If that disk is gone for good, forget it (--forget-disk %s)", fresh[0].name, absent[0], absent[0])
	}
	err := r.refuseForgotten(fresh)
	if err != nil && unread != nil {
		err = object.Errorf(object.Unavailable, "a roster cannot be read: %w", unread)
	}
	return r, absent, err
}

// settle brings the members up to date and returns those that are absent.
func (r *roster) settle(fresh []*drive, forget []string) (absent []string) {
	for _, d := range fresh {
		if !slices.Contains(r.facts.Members, d.id.ID) {
			r.facts.Members = append(r.facts.Members, d.id.ID)
		}
	}
	if len(r.facts.Members) == 0 { // every roster was damaged: the disks that are here count
		for _, d := range r.drives {
			r.facts.Members = append(r.facts.Members, d.id.ID)
		}
	}
	log := r.drives[0].store.log
	for _, id := range forget {
		if slices.Contains(r.facts.Members, id) {
			log.Warn("a disk is forgotten: what only it held is lost", "disk", id)
		} else {
			log.Warn("a disk to be forgotten does not belong to this store, or no more", "disk", id)
		}
	}
	r.facts.Members = slices.DeleteFunc(r.facts.Members, func(id string) bool { return slices.Contains(forget, id) })
	for _, id := range r.facts.Members {
		if !slices.ContainsFunc(r.drives, func(d *drive) bool { return d.id.ID == id }) {
			absent = append(absent, id)
		}
	}
	r.next.Store(r.facts.Ceiling)
	return absent
}

func (r *roster) refuseForgotten(fresh []*drive) error {
	for _, d := range r.drives {
		if !slices.Contains(r.facts.Members, d.id.ID) && !slices.Contains(fresh, d) {
			return object.Errorf(object.Invalid, "%s (disk %s) was forgotten by this store and may hold what was deleted since: give an empty directory instead", d.name, d.id.ID)
		}
	}
	return nil
}

// atLeast makes sure that only counters above this one are given out.
func (r *roster) atLeast(counter uint64) { r.next.Store(max(r.next.Load(), counter+1)) }

// goOn gives out counters above the newest there is, without a higher ceiling, if
// that leaves any. Every disk must be here.
func (r *roster) goOn(newest uint64) bool {
	r.next.Store(newest + 1)
	return newest+1 < r.facts.Ceiling
}

// versions returns the first of n consecutive versions that nobody else gets. There
// may be rosterStep.
func (r *roster) versions(mapNumber uint32, n uint64) (object.Version, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.Load()+n > r.facts.Ceiling {
		if err := r.raiseLocked(); err != nil {
			return object.Version{}, err
		}
	}
	return object.Version{Map: mapNumber, Counter: r.next.Add(n) - n}, nil
}

// keepVersions makes the roster tell that a bucket holds something with an ID.
func (r *roster) keepVersions(bucket string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.facts.Versioned
	if slices.Contains(before, bucket) {
		return nil
	}
	r.facts.Versioned = append(slices.Clip(before), bucket)
	err := r.raiseLocked()
	if err != nil {
		r.facts.Versioned = before
	}
	return err
}

// raise stores a higher ceiling and, where there are others to tell, that each
// disk has it.
func (r *roster) raise() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.raiseLocked()
	if err == nil && len(r.drives) > 1 {
		err = r.raiseLocked()
	}
	return err
}

// raiseLocked writes the roster to every disk that takes it. One is enough to
// know the ceiling from; without any no version can be given out.
func (r *roster) raiseLocked() error {
	facts := r.facts
	facts.Generation++
	facts.Ceiling = max(facts.Ceiling, r.next.Load()+rosterStep)
	content, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	var errs []error
	seen := maps.Clone(facts.Seen)
	for _, d := range r.drives {
		if err := disk.WriteSealed(d.fs, rosterFile, "roster", rosterFormat, content); err != nil {
			errs = append(errs, err)
		} else {
			seen[d.id.ID] = facts.Generation
			disk.KeepSpare(d.fs, rosterFile) // a full disk must still give out versions: for deletes
		}
	}
	facts.Seen = seen
	if len(errs) == len(r.drives) {
		return object.Errorf(object.Unavailable, "no disk takes the roster: %w", errors.Join(errs...))
	}
	r.facts = facts
	return nil
}
