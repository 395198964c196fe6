package pack_test

import (
	"encoding/binary"
	"math"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

func TestStub(t *testing.T) {
	full := pack.Stub{
		Location: pack.Location{Offset: math.MaxUint32 * pack.Block, Head: pack.Block * 2050, Payload: 1<<33 - 1},
		Kind:     pack.Object, Extents: true, Hidden: true, Version: object.Version{Map: math.MaxUint32, Counter: math.MaxUint64},
		Modified: math.MinInt64, Size: math.MaxInt64, CRC32: math.MaxUint32, ETag: "0123456789abcdef0123456789abcdef-3",
	}
	small := pack.Stub{Location: pack.Location{Head: pack.Block}, Kind: pack.Tombstone}
	md5 := small
	md5.ETag = "0123456789abcdef0123456789abcdef"
	named := full
	named.ID = object.Version{Map: math.MaxUint32, Counter: math.MaxUint64}
	marker := pack.Stub{Location: pack.Location{Head: pack.Block}, Kind: pack.Marker, ID: object.Version{Counter: 1}}
	for _, s := range []pack.Stub{full, small, md5, named, marker} {
		b := s.Append([]byte("before"))[len("before"):]
		got, rest, err := pack.ParseStub(append(b, "behind"...))
		if err != nil || got != s || string(rest) != "behind" {
			t.Errorf("%+v became %+v, %q, %v", s, got, rest, err)
		}
		for n := range b {
			if _, _, err := pack.ParseStub(b[:n]); !object.Is(err, object.Corrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	}
	if n := len(md5.Append(nil)); n > 38 {
		t.Errorf("an MD5 makes it %d bytes long", n)
	}
}

// TestStubOutOfRange: numbers that overflow what they are read into.
func TestStubOutOfRange(t *testing.T) {
	good := []uint64{1, 1, 0, 0, 1, 0} // map, counter, size, offset, head, payload
	limits := []uint64{math.MaxUint32, 0, math.MaxInt64, math.MaxUint32, 2050, 1<<33 - 1}
	encode := func(numbers []uint64) []byte {
		b := []byte{1, 0}
		for i, n := range numbers {
			b = binary.AppendUvarint(b, n)
			if i == 1 {
				b = append(b, make([]byte, 12)...)
			}
		}
		return b
	}
	for i, limit := range limits {
		if limit == 0 {
			continue
		}
		numbers := append([]uint64(nil), good...)
		for _, n := range []uint64{limit, limit + 1, math.MaxUint64} {
			numbers[i] = n
			if s, _, err := pack.ParseStub(encode(numbers)); (err == nil) != (n == limit) {
				t.Errorf("number %d: %d: %+v, %v", i, n, s, err)
			}
		}
	}
	for _, flags := range []byte{1 << 5, 1 << 4, 1<<1 | 1<<2, 1 << 1, 1 << 2} {
		b := encode(good)
		b[1] = flags
		if s, _, err := pack.ParseStub(append(b, 0, 0)); err == nil {
			t.Errorf("flags %b: %+v", flags, s)
		}
	}
}
