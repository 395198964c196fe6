package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
)

// A block is entries in key order, then where every 16th of them begins, then
// how many there are:
//
//	entry*  restart(u16)*  count(u16)
//	entry = shared(uvarint) unshared(uvarint) tag(uvarint) key-suffix value
//
// An entry's key is the first `shared` bytes of another key and its own suffix.
// The other key is the one before, except for every 16th entry (a restart), where
// it is the block's first key: so a binary search over the restarts needs nothing
// but the first key, and what all keys of a block have in common is stored once.
// The tag is 0 for a delete, else the length of the value plus one.
const (
	restartEvery = 16
	blockTarget  = 4 << 10 // a block ends when its entries reach this; docs/internals/index.md has the measurement
	blockTrailer = 2
)

var errBlock = errors.New("a block whose checksum holds makes no sense")

// block is a block as read. Its methods are safe on any bytes: what makes no
// sense is errBlock, never a panic.
type block struct {
	entries  []byte
	restarts []byte
	count    int
	first    []byte // the first key
}

func parseBlock(b []byte) (block, error) {
	if len(b) < blockTrailer {
		return block{}, errBlock
	}
	count := int(little.Uint16(b[len(b)-blockTrailer:]))
	at := len(b) - blockTrailer - 2*((count+restartEvery-1)/restartEvery)
	if count == 0 || at <= 0 {
		return block{}, errBlock
	}
	k := block{entries: b[:at], restarts: b[at : len(b)-blockTrailer], count: count}
	e, ok := k.entry(0)
	if !ok || e.shared != 0 || k.restart(0) != 0 {
		return block{}, errBlock
	}
	k.first = k.entries[e.suffix:e.value]
	return k, nil
}

func (k *block) restart(i int) int {
	return int(little.Uint16(k.restarts[2*i:]))
}

// entry is where the parts of an entry lie in the block's bytes.
type entry struct {
	shared  int
	suffix  int // the key's own part is [suffix:value]
	value   int // the value is [value:end]
	end     int
	deleted bool
}

// entry decodes the entry at an offset.
func (k *block) entry(at int) (e entry, ok bool) {
	b := k.entries
	if uint(at)+3 <= uint(len(b)) {
		// Nearly always all three numbers are below 128.
		if shared, unshared, tag := b[at], b[at+1], b[at+2]; shared|unshared|tag < 0x80 {
			e.shared, e.suffix, e.value = int(shared), at+3, at+3+int(unshared)
			e.end = e.value
			if tag == 0 {
				e.deleted = true
			} else {
				e.end += int(tag) - 1
			}
			return e, e.end <= len(b)
		}
	}
	if uint(at) > uint(len(b)) {
		return e, false
	}
	var v [3]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(b[at:]); n <= 0 || v[i] > uint64(len(b))+1 {
			return e, false
		}
		at += n
	}
	e.shared, e.suffix, e.value = int(v[0]), at, at+int(v[1])
	e.end = e.value
	if v[2] == 0 {
		e.deleted = true
	} else {
		e.end += int(v[2]) - 1
	}
	return e, e.end <= len(b)
}

// compareRestart compares the key of the entry at an offset, a restart, with key.
func (k *block) compareRestart(at int, key []byte) (int, bool) {
	e, ok := k.entry(at)
	if !ok || e.shared > len(k.first) {
		return 0, false
	}
	n := min(e.shared, len(key))
	if c := bytes.Compare(k.first[:e.shared], key[:n]); c != 0 {
		return c, true
	}
	return bytes.Compare(k.entries[e.suffix:e.value], key[n:]), true
}

// section returns the last restart whose key is not after key, -1 if all are.
func (k *block) section(key []byte) (int, bool) {
	low, high := 0, len(k.restarts)/2
	for low < high {
		mid := int(uint(low+high) >> 1)
		c, ok := k.compareRestart(k.restart(mid), key)
		if !ok {
			return 0, false
		}
		if c <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1, true
}

// get looks a key up. It builds no keys: it carries along how many bytes of key
// the entry before had, and an entry that shares more is still before key, one
// that shares less is already behind it.
func (k *block) get(key []byte) (e entry, found bool, err error) {
	i, ok := k.section(key)
	if !ok {
		return e, false, errBlock
	}
	if i < 0 {
		return e, false, nil
	}
	at, end := k.restart(i), len(k.entries)
	if i+1 < len(k.restarts)/2 {
		end = k.restart(i + 1)
	}
	match := -1
	for at < end {
		if e, ok = k.entry(at); !ok {
			return e, false, errBlock
		}
		at = e.end
		if match < 0 { // the restart itself: what it shares, it shares with the first key
			if e.shared > len(k.first) {
				return e, false, errBlock
			}
			if match = commonPrefix(k.first[:e.shared], key); match < e.shared {
				continue // section says it is not after key
			}
		} else if e.shared > match {
			continue
		} else if e.shared < match {
			return e, false, nil
		}
		suffix := k.entries[e.suffix:e.value]
		n := commonPrefix(suffix, key[match:])
		match += n
		switch {
		case n == len(suffix) && match == len(key):
			return e, true, nil
		case match == len(key), n < len(suffix) && suffix[n] > key[match]:
			return e, false, nil
		}
	}
	return e, false, nil
}

// commonPrefix returns how many leading bytes a and b share.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := little.Uint64(a[i:]) ^ little.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
