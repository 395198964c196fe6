package manifest

import "math"

// locations gathers where the pieces of all samples lie. A sample has one place,
// that of its first field which is not apart; the others lie relative to it, before
// or behind, at a distance of 32 bits. Whether it counts bytes or blocks of 512,
// which is what tars need when a field has gigabytes, is decided for each field at
// the end.
type locations struct {
	fields   []Field
	shardOf  *stream
	offsets  *stream
	distance []distance // of each field
	learnt   []*stream  // of each field; nil: its checksums are known or remain unknown

	shardSizes []int64
	pending    map[uint32]int64 // shards that have samples and were not added yet: up to where

	sizes, forms, nameEnds, names, tagEnds, tags *stream
}

// distance is where a field lies relative to its sample, or which shard it is.
type distance struct {
	stream *stream // int64
	next   int64   // of the sample that is being added
	odd    bool    // one is not a number of blocks
	far    bool    // one needs more than 32 bits
}

func newLocations(sp *spool, fields []Field) *locations {
	l := &locations{
		fields: fields, shardOf: sp.stream(), offsets: sp.stream(),
		distance: make([]distance, len(fields)), learnt: make([]*stream, len(fields)),
		pending: make(map[uint32]int64),
		sizes:   sp.stream(), forms: sp.stream(), nameEnds: sp.stream(), names: sp.stream(), tagEnds: sp.stream(), tags: sp.stream(),
	}
	for f := range l.distance {
		l.distance[f].stream = sp.stream()
	}
	return l
}

func (l *locations) addShard(s Shard) (uint32, error) {
	number := int64(len(l.shardSizes))
	if number >= MaxShards {
		return 0, invalid("there cannot be more than %d shards", int64(MaxShards))
	}
	if err := s.validate(); err != nil {
		return 0, err
	}
	if reach := l.pending[uint32(number)]; reach > s.Size {
		return 0, invalid("shard %q has %d bytes, and a sample in it reaches to %d", s.Name, s.Size, reach)
	}
	delete(l.pending, uint32(number))
	l.shardSizes = append(l.shardSizes, s.Size)
	l.sizes.uint64(uint64(s.Size))
	l.forms.byte(byte(s.Format))
	l.names.string(s.Name)
	l.nameEnds.uint64(uint64(l.names.length))
	l.tags.string(s.Tag)
	l.tagEnds.uint64(uint64(l.tags.length))
	return uint32(number), l.sizes.spool.err
}

// check looks whether the pieces of a sample can be placed, and keeps their
// distances for add. It changes nothing otherwise.
func (l *locations) check(pieces []Piece) error {
	base := -1
	for f := range pieces {
		p, d := &pieces[f], &l.distance[f]
		if d.next = 0; p.Absent {
			continue
		}
		if err := l.checkPlace(f, p); err != nil {
			return err
		}
		if l.fields[f].Apart {
			d.next = int64(p.Shard)
			continue
		}
		if base < 0 {
			base = f
		}
		if p.Shard != pieces[base].Shard {
			return invalid("field %q lies in shard %d and field %q of the same sample in shard %d", l.fields[f].Name, p.Shard, l.fields[base].Name, pieces[base].Shard)
		}
		d.next = p.Offset - pieces[base].Offset
		odd, far := d.next&511 != 0, d.next != int64(int32(d.next))
		if d.next>>9 != int64(int32(d.next>>9)) || ((odd || d.odd) && (far || d.far)) {
			return invalid("field %q lies %d bytes from field %q, which is too far", l.fields[f].Name, d.next, l.fields[base].Name)
		}
	}
	return nil
}

func (l *locations) checkPlace(f int, p *Piece) error {
	switch {
	case p.Shard >= MaxShards:
		return invalid("field %q lies in shard %d, beyond the last possible", l.fields[f].Name, p.Shard)
	case p.Offset < 0 || p.Offset > math.MaxInt64-p.Size:
		return invalid("field %q cannot lie at %d", l.fields[f].Name, p.Offset)
	case l.fields[f].Apart && p.Offset != 0:
		return invalid("field %q is apart and must begin at 0, not at %d", l.fields[f].Name, p.Offset)
	case int64(p.Shard) < int64(len(l.shardSizes)) && p.Offset+p.Size > l.shardSizes[p.Shard]:
		return invalid("field %q reaches to %d in shard %d, which has %d bytes", l.fields[f].Name, p.Offset+p.Size, p.Shard, l.shardSizes[p.Shard])
	}
	return nil
}

// add takes pieces that were checked just before.
func (l *locations) add(pieces []Piece) {
	shard, offset := uint32(noShard), int64(0)
	for f := range pieces {
		p, d := &pieces[f], &l.distance[f]
		if !p.Absent {
			if int64(p.Shard) >= int64(len(l.shardSizes)) {
				l.pending[p.Shard] = max(l.pending[p.Shard], p.Offset+p.Size)
			}
			if !l.fields[f].Apart {
				if shard == noShard {
					shard, offset = p.Shard, p.Offset
				}
				d.odd = d.odd || d.next&511 != 0
				d.far = d.far || d.next != int64(int32(d.next))
			}
		}
		if f > 0 {
			d.stream.uint64(uint64(d.next))
		}
		if l.learnt[f] != nil {
			l.learnt[f].uint32(p.CRC32)
		}
	}
	if len(pieces) > 0 {
		l.shardOf.uint32(shard)
		l.offsets.uint64(uint64(offset))
	}
}

// finish returns how each field is placed, and the sections.
func (l *locations) finish() (forms []byte, parts []part, err error) {
	for shard := range l.pending {
		return nil, nil, invalid("a sample lies in shard %d, and there are %d", shard, len(l.shardSizes))
	}
	forms = make([]byte, len(l.fields))
	if len(l.fields) > 0 {
		parts = append(parts, l.shardOf.as(shardOf, 0), l.offsets.as(offsets, 0))
	}
	for f := 1; f < len(l.fields); f++ {
		shift := 0
		switch {
		case l.fields[f].Apart:
			forms[f] = ownShard
		case l.distance[f].far:
			forms[f], shift = gapBlocks, 9
		default:
			forms[f] = gapBytes
		}
		parts = append(parts, l.distance[f].stream.converted(gaps, f, 8, 4, func(v uint64) uint64 { return uint64(int64(v) >> shift) }))
	}
	for f, s := range l.learnt {
		if s != nil {
			parts = append(parts, s.as(learnt, f))
		}
	}
	return forms, append(parts, l.sizes.as(shardSizes, 0), l.forms.as(shardForms, 0),
		l.nameEnds.as(nameEnds, 0), l.names.as(names, 0), l.tagEnds.as(tagEnds, 0), l.tags.as(tags, 0)), nil
}
