package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

func stream(t testing.TB, uploads []object.Upload) []byte {
	data := wire.AppendObjectsHead(nil)
	for i := range uploads {
		var err error
		data, err = wire.AppendObject(data, &uploads[i])
		must(t, err)
	}
	return wire.AppendObjectsEnd(data, len(uploads))
}

func randomUploads(r *rand.Rand, count int) []object.Upload {
	uploads := make([]object.Upload, count)
	for i := range uploads {
		u := &uploads[i]
		u.Key = randomText(r, 40)
		u.ContentType = []string{"", "text/plain", "image/jpeg; é"}[r.IntN(3)]
		u.Bytes = make([]byte, r.IntN(200))
		if r.IntN(20) == 0 {
			u.Bytes = make([]byte, 100<<10)
		}
		for i := range u.Bytes {
			u.Bytes[i] = byte(r.Uint32())
		}
	}
	return uploads
}

// drain reads a stream to its end and returns the error that ended it, nil if it
// was io.EOF.
func drain(o *wire.ObjectsReader) error {
	for {
		if _, err := o.Next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{o}); err != nil {
			return err
		}
	}
}

func TestObjectsComeOutAsTheyWentIn(t *testing.T) {
	r := source(t)
	for range 100 {
		uploads := randomUploads(r, r.IntN(20))
		var from io.Reader = bytes.NewReader(stream(t, uploads))
		if r.IntN(2) == 0 {
			from = iotest.DataErrReader(iotest.HalfReader(from))
		}
		o := wire.NewObjectsReader(from)
		for i, u := range uploads {
			got, err := o.Next()
			must(t, err)
			want := wire.Object{Key: u.Key, ContentType: u.ContentType, Size: int64(len(u.Bytes)), CRC32: crc32.ChecksumIEEE(u.Bytes)}
			if got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
			some := r.IntN(len(u.Bytes) + 1)
			if r.IntN(2) == 0 {
				some = len(u.Bytes)
			}
			data := make([]byte, some)
			_, err = io.ReadFull(o, data)
			if must(t, err); !bytes.Equal(data, u.Bytes[:some]) {
				t.Fatalf("object %d has other bytes", i)
			}
			if n, err := o.Read(make([]byte, 1)); some == len(u.Bytes) && (n != 0 || err != io.EOF) {
				t.Fatal(n, err)
			}
		}
		for range 2 {
			if _, err := o.Next(); err != io.EOF {
				t.Fatal(err)
			}
		}
		if n, err := o.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
	}
}

func TestCutStream(t *testing.T) {
	data := stream(t, []object.Upload{{Key: "a", Bytes: []byte("bytes")}, {Key: "empty"}, {Key: "b", ContentType: "text/plain", Bytes: make([]byte, 30)}})
	for cut := range data {
		err := drain(wire.NewObjectsReader(bytes.NewReader(data[:cut])))
		wantKind(t, err, object.Invalid, "cut at %d, read", cut)
		o := wire.NewObjectsReader(bytes.NewReader(data[:cut]))
		for err = nil; err == nil; {
			_, err = o.Next()
		}
		wantKind(t, err, object.Invalid, "cut at %d, skipped", cut)
		if _, again := o.Next(); again != err {
			t.Fatal(again)
		}
	}
	broken := errors.New("broken pipe")
	err := drain(wire.NewObjectsReader(io.MultiReader(bytes.NewReader(data[:len(data)-20]), iotest.ErrReader(broken))))
	if err != broken {
		t.Errorf("%v, want the reader's own error", err)
	}
}

func TestBadObjects(t *testing.T) {
	for what, u := range map[string]object.Upload{
		"no key":            {},
		"long key":          {Key: strings.Repeat("k", object.MaxKey+1)},
		"key no UTF-8":      {Key: "\xff"},
		"long type":         {Key: "k", ContentType: strings.Repeat("t", 1025)},
		"type no UTF-8":     {Key: "k", ContentType: "\xff"},
		"header in a type":  {Key: "k", ContentType: "a\r\nX: b"},
		"delete in a type":  {Key: "k", ContentType: "a\x7f"},
		"endlessly long":    {Key: strings.Repeat("k", 1<<16+1)},
		"type of 2^16 + 1 ": {Key: "k", ContentType: strings.Repeat("t", 1<<16+1)},
	} {
		b, err := wire.AppendObject([]byte("before"), &u)
		if wantKind(t, err, object.Invalid, "%s", what); string(b) != "before" {
			t.Errorf("%s: %q", what, b)
		}
	}
	good := stream(t, []object.Upload{{Key: "key", ContentType: "text/plain", Bytes: []byte("bytes")}})
	end := len(good) - 16
	change := func(at int, to ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], to)
		return b
	}
	for what, data := range map[string][]byte{
		"nothing":          nil,
		"magic":            change(7, '2'),
		"no key":           change(8, 0),
		"long key":         change(8, 0xff, 0xff),
		"long type":        change(10, 0xff, 0xff),
		"negative size":    change(23, 0x80),
		"lying size":       change(16, binary.LittleEndian.AppendUint64(nil, 1<<60)...),
		"one byte less":    change(16, 4),
		"one byte more":    change(16, 6),
		"key no UTF-8":     change(24, 0xff),
		"newline in type":  change(27, '\n'),
		"other zero":       change(end+2, 1),
		"count":            change(end+4, 2),
		"end":              change(end+15, 'D'),
		"something behind": append(slices.Clone(good), 0),
		"two streams":      slices.Concat(good, good),
	} {
		wantKind(t, drain(wire.NewObjectsReader(bytes.NewReader(data))), object.Invalid, "%s", what)
	}
	must(t, drain(wire.NewObjectsReader(bytes.NewReader(good))))
}
