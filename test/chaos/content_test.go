package chaos

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// state is what an object holds. Its bytes follow from it, so that nothing but
// states need be remembered. The zero state means that there is no object.
type state struct {
	Of     string // the key it was first written under; a copy keeps it
	Number int    // of the write, from 1
	Size   int64
}

func (s state) String() string {
	if s == (state{}) {
		return "nothing"
	}
	return fmt.Sprintf("write %d of %s, %d bytes", s.Number, s.Of, s.Size)
}

// mark is the metadata that goes with the bytes.
func (s state) mark() string { return fmt.Sprintf("%d-%s", s.Number, s.Of) }

// bytes returns the content.
func (s state) bytes() []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s#%d#%d", s.Of, s.Number, s.Size)
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("%032x", h.Sum64()))
	data := make([]byte, s.Size)
	rand.NewChaCha8(seed).Read(data)
	// Some blocks are all alike, as real files have them.
	if s.Number%4 == 0 {
		clear(data[len(data)/3 : len(data)/2])
	}
	return data
}

// matches reports whether data are the bytes of s.
func (s state) matches(data []byte) bool {
	return int64(len(data)) == s.Size && bytes.Equal(data, s.bytes())
}

// inlineMax is the size up to which objects lie in their record; a size next to it
// is worth trying often. Should the node change it, only the mix is less good.
const inlineMax = 512 << 10

// randomSize returns sizes as they tell apart the ways of the store.
func randomSize(random *rand.Rand) int64 {
	switch n := random.IntN(100); {
	case n < 5:
		return 0
	case n < 50:
		return 1 + random.Int64N(4<<10)
	case n < 80:
		return 1 + random.Int64N(64<<10)
	case n < 90:
		return inlineMax - 2 + random.Int64N(4)
	}
	return 1 + random.Int64N(3<<20)
}
