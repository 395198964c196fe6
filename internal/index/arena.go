package index

import (
	"encoding/binary"
	"sync/atomic"
)

// keepKey copies a key into the arena and returns its address.
func (m *memtable) keepKey(key []byte) uint32 {
	at, room := m.allocBytes(len(key))
	copy(room, key)
	return at
}

// keepValue copies a value, with its length before it.
func (m *memtable) keepValue(value []byte) uint32 {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(value)))
	at, room := m.allocBytes(n + len(value))
	copy(room, length[:n])
	copy(room[n:], value)
	return at
}

// allocBytes takes n bytes, in one piece, from the arena.
func (m *memtable) allocBytes(n int) (uint32, []byte) {
	piece, at := m.bytesEnd>>byteShift, int(m.bytesEnd&(1<<byteShift-1))
	if at+n > len(m.bytes[piece]) || at+n >= 1<<byteShift {
		piece, at = piece+1, 0
		m.bytes[piece] = make([]byte, max(n, pieceSize(1<<byteShift, piece)))
	}
	end := min(at+n, 1<<byteShift-1) // behind a large value its piece counts as full
	m.bytesEnd = piece<<byteShift | uint32(end)
	m.taken += int64(n)
	return piece<<byteShift | uint32(at), m.bytes[piece][at : at+n]
}

// allocWords takes n words, in one piece.
func (m *memtable) allocWords(n int) uint32 {
	piece, at := m.wordsEnd>>wordShift, int(m.wordsEnd&(1<<wordShift-1))
	if at+n > len(m.words[piece]) || at+n >= 1<<wordShift {
		piece, at = piece+1, 0
		m.words[piece] = make([]atomic.Uint32, pieceSize(1<<wordShift, piece))
	}
	m.wordsEnd = piece<<wordShift | uint32(at+n)
	m.taken += int64(4 * n)
	return piece<<wordShift | uint32(at)
}

// pieceSize lets a small memtable take little memory: the first pieces are small.
func pieceSize(full int, piece uint32) int { return full >> max(0, 4-2*int(piece)) }

// hashTable maps hashes to nodes by open addressing. A slot is the low half of the
// hash and the node; 0 is free. Nothing is ever taken out.
type hashTable struct {
	slots []atomic.Uint64
	mask  uint32
}

func newHashTable(size int) *hashTable {
	return &hashTable{slots: make([]atomic.Uint64, size), mask: uint32(size - 1)}
}

func (t *hashTable) insert(slot uint64) {
	i := uint32(slot>>32) & t.mask
	for t.slots[i].Load() != 0 {
		i = (i + 1) & t.mask
	}
	t.slots[i].Store(slot)
}

// insertHash makes a node findable. A table that is three quarters full is
// replaced by one twice as large; readers go on in the old one meanwhile.
func (m *memtable) insertHash(hash uint64, node uint32) {
	t := m.table.Load()
	if int(m.keys)*4 >= len(t.slots)*3 {
		larger := newHashTable(2 * len(t.slots))
		for i := range t.slots {
			if slot := t.slots[i].Load(); slot != 0 {
				larger.insert(slot)
			}
		}
		larger.insert(uint64(uint32(hash))<<32 | uint64(node))
		m.table.Store(larger)
		return
	}
	t.insert(uint64(uint32(hash))<<32 | uint64(node))
}
