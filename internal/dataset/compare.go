package dataset

import (
	"context"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// difference is what has to be done to come from the last version to a listing.
type difference struct {
	kept   []bool   // by sample of the last version: it stays where it is
	chosen []uint32 // samples of the listing that are written; nil: all

	added, changed, removed int64
}

// none reports whether there is nothing to do.
func (d *difference) none() bool { return d.chosen != nil && d.added+d.changed+d.removed == 0 }

// compare finds out which samples of a listing are in the last version as they are
// now. A file is not read for that if it comes from the same origin as that version
// did and was not changed since; others are, and compared by their checksums. An
// origin that knows checksums is believed.
func (m *maker) compare(ctx context.Context, y layout) (*difference, error) {
	l, last := y.listing, m.base.last
	d := &difference{}
	if last == nil {
		d.added = int64(l.len())
		return d, nil
	}
	m.step("comparing", int64(l.len()), 0)
	differs := make([]bool, l.len())
	found := make([]bool, last.Len())
	d.kept = make([]bool, last.Len())
	comparers := sync.Pool{New: func() any { return m.comparer(y) }}
	var failure atomic.Pointer[error]
	var added, changed atomic.Int64
	parallel(m.workers(), l.len(), 256, func(from, to int) {
		c := comparers.Get().(*comparer)
		defer comparers.Put(c)
		for sample := from; sample < to && ctx.Err() == nil && failure.Load() == nil; sample++ {
			old, err := last.Find(l.key(uint32(sample)))
			switch {
			case object.Is(err, object.NotFound):
				differs[sample] = true
				added.Add(1)
				continue
			case err != nil:
				failure.Store(&err)
				return
			}
			found[old] = true
			same := !m.opts.Repack && !c.strange
			if same {
				if same, err = c.same(ctx, uint32(sample), old); err != nil {
					failure.Store(&err)
					return
				}
			}
			if same {
				d.kept[old] = true
			} else {
				differs[sample] = true
				changed.Add(1)
			}
			m.samples.Add(1)
		}
	})
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.added, d.changed = added.Load(), changed.Load()
	for _, f := range found {
		if !f {
			d.removed++
		}
	}
	if m.opts.Repack {
		d.changed = 0 // that is not known: all were written
		return d, nil
	}
	d.chosen = []uint32{}
	for sample, differs := range differs {
		if differs {
			d.chosen = append(d.chosen, uint32(sample))
		}
	}
	return d, nil
}

// comparer compares samples with those of the last version.
type comparer struct {
	*maker
	layout
	trusted bool           // files that were not changed since the last version need not be read
	strange bool           // nothing of the last version can be kept: it was not made by Create
	fields  map[string]int // of the last version
	members []member
	buffer  []byte
}

func (m *maker) comparer(y layout) *comparer {
	c := &comparer{maker: m, layout: y, trusted: m.base.note.sameAs(m.note), fields: map[string]int{}}
	for i, f := range m.base.last.Fields() {
		c.fields[f.Name] = i
		c.strange = c.strange || f.Unchecked || f.Apart
	}
	return c
}

// same reports whether a sample of the listing is the one that the last version has.
func (c *comparer) same(ctx context.Context, sample uint32, old int) (bool, error) {
	was, err := c.base.last.Sample(old)
	if err != nil {
		return false, err
	}
	had := 0
	for _, p := range was.Pieces {
		if !p.Absent {
			had++
		}
	}
	for _, v := range was.Values {
		if !v.Missing {
			had++
		}
	}
	c.members = c.append(c.members[:0], sample)
	if had != len(c.members) {
		return false, nil
	}
	from, _ := c.listing.sample(sample)
	f, first := c.listing.at(from)
	for i := range c.members {
		m := &c.members[i]
		if m.path == "" {
			continue // its folder is in its key
		}
		_, field, _ := cutName(f.name(first + i))
		number, known := c.fields[field]
		switch {
		case m.column >= 0 && was.Values[m.column].Missing:
			return false, nil
		case m.column < 0 && (!known || was.Pieces[number].Absent || was.Pieces[number].Size != m.size):
			return false, nil
		case !m.summed && c.trusted && c.base.note.before(f.stamps[first+i]):
			continue
		case m.column >= 0:
			v, err := c.column(ctx, m)
			if err != nil || v != valueOnly(was.Values[m.column]) {
				return false, nil
			}
			continue
		}
		crc, ok := m.sum, m.summed
		if !ok {
			crc, ok = c.sum(ctx, m)
		}
		if !ok || crc != was.Pieces[number].CRC32 {
			return false, nil // a file that cannot be read is found again by the packer, which says why
		}
	}
	return true, nil
}

// valueOnly leaves out the number of a class, which only a manifest knows.
func valueOnly(v manifest.Value) manifest.Value {
	if v.Text != "" {
		v.Int = 0
	}
	return v
}

func (c *comparer) column(ctx context.Context, m *member) (manifest.Value, error) {
	wants := []want{{path: m.path, dst: make([]byte, m.size, m.size+1)}}
	if c.from.read(ctx, wants); wants[0].err != nil {
		return manifest.Value{}, wants[0].err
	}
	return value(&c.shape.list[m.column], string(wants[0].dst))
}

// sum returns the checksum of a file.
func (c *comparer) sum(ctx context.Context, m *member) (crc uint32, ok bool) {
	if c.buffer == nil {
		c.buffer = make([]byte, bufferSize+1)
	}
	if m.size <= bufferSize {
		wants := []want{{path: m.path, dst: c.buffer[: m.size : m.size+1]}}
		c.from.read(ctx, wants)
		return wants[0].crc, wants[0].err == nil
	}
	in, err := c.from.stream(ctx, m.path)
	if err != nil {
		return 0, false
	}
	defer in.Close()
	for ctx.Err() == nil {
		n, err := in.Read(c.buffer)
		crc = crc32.Update(crc, crc32.IEEETable, c.buffer[:n])
		if err != nil {
			return crc, err == io.EOF
		}
	}
	return 0, false
}

// addKept adds the samples that stay where they are, in their order.
func (m *maker) addKept(ctx context.Context, w *manifest.Writer, d *difference, fields []manifest.Field) error {
	last := m.base.last
	if last == nil {
		return nil
	}
	shards := map[uint32]uint32{} // their numbers then and now
	old := make([]int, len(fields))
	for f := range fields {
		old[f] = -1
		if number, ok := last.Field(fields[f].Name); ok {
			old[f] = number
		}
	}
	for i, kept := range d.kept {
		if !kept {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		s, err := last.Sample(i)
		if err != nil {
			return err
		}
		pieces := make([]manifest.Piece, len(fields))
		for f := range fields {
			pieces[f] = manifest.Piece{Absent: true}
			if old[f] < 0 || s.Pieces[old[f]].Absent {
				continue
			}
			p := s.Pieces[old[f]]
			if p.Shard, err = m.keepShard(w, shards, p.Shard); err != nil {
				return err
			}
			pieces[f] = p
			m.report.Bytes += p.Size
		}
		if err := w.Add(&manifest.Sample{Key: s.Key, Pieces: pieces, Values: s.Values}); err != nil {
			return err
		}
		m.report.Kept++
	}
	m.report.Samples += m.report.Kept
	return nil
}

// keepShard returns the number that a shard of the last version has in this one.
func (m *maker) keepShard(w *manifest.Writer, shards map[uint32]uint32, was uint32) (uint32, error) {
	if now, ok := shards[was]; ok {
		return now, nil
	}
	s, err := m.base.last.Shard(int(was))
	if err != nil {
		return 0, err
	}
	now, err := w.AddShard(s)
	shards[was] = now
	return now, err
}

// sameColumns refuses to build on a version with other columns: nobody has read
// their values.
func (m *maker) sameColumns() error {
	if m.base.last == nil || m.opts.Repack {
		return nil
	}
	was, now := m.base.last.Columns(), m.opts.columns()
	same := len(was) == len(now)
	for i := 0; same && i < len(was); i++ {
		same = was[i].Name == now[i].Name && was[i].Type == now[i].Type
	}
	if !same {
		return invalid("version %d has other columns: ask for the same ones in the same order, or use --repack", m.base.version)
	}
	return nil
}
