package store

import (
	"cmp"
	"context"
	"slices"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// PutMany stores objects that lie in memory, together: they share the sync of the
// log. It returns an error for each of them, nil for those that are stored. Each is
// stored whole or not at all. An object that is too large to lie in a pack, or that
// comes twice, is Invalid.
func (s *Store) PutMany(ctx context.Context, bucket string, objects []object.Upload) []error {
	m := &many{store: s, errs: make([]error, len(objects))}
	cost := m.sort(bucket, objects)
	if err := s.memory.Acquire(ctx, cost); err != nil {
		m.failAll(err)
		return m.errs
	}
	defer s.memory.Release(cost)
	defer m.unlock()
	if err := m.lock(ctx); err != nil {
		m.failAll(err)
		return m.errs
	}
	m.prepare()
	m.commit()
	return m.errs
}

// many is a number of objects on their way in.
type many struct {
	store   *Store
	errs    []error // by number of the object
	members []*member
	unlocks []func()
}

type member struct {
	pending
	number  int
	content *object.Upload
	change  *change
	err     error
}

// sort finds out which objects can be stored, and brings them into the order of
// their names, in which they are locked. It returns how many bytes they have.
func (m *many) sort(bucket string, objects []object.Upload) (bytes int64) {
	s := m.store
	all := make([]member, len(objects))
	for i := range objects {
		o := &objects[i]
		name := object.Name{Bucket: bucket, Key: o.Key}
		size := int64(len(o.Bytes))
		err := name.Validate()
		if err == nil && size > s.opts.InlineMax {
			err = object.Errorf(object.Invalid, "%s has %d bytes: more than %d cannot be stored with others", name, size, s.opts.InlineMax)
		}
		if m.errs[i] = err; err != nil {
			continue
		}
		all[i] = member{number: i, content: o}
		all[i].store, all[i].rec = s, pack.Record{Kind: pack.Object, Name: name, ContentType: o.ContentType}
		m.members = append(m.members, &all[i])
		bytes += size
	}
	slices.SortStableFunc(m.members, func(a, b *member) int { return cmp.Compare(a.rec.Name.Key, b.rec.Name.Key) })
	m.members = slices.CompactFunc(m.members, func(later, first *member) bool {
		if later.rec.Name != first.rec.Name {
			return false
		}
		m.errs[later.number] = object.Errorf(object.Invalid, "%s comes twice", later.rec.Name)
		return true
	})
	return min(bytes, s.opts.WriteMemory)
}

func (m *many) failAll(err error) {
	for _, x := range m.members {
		m.errs[x.number] = err
	}
}

func (m *many) lock(ctx context.Context) error {
	m.unlocks = make([]func(), 0, len(m.members))
	for _, x := range m.members {
		unlock, err := m.store.keys.lock(ctx, x.rec.Name)
		if err != nil {
			return err
		}
		m.unlocks = append(m.unlocks, unlock)
	}
	return ctx.Err()
}

func (m *many) unlock() {
	for _, unlock := range m.unlocks {
		unlock()
	}
}

// prepare looks every name up and lays its record out.
func (m *many) prepare() {
	s := m.store
	// What earlier objects of the same request are for plain tar: "a" comes before
	// "a/b", which then cannot have it as a directory.
	file, directory := make(map[string]bool), make(map[string]bool)
	for _, x := range m.members {
		x.epoch = s.epoch.Load()
		x.all, _ = s.find(x.rec.Name) // what cannot be asked is superseded later, as for a single write
		x.rec.Hidden, x.parents = s.plainName(x.rec.Name)
		if slices.ContainsFunc(x.parents, func(path string) bool { return file[path] }) {
			x.rec.Hidden, x.parents = true, nil
		}
		x.parents = slices.DeleteFunc(x.parents, func(path string) bool { return directory[path] })
		for _, path := range x.parents {
			directory[path] = true
		}
		file[x.rec.Name.Key] = !x.rec.Hidden
		head := pack.HeadLen(&x.rec)
		x.buf = append(s.buffers.get(head + int64(len(x.content.Bytes)) + pack.Block)[:head], x.content.Bytes...)
		if x.err = x.pending.prepare(nil); x.err == nil {
			s.hot.begin(x.hash)
		}
	}
}

// commit gives all of them to the logs of their disks, and then waits.
func (m *many) commit() {
	byDrive := make(map[*drive][]*change)
	for _, x := range m.members {
		if x.err != nil {
			continue
		}
		d := x.candidates[0]
		c, err := x.pending.change(d)
		if err != nil {
			c = &change{err: err}
		} else {
			byDrive[d] = append(byDrive[d], c)
		}
		x.change = c
	}
	for d, changes := range byDrive {
		d.log.commitAll(changes)
	}
	for _, x := range m.members {
		if x.err == nil {
			_, x.err = x.conclude(x.try(x.change, x.change.err))
		}
		m.errs[x.number] = x.err
		if x.draft != nil {
			m.store.buffers.put(x.draft.Buffer())
		}
	}
}
