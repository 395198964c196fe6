package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"runtime/debug"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// Verify reads all of the manifest and reports what is wrong with it: blocks that
// are damaged, a logical part that has another hash, tables that contradict one
// another, samples that do not fit into their shards. It needs no memory to speak of.
func (m *Manifest) Verify(ctx context.Context) (err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.verifyBlocks(ctx); err != nil {
		return err
	}
	if err := m.verifyPadding(); err != nil {
		return err
	}
	if err := m.verifyHash(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		count  int64
		verify func(int64) error
	}{
		{m.shards, m.verifyShard},
		{m.samples, m.verifySample},
		{m.samples, m.verifyRank},
		{bucketCount(m.samples), m.verifyBucket},
	} {
		for i := range step.count {
			if i&0xfff == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := step.verify(i); err != nil {
				return err
			}
		}
	}
	return m.verifyColumns()
}

// verifyPadding looks for something between the sections.
func (m *Manifest) verifyPadding() error {
	for i, s := range m.sections {
		end := m.tableAt
		if i+1 < len(m.sections) {
			end = m.sections[i+1].offset
		}
		for _, b := range m.data[s.offset+s.length : end] {
			if b != 0 {
				return m.corrupt("there is something behind its %v", s.id)
			}
		}
	}
	return nil
}

func (m *Manifest) verifyHash(ctx context.Context) error {
	logical := sha256.New()
	logical.Write(m.description())
	for _, s := range m.bound {
		if s.kind >= firstIndex {
			continue
		}
		announce(logical, s)
		for from := s.offset; from < s.offset+s.length; from += 1 << blockBits {
			if err := ctx.Err(); err != nil {
				return err
			}
			logical.Write(m.data[from:min(from+1<<blockBits, s.offset+s.length)])
		}
	}
	if [sha256.Size]byte(logical.Sum(nil)) != m.logical {
		return m.corrupt("its logical part does not have the hash it should have")
	}
	return nil
}

func (m *Manifest) verifyShard(s int64) error {
	_, err := m.Shard(int(s))
	return err
}

func (m *Manifest) verifySample(i int64) error {
	key, err := m.bytes(&m.keyEnds, &m.keys, i)
	if err != nil {
		return err
	}
	if err := object.ValidateKey(string(key)); err != nil {
		return m.corrupt("sample %d: %w", i, err)
	}
	placed := false
	for f := range m.fields {
		here, err := m.verifyPiece(i, f)
		if err != nil {
			return err
		}
		placed = placed || (here && !m.fields[f].Apart)
	}
	if len(m.fields) > 0 && !placed && (little.Uint32(m.shardOf.bytes[4*i:]) != noShard || little.Uint64(m.offsets.bytes[8*i:]) != 0) {
		return m.corrupt("sample %d has a place and nothing that lies there", i)
	}
	for c := range m.columns {
		if err := m.verifyValue(i, c); err != nil {
			return err
		}
	}
	return nil
}

// verifyPiece also says whether the sample has the field.
func (m *Manifest) verifyPiece(i int64, f int) (here bool, err error) {
	p, err := m.piece(i, f)
	if err != nil {
		return false, err
	}
	of := &m.ofField[f]
	if p.Absent {
		for _, a := range []*area{&of.sums, &of.gaps} {
			if len(a.bytes) > 0 && little.Uint32(a.bytes[4*i:]) != 0 {
				return false, m.corrupt("sample %d has no field %d, and yet something in its %v", i, f, a.id)
			}
		}
		return false, nil
	}
	if size := little.Uint64(m.shardSizes.bytes[8*int64(p.Shard):]); uint64(p.Offset+p.Size) > size {
		return false, m.corrupt("field %d of sample %d reaches to %d in shard %d, which has %d bytes", f, i, p.Offset+p.Size, p.Shard, size)
	}
	return true, nil
}

func (m *Manifest) verifyValue(i int64, c int) error {
	v, err := m.value(i, c)
	if err != nil {
		return err
	}
	of, t := &m.ofColumn[c], m.columns[c].Type
	if t == Text && (len(v.Text) > MaxText || !utf8.ValidString(v.Text)) {
		return m.corrupt("sample %d has a text in column %d that is too long or not UTF-8", i, c)
	}
	if v.Missing {
		width := int64(valueWidth(t, m.classes[c]))
		if t == Text {
			if text, err := m.bytes(&of.values, &of.texts, i); err != nil || len(text) > 0 {
				return m.corrupt("sample %d has a text in column %d and should have none", i, c)
			}
		} else if !bytes.Equal(of.values.bytes[width*i:width*(i+1)], make([]byte, width)) {
			return m.corrupt("sample %d has a value in column %d and should have none", i, c)
		}
	}
	return nil
}

// verifyRank: each key comes after the one before it. So no number occurs twice,
// and there are as many as samples.
func (m *Manifest) verifyRank(rank int64) error {
	i, err := m.number(&m.byKey, rank)
	if err != nil || rank == 0 {
		return err
	}
	before, err := m.number(&m.byKey, rank-1)
	if err != nil {
		return err
	}
	key, err := m.bytes(&m.keyEnds, &m.keys, i)
	if err != nil {
		return err
	}
	last, err := m.bytes(&m.keyEnds, &m.keys, before)
	if err == nil && bytes.Compare(last, key) >= 0 {
		err = m.corrupt("sample %d comes before sample %d in the order by key", before, i)
	}
	return err
}

// verifyBucket: entries are in the bucket they belong to, and their numbers rise.
// So no number occurs twice, and there are as many as samples.
func (m *Manifest) verifyBucket(b int64) error {
	from, to, err := m.bucket(b)
	if err != nil {
		return err
	}
	count := bucketCount(m.samples)
	if (b == 0 && from != 0) || (b == count-1 && to != m.samples) {
		return m.corrupt("its hash index does not have one entry for each sample")
	}
	last := int64(-1)
	for at := from; at < to; at++ {
		i, err := m.number(&m.numbers, at)
		if err != nil {
			return err
		}
		key, err := m.bytes(&m.keyEnds, &m.keys, i)
		if err != nil {
			return err
		}
		hash := hashKey(key)
		if bucketOf(hash, count) != b || little.Uint16(m.prints.bytes[2*at:]) != uint16(hash) || i <= last {
			return m.corrupt("sample %d is in a wrong place of the hash index", i)
		}
		last = i
	}
	return nil
}

// verifyColumns checks what is beside the values themselves.
func (m *Manifest) verifyColumns() error {
	for c, col := range m.columns {
		of := &m.ofColumn[c]
		if rest := m.samples % 8; col.Optional && rest != 0 && of.present.bytes[m.samples/8]>>rest != 0 {
			return m.corrupt("column %d has a value behind the last sample", c)
		}
		ends := &of.values
		if col.Type == Class {
			ends = &of.classEnds
			if err := m.verifyClasses(c); err != nil {
				return err
			}
		}
		end := uint64(0)
		if n := len(ends.bytes); n > 0 && (col.Type == Text || col.Type == Class) {
			end = little.Uint64(ends.bytes[n-8:])
		}
		if end != uint64(len(of.texts.bytes)) {
			return m.corrupt("there is something behind the last of the %v", of.texts.id)
		}
	}
	return m.verifyEnds()
}

func (m *Manifest) verifyClasses(c int) error {
	names, err := m.Classes(c)
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := validClass(name); err != nil || seen[name] {
			return m.corrupt("column %d has a class %q, or has it twice", c, name)
		}
		seen[name] = true
	}
	return nil
}

// verifyEnds: names and tags of shards fill their sections.
func (m *Manifest) verifyEnds() error {
	for _, pair := range [][2]*area{{&m.nameEnds, &m.names}, {&m.tagEnds, &m.tags}, {&m.keyEnds, &m.keys}} {
		end := uint64(0)
		if n := len(pair[0].bytes); n > 0 {
			end = little.Uint64(pair[0].bytes[n-8:])
		}
		if end != uint64(len(pair[1].bytes)) {
			return m.corrupt("there is something behind the last of the %v", pair[1].id)
		}
	}
	return nil
}
