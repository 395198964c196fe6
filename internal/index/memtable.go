package index

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
)

// memtable holds what was applied and is in no run yet: one writer, any number of
// readers, no locks. A hash table answers single lookups, a tree keeps the order.
//
// Keys, values and nodes lie in a few large pieces without pointers, which the
// garbage collector does not look into. A node is three words: the address and
// length of its key, and the address of its value. Readers reach a node only
// through an atomic word that was stored after all of the node was written; after
// that only the value address changes. A piece never moves. An address is the
// number of a piece and a place in it; 0 is none.
type memtable struct {
	number uint64 // memtables of an index are numbered as they are made

	bytes [arenaPieces][]byte
	words [arenaPieces][]atomic.Uint32
	table atomic.Pointer[hashTable]
	tree  tree

	// The writer's own.
	bytesEnd uint32 // the address behind the last byte used
	wordsEnd uint32
	keys     int64
	taken    int64 // bytes

	// What publish tells the others of keys and taken.
	count atomic.Int64
	used  atomic.Int64
}

const (
	arenaPieces = 1024
	byteShift   = 20 // pieces of 1 MiB; a larger value gets a larger piece of its own
	wordShift   = 16 // pieces of 64 Ki words
	smallTable  = 1 << 10

	nodeKey    = 0
	nodeKeyLen = 1
	nodeValue  = 2
	nodeWords  = 3
)

// newMemtable returns an empty memtable. tableSize is how many slots the hash
// table begins with, a power of two.
func newMemtable(number uint64, tableSize int) *memtable {
	m := &memtable{number: number, bytesEnd: 1, wordsEnd: 1}
	m.bytes[0] = make([]byte, pieceSize(1<<byteShift, 0))
	m.words[0] = make([]atomic.Uint32, pieceSize(1<<wordShift, 0))
	m.table.Store(newHashTable(tableSize))
	m.tree.init()
	return m
}

// size returns the bytes the memtable takes.
func (m *memtable) size() int64 { return m.used.Load() + int64(len(m.table.Load().slots))*8 }

func (m *memtable) empty() bool { return m.count.Load() == 0 }

// publish makes count and size true after some calls of set.
func (m *memtable) publish() {
	m.count.Store(m.keys)
	m.used.Store(m.taken)
}

// crowded reports that not every further entry would find an address: 1 GiB is
// used, far beyond any sensible Options.MemBytes.
func (m *memtable) crowded() bool {
	return m.bytesEnd>>byteShift >= arenaPieces-3 || m.wordsEnd>>wordShift >= arenaPieces-2
}

func (m *memtable) node(node uint32) []atomic.Uint32 {
	return m.words[node>>wordShift][node&(1<<wordShift-1):][:nodeWords]
}

func (m *memtable) key(node uint32) []byte {
	w := m.node(node)
	at, n := w[nodeKey].Load(), w[nodeKeyLen].Load()
	return m.bytes[at>>byteShift][at&(1<<byteShift-1):][:n:n]
}

// value returns the current value of a node.
func (m *memtable) value(node uint32) (value []byte, deleted bool) {
	at := m.node(node)[nodeValue].Load()
	if at == 0 {
		return nil, true
	}
	b := m.bytes[at>>byteShift][at&(1<<byteShift-1):]
	length, n := binary.Uvarint(b)
	return b[n:][:length:length], false
}

// find returns the node of a key, 0 if there is none. The hash is the memtable
// owner's choice, the same for all calls.
func (m *memtable) find(hash uint64, key []byte) uint32 {
	t := m.table.Load()
	for i := uint32(hash) & t.mask; ; i = (i + 1) & t.mask {
		slot := t.slots[i].Load()
		if slot == 0 {
			return 0
		}
		if uint32(slot>>32) == uint32(hash) && bytes.Equal(m.key(uint32(slot)), key) {
			return uint32(slot)
		}
	}
}

// set gives a key a value, or the mark that it is gone. Only one caller at a time.
func (m *memtable) set(hash uint64, key, value []byte, deleted bool) {
	at := uint32(0)
	if !deleted {
		at = m.keepValue(value)
	}
	if node := m.find(hash, key); node != 0 {
		m.node(node)[nodeValue].Store(at)
		return
	}
	number := m.allocWords(nodeWords)
	node := m.node(number)
	node[nodeKey].Store(m.keepKey(key))
	node[nodeKeyLen].Store(uint32(len(key)))
	node[nodeValue].Store(at)
	m.tree.insert(m, number, key)
	m.insertHash(hash, number)
	m.keys++
}
