package pack

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash"
	"sync"
)

// Key is a pack's secret. Each record's head carries a check made with it, so
// that a tar somebody uploaded can never be taken for records when a damaged
// pack is scanned, and no record can stand at another place than its own.
type Key struct {
	raw  [sha256.Size]byte
	macs sync.Pool // of *mac
}

const (
	checkLen  = 15 // bytes
	checkText = 20 // the same in base64
)

// mac is a keyed hash and the memory it works in.
type mac struct {
	hash.Hash
	message [8 + Block]byte
	sum     [sha256.Size]byte
}

// NewKey derives the key of a pack from its disk's secret.
func NewKey(secret []byte, id uint64) *Key {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("penstock pack"))
	h.Write(binary.LittleEndian.AppendUint64(nil, id))
	k := new(Key)
	h.Sum(k.raw[:0])
	return k
}

// check computes the check of the head that begins at offset. It covers every
// byte of the head except, in its last block, tar's checksum and the check itself,
// and what is behind the magic if that is all zeros: with a short name it is, and
// then the check takes half the time.
func (k *Key) check(head []byte, offset int64) (text [checkText]byte) {
	m, _ := k.macs.Get().(*mac)
	if m == nil {
		m = &mac{Hash: hmac.New(sha256.New, k.raw[:])}
	} else {
		m.Reset()
	}
	// The pieces are put together first: a write for each costs 0.2 µs more.
	message := binary.LittleEndian.AppendUint64(m.message[:0], uint64(offset))
	pax, block := head[:len(head)-Block], head[len(head)-Block:]
	if len(pax) > 0 {
		m.Write(message)
		m.Write(pax)
		message = message[:0]
	}
	message = append(message, block[:posSum]...)
	message = append(message, block[posSum+lenSum:posCheck]...)
	message = append(message, block[posMagic:posOwners]...)
	if rest := block[posOwners:]; !bytes.Equal(rest, zeros[:len(rest)]) {
		message = append(message, rest...)
	}
	m.Write(message)
	encoding.Encode(text[:], m.Sum(m.sum[:0])[:checkLen])
	k.macs.Put(m)
	return text
}

func (k *Key) verify(head []byte, offset int64) bool {
	want := k.check(head, offset)
	return subtle.ConstantTimeCompare(want[:], head[len(head)-Block+posCheck:][:checkText]) == 1
}
