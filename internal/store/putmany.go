package store

import (
	"cmp"
	"context"
	"hash/crc32"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// PutMany stores objects that lie in memory, together: they share the sync of the
// log, and are written from where they lie. It returns an error for each of them, nil
// for those that are stored. Each is stored whole or not at all. An object that is too
// large to lie in a pack, that comes twice, or that has not the checksum it should is
// Invalid.
func (s *Store) PutMany(ctx context.Context, bucket string, objects []object.Upload) []error {
	m := &many{store: s, errs: make([]error, len(objects))}
	cost := m.sort(bucket, objects)
	if len(m.members) == 0 {
		return m.errs
	}
	if err := s.memory.Acquire(ctx, cost); err != nil {
		m.failAll(err)
		return m.errs
	}
	defer s.memory.Release(cost)
	defer m.unlock()
	err := m.lock(ctx)
	if err == nil {
		err = m.prepare()
	}
	if err != nil {
		m.failAll(err)
		return m.errs
	}
	m.commit()
	s.buffers.put(m.heads)
	return m.errs
}

// many is a number of objects on their way in.
type many struct {
	store   *Store
	errs    []error   // by number of the object
	members []*member // in the order of their names
	locked  int       // of the members
	heads   []byte    // of their records
}

// member is one of them. What it needs on its way is part of it, so that a thousand
// of them cost one allocation.
type member struct {
	pending
	number  int
	content *object.Upload
	crc     uint32
	lock    keyLock
	laid    pack.Draft
	first   change // on the disk that is tried first
	err     error
}

// sort finds out which objects can be stored, and brings them into the order of
// their names, in which they are locked. It returns how many bytes they have.
func (m *many) sort(bucket string, objects []object.Upload) (bytes int64) {
	all := make([]member, len(objects))
	m.members = make([]*member, 0, len(objects))
	for i := range objects {
		x := &all[i]
		x.store, x.number, x.content = m.store, i, &objects[i]
		x.rec = pack.Record{Kind: pack.Object, Name: object.Name{Bucket: bucket, Key: objects[i].Key}, ContentType: objects[i].ContentType}
		if m.errs[i] = x.acceptable(); m.errs[i] == nil {
			m.members = append(m.members, x)
			bytes += int64(len(objects[i].Bytes))
		}
	}
	slices.SortFunc(m.members, func(a, b *member) int {
		return cmp.Or(strings.Compare(a.rec.Name.Key, b.rec.Name.Key), a.number-b.number)
	})
	m.members = slices.CompactFunc(m.members, func(later, first *member) bool {
		if later.rec.Name.Key != first.rec.Name.Key {
			return false
		}
		m.errs[later.number] = object.Errorf(object.Invalid, "%s comes twice", later.rec.Name)
		return true
	})
	return min(bytes, m.store.opts.WriteMemory)
}

func (x *member) acceptable() error {
	if err := x.rec.Name.ValidateStored(); err != nil {
		return err
	}
	o, most := x.content, x.store.opts.InlineMax
	if size := int64(len(o.Bytes)); size > most {
		return object.Errorf(object.Invalid, "%s has %d bytes: more than %d cannot be stored with others", x.rec.Name, size, most)
	}
	x.crc = crc32.ChecksumIEEE(o.Bytes)
	if o.Checked && x.crc != o.CRC32 {
		return object.Errorf(object.Invalid, "the bytes have CRC-32 %08x, not %08x as announced", x.crc, o.CRC32)
	}
	return nil
}

func (m *many) failAll(err error) {
	for _, x := range m.members {
		m.errs[x.number] = err
	}
}

func (m *many) lock(ctx context.Context) error {
	for _, x := range m.members {
		if err := m.store.keys.acquire(ctx, x.rec.Name, &x.lock); err != nil {
			return err
		}
		m.locked++
	}
	return ctx.Err()
}

func (m *many) unlock() {
	for _, x := range m.members[:m.locked] {
		m.store.keys.release(x.rec.Name)
	}
}

// prepare looks every name up and lays its record out.
func (m *many) prepare() error {
	s := m.store
	version, err := s.roster.versions(s.opts.Map, uint64(len(m.members)))
	if err != nil {
		return err
	}
	now := s.opts.Clock()
	heads := m.plainNames()
	m.hash()
	for _, x := range m.members {
		x.epoch = s.epoch.Load()
		x.all, _ = s.find(x.rec.Name) // what cannot be asked is superseded later, as for a single write
		x.err = x.address(version, now, nil)
		version.Counter++
		if x.err != nil {
			continue
		}
		n := pack.HeadLen(&x.rec)
		x.draft = &x.laid
		x.draft.Lay(x.rec, heads[:n:n], x.content.Bytes, x.crc)
		heads = heads[n:]
		if x.err = x.draft.Validate(); x.err == nil {
			s.hot.begin(x.hash)
		}
	}
	return nil
}

// plainNames decides which names plain tar can see, and returns room for the heads.
func (m *many) plainNames() []byte {
	// What earlier objects of the same request are for plain tar: "a" comes before
	// "a/b", which then cannot have it as a directory.
	file, directory := make(map[string]bool, len(m.members)), make(map[string]bool)
	var room int64
	for _, x := range m.members {
		x.rec.Hidden, x.parents = m.store.plainName(x.rec.Name)
		if slices.ContainsFunc(x.parents, func(path string) bool { return file[path] }) {
			x.rec.Hidden, x.parents = true, nil
		}
		x.parents = slices.DeleteFunc(x.parents, func(path string) bool { return directory[path] })
		for _, path := range x.parents {
			directory[path] = true
		}
		file[x.rec.Name.Key] = !x.rec.Hidden
		room += pack.HeadLen(&x.rec)
	}
	m.heads = m.store.buffers.get(room)[:room]
	return m.heads
}

func (m *many) hash() {
	hashes := make([]uint64, len(m.members))
	for i, x := range m.members {
		x.hash = hashName(x.rec.Name)
		hashes[i] = x.hash
	}
	m.store.hot.touch(hashes)
}

// commit gives all of them to the logs of their disks, one disk after the other.
func (m *many) commit() {
	byDrive := make(map[*drive][]*change)
	for _, x := range m.members {
		if x.err != nil {
			continue
		}
		d := x.candidates[0]
		if err := x.describe(&x.first, d); err != nil {
			x.first.err = err
			continue
		}
		byDrive[d] = append(byDrive[d], &x.first)
	}
	for d, changes := range byDrive {
		d.log.commitAll(changes)
	}
	for _, x := range m.members {
		if x.err == nil {
			_, x.err = x.conclude(x.try(&x.first, x.first.err))
		}
		m.errs[x.number] = x.err
	}
}
