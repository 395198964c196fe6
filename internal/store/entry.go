package store

import (
	"encoding/binary"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// entry is a name's newest record on one disk, as the index knows it.
type entry struct {
	drive *drive
	pack  uint64
	pack.Stub
}

func (e *entry) append(b []byte) []byte {
	return e.Stub.Append(binary.AppendUvarint(b, e.pack))
}

func parseEntry(d *drive, value []byte) (e entry, err error) {
	id, n := binary.Uvarint(value)
	if n <= 0 {
		return e, object.Errorf(object.Corrupt, "malformed index entry")
	}
	e = entry{drive: d, pack: id}
	e.Stub, _, err = pack.ParseStub(value[n:])
	return e, err
}

func (e *entry) place(hash uint64) place {
	return place{
		hash: hash, version: e.Version, pack: e.pack, offset: e.Offset, payload: e.Payload,
		head: int32(e.Head), drive: int16(e.drive.number), extents: e.Extents,
	}
}

// newer reports whether e is to be believed rather than f. At equal versions what is
// live beats the tombstone that says it lies on another disk.
func (e *entry) newer(f *entry) bool {
	if c := e.Version.Compare(f.Version); c != 0 {
		return c > 0
	}
	return e.live() && f.Kind == pack.Tombstone
}

// live reports whether the entry is of something that is there: an object, or the
// mark of a deletion that is a version of it.
func (e *entry) live() bool { return e.Kind != pack.Tombstone }

// get asks the disk's index for a name.
func (d *drive) get(name object.Name) (e entry, ok bool, err error) {
	if err := d.readable(); err != nil {
		return e, false, err
	}
	if e, ok, err = d.lookup(name); err != nil {
		d.indexFailed(err)
	}
	return e, ok, err
}

func (d *drive) lookup(name object.Name) (e entry, ok bool, err error) {
	var kb [256]byte
	var vb [128]byte
	x := d.idx()
	value, ok, err := x.Get(objectKey(kb[:0], name), vb[:0])
	if err != nil && x != d.idx() {
		return d.lookup(name) // it was replaced meanwhile
	}
	if err != nil || !ok {
		return e, false, err
	}
	e, err = parseEntry(d, value)
	return e, err == nil, err
}

// find asks every disk and returns all they know of a name, the newest first. It
// is an error if a disk that may know better cannot be asked: if no object was
// found, or one on a disk that newer records may have passed by.
func (s *Store) find(name object.Name) (all []entry, err error) {
	all, err = s.ask(name)
	// A tombstone may say that the object has moved to a disk that was asked just
	// before. One that is the newest twice says that it is gone.
	for len(s.drives) > 1 && len(all) > 0 && all[0].Kind == pack.Tombstone {
		last := all[0].Version
		if all, err = s.ask(name); len(all) > 0 && all[0].Version == last {
			break
		}
	}
	return all, err
}

func (s *Store) ask(name object.Name) (all []entry, err error) {
	for _, d := range s.drives {
		e, ok, derr := d.get(name)
		if derr != nil {
			err = derr
		}
		if ok {
			all = append(all, e)
			if last := len(all) - 1; all[last].newer(&all[0]) {
				all[0], all[last] = all[last], all[0]
			}
		}
	}
	if len(all) > 0 && all[0].live() && (all[0].drive.trusted() || s.complete()) {
		return all, nil
	}
	if err != nil {
		return all, object.Errorf(object.Unavailable, "%s: %w", name, err)
	}
	if len(s.absent) > 0 {
		return all, object.Errorf(object.Unavailable, "%s may lie on a disk that is absent (%s)", name, s.absent[0])
	}
	return all, nil
}

// current returns the newest of what find returned, if it is live, else nil.
func current(all []entry) *entry {
	if len(all) > 0 && all[0].live() {
		return &all[0]
	}
	return nil
}

func notFound(name object.Name) error {
	return object.Errorf(object.NotFound, "%s does not exist", name)
}
