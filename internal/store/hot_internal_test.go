package store

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// TestHotPlace has places survive being made small, or be refused.
func TestHotPlace(t *testing.T) {
	if size := unsafe.Sizeof(hotSet{}); size != 128 {
		t.Errorf("a set takes %d bytes", size)
	}
	r := rand.New(rand.NewPCG(1, 2))
	upTo := func(bits int) uint64 { return r.Uint64() >> (63 - r.IntN(bits)) }
	kept := 0
	for range 100000 {
		p := place{
			hash: r.Uint64(), version: object.Version{Map: uint32(upTo(32)), Counter: upTo(50)}, pack: upTo(34),
			offset: int64(upTo(34)) * pack.Block, payload: int64(upTo(26)), head: int32(1+upTo(9)) * pack.Block,
			drive: int16(upTo(15)), extents: r.IntN(2) == 0,
		}
		small, ok := shrink(&p)
		if !ok {
			continue
		}
		kept++
		if !small.holds(p.hash) || small.place(p.hash) != p {
			t.Fatalf("%+v became %+v", p, small.place(p.hash))
		}
	}
	if kept < 50000 {
		t.Errorf("only %d of 100000 were kept", kept)
	}
	if (&hotPlace{}).holds(0) {
		t.Error("an empty one holds a name")
	}
}
