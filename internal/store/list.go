package store

import (
	"bytes"
	"context"
	"iter"
	"strings"

	"penstock.dev/penstock/internal/index"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// List enumerates a bucket; see object.Lister.
func (s *Store) List(ctx context.Context, bucket string, o object.ListOptions) iter.Seq2[object.Entry, error] {
	return s.list(ctx, bucket, o, func(m *merge) error {
		if o.After != "" {
			m.after(o)
		}
		return nil
	}, (*merge).nextObject)
}

// Versions enumerates all versions in a bucket; see object.Versioner. An afterID that
// is NullID, of which there is none any more, counts as none seen.
func (s *Store) Versions(ctx context.Context, bucket string, o object.ListOptions, afterID object.Version) iter.Seq2[object.Entry, error] {
	return s.list(ctx, bucket, o, func(m *merge) error {
		switch {
		case o.After == "":
		case afterID == (object.Version{}) || folded(o.After, o) == o.After || !strings.HasPrefix(o.After, o.Prefix):
			m.after(o)
		default:
			return m.within(object.Name{Bucket: bucket, Key: o.After, ID: afterID})
		}
		return nil
	}, (*merge).nextVersion)
}

func (s *Store) list(
	ctx context.Context, bucket string, o object.ListOptions, begin func(*merge) error,
	next func(*merge, string, object.ListOptions) (e object.Entry, ok bool, err error),
) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		if err := (object.Name{Bucket: bucket, Key: "any"}).ValidateStored(); err != nil {
			yield(object.Entry{}, err)
			return
		}
		m := s.merge(appendName(nil, spaceObject, bucket, ""), o.Prefix)
		defer m.close()
		if (len(m.heads) < len(s.drives) || len(s.absent) > 0) && !yield(object.Entry{}, object.ErrIncomplete) {
			return
		}
		if err := begin(m); err != nil {
			yield(object.Entry{}, err)
			return
		}
		for n := 0; o.Limit == 0 || n < o.Limit; n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				yield(object.Entry{}, ctx.Err())
				return
			}
			e, ok, err := next(m, bucket, o)
			if err != nil {
				yield(object.Entry{}, err)
				return
			}
			if !ok || !yield(e, nil) {
				return
			}
		}
	}
}

// Empty reports whether a bucket holds nothing: no object, no version of one, no mark
// of a deletion.
func (s *Store) Empty(ctx context.Context, bucket string) (bool, error) {
	for _, err := range s.Versions(ctx, bucket, object.ListOptions{Limit: 1}, object.Version{}) {
		return false, err
	}
	return true, nil
}

// merge is an iteration over one bucket in the indexes of all disks at once.
type merge struct {
	store *Store
	since uint64 // the counter of versions when it began
	base  []byte // key of the bucket's first object
	heads []mergeHead
	taken entry  // last
	last  []byte // the index's key of that
	stem  int    // how much of that is the same for all versions of the name
	late  bool   // a tombstone was taken that was written since the listing began

	// What Versions has of the name it is at, the newest first. Those with an ID come
	// in that order; what has none may have to wait for its turn.
	key   string
	shown bool   // the newest of it
	null  *entry // what has no ID, if it was taken and is not shown yet
	ahead *entry // likewise the next that has one
}

type mergeHead struct {
	drive *drive
	it    *index.Iterator
	ok    bool // it stands on an entry that was not given out yet
}

func (s *Store) merge(base []byte, prefix string) *merge {
	start := appendEscaped(bytes.Clone(base), prefix)
	m := &merge{store: s, since: s.roster.next.Load(), base: base}
	for _, d := range s.drives {
		if d.readable() != nil {
			continue
		}
		h := mergeHead{drive: d, it: d.idx().Scan(start, successor(start))}
		h.ok = h.it.Next()
		m.heads = append(m.heads, h)
	}
	return m
}

func (m *merge) close() {
	for i := range m.heads {
		m.heads[i].it.Close()
	}
}

// seek moves every head that is before key to it.
func (m *merge) seek(key []byte) {
	for i := range m.heads {
		if h := &m.heads[i]; h.ok && bytes.Compare(h.it.Key(), key) < 0 {
			h.it.Seek(key)
			h.ok = h.it.Next()
		}
	}
}

// after skips what comes before and with a mark. A mark that ends with the
// delimiter was a folded prefix: everything under it was seen.
func (m *merge) after(o object.ListOptions) {
	key := appendEscaped(bytes.Clone(m.base), o.After)
	if folded(o.After, o) == o.After {
		m.seek(successor(key))
		return
	}
	m.seek(append(key, 0, 3)) // behind all versions of the name, before all longer ones
}

// folded returns the common prefix a key belongs to, empty if none.
func folded(key string, o object.ListOptions) string {
	if o.Delimiter == "" || !strings.HasPrefix(key, o.Prefix) {
		return ""
	}
	i := strings.Index(key[len(o.Prefix):], o.Delimiter)
	if i < 0 {
		return ""
	}
	return key[:len(o.Prefix)+i+len(o.Delimiter)]
}

// nextObject returns the next object or folded prefix, false at the end.
func (m *merge) nextObject(bucket string, o object.ListOptions) (_ object.Entry, ok bool, err error) {
	for {
		m.late = false
		e, name, err := m.take(bucket)
		if err != nil || e == nil {
			return object.Entry{}, false, err
		}
		if m.more() {
			if e, err = m.newestOf(bucket); err != nil {
				return object.Entry{}, false, err
			}
		}
		if m.late && m.store.versioned.has(bucket) {
			// A version written before the delete may stand where it was passed.
			if now, err := m.store.newest(name); err == nil {
				e = now
			}
		}
		if e == nil || e.Kind != pack.Object {
			continue
		}
		if prefix := folded(name.Key, o); prefix != "" {
			m.skip(prefix)
			return object.Entry{Prefix: prefix}, true, nil
		}
		name.ID = e.ID
		return object.Entry{Info: e.Info(name)}, true, nil
	}
}

// more reports whether the next entry is one of the same name as the last.
func (m *merge) more() bool {
	for i := range m.heads {
		if m.same(&m.heads[i]) {
			return true
		}
	}
	return false
}

func (m *merge) same(h *mergeHead) bool {
	return h.ok && bytes.HasPrefix(h.it.Key(), m.last[:m.stem]) && h.it.Key()[m.stem] != 0xff
}

// pass goes behind all versions of the name that was taken last. Most have few, and a
// step costs much less than a seek.
func (m *merge) pass() {
	for range 16 {
		if !m.more() {
			return
		}
		for i := range m.heads {
			if h := &m.heads[i]; m.same(h) {
				h.ok = h.it.Next()
			}
		}
	}
	m.seek(append(bytes.Clone(m.last[:m.stem]), 3))
}

// newestOf takes what is left of the name that was taken last, and returns the newest
// of it all, nil if nothing is.
func (m *merge) newestOf(bucket string) (*entry, error) {
	var best *entry
	for {
		if e := m.taken; e.live() {
			if best == nil || e.Version.After(best.Version) {
				best = &e
			}
			if e.ID != (object.Version{}) {
				m.pass() // the others are older
				return best, nil
			}
		}
		if !m.more() {
			return best, nil
		}
		if e, _, err := m.take(bucket); err != nil || e == nil {
			return nil, err
		}
	}
}

func (m *merge) skip(prefix string) {
	m.seek(successor(appendEscaped(bytes.Clone(m.base), prefix)))
}

// nextVersion returns the next version, mark of a deletion or folded prefix, false at
// the end.
func (m *merge) nextVersion(bucket string, o object.ListOptions) (_ object.Entry, ok bool, err error) {
	e, err := m.takeVersion(bucket)
	if err != nil || e == nil {
		return object.Entry{}, false, err
	}
	if prefix := folded(m.key, o); prefix != "" {
		m.skip(prefix)
		m.null, m.ahead = nil, nil
		return object.Entry{Prefix: prefix}, true, nil
	}
	info := e.Info(object.Name{Bucket: bucket, Key: m.key, ID: e.ID})
	info.Newest = !m.shown
	m.shown = true
	return object.Entry{Info: info}, true, nil
}

// takeVersion takes the newest version that is left of the name it is at, or else of
// the next. What has no ID stands before the others in the index, and comes here
// where its version belongs.
func (m *merge) takeVersion(bucket string) (*entry, error) {
	for m.ahead == nil && (m.null == nil || m.more()) {
		e, name, err := m.take(bucket)
		if err != nil || e == nil {
			return nil, err
		}
		if !e.live() {
			continue
		}
		if name.Key != m.key {
			m.key, m.shown = name.Key, false
		}
		taken := *e
		if name.ID == (object.Version{}) {
			m.null = &taken
		} else {
			m.ahead = &taken
		}
	}
	next := &m.ahead
	if m.null != nil && (m.ahead == nil || m.null.Version.After(m.ahead.Version)) {
		next = &m.null
	}
	e := *next
	*next = nil
	return e, nil
}

// within begins with the versions of a name that are older than the one with its ID.
func (m *merge) within(last object.Name) error {
	first := objectKey(nil, exactOf(last, false))
	all, err := m.store.find(exactOf(last, false))
	null := current(all)
	if err != nil && null == nil {
		return err
	}
	version := last.ID
	if last.ID == object.NullID {
		if null == nil {
			m.seek(first)
			return nil
		}
		version = null.Version
	}
	last.ID = version
	m.last, m.stem = objectKey(m.last[:0], last), len(first)-1
	m.seek(append(bytes.Clone(m.last), 0))
	m.key = last.Key
	if null != nil && version.After(null.Version) {
		m.null = null
	}
	if newest, err := m.store.newest(last); err == nil && newest != nil {
		m.shown = !version.After(newest.Version)
	}
	return nil
}

// moved looks again for what has a tombstone that was written since the listing
// began. It may have moved to a disk in whose part it was not yet.
func (m *merge) moved(name object.Name) {
	if len(m.heads) < 2 || m.taken.Version.Counter < m.since {
		return
	}
	all, _ := m.store.find(name)
	if now := current(all); now != nil {
		m.taken = *now
	}
}

// take takes the smallest exact name from the heads, and of that name the newest
// entry, nil at the end. The entry is valid until the next one is taken.
func (m *merge) take(bucket string) (_ *entry, name object.Name, err error) {
	var raw []byte
	for i := range m.heads {
		h := &m.heads[i]
		if !h.ok {
			if err := h.it.Err(); err != nil {
				h.drive.indexFailed(err)
				return nil, name, object.Errorf(object.Unavailable, "listing: %w", err)
			}
			continue
		}
		if raw == nil || bytes.Compare(h.it.Key(), raw) < 0 {
			raw = h.it.Key()
		}
	}
	if raw == nil {
		return nil, name, nil
	}
	m.last = append(m.last[:0], raw...)
	found := false
	for i := range m.heads {
		h := &m.heads[i]
		if !h.ok || !bytes.Equal(h.it.Key(), m.last) {
			continue
		}
		e, err := parseEntry(h.drive, h.it.Value())
		if err != nil {
			h.drive.indexFailed(err)
			return nil, name, object.Errorf(object.Unavailable, "listing: %w", err)
		}
		if !found || e.newer(&m.taken) {
			m.taken, found = e, true
		}
		h.ok = h.it.Next()
	}
	key, id, rest, ok := parseObjectKey(m.last[len(m.base):])
	if !ok || len(rest) > 0 {
		return nil, name, object.Errorf(object.Unavailable, "listing: malformed key in the index")
	}
	m.stem = len(m.last) - 1
	if id != (object.Version{}) {
		m.stem -= idLen
	}
	name = object.Name{Bucket: bucket, Key: key, ID: id}
	if !m.taken.live() {
		m.late = m.late || m.taken.Version.Counter >= m.since
		m.moved(name)
	}
	return &m.taken, name, nil
}
