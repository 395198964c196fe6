package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"penstock.dev/penstock/internal/object"
)

const (
	magic         = "PenstMan"
	formatVersion = 1
	knownFeatures = 0 // no bit has a meaning yet

	alignment = 64
	fixedHead = 144                      // what comes before the logical description
	blockBits = 16                       // a block of 64 KiB has a checksum of its own
	maxHead   = 1<<blockBits - alignment // so that the first section begins in the first block
)

// How a further field is placed.
const (
	gapBytes  = 1 // so many bytes from the sample's offset, signed
	gapBlocks = 2 // so many blocks of 512 bytes
	ownShard  = 3 // in the shard of this number, from its beginning
)

var little = binary.LittleEndian

// head is the beginning of the file, which says all that is needed to find the rest.
type head struct {
	about     Info
	mayIgnore uint32 // feature bits
	samples   int64
	shards    int64
	fields    []Field
	forms     []byte // of each field: how it is placed; zero for the first
	columns   []Column
	classes   []uint32 // of each column
	logical   [sha256.Size]byte
	table     [sha256.Size]byte // of the table of block checksums
	tableAt   int64             // where it begins, behind the last section
	sections  []section
	length    int64 // of the head, if it was parsed
}

// description is the logical part's own: how many samples, fields and columns.
// The logical hash begins with it.
func (h *head) description() []byte {
	b := little.AppendUint64(nil, uint64(h.samples))
	b = little.AppendUint32(b, h.about.ChunkSamples)
	b = little.AppendUint16(b, uint16(len(h.fields)))
	b = little.AppendUint16(b, uint16(len(h.columns)))
	for _, f := range h.fields {
		b = append(b, bit(f.Unchecked), byte(len(f.Name)))
		b = append(b, f.Name...)
	}
	for c, col := range h.columns {
		b = append(b, byte(col.Type), bit(col.Optional))
		b = little.AppendUint32(b, h.classes[c])
		b = append(b, byte(len(col.Name)))
		b = append(b, col.Name...)
	}
	return b
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// blocks is how many checksums the table has.
func (h *head) blocks() int64 { return (h.tableAt + 1<<blockBits - 1) >> blockBits }

// fileSize is the length of the file.
func (h *head) fileSize() int64 { return h.tableAt + 4*h.blocks() }

// encode returns the head's bytes. Their number does not depend on what is known
// only after the sections were written.
func (h *head) encode() []byte {
	description := h.description()
	b := make([]byte, fixedHead, 4096)
	copy(b, magic)
	little.PutUint32(b[8:], formatVersion)
	little.PutUint32(b[12:], knownFeatures)
	little.PutUint32(b[24:], h.mayIgnore)
	little.PutUint32(b[28:], uint32(len(h.sections)))
	little.PutUint64(b[32:], uint64(h.fileSize()))
	little.PutUint64(b[40:], uint64(h.tableAt))
	little.PutUint64(b[48:], h.about.Version)
	if !h.about.Created.IsZero() {
		little.PutUint64(b[56:], uint64(h.about.Created.UnixNano()))
	}
	little.PutUint64(b[64:], h.about.Seed)
	little.PutUint32(b[72:], uint32(len(description)))
	copy(b[80:], h.logical[:])
	copy(b[112:], h.table[:])
	b = append(b, description...)
	b = little.AppendUint32(b, uint32(h.shards))
	b = append(b, h.forms...)
	b = append(b, byte(len(h.about.Name)))
	b = append(b, h.about.Name...)
	b = append(b, make([]byte, -len(b)&7)...)
	for _, s := range h.sections {
		b = little.AppendUint16(b, uint16(s.kind))
		b = little.AppendUint16(b, s.item)
		b = little.AppendUint32(b, 0)
		b = little.AppendUint64(b, uint64(s.offset))
		b = little.AppendUint64(b, uint64(s.length))
	}
	b = append(b, make([]byte, -len(b)&(alignment-1))...)
	little.PutUint32(b[16:], uint32(len(b)))
	little.PutUint32(b[20:], crc32.ChecksumIEEE(b))
	return b
}

// parseHead reads the head of a file of the given bytes, and checks everything in
// it that can be checked without looking at the sections.
func parseHead(data []byte) (*head, error) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, invalid("it is no manifest: it does not begin with %q", magic)
	}
	if len(data) < fixedHead {
		return nil, corrupt("it ends in its head")
	}
	length := int64(little.Uint32(data[16:]))
	if length < fixedHead || length > maxHead || length > int64(len(data)) || length%alignment != 0 {
		return nil, corrupt("its head cannot have %d bytes", length)
	}
	raw := bytes.Clone(data[:length])
	crc := little.Uint32(raw[20:])
	little.PutUint32(raw[20:], 0)
	if crc32.ChecksumIEEE(raw) != crc {
		return nil, corrupt("its head is damaged")
	}
	// Only now is it certain that these are what was written, and not flipped bits.
	if format := little.Uint32(raw[8:]); format != formatVersion {
		return nil, invalid("it has format %d; this version of Penstock reads format %d", format, formatVersion)
	}
	if features := little.Uint32(raw[12:]); features&^knownFeatures != 0 {
		return nil, invalid("it has features %#x, which this version of Penstock does not know", features)
	}
	h, err := decode(raw)
	if err != nil {
		return nil, err
	}
	// Whatever is not as we would write it was not written by a Writer: bytes that
	// should be zero, lengths that disagree.
	if again := h.encode(); !bytes.Equal(again[:20], data[:20]) || !bytes.Equal(again[24:], data[24:length]) {
		return nil, corrupt("its head contradicts itself")
	}
	if size := h.fileSize(); size != int64(len(data)) {
		return nil, corrupt("it should have %d bytes, and has %d", size, len(data))
	}
	return h, nil
}

func decode(raw []byte) (*head, error) {
	h := &head{length: int64(len(raw)), mayIgnore: little.Uint32(raw[24:]), tableAt: int64(little.Uint64(raw[40:]))}
	h.about.Version, h.about.Seed = little.Uint64(raw[48:]), little.Uint64(raw[64:])
	if created := int64(little.Uint64(raw[56:])); created != 0 {
		h.about.Created = time.Unix(0, created).UTC()
	}
	copy(h.logical[:], raw[80:])
	copy(h.table[:], raw[112:])
	c := cursor{data: raw, at: fixedHead}
	samples := c.uint64()
	h.about.ChunkSamples = c.uint32()
	fields, columns := c.uint16(), c.uint16()
	if samples > MaxSamples || fields > MaxFields || columns > MaxColumns {
		return nil, corrupt("it cannot have %d samples, %d fields and %d columns", samples, fields, columns)
	}
	h.samples = int64(samples)
	for range fields {
		h.fields = append(h.fields, Field{Unchecked: c.byte() != 0, Name: c.string()})
	}
	for range columns {
		col := Column{Type: Type(c.byte()), Optional: c.byte() != 0}
		h.classes = append(h.classes, c.uint32())
		col.Name = c.string()
		h.columns = append(h.columns, col)
	}
	h.shards = int64(c.uint32())
	h.forms = bytes.Clone(c.take(len(h.fields)))
	h.about.Name = c.string()
	c.take(-c.at & 7)
	for range little.Uint32(raw[28:]) {
		s := section{id: id{kind: kind(c.uint16()), item: c.uint16()}}
		c.uint32()
		s.offset, s.length = int64(c.uint64()), int64(c.uint64())
		if c.short {
			break
		}
		h.sections = append(h.sections, s)
	}
	if c.short {
		return nil, corrupt("its head ends too early")
	}
	if err := h.check(); err != nil {
		return nil, corrupt("its head makes no sense: %w", err)
	}
	return h, nil
}

// check refuses what no Writer writes. Sections must follow one another without
// gaps behind the head, in the order of their kinds; the table follows them.
func (h *head) check() error {
	for f, form := range h.forms {
		switch {
		case (f == 0) != (form == 0) || form > ownShard:
			return invalid("field %d cannot be placed by form %d", f, form)
		case form == ownShard:
			h.fields[f].Apart = true
		}
	}
	if h.shards > MaxShards {
		return invalid("%d shards are more than %d", h.shards, int64(MaxShards))
	}
	for c, col := range h.columns {
		if (col.Type != Class && h.classes[c] != 0) || h.classes[c] > MaxClasses {
			return invalid("column %d cannot have %d classes", c, h.classes[c])
		}
	}
	if err := h.about.validate(h.fields, h.columns); err != nil {
		return err
	}
	end, last := h.length, id{item: math.MaxUint16} // there is no kind 0
	for _, s := range h.sections {
		switch {
		case s.offset != align(end):
			return invalid("the %v begin at %d, not at %d", s.id, s.offset, align(end))
		case s.length < 0 || s.length > math.MaxInt64/2-s.offset:
			return invalid("the %v have %d bytes", s.id, s.length)
		case s.kind < last.kind || (s.kind == last.kind && s.item <= last.item):
			return invalid("the %v come after the %v", s.id, last)
		}
		end, last = s.offset+s.length, s.id
	}
	if h.tableAt != align(end) {
		return invalid("the table of checksums begins at %d, not at %d", h.tableAt, align(end))
	}
	return nil
}

// validate is the check of what both a head and a Writer's options hold.
func (i *Info) validate(fields []Field, columns []Column) error {
	if err := validDataset(i.Name); err != nil {
		return err
	}
	if i.ChunkSamples == 0 {
		return invalid("a chunk must have at least one sample")
	}
	if len(fields) > MaxFields || len(columns) > MaxColumns {
		return invalid("%d fields and %d columns are more than %d and %d", len(fields), len(columns), MaxFields, MaxColumns)
	}
	seen := make(map[string]bool)
	for _, f := range fields {
		if err := unique(seen, f.Name); err != nil {
			return err
		}
	}
	for _, c := range columns {
		if err := unique(seen, c.Name); err != nil {
			return err
		}
		if c.Type < Int || c.Type > Class {
			return invalid("column %q has the unknown type %d", c.Name, c.Type)
		}
	}
	return nil
}

func unique(seen map[string]bool, name string) error {
	if err := validName(name); err != nil {
		return err
	}
	if seen[name] {
		return invalid("name %q is used twice", name)
	}
	seen[name] = true
	return nil
}

// cursor walks through the head. Behind its end everything is zero.
type cursor struct {
	data  []byte
	at    int
	short bool // the end was passed
}

func (c *cursor) take(n int) []byte {
	if len(c.data)-c.at < n {
		c.short = true
		return make([]byte, n)
	}
	c.at += n
	return c.data[c.at-n : c.at]
}

func (c *cursor) byte() byte     { return c.take(1)[0] }
func (c *cursor) uint16() uint16 { return little.Uint16(c.take(2)) }
func (c *cursor) uint32() uint32 { return little.Uint32(c.take(4)) }
func (c *cursor) uint64() uint64 { return little.Uint64(c.take(8)) }
func (c *cursor) string() string { return string(c.take(int(c.byte()))) }

func corrupt(format string, args ...any) error {
	return object.Errorf(object.Corrupt, format, args...)
}
