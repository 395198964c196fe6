package manifest

import (
	"math"
	"runtime/debug"

	"penstock.dev/penstock/internal/object"
)

// Key returns the key of sample i.
func (m *Manifest) Key(i int) (key string, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.checkSample(i); err != nil {
		return "", err
	}
	b, err := m.bytes(&m.keyEnds, &m.keys, int64(i))
	return string(b), err
}

// Piece returns how large field f of sample i is, and where it lies. That the shard
// reaches so far is checked by Verify only: reading it will show.
func (m *Manifest) Piece(i, f int) (p Piece, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.checkSample(i); err != nil {
		return Piece{}, err
	}
	if f < 0 || f >= len(m.fields) {
		return Piece{}, object.Errorf(object.NotFound, "%s has no field %d: it has %d", m, f, len(m.fields))
	}
	return m.piece(int64(i), f)
}

func (m *Manifest) piece(i int64, f int) (p Piece, err error) {
	of := &m.ofField[f]
	size, err := m.uint32(&of.sizes, i)
	if err != nil {
		return Piece{}, err
	}
	if size == absent {
		return Piece{Absent: true}, nil
	}
	p.Size = int64(size)
	if len(of.sums.bytes) > 0 {
		p.Checked = true
		if p.CRC32, err = m.uint32(&of.sums, i); err != nil {
			return Piece{}, err
		}
	}
	if p.Shard, p.Offset, err = m.place(i, f); err != nil {
		return Piece{}, err
	}
	switch {
	case int64(p.Shard) >= m.shards:
		return Piece{}, m.corrupt("sample %d lies in shard %d of %d", i, p.Shard, m.shards)
	case p.Offset < 0 || p.Offset > math.MaxInt64-p.Size:
		return Piece{}, m.corrupt("field %d of sample %d lies at %d", f, i, p.Offset)
	}
	return p, nil
}

// place returns where a field begins that is not absent. What overflows becomes a
// negative offset.
func (m *Manifest) place(i int64, f int) (shard uint32, offset int64, err error) {
	var gap uint32
	if f > 0 {
		if gap, err = m.uint32(&m.ofField[f].gaps, i); err != nil || m.forms[f] == ownShard {
			return gap, 0, err
		}
	}
	if shard, err = m.uint32(&m.shardOf, i); err != nil {
		return 0, 0, err
	}
	base, err := m.uint64(&m.offsets, i)
	if err != nil || base > math.MaxInt64 {
		return shard, -1, err
	}
	by := int64(int32(gap))
	if m.forms[f] == gapBlocks {
		by <<= 9
	}
	return shard, int64(base) + by, nil
}

// Sample returns all there is about sample i.
func (m *Manifest) Sample(i int) (s Sample, err error) {
	if s.Key, err = m.Key(i); err != nil {
		return Sample{}, err
	}
	s.Pieces = make([]Piece, len(m.fields))
	for f := range s.Pieces {
		if s.Pieces[f], err = m.Piece(i, f); err != nil {
			return Sample{}, err
		}
	}
	s.Values = make([]Value, len(m.columns))
	for c := range s.Values {
		if s.Values[c], err = m.Value(i, c); err != nil {
			return Sample{}, err
		}
	}
	return s, nil
}

// Shard returns what is known about shard s.
func (m *Manifest) Shard(s int) (shard Shard, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if s < 0 || int64(s) >= m.shards {
		return Shard{}, object.Errorf(object.NotFound, "%s has no shard %d: it has %d", m, s, m.shards)
	}
	n := int64(s)
	name, err := m.bytes(&m.nameEnds, &m.names, n)
	if err != nil {
		return Shard{}, err
	}
	tag, err := m.bytes(&m.tagEnds, &m.tags, n)
	if err != nil {
		return Shard{}, err
	}
	size, err := m.uint64(&m.shardSizes, n)
	if err != nil {
		return Shard{}, err
	}
	if err := m.touch(&m.shardForms, n, n+1); err != nil {
		return Shard{}, err
	}
	shard = Shard{Name: string(name), Size: int64(size), Tag: string(tag), Format: Format(m.shardForms.bytes[n])}
	if err := shard.validate(); err != nil {
		return Shard{}, m.corrupt("shard %d: %w", s, err)
	}
	return shard, nil
}

func (m *Manifest) checkSample(i int) error {
	if i < 0 || int64(i) >= m.samples {
		return object.Errorf(object.NotFound, "%s has no sample %d: it has %d", m, i, m.samples)
	}
	return nil
}
