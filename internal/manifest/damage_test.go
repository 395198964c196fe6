package manifest_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

var little = binary.LittleEndian

// small has one of everything, in as few bytes as possible.
func small() *table {
	piece := func(offset, size int64, crc uint32) manifest.Piece {
		return manifest.Piece{Offset: offset, Size: size, CRC32: crc}
	}
	return &table{
		options: manifest.Options{
			Info:   plainInfo,
			Fields: []manifest.Field{{Name: "jpg"}, {Name: "txt", Unchecked: true}, {Name: "raw", Apart: true}},
			Columns: []manifest.Column{
				{Name: "label", Type: manifest.Class, Optional: true},
				{Name: "n", Type: manifest.Int},
				{Name: "x", Type: manifest.Float},
				{Name: "caption", Type: manifest.Text, Optional: true},
			},
		},
		shards: []manifest.Shard{{Name: "a.tar", Size: 5000, Tag: "e1", Format: manifest.Tar}, {Name: "raw/1", Size: 9, Format: manifest.Foreign}},
		samples: []manifest.Sample{
			{
				Key: "b/1", Pieces: []manifest.Piece{piece(512, 100, 7), piece(2048, 5, 0), {Shard: 1, Size: 9, CRC32: 8}},
				Values: []manifest.Value{{Text: "dog"}, {Int: -1}, {Float: 0.5}, {Text: "a dog"}},
			},
			{
				Key: "a/2", Pieces: []manifest.Piece{{Absent: true}, piece(1024, 0, 0), {Absent: true}},
				Values: []manifest.Value{{Text: "cat"}, {Int: 1 << 40}, {Float: -2}, {Missing: true}},
			},
			{
				Key: "a", Pieces: []manifest.Piece{{Absent: true}, {Absent: true}, {Absent: true}},
				Values: []manifest.Value{{Missing: true}, {Int: 3}, {Float: 3}, {Text: ""}},
			},
		},
	}
}

// seal makes all checksums right again, whatever is in the file: what is left is
// what a program that means ill could write.
func seal(data []byte) {
	if len(data) < 144 {
		return
	}
	copy(data, "PenstMan")
	little.PutUint32(data[8:], 1)
	little.PutUint32(data[12:], 0)
	head, at := int64(little.Uint32(data[16:])), int64(little.Uint64(data[40:]))
	if head >= 144 && head <= int64(len(data)) {
		defer func() {
			little.PutUint32(data[20:], 0)
			little.PutUint32(data[20:], crc32.ChecksumIEEE(data[:head]))
		}()
	}
	if head < 144 || at < head || at >= int64(len(data)) {
		return
	}
	for b := int64(0); b<<16 < at && at+4*b+4 <= int64(len(data)); b++ {
		from := max(b<<16, head)
		little.PutUint32(data[at+4*b:], crc32.ChecksumIEEE(data[from:max(from, min((b+1)<<16, at))]))
	}
	hash := sha256.Sum256(data[at:])
	copy(data[112:], hash[:])
}

// TestEveryBit: a bit that flips is noticed by Verify, and whoever does not ask for
// that gets an error or what was written, never something else.
func TestEveryBit(t *testing.T) {
	tb := small()
	data := tb.bytes(t)
	m, err := manifest.Parse(data)
	must(t, err)
	must(t, m.Verify(context.Background()))
	t.Logf("%d bytes", len(data))
	for i := range 8 * len(data) {
		data[i/8] ^= 1 << (i % 8)
		m, err := manifest.Parse(data)
		if err == nil {
			wantKind(t, m.Verify(context.Background()), object.Corrupt, "bit %d of byte %d", i%8, i/8)
			var got *table
			if got, err = read(m); err == nil {
				equal(t, got, tb.shown())
			}
		}
		if i/8 < 8 {
			wantKind(t, err, object.Invalid, "bit %d of byte %d", i%8, i/8)
		} else if err != nil {
			wantKind(t, err, object.Corrupt, "bit %d of byte %d", i%8, i/8)
		}
		data[i/8] ^= 1 << (i % 8)
	}
}

func TestEveryLength(t *testing.T) {
	data := small().bytes(t)
	for n := range data {
		if _, err := manifest.Parse(data[:n]); err == nil || object.KindOf(err) == object.Internal {
			t.Fatalf("with %d bytes: %v", n, err)
		}
	}
	_, err := manifest.Parse(append(slices.Clone(data), 0))
	wantKind(t, err, object.Corrupt, "with one byte more")
}

// TestLazy: damage is found where it is, and does not hide the rest.
func TestLazy(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tb := random(rand.New(rand.NewPCG(seed, 1)), 30000)
	tb.options.Fields, tb.options.Columns = []manifest.Field{{Name: "jpg"}}, nil
	for i := range tb.samples {
		tb.samples[i].Pieces, tb.samples[i].Values = []manifest.Piece{{Size: int64(i), CRC32: 5}}, nil
	}
	data := tb.bytes(t)
	data[1000*8] ^= 1 // within the ends of keys, which come first
	m, err := manifest.Parse(data)
	must(t, err)
	for range 2 {
		_, err = m.Key(1000)
		wantKind(t, err, object.Corrupt, "a damaged key")
		if !strings.Contains(err.Error(), "ends of keys") {
			t.Error(err)
		}
	}
	if key, err := m.Key(20000); err != nil || key != tb.samples[20000].Key {
		t.Errorf("%q, %v", key, err)
	}
	if p, err := m.Piece(1000, 0); err != nil || p.Size != 1000 {
		t.Errorf("%+v, %v", p, err)
	}
	wantKind(t, m.Verify(context.Background()), object.Corrupt, "the whole")
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	wantKind(t, m.Verify(canceled), object.Canceled, "canceled")
}

// TestSealed changes bytes one by one and makes the checksums right: nothing may
// panic, and what comes out is Corrupt or some other manifest. Verify sees what
// contradicts itself.
func TestSealed(t *testing.T) {
	data := small().bytes(t)
	unseen := 0
	for i := range data {
		for _, to := range []byte{0, 0xff, data[i] + 1, data[i] ^ 0x80} {
			changed := slices.Clone(data)
			changed[i] = to
			if seal(changed); slices.Equal(changed, data) {
				continue
			}
			if exercise(t, changed) == nil {
				unseen++
			}
		}
	}
	t.Logf("%d changes give a manifest like any other", unseen)
}

// exercise reads all of a manifest that may be anything, and returns what Verify says.
func exercise(t testing.TB, data []byte) error {
	m, err := manifest.Parse(data)
	if err != nil {
		if kind := object.KindOf(err); kind != object.Corrupt && kind != object.Invalid {
			t.Fatal(err)
		}
		return err
	}
	for i := range min(m.Len(), 1000) {
		if _, err := m.Sample(i); err != nil {
			wantKind(t, err, object.Corrupt, "sample %d", i)
		}
		if key, err := m.Key(i); err == nil {
			if _, err := m.Find(key); err != nil && !object.Is(err, object.NotFound) {
				wantKind(t, err, object.Corrupt, "find %q", key)
			}
		}
	}
	for i := range min(m.Shards(), 1000) {
		if _, err := m.Shard(i); err != nil {
			wantKind(t, err, object.Corrupt, "shard %d", i)
		}
	}
	for range m.Prefix("a") {
	}
	err = m.Verify(context.Background())
	if err != nil {
		wantKind(t, err, object.Corrupt, "verify")
	}
	return err
}

func TestUnknown(t *testing.T) {
	for about, at := range map[string]int{"format": 8, "features": 12} {
		data := small().bytes(t)
		little.PutUint32(data[at:], 1<<7)
		little.PutUint32(data[20:], 0)
		little.PutUint32(data[20:], crc32.ChecksumIEEE(data[:little.Uint32(data[16:])]))
		_, err := manifest.Parse(data)
		wantKind(t, err, object.Invalid, "%s", about)
		if !strings.Contains(err.Error(), about) {
			t.Error(err)
		}
	}
	data := small().bytes(t)
	little.PutUint32(data[24:], 1<<7)
	seal(data)
	m, err := manifest.Parse(data)
	must(t, err)
	must(t, m.Verify(context.Background()))
}

// TestFault: a file that is cut short while it is mapped is an error, not the end
// of the process. Values that were taken out before stay.
func TestFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // files are not mapped there
	}
	tb := &table{options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}}}, shards: []manifest.Shard{{Name: "a", Size: 10}}}
	for i := range 100_000 {
		tb.samples = append(tb.samples, manifest.Sample{Key: fmt.Sprint(i), Pieces: []manifest.Piece{{Size: 10}}})
	}
	path := tb.file(t)
	m, err := manifest.Open(path)
	must(t, err)
	key, err := m.Key(99_999)
	must(t, err)
	must(t, os.Truncate(path, 4096))
	for range 2 {
		_, err = m.Key(99_999)
		wantKind(t, err, object.Unavailable, "a key that was read before")
		_, err = m.Find("77")
		wantKind(t, err, object.Unavailable, "find")
		_, err = m.Piece(99_999, 0)
		wantKind(t, err, object.Unavailable, "piece")
		_, _, err = m.Range("7")
		wantKind(t, err, object.Unavailable, "range")
		wantKind(t, m.Verify(context.Background()), object.Unavailable, "verify")
	}
	if key != "99999" {
		t.Error(key)
	}
	r, err := m.Relocate(filepath.Join(t.TempDir(), "m"), manifest.Layout{})
	must(t, err)
	wantKind(t, r.Add([]manifest.Piece{{Size: 10}}), object.Unavailable, "relocate")
	r.Abort()
}

func TestOpenWhatIsNone(t *testing.T) {
	dir := t.TempDir()
	_, err := manifest.Open(filepath.Join(dir, "gone"))
	wantKind(t, err, object.NotFound, "no file")
	_, err = manifest.Open(dir)
	wantKind(t, err, object.Invalid, "a directory")
	for _, content := range []string{"", "P", "PenstRun", strings.Repeat("x", 1000)} {
		path := filepath.Join(dir, "other")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		_, err = manifest.Open(path)
		wantKind(t, err, object.Invalid, "%q", content)
	}
}

func checksum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// tableOf returns where the table of sections begins, and sectionOf where the first
// section of a kind does, by a reading of the document and not of the code.
func tableOf(data []byte) int64 {
	at := 144 + int64(little.Uint32(data[72:])) + 4
	at += int64(little.Uint16(data[144+12:])) // forms
	at += 1 + int64(data[at])
	return (at + 7) &^ 7
}

func sectionOf(data []byte, kind uint16) (offset, length int64) {
	for at, n := tableOf(data), little.Uint32(data[28:]); n > 0; at, n = at+24, n-1 {
		if little.Uint16(data[at:]) == kind {
			return int64(little.Uint64(data[at+8:])), int64(little.Uint64(data[at+16:]))
		}
	}
	return 0, 0
}

// classValues returns where the values of column 4 are.
func classValues(data []byte) int64 {
	at := tableOf(data)
	for little.Uint32(data[at:]) != 4<<16|5 {
		at += 24
	}
	return int64(little.Uint64(data[at+8:]))
}
