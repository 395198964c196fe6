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
	return func(yield func(object.Entry, error) bool) {
		if err := object.ValidateBucket(bucket); err != nil {
			yield(object.Entry{}, err)
			return
		}
		m := s.merge(appendName(nil, spaceObject, bucket, ""), o.Prefix)
		defer m.close()
		if (len(m.heads) < len(s.drives) || len(s.absent) > 0) && !yield(object.Entry{}, object.ErrIncomplete) {
			return
		}
		if o.After != "" {
			m.after(o)
		}
		for n := 0; o.Limit == 0 || n < o.Limit; n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				yield(object.Entry{}, ctx.Err())
				return
			}
			e, err := m.next(bucket, o)
			if err != nil {
				yield(object.Entry{}, err)
				return
			}
			if e == nil || !yield(*e, nil) {
				return
			}
		}
	}
}

// Empty reports whether a bucket holds no object.
func (s *Store) Empty(ctx context.Context, bucket string) (bool, error) {
	for _, err := range s.List(ctx, bucket, object.ListOptions{Limit: 1}) {
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
	m.seek(append(key, 0, 2)) // behind the name itself, before all longer ones
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

// next returns the next entry, nil at the end.
func (m *merge) next(bucket string, o object.ListOptions) (*object.Entry, error) {
	for {
		e, key, err := m.newest()
		if err != nil || e == nil {
			return nil, err
		}
		if e.Kind != pack.Object {
			if e = m.moved(e, object.Name{Bucket: bucket, Key: key}); e == nil {
				continue
			}
		}
		if prefix := folded(key, o); prefix != "" {
			m.seek(successor(appendEscaped(bytes.Clone(m.base), prefix)))
			return &object.Entry{Prefix: prefix}, nil
		}
		return &object.Entry{Info: e.Info(object.Name{Bucket: bucket, Key: key})}, nil
	}
}

// moved returns the object in place of a tombstone that was written since the
// listing began, nil if there is none. It may have moved to a disk in whose part
// it was not yet.
func (m *merge) moved(stone *entry, name object.Name) *entry {
	if len(m.heads) < 2 || stone.Version.Counter < m.since {
		return nil
	}
	all, _ := m.store.find(name)
	return current(all)
}

// newest takes the smallest name from the heads, and of that name the newest
// entry.
func (m *merge) newest() (best *entry, key string, err error) {
	var raw []byte
	for i := range m.heads {
		h := &m.heads[i]
		if !h.ok {
			if err := h.it.Err(); err != nil {
				h.drive.indexFailed(err)
				return nil, "", object.Errorf(object.Unavailable, "listing: %w", err)
			}
			continue
		}
		if raw == nil || bytes.Compare(h.it.Key(), raw) < 0 {
			raw = h.it.Key()
		}
	}
	if raw == nil {
		return nil, "", nil
	}
	raw = bytes.Clone(raw)
	for i := range m.heads {
		h := &m.heads[i]
		if !h.ok || !bytes.Equal(h.it.Key(), raw) {
			continue
		}
		e, err := parseEntry(h.drive, h.it.Value())
		if err != nil {
			h.drive.indexFailed(err)
			return nil, "", object.Errorf(object.Unavailable, "listing: %w", err)
		}
		if best == nil || e.newer(best) {
			best = &e
		}
		h.ok = h.it.Next()
	}
	key, ok := parseObjectKey(raw[len(m.base):])
	if !ok {
		return nil, "", object.Errorf(object.Unavailable, "listing: malformed key in the index")
	}
	return best, key, nil
}
