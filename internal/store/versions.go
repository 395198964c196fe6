package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// A bucket may keep versions of its objects. To log, index, locks of disks and
// compaction a version is a name of its own: bucket, key and ID. What is written
// without an ID replaces what has none; what has one stays until it is deleted by it.
// The newest of them all is what the key alone means, and a Marker among them says
// that it means nothing.
//
// So a name inside of this package is exact: one without an ID is that of what has
// none. Those from outside are made exact first, which costs nothing in a bucket that
// never kept versions.

// versionedBuckets are those that hold something with an ID. It only grows while the
// store is open: the price of being in it is a look into the index.
type versionedBuckets struct {
	names  atomic.Pointer[map[string]bool]
	adding sync.Mutex
}

func (v *versionedBuckets) has(bucket string) bool {
	names := v.names.Load()
	return names != nil && (*names)[bucket]
}

// note is called before a name is in the index.
func (v *versionedBuckets) note(name object.Name) {
	if name.ID != (object.Version{}) && !v.has(name.Bucket) {
		v.add(map[string]int64{name.Bucket: 1})
	}
}

func (v *versionedBuckets) add(buckets map[string]int64) {
	if len(buckets) == 0 {
		return
	}
	v.adding.Lock()
	defer v.adding.Unlock()
	all := make(map[string]bool)
	if names := v.names.Load(); names != nil {
		maps.Copy(all, *names)
	}
	for bucket := range buckets {
		all[bucket] = true
	}
	v.names.Store(&all)
}

// list returns the buckets in order.
func (v *versionedBuckets) list() []string {
	names := v.names.Load()
	if names == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(*names))
}

// keepVersions is called before the first name of a bucket gets an ID. The roster
// tells all disks, so that none of them passes for knowing the newest while one that
// has versions cannot be asked.
func (s *Store) keepVersions(bucket string) error {
	if s.versioned.has(bucket) {
		return nil
	}
	if err := s.roster.keepVersions(bucket); err != nil {
		return err
	}
	s.versioned.add(map[string]int64{bucket: 1})
	return nil
}

// meant calls read with the exact name of what a name means. If that was deleted
// meanwhile, another version may have become what the key alone means.
func (s *Store) meant(name object.Name, read func(exact object.Name) error) error {
	const attempts = 16 // each needs one more delete of the newest version, just now
	for attempt := 0; ; attempt++ {
		exact, err := s.exact(name)
		if err != nil {
			return err
		}
		err = read(exact)
		if name.ID != (object.Version{}) {
			if marker := (*object.MarkerError)(nil); errors.As(err, &marker) {
				return object.Errorf(object.Invalid, "%w", marker)
			}
			return err
		}
		if !object.Is(err, object.NotFound) || !s.versioned.has(name.Bucket) || attempt == attempts {
			return err
		}
	}
}

// exact returns the name of the version that is meant, or says why there is none. A
// name that follows from what was asked for is not looked up.
func (s *Store) exact(name object.Name) (object.Name, error) {
	switch {
	case name.ID == object.NullID:
		name.ID = object.Version{}
		return name, nil
	case name.ID != (object.Version{}) || !s.versioned.has(name.Bucket):
		return name, nil
	}
	e, err := s.newest(name)
	switch {
	case err != nil:
		return name, err
	case e == nil:
		return name, notFound(name)
	}
	name.ID = e.ID
	if e.Kind == pack.Marker {
		return name, deleted(name, e)
	}
	return name, nil
}

// deleted is the answer to who asks for an object of which the newest version is the
// mark of its deletion.
func deleted(name object.Name, e *entry) error {
	return &object.Error{Kind: object.NotFound, Err: &object.MarkerError{Name: name, Info: e.Info(name)}}
}

// inexact is the inverse of exact, for a name that came from the index.
func inexact(name object.Name) object.Name {
	if name.ID == (object.Version{}) {
		name.ID = object.NullID
	}
	return name
}

// newest returns the newest of all versions of a name, nil if there is none. All
// disks must be asked: each may have got the newest.
func (s *Store) newest(name object.Name) (*entry, error) {
	base := appendName(nil, spaceObject, name.Bucket, name.Key)
	for {
		since := s.roster.next.Load()
		best, steady, err := s.newestNow(name, base, since)
		if err != nil || steady {
			return best, err
		}
	}
}

// newestNow is one look at all versions. It is not steady if one of them was deleted
// meanwhile: one written before that may stand where it had looked already.
func (s *Store) newestNow(name object.Name, base []byte, since uint64) (best *entry, steady bool, err error) {
	steady = true
	for _, d := range s.drives {
		if err := d.readable(); err != nil {
			return nil, false, object.Errorf(object.Unavailable, "%s: %w", name, err)
		}
		e, passed, err := s.newestOn(d, name, base)
		if err != nil {
			return nil, false, err
		}
		if e != nil && (best == nil || e.Version.After(best.Version)) {
			best = e
		}
		steady = steady && passed < since
	}
	if len(s.absent) > 0 {
		return nil, false, object.Errorf(object.Unavailable, "%s may have a newer version on a disk that is absent (%s)", name, s.absent[0])
	}
	return best, steady, nil
}

// newestOn returns the newest version of a name that a disk knows of, and the counter
// of the newest tombstone it has passed on the way.
func (s *Store) newestOn(d *drive, name object.Name, base []byte) (best *entry, passed uint64, err error) {
	x := d.idx()
	it := x.Scan(append(base[:len(base):len(base)], 0, 1), append(base[:len(base):len(base)], 0, 3))
	defer it.Close()
	for it.Next() && err == nil {
		var e entry
		if e, err = parseEntry(d, it.Value()); err != nil {
			break
		}
		if e.live() && len(s.drives) > 1 { // another disk may know that it is gone
			name.ID = e.ID
			all, err := s.find(name)
			if err != nil {
				return nil, 0, err
			}
			if len(all) > 0 {
				e = all[0]
			}
		}
		if !e.live() {
			passed = max(passed, e.Version.Counter)
			continue
		}
		if best == nil || e.Version.After(best.Version) {
			best = &e
		}
		if e.ID != (object.Version{}) {
			break // those behind are older
		}
	}
	if err = errors.Join(err, it.Err()); err == nil {
		return best, passed, nil
	}
	if x != d.idx() {
		return s.newestOn(d, name, base) // it was replaced meanwhile
	}
	d.indexFailed(err)
	return nil, 0, object.Errorf(object.Unavailable, "%s: %w", name, err)
}

// present returns what a condition on a name is about: the newest version.
func (s *Store) present(name object.Name, all []entry) (*entry, error) {
	now := current(all)
	if s.versioned.has(name.Bucket) {
		var err error
		if now, err = s.newest(name); err != nil {
			return nil, err
		}
	}
	if now != nil && now.Kind == pack.Marker {
		return nil, nil
	}
	return now, nil
}

// Mark makes the newest version of a name the mark that it is deleted. With keep the
// mark has an ID of its own; without, it replaces what has none. The condition is on
// what was the newest.
func (s *Store) Mark(ctx context.Context, name object.Name, keep bool, cond object.Condition) (object.Info, error) {
	if err := name.ValidateStored(); err != nil {
		return object.Info{}, err
	}
	w := &write{store: s, cond: cond, keep: keep, rec: pack.Record{Kind: pack.Marker, Name: exactOf(name, keep)}}
	w.buf = make([]byte, pack.HeadLen(&w.rec))
	return w.commit(ctx, nil)
}

// exactOf returns the name under which something is written: if it is to be kept, with
// an ID that stands for the one it is going to get.
func exactOf(name object.Name, keep bool) object.Name {
	name.ID = object.Version{}
	if keep {
		name.ID = object.NullID
	}
	return name
}
