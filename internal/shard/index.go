package shard

import (
	"context"
	"hash/crc32"
	"hash/maphash"
	"io"
	"iter"
	"math/bits"
	"unsafe"
)

// maxIndex is the largest index Build makes: some 20 million members.
const maxIndex = 1 << 30

// Member says where a file of a tar lies in it, and the checksum of its content.
type Member struct {
	Offset int64
	Size   int64
	CRC32  uint32 // IEEE
}

// Index says where the files of one tar are. It does not change. A member takes 36
// bytes and its name (BenchmarkBuild reports it).
type Index struct {
	names   string // all of them, one behind the other
	members []member
	slots   []slot // by hash of the plain name; two in three are taken
	seed    maphash.Seed
	hidden  int // members that a later one of the same name replaces
}

// slot is a member's number + 1, and above it half of its name's hash, so that the
// names of others need not be fetched from memory to see that they are others.
type slot uint64

func (s slot) member() int { return int(uint32(s)) - 1 }

// member has its name at name, up to where the next one's begins.
type member struct {
	offset int64
	size   int64 // negative: replaced by a later one
	crc    uint32
	name   uint32
}

// Build reads all of r, which gives a tar, and returns the index of its files. It
// reads on behind the archive's end mark to the end of r: a reader may find damage
// only there, and checksums of damaged bytes would vouch for them later. Links,
// directories and sparse files are no members. A malformed archive, or one whose
// index would take more than 1 GiB, is Invalid.
func Build(ctx context.Context, r io.Reader) (*Index, error) {
	return build(ctx, r, maxIndex)
}

func build(ctx context.Context, r io.Reader, limit int64) (*Index, error) {
	read := func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	}
	s := newScanner(read)
	var names []byte
	var members []member
	for {
		err := s.next()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if !s.file() {
			continue
		}
		m := member{offset: s.offset, size: s.size, name: uint32(len(names))}
		names = append(names, s.name...)
		if need := int64(len(names)) + int64(len(members)+1)*perMember; need > limit {
			return nil, malformed(s.offset, "an index of so many members takes more than %d bytes", limit)
		}
		for s.left > 0 {
			b, err := s.chunk()
			if err != nil {
				return nil, err
			}
			m.crc = crc32.Update(m.crc, crc32.IEEETable, b)
		}
		members = append(members, m)
	}
	for {
		s.from, s.to = 0, 0
		if err := s.fill(); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return newIndex(string(names), append(make([]member, 0, len(members)), members...)), nil
}

const perMember = int64(unsafe.Sizeof(member{})) + 12

func newIndex(names string, members []member) *Index {
	x := &Index{names: names, members: members, seed: maphash.MakeSeed()}
	x.slots = make([]slot, len(members)*3/2+1)
	for i := range members {
		at, tag, found := x.slot(plain(x.name(i)))
		if found {
			members[x.slots[at].member()].size = -1
			x.hidden++
		}
		x.slots[at] = tag | slot(i+1)
	}
	return x
}

func (x *Index) name(i int) string {
	end := len(x.names)
	if i+1 < len(x.members) {
		end = int(x.members[i+1].name)
	}
	return x.names[x.members[i].name:end]
}

// slot returns where a plain name stands, or where it would, and its hash as slots
// have it.
func (x *Index) slot(name string) (at int, tag slot, found bool) {
	hash := maphash.String(x.seed, name)
	high, _ := bits.Mul64(hash, uint64(len(x.slots)))
	tag = slot(hash) << 32
	for at = int(high); x.slots[at] != 0; {
		if s := x.slots[at]; s>>32 == tag>>32 && plain(x.name(s.member())) == name {
			return at, tag, true
		}
		if at++; at == len(x.slots) {
			at = 0
		}
	}
	return at, tag, false
}

// Find returns the file of that name. Leading "./" count neither here nor in the
// archive. Of several files of one name it is the last, as after an extraction.
func (x *Index) Find(name string) (Member, bool) {
	at, _, found := x.slot(plain(name))
	if !found {
		return Member{}, false
	}
	return x.members[x.slots[at].member()].public(), true
}

func (m member) public() Member { return Member{Offset: m.offset, Size: m.size, CRC32: m.crc} }

// All yields the members that Find finds, in the order of the archive, with their
// names as they stand there.
func (x *Index) All() iter.Seq2[string, Member] {
	return func(yield func(string, Member) bool) {
		for i, m := range x.members {
			if m.size >= 0 && !yield(x.name(i), m.public()) {
				return
			}
		}
	}
}

// Len returns the number of members.
func (x *Index) Len() int { return len(x.members) - x.hidden }

// Bytes returns how much memory the index takes.
func (x *Index) Bytes() int64 {
	return int64(unsafe.Sizeof(*x)) + int64(len(x.names)) +
		int64(cap(x.members))*int64(unsafe.Sizeof(member{})) + int64(cap(x.slots))*int64(unsafe.Sizeof(slot(0)))
}
