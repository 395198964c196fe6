package manifest

import (
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// Layout says how the pieces of a manifest lie in their new places.
type Layout struct {
	Apart []string // fields that are apart; see Field

	// Checksums says that the pieces of unchecked fields come with checksums, which
	// the new manifest keeps beside the logical part. Checksums that the manifest
	// learnt before are not taken over by themselves.
	Checksums bool
}

// Relocation makes a manifest with the same logical part, and so the same hash, and
// other locations. Until Finish has returned nothing has changed at the path.
type Relocation struct {
	from   *Manifest
	path   string
	spool  *spool
	fields []Field
	places *locations
	next   int
	done   bool
}

// Relocate begins a manifest that will be at path, which may be where m came from.
func (m *Manifest) Relocate(path string, l Layout) (*Relocation, error) {
	fields := slices.Clone(m.fields)
	for f := range fields {
		fields[f].Apart = slices.Contains(l.Apart, fields[f].Name)
	}
	for _, name := range l.Apart {
		if f, ok := m.Field(name); !ok || f == 0 {
			return nil, invalid("%q is none of the further fields", name)
		}
	}
	sp, err := newSpool(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	r := &Relocation{from: m, path: path, spool: sp, fields: fields, places: newLocations(sp, fields)}
	for f := range fields {
		if fields[f].Unchecked && l.Checksums {
			r.places.learnt[f] = sp.stream()
		}
	}
	return r, nil
}

// AddShard adds a shard, as that of a Writer.
func (r *Relocation) AddShard(s Shard) (uint32, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	return r.places.addShard(s)
}

// Add says where the pieces of the next sample lie: it must be called once for each
// sample, in their order. Sizes, and checksums that are known, must be those of the
// manifest; otherwise it is Invalid, and the same sample may be tried again.
func (r *Relocation) Add(pieces []Piece) error {
	if err := r.check(); err != nil {
		return err
	}
	if err := r.checkPieces(pieces); err != nil {
		return object.Errorf(object.KindOf(err), "sample %d: %w", r.next, err)
	}
	r.next++
	r.places.add(pieces)
	return r.spool.err
}

func (r *Relocation) checkPieces(pieces []Piece) error {
	if len(pieces) != len(r.fields) {
		return invalid("it has %d pieces, not %d", len(pieces), len(r.fields))
	}
	for f := range pieces {
		p, name := &pieces[f], r.fields[f].Name
		was, err := r.from.Piece(r.next, f)
		if err != nil {
			return err
		}
		if err := p.check(name); err != nil {
			return err
		}
		switch {
		case p.Absent != was.Absent:
			return invalid("field %q is there in one manifest and absent in the other", name)
		case p.Size != was.Size:
			return invalid("field %q has %d bytes, and had %d", name, p.Size, was.Size)
		case p.CRC32 != was.CRC32 && !r.fields[f].Unchecked:
			return invalid("field %q has checksum %08x, and had %08x", name, p.CRC32, was.CRC32)
		}
	}
	return r.places.check(pieces)
}

func (r *Relocation) check() error {
	if r.done {
		return object.Errorf(object.Internal, "the manifest %s is finished or given up", r.path)
	}
	return r.spool.err
}

// Finish writes the manifest and returns when it is durable. Whatever it returns,
// the Relocation is at its end.
func (r *Relocation) Finish() error {
	if err := r.check(); err != nil {
		r.Abort()
		return err
	}
	defer r.Abort()
	if r.next != r.from.Len() {
		return invalid("%d of %d samples have a place", r.next, r.from.Len())
	}
	forms, parts, err := r.places.finish()
	if err != nil {
		return err
	}
	h := r.from.head
	h.mayIgnore = 0 // sections of unknown kinds stay behind
	h.fields, h.forms, h.shards = r.fields, forms, int64(len(r.places.shardSizes))
	for _, s := range r.from.bound {
		if s.kind < firstPlace {
			parts = append(parts, r.from.as(s))
		}
	}
	return assemble(r.path, &h, parts)
}

// Abort ends the Relocation and removes what it left. After Finish it does nothing.
func (r *Relocation) Abort() {
	if !r.done {
		r.done = true
		r.spool.close()
	}
}

// as makes a section out of one that is there already.
func (m *Manifest) as(s section) part {
	return part{id: s.id, length: s.length, write: func(w io.Writer) error {
		a := area{id: s.id, offset: s.offset, bytes: m.data[s.offset:][:s.length]}
		buffer := make([]byte, 0, 1<<blockBits)
		for from := int64(0); from < s.length; from += int64(len(buffer)) {
			to := min(from+1<<blockBits, s.length)
			var err error
			if buffer, err = m.copied(buffer[:0], &a, from, to); err != nil {
				return err
			}
			if _, err := w.Write(buffer); err != nil {
				return err
			}
		}
		return nil
	}}
}

// copied takes bytes out of the mapping.
func (m *Manifest) copied(to []byte, a *area, from, end int64) (_ []byte, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.touch(a, from, end); err != nil {
		return nil, err
	}
	return append(to, a.bytes[from:end]...), nil
}
