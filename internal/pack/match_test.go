package pack_test

import (
	"bytes"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// TestMatch flips every bit of a record. It may still match where only what is not
// looked at was hit; but then its content is the right one.
func TestMatch(t *testing.T) {
	t.Run("without an ID", func(t *testing.T) { matches(t, put("dir/key", 7)) })
	t.Run("with an ID", func(t *testing.T) { matches(t, withID(put("dir/key", 7))) })
}

func matches(t *testing.T, r pack.Record) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	content := bytes.Repeat([]byte("content "), 40)
	l.append(r, content)
	stone := r
	stone.Kind, stone.Version.Counter = pack.Tombstone, 8
	l.append(stone, nil)
	l.sync()
	f, err := pack.Open(m, 1, secret)
	must(t, err)
	defer f.Close()
	first := l.records[0].Draft
	data := make([]byte, first.Head+first.Payload)
	read := func(offset int64) {
		if n, err := f.Raw().ReadAt(data, offset); n < len(data) {
			t.Fatal(err)
		}
	}
	match := func(name object.Name, version object.Version) (got []byte, crc uint32, ok bool) {
		got = data[pack.MatchHead:]
		crc, ok = pack.Match(data[:pack.MatchHead], got, name, version)
		return got, crc, ok
	}
	read(first.Offset)
	if got, crc, ok := match(first.Name, first.Version); !ok || !bytes.Equal(got, content) || crc != first.CRC32 {
		t.Fatalf("%q, %08x, %v", got, crc, ok)
	}
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if got, crc, ok := match(first.Name, first.Version); ok && (!bytes.Equal(got, content) || crc != first.CRC32) {
			t.Errorf("bit %d: %q passes for the content", bit, got)
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	id := first.Name.ID
	others := []object.Name{{Bucket: "bkt", Key: "dir/kez", ID: id}, {Bucket: "bk", Key: "tdir/key", ID: id}, {Bucket: "bkt", Key: "dir/key/", ID: id}}
	others = append(others, object.Name{Bucket: "bkt", Key: "dir/key", ID: object.Version{Map: 1, Counter: 6}})
	if id != (object.Version{}) {
		others = append(others, object.Name{Bucket: "bkt", Key: "dir/key"})
	}
	for _, other := range others {
		if _, _, ok := match(other, first.Version); ok {
			t.Errorf("it passes for %v", other)
		}
	}
	if _, _, ok := match(first.Name, object.Version{Map: 1, Counter: 8}); ok {
		t.Error("it passes for another version")
	}
	gone := l.records[1].Draft
	data = data[:gone.Head+gone.Payload]
	read(gone.Offset)
	if _, _, ok := match(gone.Name, gone.Version); ok {
		t.Error("a tombstone passes for an object")
	}
}
