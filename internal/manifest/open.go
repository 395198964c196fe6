package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"penstock.dev/penstock/internal/object"
)

// Manifest is a manifest that can be looked into.
//
// It has no Close. The file is closed as soon as it is mapped, the mapping costs
// address space and no memory of our own, and it is undone when nobody refers to
// the Manifest any more: so no call can meet a mapping that is gone.
type Manifest struct {
	head
	areas

	path   string // empty: it came as bytes
	mapped bool
	data   []byte
	bound  []section // of the sections that are known
	tag    string

	// A block that was found good is not looked at again: bit b of the bitmap is
	// block b. Two that check the same one at a time do no harm.
	sums  []byte
	known []atomic.Uint64
}

// Open maps the manifest in a file. Whoever changes a manifest does so by renaming
// a new file over it; one that is cut short or cannot be read while it is mapped
// gives errors of kind Unavailable. Where files cannot be mapped it is read.
func Open(path string) (*Manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, failed("open manifest", err)
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, failed("open manifest", err)
	}
	switch {
	case !stat.Mode().IsRegular():
		return nil, invalid("manifest %s: it is no file", path)
	case stat.Size() == 0:
		return nil, invalid("manifest %s: it is empty", path)
	case stat.Size() > math.MaxInt-1<<blockBits:
		return nil, invalid("manifest %s: it is too large for this machine", path)
	}
	data, mapped, err := mapFile(file, int(stat.Size()))
	if err != nil {
		return nil, failed("map manifest "+path, err)
	}
	m := &Manifest{path: path, mapped: mapped}
	if mapped {
		runtime.AddCleanup(m, unmapFile, data)
	}
	if err := m.open(data); err != nil {
		return nil, err
	}
	return m, nil
}

// Parse gives the manifest in data, which must not change as long as it is used.
func Parse(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := m.open(data); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manifest) open(data []byte) (err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	h, err := parseHead(data)
	if err != nil {
		return object.Errorf(object.KindOf(err), "%s: %w", m, err)
	}
	m.head, m.data = *h, data
	// A copy: nobody may change what everything else is judged by.
	if m.sums = slices.Clone(data[h.tableAt:]); sha256.Sum256(m.sums) != h.table {
		return m.corrupt("its table of checksums is damaged")
	}
	hash := sha256.Sum256(data[:h.length])
	m.tag = hex.EncodeToString(hash[:16])
	if err := m.bind(); err != nil {
		return err
	}
	m.known = make([]atomic.Uint64, (h.blocks()+63)/64)
	return nil
}

// bind finds the sections. Those of unknown kinds are passed over: what a reader
// must know is announced by a feature bit.
func (m *Manifest) bind() error {
	wants := m.wants(&m.head)
	for _, s := range m.sections {
		if !s.known() {
			continue
		}
		for len(wants) > 0 && wants[0].optional && wants[0].id() != s.id {
			wants = wants[1:]
		}
		if len(wants) == 0 || wants[0].id() != s.id {
			return m.corrupt("it should have no %v, or others before", s.id)
		}
		w := wants[0]
		if w.length >= 0 && w.length != s.length {
			return m.corrupt("its %v have %d bytes and should have %d", s.id, s.length, w.length)
		}
		*w.area = area{id: s.id, offset: s.offset, bytes: m.data[s.offset:][:s.length:s.length]}
		m.bound = append(m.bound, s)
		wants = wants[1:]
	}
	for _, w := range wants {
		if !w.optional {
			return m.corrupt("it has no %v", w.id())
		}
	}
	return nil
}

func (w *want) id() id { return id{kind: w.kind, item: uint16(w.item)} }

// guard turns a fault on the mapping into an error. The kernel sends SIGBUS where
// the file ends before the mapping or the disk cannot be read, which would end the
// process. It costs 9 ns a call; reading by pread instead would cost a microsecond.
// Each exported method that looks at the data has it as its first line, which also
// keeps the Manifest, and so the mapping, alive up to the end.
func (m *Manifest) guard(err *error, before bool) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		if fault, ok := r.(interface{ Addr() uintptr }); !ok || !m.mapped {
			panic(r)
		} else {
			*err = object.Errorf(object.Unavailable, "%s cannot be read any more: %v", m, fault)
		}
	}
}

// String names the manifest in messages.
func (m *Manifest) String() string {
	if m.path == "" {
		return "manifest"
	}
	return "manifest " + m.path
}

func (m *Manifest) corrupt(format string, args ...any) error {
	return corrupt("%s: "+format, append([]any{m}, args...)...)
}

// Info says what the manifest says about itself.
func (m *Manifest) Info() Info { return m.about }

// Hash identifies the logical part: a SHA-256. Equal hashes mean the same samples
// in the same order with the same content, so far as their checksums are known.
func (m *Manifest) Hash() [sha256.Size]byte { return m.logical }

// Tag identifies the whole manifest, locations included, and fits into an ETag. A
// client that keeps a manifest compares it to know whether there is a newer one.
func (m *Manifest) Tag() string { return m.tag }

// Len returns the number of samples.
func (m *Manifest) Len() int { return int(m.samples) }

// Shards returns the number of shards.
func (m *Manifest) Shards() int { return int(m.shards) }

// Fields returns the fields in their order.
func (m *Manifest) Fields() []Field { return slices.Clone(m.fields) }

// Columns returns the columns in their order, without the names of classes.
func (m *Manifest) Columns() []Column { return slices.Clone(m.columns) }

// Field returns the number of the field of that name.
func (m *Manifest) Field(name string) (number int, ok bool) {
	number = slices.IndexFunc(m.fields, func(f Field) bool { return f.Name == name })
	return number, number >= 0
}

// Column returns the number of the column of that name.
func (m *Manifest) Column(name string) (number int, ok bool) {
	number = slices.IndexFunc(m.columns, func(c Column) bool { return c.Name == name })
	return number, number >= 0
}

// touch makes sure that bytes from to to of an area are as they were written.
func (m *Manifest) touch(a *area, from, to int64) error {
	if from == to {
		return nil
	}
	last := (a.offset + to - 1) >> blockBits
	for b := (a.offset + from) >> blockBits; b <= last; b++ {
		if m.known[b>>6].Load()>>(b&63)&1 == 0 {
			if err := m.verifyBlock(a.id, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyBlock checks a block on behalf of a section that lies in it.
func (m *Manifest) verifyBlock(of id, b int64) error {
	from := b << blockBits
	to := min(from+1<<blockBits, m.tableAt)
	if b == 0 {
		from = m.length // the head has its own checksum
	}
	if crc32.ChecksumIEEE(m.data[from:to]) != little.Uint32(m.sums[4*b:]) {
		return m.corrupt("its %v are damaged, between bytes %d and %d", of, from, to)
	}
	m.known[b>>6].Or(1 << (b & 63))
	return nil
}

func (m *Manifest) uint16(a *area, i int64) (uint16, error) {
	if err := m.touch(a, 2*i, 2*i+2); err != nil {
		return 0, err
	}
	return little.Uint16(a.bytes[2*i:]), nil
}

func (m *Manifest) uint32(a *area, i int64) (uint32, error) {
	if err := m.touch(a, 4*i, 4*i+4); err != nil {
		return 0, err
	}
	return little.Uint32(a.bytes[4*i:]), nil
}

func (m *Manifest) uint64(a *area, i int64) (uint64, error) {
	if err := m.touch(a, 8*i, 8*i+8); err != nil {
		return 0, err
	}
	return little.Uint64(a.bytes[8*i:]), nil
}

// bytes gives string i of those that lie one behind the other in content, and end
// where ends says. They are part of the mapping: nobody outside may see them.
func (m *Manifest) bytes(ends, content *area, i int64) ([]byte, error) {
	var from uint64
	var err error
	if i > 0 {
		if from, err = m.uint64(ends, i-1); err != nil {
			return nil, err
		}
	}
	to, err := m.uint64(ends, i)
	if err != nil {
		return nil, err
	}
	if from > to || to > uint64(len(content.bytes)) {
		return nil, m.corrupt("its %v cannot reach from %d to %d", content.id, from, to)
	}
	if err := m.touch(content, int64(from), int64(to)); err != nil {
		return nil, err
	}
	return content.bytes[from:to], nil
}

// verifyBlocks checks everything that was not checked yet, or again.
func (m *Manifest) verifyBlocks(ctx context.Context) error {
	for _, s := range m.sections {
		for b := s.offset >> blockBits; b <= (s.offset+s.length-1)>>blockBits; b++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := m.verifyBlock(s.id, b); err != nil {
				return err
			}
		}
	}
	return nil
}
