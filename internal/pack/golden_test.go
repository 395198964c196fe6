package pack_test

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

var update = flag.Bool("update", false, "write the golden packs anew: only when the format changes on purpose")

const vectors = "../../testdata/vectors/pack"

// vector describes a golden pack, for readers in any language.
type vector struct {
	About    string         `json:"about"`
	Secret   string         `json:"secret_hex"`
	Disk     string         `json:"disk"`
	Pack     uint64         `json:"pack"`
	Previous uint64         `json:"previous"`
	End      int64          `json:"end"`
	Moved    bool           `json:"moved"`
	Sealed   bool           `json:"sealed"`
	Clock    int64          `json:"clock_ns"`
	Step     int64          `json:"step"`
	Records  []vectorRecord `json:"records"`
}

type vectorRecord struct {
	Kind        pack.Kind         `json:"kind"`
	Bucket      string            `json:"bucket"`
	Key         string            `json:"key"`
	Map         uint32            `json:"map"`
	Counter     uint64            `json:"counter"`
	ID          *vectorID         `json:"id,omitempty"`
	Modified    int64             `json:"modified_ns"`
	ETag        string            `json:"etag,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Metadata    map[string]string `json:"metadata_hex,omitempty"` // key and value
	Size        int64             `json:"size"`
	CRC32       uint32            `json:"crc32"`
	Extents     [][3]uint64       `json:"extents,omitempty"` // blob, offset, length
	Hidden      bool              `json:"hidden,omitempty"`
	Payload     []byte            `json:"payload"`  // base64
	Synced      bool              `json:"synced"`   // the pack was synced after it
	Offset      int64             `json:"offset"`   // from here on: what the others lead to
	Head        int64             `json:"head"`     // bytes
	Path        string            `json:"tar_path"` // what tar shows
	Stub        string            `json:"stub_hex"` // in directory and index
}

// vectorID is the ID of a name that has one.
type vectorID struct {
	Map     uint32 `json:"map"`
	Counter uint64 `json:"counter"`
}

func (id *vectorID) String() string { return fmt.Sprint(*id) }

func (v *vectorRecord) record(t *testing.T) pack.Record {
	r := pack.Record{
		Kind: v.Kind, Name: object.Name{Bucket: v.Bucket, Key: v.Key}, Version: object.Version{Map: v.Map, Counter: v.Counter},
		Modified: time.Unix(0, v.Modified).UTC(), ETag: v.ETag, ContentType: v.ContentType,
		Size: v.Size, CRC32: v.CRC32, Hidden: v.Hidden,
	}
	if v.ID != nil {
		r.Name.ID = object.Version{Map: v.ID.Map, Counter: v.ID.Counter}
	}
	for _, e := range v.Extents {
		r.Extents = append(r.Extents, pack.Extent{Blob: e[0], Offset: int64(e[1]), Length: int64(e[2])})
	}
	for key, value := range v.Metadata {
		if r.Metadata == nil {
			r.Metadata = map[string]string{}
		}
		r.Metadata[unhex(t, key)] = unhex(t, value)
	}
	return r
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return string(b)
}

// build writes the pack that v describes, and sets what follows from the rest.
func (v *vector) build(t *testing.T) (*log, []byte) {
	t.Helper()
	m := newMemory(t, 1)
	l := newLog(t, m, pack.Options{
		ID: v.Pack, Disk: v.Disk, Secret: []byte(unhex(t, v.Secret)), Previous: v.Previous, End: v.End, Moved: v.Moved, Step: v.Step,
		Clock: func() time.Time { return time.Unix(0, v.Clock) },
	})
	for i := range v.Records {
		x := &v.Records[i]
		l.append(x.record(t), x.Payload)
		if x.Synced {
			l.sync()
		}
		d := l.records[i]
		stub := d.Stub()
		x.Offset, x.Head, x.Size, x.CRC32, x.Stub = d.Offset, d.Head, d.Size, d.CRC32, hex.EncodeToString(stub.Append(nil))
	}
	if v.Sealed {
		l.seal()
	}
	data := contents(t, m, v.Pack)
	tr := tar.NewReader(bytes.NewReader(data))
	for i := -1; i < len(v.Records); i++ {
		h, err := tr.Next()
		must(t, err)
		if i >= 0 {
			v.Records[i].Path = h.Name
		}
	}
	return l, data
}

// TestGolden: the bytes of packs and stubs do not change by accident.
func TestGolden(t *testing.T) {
	if *update {
		for name, v := range goldenVectors() {
			_, data := v.build(t)
			text, err := json.MarshalIndent(v, "", "\t")
			must(t, err)
			must(t, os.MkdirAll(vectors, 0o755))
			must(t, os.WriteFile(filepath.Join(vectors, name+".json"), append(text, '\n'), 0o644))
			must(t, os.WriteFile(filepath.Join(vectors, name+".tar"), data, 0o644))
		}
	}
	files, err := filepath.Glob(filepath.Join(vectors, "*.json"))
	if must(t, err); len(files) < len(goldenVectors()) {
		t.Fatalf("golden packs are missing: %v", files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			var v, again vector
			must(t, json.Unmarshal(text, &v))
			must(t, json.Unmarshal(text, &again))
			golden, err := os.ReadFile(file[:len(file)-len(".json")] + ".tar")
			must(t, err)
			l, data := again.build(t)
			if !bytes.Equal(data, golden) {
				t.Errorf("the pack is another than before, from byte %d on", firstDifference(data, golden))
			}
			if fmt.Sprint(again) != fmt.Sprint(v) {
				t.Errorf("%+v\nwas\n%+v", again, v)
			}
			for _, secret := range [][]byte{[]byte(unhex(t, v.Secret)), nil} {
				f, err := pack.Open(imageFS{packs: image{v.Pack: golden}}, v.Pack, secret)
				must(t, err)
				l.checkWhole(t, f)
				if previous, end := f.Previous(); previous != v.Previous || end != v.End || f.Moved() != v.Moved {
					t.Error(previous, end, f.Moved())
				}
				if _, err := f.Directory(func(object.Name, pack.Stub) error { return nil }); (err == nil) != v.Sealed {
					t.Error(err)
				}
			}
		})
	}
}

func firstDifference(a, b []byte) int {
	ra, rb := bytes.NewReader(a), bytes.NewReader(b)
	for i := 0; ; i++ {
		x, errA := ra.ReadByte()
		y, errB := rb.ReadByte()
		if x != y || errA == io.EOF || errB == io.EOF {
			return i
		}
	}
}
