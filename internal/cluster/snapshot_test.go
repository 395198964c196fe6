package cluster

import (
	"bytes"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"penstock.dev/penstock/internal/object"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example is a snapshot with something in every field.
func example() *snapshot {
	return &snapshot{
		head: head{
			set: setID([]byte("0123456789abcdef")), disk: 0xd15c, start: 3, number: number{2, 7}, revision: 1<<21 + 9,
			members: []diskID{0xd15c, 0xd15d},
		},
		records: []*Record{
			{Key: "bucket/images", Value: []byte(`{"mirror":2}`), Created: 5, Modified: 1<<21 + 9},
			{Key: "map", Value: []byte{}, Created: 2, Modified: 2},
		},
	}
}

func (s *snapshot) encode() []byte {
	body, count := appendBody(nil, s.members, s.records)
	return append(appendHead(nil, &s.head, count, len(body), crc32.ChecksumIEEE(body)), body...)
}

// TestGolden keeps the format as it is.
func TestGolden(t *testing.T) {
	name := filepath.Join("testdata", "control.v1")
	if *update {
		if err := os.WriteFile(name, example().encode(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(example().encode(), golden) {
		t.Errorf("the example is\n%x, want\n%x", example().encode(), golden)
	}
	s, err := decode(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.encode(), golden) || string(s.records[0].Value) != `{"mirror":2}` || s.number != (number{2, 7}) {
		t.Errorf("the golden file is read as %+v", s)
	}
}

// FuzzDecode gives the decoder what was sealed with right checksums, so that it
// gets beyond those, and what was not.
func FuzzDecode(f *testing.F) {
	f.Add(example().encode(), true)
	f.Add(example().encode(), false)
	f.Add((&snapshot{head: head{revision: 1}}).encode(), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) >= headSize {
			b = bytes.Clone(b)
			little.PutUint64(b[80:], uint64(len(b)-headSize))
			little.PutUint32(b[88:], crc32.ChecksumIEEE(b[headSize:]))
			little.PutUint32(b[92:], crc32.ChecksumIEEE(b[:92]))
		}
		s, err := decode(b)
		if err != nil {
			if kind := object.KindOf(err); kind != object.Corrupt && kind != object.Invalid {
				t.Fatalf("error %v", err)
			}
			return
		}
		if !bytes.Equal(s.encode(), b) {
			t.Fatalf("%x is read, and written as %x", b, s.encode())
		}
		last := ""
		for _, r := range s.records {
			if validate(r.Key, r.Value) != nil || r.Key <= last || r.Created < 1 || r.Created > r.Modified || r.Modified > s.revision {
				t.Fatalf("an impossible record %+v is read", r)
			}
			last = r.Key
		}
	})
}
