package pack_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// mutate changes data as the input says: overwrite, clear, repeat from elsewhere,
// flip, cut.
func mutate(data, input []byte) []byte {
	data = slices.Clone(data)
	for len(input) >= 4 && len(data) > 0 {
		at := int(binary.LittleEndian.Uint16(input)) % len(data)
		op, n := input[2], int(input[3])
		input = input[4:]
		piece := data[at:]
		switch op % 6 {
		case 0:
			n = min(n, len(input))
			copy(piece, input[:n])
			input = input[n:]
		case 1:
			clear(piece[:min(len(piece), 4*n)])
		case 2: // whole blocks, so that heads stay heads
			from := n * pack.Block % len(data)
			copy(data[at/pack.Block*pack.Block:], slices.Clone(data[from:min(len(data), from+pack.Block)]))
		case 3:
			piece[0] ^= byte(n)
		case 4:
			data = data[:at]
		case 5:
			data = append(data, piece[:min(len(piece), 64*n)]...)
		}
	}
	return data
}

// FuzzScan: whatever is done to a pack, no record comes out of it that was not
// written into it.
func FuzzScan(f *testing.F) {
	m := newMemory(f, 1)
	l := newLog(f, m, options(1))
	for i, r := range sampleRecords() {
		if len(r.Extents) < 100 {
			l.append(r, bytes.Repeat([]byte{byte(i)}, i*37))
		}
		if i%4 == 0 {
			l.sync()
		}
	}
	l.append(put("pack", 99), contents(f, m, 1)[:l.w.End()])
	l.seal()
	data := contents(f, m, 1)
	f.Add([]byte{0, 4, 0, 4, 'a', 'b', 'c', 'd'}, uint32(0))
	f.Add([]byte{0, 4, 2, 8}, uint32(5000))
	f.Add([]byte{0, 10, 4, 0, 0, 4, 5, 255}, uint32(0))
	f.Add([]byte{0, 4, 1, 255, 0, 9, 3, 1}, uint32(60000))
	f.Fuzz(func(t *testing.T, input []byte, floor uint32) {
		now := mutate(data, input)
		f, err := pack.Open(imageFS{packs: image{1: now}}, 1, secret)
		if err != nil {
			t.Fatal(err) // the secret is given, and nobody can make another head
		}
		l.checkReads(t, f)
		_, res := l.scan(t, f, pack.ScanOptions{Floor: int64(floor)})
		if res.End < 0 {
			t.Fatal(res)
		}
		l.scan(t, f, pack.ScanOptions{Payloads: true})
		if f, err := pack.Open(imageFS{packs: image{1: now}}, 1, nil); err == nil {
			l.scan(t, f, pack.ScanOptions{})
		}
	})
}

// FuzzAgainstArchiveTar: what Scan and Read say of a pack is what archive/tar
// says of it.
func FuzzAgainstArchiveTar(f *testing.F) {
	for _, key := range append(ordinaryKeys(), awkwardKeys()...) {
		f.Add(key, "image/png", "", "", "", []byte("content"), int64(1700000000e9), uint8(1), false, uint8(0))
	}
	f.Add("k", "x/y", "0123456789abcdef0123456789abcdef", "meta", "data", []byte{}, int64(-1), uint8(2), true, uint8(0))
	f.Add("k", "", "e-1", "=", "&", make([]byte, 600), int64(1)<<62, uint8(1), false, uint8(3))
	f.Fuzz(func(t *testing.T, key, contentType, etag, metaKey, metaValue string, payload []byte, modified int64, kind uint8, hidden bool, blobs uint8) {
		r := put(key, 1)
		r.Kind, r.ContentType, r.ETag, r.Hidden = pack.Kind(kind%3+1), contentType, etag, hidden
		r.Modified = time.Unix(0, modified).UTC()
		r.Metadata = map[string]string{metaKey: metaValue}
		if metaKey == "" {
			r.Metadata = nil
		}
		if blobs > 0 {
			r.Extents, r.Size = extents(int(blobs)), modified&(1<<40-1)
		}
		m := newMemory(t, 1)
		o := options(1)
		o.Step = pack.Block
		l := newLog(t, m, o)
		d := draft(r, payload)
		err := l.w.Append(d)
		if object.ValidateKey(key) != nil {
			if !object.Is(err, object.Invalid) {
				t.Fatal(err)
			}
			return
		}
		must(t, err)
		l.records = append(l.records, written{d, payload, l.w.Synced()})
		l.append(put("after", 2), payload)
		l.seal()
		data := contents(t, m, 1)
		l.checkWhole(t, open(t, data))
		l.checkAgainstTar(t, data)
	})
}

// checkAgainstTar compares the records with what archive/tar finds.
func (l *log) checkAgainstTar(t *testing.T, data []byte) {
	t.Helper()
	tr := tar.NewReader(bytes.NewReader(data))
	for i := -1; i <= len(l.records); i++ {
		h, err := tr.Next()
		must(t, err)
		content, err := io.ReadAll(tr)
		must(t, err)
		if i < 0 || i == len(l.records) {
			continue // head and directory
		}
		r := l.records[i]
		if h.Typeflag != tar.TypeReg || h.Size != r.Payload || !bytes.Equal(content, r.payload) {
			t.Fatalf("%+v: %q, not %q", h, content, r.payload)
		}
		name := r.Name.String()
		if large := len(r.Extents) > 0; r.Kind == pack.Tombstone || r.Kind == pack.Marker {
			name = ".penstock/deleted/" + name
		} else if large {
			name = ".penstock/large/" + name
		}
		if h.Name != name && h.PAXRecords["PENSTOCK.name"] != r.Name.String() {
			t.Fatalf("%+v: not %q", h, name)
		}
	}
	if _, err := tr.Next(); err != io.EOF {
		t.Fatal(err)
	}
}

// FuzzStub: anything is parsed to what Append writes again, or refused.
func FuzzStub(f *testing.F) {
	for _, r := range sampleRecords() {
		d := draft(r, []byte("payload"))
		d.Offset = 1 << 30
		stub := d.Stub()
		f.Add(stub.Append(nil))
	}
	f.Add(bytes.Repeat([]byte{0xff}, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, rest, err := pack.ParseStub(b)
		if err != nil {
			if !object.Is(err, object.Corrupt) {
				t.Fatal(err)
			}
			return
		}
		again, none, err := pack.ParseStub(s.Append(nil))
		if err != nil || again != s || len(none) > 0 {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
		if !bytes.HasSuffix(b, rest) || len(s.Append(nil)) > len(b)-len(rest) {
			t.Fatalf("%d bytes of %d are left", len(rest), len(b))
		}
		if s.Offset < 0 || s.Head < pack.Block || s.Payload < 0 || s.Size < 0 || s.End() < s.Offset {
			t.Fatalf("%+v", s)
		}
	})
}
