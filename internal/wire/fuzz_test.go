package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// seeds adds the golden vectors of one format.
func seeds(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join(vectors, pattern+".bin"))
	if must(f, err); len(files) == 0 {
		f.Fatal("no vectors")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(f, err)
		f.Add(data)
	}
}

// FuzzRefs: what is taken can be written again, and comes out the same.
func FuzzRefs(f *testing.F) {
	seeds(f, "refs*")
	f.Fuzz(func(t *testing.T, data []byte) {
		refs, err := wire.ParseRefs(data)
		if err != nil {
			wantKind(t, err, object.Invalid, "%q", data)
			return
		}
		if 4*cap(refs) > len(data) {
			t.Fatalf("memory for %d references from %d bytes", cap(refs), len(data))
		}
		for _, bucket := range []string{"", "bucket"} {
			written, err := wire.AppendRefs(nil, bucket, refs)
			must(t, err)
			again, err := wire.ParseRefs(written)
			if must(t, err); !slices.Equal(refs, again) {
				t.Fatalf("%+v\nbecame\n%+v", refs, again)
			}
		}
	})
}

var errRefused = errors.New("refused")

// reference reads references with encoding/json, token by token in order to see
// what Unmarshal would smooth over.
func reference(data []byte) (refs []object.Ref, err error) {
	if !utf8.Valid(data) {
		return nil, errRefused
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	defer func() {
		if v := recover(); v != nil {
			err = v.(error)
		}
	}()
	token := func() json.Token {
		tok, err := d.Token()
		if err != nil {
			panic(err)
		}
		return tok
	}
	expect := func(delim json.Delim) {
		if token() != delim {
			panic(errRefused)
		}
	}
	text := func() string {
		s, ok := token().(string)
		if !ok || s == "" {
			panic(errRefused)
		}
		return s
	}
	number := func() int64 {
		n, ok := token().(json.Number)
		if !ok {
			panic(errRefused)
		}
		i, err := n.Int64()
		if err != nil {
			panic(err)
		}
		return i
	}
	fields := func(field func(name string) bool) {
		expect('{')
		seen := map[string]bool{}
		for d.More() {
			name, ok := token().(string)
			if !ok || seen[name] || !field(name) {
				panic(errRefused)
			}
			seen[name] = true
		}
		expect('}')
	}
	var bucket string
	found := false
	fields(func(name string) bool {
		switch name {
		case "bucket":
			bucket = text()
		case "refs":
			found = true
			expect('[')
			for d.More() {
				var r object.Ref
				fields(func(name string) bool {
					switch name {
					case "bucket":
						r.Name.Bucket = text()
					case "key":
						r.Name.Key = text()
					case "member":
						r.Member = text()
					case "offset":
						r.Range.Offset = number()
					case "length":
						r.Range.Length = number()
					case "crc32":
						crc, err := hex.DecodeString(text())
						if err != nil || len(crc) != 4 {
							panic(errRefused)
						}
						r.CRC32, r.Checked = binary.BigEndian.Uint32(crc), true
					default:
						return false
					}
					return true
				})
				refs = append(refs, r)
			}
			expect(']')
		default:
			return false
		}
		return true
	})
	if _, err := d.Token(); err != io.EOF || !found {
		return nil, errRefused
	}
	refs = settled(refs, bucket)
	_, err = wire.AppendRefs(nil, bucket, refs) // knows what names and ranges are good
	return refs, err
}

// FuzzRefsJSON: our parser takes what encoding/json takes, less what is refused on
// purpose, and understands it in the same way.
func FuzzRefsJSON(f *testing.F) {
	for _, s := range []string{
		`{"refs":[]}`, `{"bucket":"bucket","refs":[{"key":"k","offset":-0,"length":10}]}`, ` {"refs" : [ {"key":"\u00e9\ud83d\ude00\n\/","bucket":"abc"} , {"key":"b","bucket":"abc","member":"m"} ] } `,
		`{"bucket":"bucket","refs":[{"key":"k","crc32":"89ABcdef"},{"crc32":"00000000","key":"l","length":5}]}`, `{"bucket":"bucket","refs":[{"key":"k","crc32":"\u0030x000000"}]}`,
		`{"bucket":"bucket","refs":[{"key":"\ud800"}]}`, `{"bucket":"bucket","refs":[{"key":"k","offset":1e3}]}`, `{"refs":[],"refs":[]}`, `{"refs":[]}{}`,
	} {
		f.Add([]byte(s))
	}
	seeds(f, "refs-json*")
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := wire.ParseRefsJSON(data)
		want, refused := reference(data)
		if err != nil {
			wantKind(t, err, object.Invalid, "%q", data)
			// encoding/json turns half a surrogate pair into U+FFFD. We refuse it.
			lenient := bytes.Contains(bytes.ToLower(data), []byte(`\ud`))
			if refused == nil && !lenient && len(want) <= wire.MaxRefs {
				t.Fatalf("%q is refused: %v", data, err)
			}
			return
		}
		if refused != nil || !slices.Equal(got, want) {
			t.Fatalf("%q gives\n%+v\nwant\n%+v, %v", data, got, want, refused)
		}
		if cap(got) > len(data)/12+1 && cap(got) > 2*len(got) {
			t.Fatalf("memory for %d references from %d bytes", cap(got), len(data))
		}
	})
}

// FuzzBatch: whatever comes, each item has its bytes or an error, and an answer
// that is whole is the same when written again.
func FuzzBatch(f *testing.F) {
	const largest = 1 << 16
	seeds(f, "batch*")
	f.Fuzz(func(t *testing.T, data []byte) {
		count := 0
		if len(data) > 10 {
			count = int(data[8]) | int(data[9])<<8
		}
		b := wire.NewBatchReader(bytes.NewReader(data), count, largest)
		var items []item
		total := 0
		for {
			got, crc, err := b.Next()
			if b.Broken() != nil {
				if again := b.Broken(); err != again {
					t.Fatal(err, again)
				}
				return
			}
			if err == io.EOF {
				break
			}
			if err == nil && crc32.ChecksumIEEE(got) != crc {
				t.Fatal("a wrong checksum came out")
			}
			total += len(got)
			items = append(items, item{bytes: bytes.Clone(got), err: err})
		}
		if len(items) != count || total > len(data) {
			t.Fatalf("%d items of %d bytes from %d bytes, want %d items", len(items), total, len(data), count)
		}
		var segments []int
		if count > 0 {
			segments = []int{count}
		}
		written, _ := answer(items, segments)
		b.Reset(bytes.NewReader(written), count, int64(total))
		for i, it := range items {
			if it.err != nil && !utf8.ValidString(it.err.Error()) {
				it.err = object.Errorf(object.KindOf(it.err), "%s", strings.ToValidUTF8(it.err.Error(), "?"))
			}
			got, crc, err := b.Next()
			if err := same(it, got, crc, err); err != nil {
				t.Fatal(i, err)
			}
		}
		if _, _, err := b.Next(); err != io.EOF {
			t.Fatal(err)
		}
	})
}

// FuzzObjects: a stream that is taken is the same, byte for byte, when written
// again, but for checksums that were wrong.
func FuzzObjects(f *testing.F) {
	seeds(f, "objects*")
	f.Fuzz(func(t *testing.T, data []byte) {
		o := wire.NewObjectsReader(bytes.NewReader(data))
		var uploads []object.Upload
		honest := true
		for {
			next, err := o.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				wantKind(t, err, object.Invalid, "%q", data)
				return
			}
			content, err := io.ReadAll(o)
			if err != nil {
				wantKind(t, err, object.Invalid, "%q", data)
				return
			}
			if int64(len(content)) != next.Size {
				t.Fatalf("%d bytes, want %d", len(content), next.Size)
			}
			honest = honest && crc32.ChecksumIEEE(content) == next.CRC32
			uploads = append(uploads, object.Upload{Key: next.Key, ContentType: next.ContentType, Bytes: content})
		}
		if written := stream(t, uploads); len(written) != len(data) || (honest && !bytes.Equal(written, data)) {
			t.Fatalf("%q\nbecame\n%q", data, written)
		}
	})
}
