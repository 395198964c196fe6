package manifest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

const vectors = "../../testdata/vectors/manifest"

// vector describes a file, for readers in any language.
type vector struct {
	About    string           `json:"about"`
	Error    string           `json:"error,omitempty"` // the kind; empty: all is well
	At       string           `json:"at,omitempty"`    // what fails: open, read (some sample, shard or class), verify (reading is fine)
	Name     string           `json:"name,omitempty"`
	Version  uint64           `json:"version,omitempty"`
	Created  int64            `json:"created,omitempty"` // nanoseconds since 1970
	Seed     uint64           `json:"seed,omitempty"`
	Chunk    uint32           `json:"chunk,omitempty"` // samples in one
	Hash     string           `json:"hash,omitempty"`
	Tag      string           `json:"tag,omitempty"`
	Fields   []vectorField    `json:"fields,omitempty"`
	Columns  []vectorColumn   `json:"columns,omitempty"`
	Shards   []vectorShard    `json:"shards,omitempty"`
	Samples  []vectorSample   `json:"samples,omitempty"`
	Prefixes map[string][]int `json:"prefixes,omitempty"` // which samples are listed, in this order

	data []byte
}

type vectorField struct {
	Name      string `json:"name"`
	Unchecked bool   `json:"unchecked,omitempty"` // checksums are no part of the hash
	Apart     bool   `json:"apart,omitempty"`
}

type vectorColumn struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"` // int, float, text, class
	Optional bool     `json:"optional,omitempty"`
	Classes  []string `json:"classes,omitempty"`
}

type vectorShard struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Tag    string `json:"tag,omitempty"`
	Format int    `json:"format"`
}

type vectorSample struct {
	Key    string         `json:"key"`
	Pieces []*vectorPiece `json:"pieces,omitempty"` // null: absent
	Values []any          `json:"values,omitempty"` // null: missing; of a class its name
}

type vectorPiece struct {
	Shard  uint32  `json:"shard"`
	Offset int64   `json:"offset"`
	Size   int64   `json:"size"`
	CRC32  *uint32 `json:"crc32"` // null: not known
}

var typeNames = map[manifest.Type]string{manifest.Int: "int", manifest.Float: "float", manifest.Text: "text", manifest.Class: "class"}

// describe reads a manifest and says what is in it.
func describe(m *manifest.Manifest, about string, prefixes []string) (*vector, error) {
	tb, err := read(m)
	if err != nil {
		return nil, err
	}
	hash, o := m.Hash(), tb.options
	v := &vector{
		About: about, Name: o.Name, Version: o.Version, Created: o.Created.UnixNano(), Seed: o.Seed, Chunk: o.ChunkSamples,
		Hash: hex.EncodeToString(hash[:]), Tag: m.Tag(), Prefixes: make(map[string][]int),
	}
	for _, f := range o.Fields {
		v.Fields = append(v.Fields, vectorField(f))
	}
	for _, c := range o.Columns {
		v.Columns = append(v.Columns, vectorColumn{c.Name, typeNames[c.Type], c.Optional, c.Classes})
	}
	for _, s := range tb.shards {
		v.Shards = append(v.Shards, vectorShard{s.Name, s.Size, s.Tag, int(s.Format)})
	}
	for _, s := range tb.samples {
		v.Samples = append(v.Samples, describeSample(s, o.Columns))
	}
	for _, p := range prefixes {
		v.Prefixes[p] = []int{}
		for i, err := range m.Prefix(p) {
			if err != nil {
				return nil, err
			}
			v.Prefixes[p] = append(v.Prefixes[p], i)
		}
	}
	return v, nil
}

func describeSample(s manifest.Sample, columns []manifest.Column) vectorSample {
	out := vectorSample{Key: s.Key}
	for _, p := range s.Pieces {
		if p.Absent {
			out.Pieces = append(out.Pieces, nil)
			continue
		}
		piece := &vectorPiece{Shard: p.Shard, Offset: p.Offset, Size: p.Size}
		if p.Checked {
			piece.CRC32 = &p.CRC32
		}
		out.Pieces = append(out.Pieces, piece)
	}
	for c, v := range s.Values {
		switch {
		case v.Missing:
			out.Values = append(out.Values, nil)
		case columns[c].Type == manifest.Int:
			out.Values = append(out.Values, v.Int)
		case columns[c].Type == manifest.Float:
			out.Values = append(out.Values, v.Float)
		default:
			out.Values = append(out.Values, v.Text)
		}
	}
	return out
}

// goldenTables are the manifests that are as they should be.
func goldenTables() map[string]*table {
	plain := &table{options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}}}}
	plain.shards = []manifest.Shard{{Name: "000000.tar", Size: 1 << 20, Tag: "5d41402abc4b2a76b9719d911017c592", Format: manifest.Tar}, {Name: "000001.tar", Size: 1 << 33, Format: manifest.Tar}}
	for i := range 40 {
		plain.samples = append(plain.samples, manifest.Sample{
			Key:    fmt.Sprintf("n%02d/%d", i*7%13, i*i*31%97*100+i),
			Pieces: []manifest.Piece{{Shard: uint32(i % 2), Offset: int64(i)*20480 + int64(i%2)<<32, Size: int64(i * 500), CRC32: uint32(i) * 2654435761}},
		})
	}

	fields := small()
	fields.options.Columns = nil
	for i := range fields.samples {
		fields.samples[i].Values = nil
	}
	fields.samples = append(fields.samples, manifest.Sample{Key: "before", Pieces: []manifest.Piece{{Offset: 4000, Size: 1000, CRC32: 1}, {Offset: 100, Size: 50}, {Absent: true}}})

	far := &table{
		options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "mp4"}, {Name: "json"}}},
		shards:  []manifest.Shard{{Name: "large.tar", Size: 1 << 43, Format: manifest.Tar}},
	}
	for i, gap := range []int64{1 << 32, -1 << 40, (1<<31 - 1) << 9, 0} {
		far.samples = append(far.samples, manifest.Sample{Key: fmt.Sprint(i), Pieces: []manifest.Piece{
			{Offset: 1 << 40, Size: manifest.MaxSize, CRC32: 1<<32 - 1}, {Offset: 1<<40 + gap, Size: 0, CRC32: 0},
		}})
	}

	columns := &table{options: manifest.Options{Info: plainInfo, Columns: []manifest.Column{
		{Name: "number", Type: manifest.Int},
		{Name: "maybe.number", Type: manifest.Int, Optional: true},
		{Name: "weight", Type: manifest.Float, Optional: true},
		{Name: "caption", Type: manifest.Text, Optional: true},
		{Name: "given", Type: manifest.Class, Classes: []string{"zebra", "ape", "never"}},
		{Name: "sorted", Type: manifest.Class, Optional: true},
	}}}
	for i := range 19 {
		columns.samples = append(columns.samples, manifest.Sample{Key: fmt.Sprint("key ", i, "ü"), Values: []manifest.Value{
			{Int: int64(i) - 1<<62},
			{Int: -int64(i), Missing: i%3 == 0},
			{Float: float64(i) / 4, Missing: i%2 == 0},
			{Text: strings.Repeat("漢", i%4), Missing: i%5 == 4},
			{Text: []string{"zebra", "ape"}[i%2]},
			{Text: []string{"b", "c", "日本", "a"}[i%4], Missing: i == 9},
		}})
	}

	blocks := &table{options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "a"}}}, shards: []manifest.Shard{{Name: "s", Size: 1000}}}
	for i := range 350 {
		blocks.samples = append(blocks.samples, manifest.Sample{Key: fmt.Sprintf("%03d%s", i*37%350, strings.Repeat("x", 300)), Pieces: []manifest.Piece{{Offset: int64(i), Size: 1, CRC32: uint32(i)}}})
	}
	return map[string]*table{
		"plain": plain, "fields": fields, "far": far, "columns": columns, "blocks": blocks,
		"empty": {options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}}, Columns: []manifest.Column{{Name: "label", Type: manifest.Class}}}},
	}
}

var goldenAbout = map[string]string{
	"plain":   "one field, two shards",
	"fields":  "fields that are absent, unchecked, apart, and before the first one",
	"far":     "a field that lies so far away that distances count blocks of 512 bytes",
	"columns": "all types of columns, and no field",
	"blocks":  "more than one block of checksums",
	"empty":   "no sample",
}

func goldenVectors(t *testing.T) map[string]*vector {
	all := make(map[string]*vector)
	add := func(name, about string, data []byte) {
		m, err := manifest.Parse(data)
		must(t, err)
		prefixes := []string{"", "n0", "n01/", "a", "b/1", "key 1", "nothing", "\U0010ffff"}
		v, err := describe(m, about, prefixes)
		must(t, err)
		v.data = data
		all[name] = v
	}
	for name, tb := range goldenTables() {
		add(name, goldenAbout[name], tb.bytes(t))
	}
	add("learnt", "fields, in other places and with checksums that were learnt: the hash is the same", learntVector(t))
	add("newer", "a section and a feature that may be ignored, as a newer version may write them", newerVector(t))
	if all["learnt"].Hash != all["fields"].Hash {
		t.Error("a manifest with other places has another hash")
	}

	plain, columns := all["plain"].data, all["columns"].data
	damaged := func(name, about, kind, at string, data []byte, change func([]byte), sealed bool) {
		data = slices.Clone(data)
		change(data)
		if sealed {
			seal(data)
		}
		all[name] = &vector{About: about, Error: kind, At: at, data: data}
	}
	put32 := func(offset int64, v uint32) func([]byte) { return func(b []byte) { little.PutUint32(b[offset:], v) } }
	flip := func(offset int64) func([]byte) { return func(b []byte) { b[offset] ^= 4 } }
	section := func(data []byte, kind uint16) int64 { offset, _ := sectionOf(data, kind); return offset }
	damaged("bad-head", "a bit of the head is wrong", "Corrupt", "open", plain, flip(49), false)
	damaged("bad-table", "a bit of the table of checksums is wrong", "Corrupt", "open", plain, flip(int64(len(plain))-1), false)
	damaged("bad-keys", "a bit of the keys is wrong", "Corrupt", "read", plain, flip(section(plain, 2)), false)
	damaged("bad-padding", "a bit between two sections is wrong", "Corrupt", "read", plain, flip(section(plain, 3)-1), false)
	damaged("other-file", "it is something else", "Invalid", "open", plain, func(b []byte) { copy(b, "PenstRun") }, false)
	all["cut"] = &vector{About: "the last byte is missing", Error: "Corrupt", At: "open", data: plain[:len(plain)-1]}
	all["longer"] = &vector{About: "one byte too many", Error: "Corrupt", At: "open", data: append(slices.Clone(plain), 0)}
	all["cut-head"] = &vector{About: "it ends in its head", Error: "Corrupt", At: "open", data: plain[:100]}
	damaged("newer-format", "a format that is not known", "Invalid", "open", plain, func(b []byte) { put32(8, 2)(b); sealHead(b) }, false)
	damaged("newer-feature", "a feature that must be known and is not", "Invalid", "open", plain, func(b []byte) { put32(12, 1)(b); sealHead(b) }, false)
	// What follows has good checksums, and makes no sense.
	damaged("wrong-shard", "a sample lies in a shard that is not there", "Corrupt", "read", plain, put32(section(plain, 32)+4*7, 2), true)
	damaged("wrong-offset", "a sample lies beyond all files", "Corrupt", "read", plain, func(b []byte) { b[section(b, 33)+8*7+7] = 0x80 }, true)
	damaged("wrong-key", "a key ends before it begins", "Corrupt", "read", plain, func(b []byte) { little.PutUint64(b[section(b, 1)+8*7:], 0) }, true)
	damaged("wrong-rank", "the order by key speaks of a sample that is not there", "Corrupt", "read", plain, put32(section(plain, 16), 40), true)
	damaged("wrong-class", "a sample has a class that is not there", "Corrupt", "read", columns, func(b []byte) { b[classValues(b)+1] = 1 }, true)
	damaged("wrong-hash", "the logical part has another hash", "Corrupt", "verify", plain, flip(80), true)
	damaged("wrong-count", "the head speaks of one sample more", "Corrupt", "open", plain, flip(144), true)
	damaged("wrong-section", "the second section begins elsewhere", "Corrupt", "open", plain, func(b []byte) { b[tableOf(b)+24+8] += 64 }, true)
	return all
}

func sealHead(b []byte) {
	little.PutUint32(b[20:], 0)
	little.PutUint32(b[20:], checksum(b[:little.Uint32(b[16:])]))
}

func learntVector(t *testing.T) []byte {
	tb := goldenTables()["fields"]
	m, err := manifest.Parse(tb.bytes(t))
	must(t, err)
	path := filepath.Join(t.TempDir(), "m")
	move, err := m.Relocate(path, manifest.Layout{Checksums: true})
	must(t, err)
	end := int64(512)
	for i, s := range tb.samples {
		pieces := slices.Clone(s.Pieces)
		for f := range pieces {
			if p := &pieces[f]; !p.Absent {
				p.Shard, p.Offset = uint32(i%2), end
				end += (p.Size+511)&^511 + 512
				if f == 1 {
					p.CRC32 = uint32(1000 + i)
				}
			}
		}
		must(t, move.Add(pieces))
	}
	for i := range 2 {
		_, err := move.AddShard(manifest.Shard{Name: fmt.Sprintf("packed/%d.tar", i), Size: end, Format: manifest.Tar})
		must(t, err)
	}
	must(t, move.Finish())
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

func newerVector(t *testing.T) []byte {
	tb := goldenTables()["plain"]
	path := filepath.Join(t.TempDir(), "m")
	w, err := manifest.Create(path, tb.options)
	must(t, err)
	for _, s := range tb.shards {
		_, err := w.AddShard(s)
		must(t, err)
	}
	for i := range tb.samples {
		must(t, w.Add(&tb.samples[i]))
	}
	must(t, w.FinishWith(20, []byte("nobody knows"), 1<<31))
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// TestVectors: the bytes do not change by accident. PENSTOCK_UPDATE_VECTORS=1
// writes them anew, for a change of the format that is meant.
func TestVectors(t *testing.T) {
	all := goldenVectors(t)
	for name, v := range all {
		text, err := json.MarshalIndent(v, "", "\t")
		must(t, err)
		for file, want := range map[string][]byte{name + ".json": append(text, '\n'), name + ".bin": v.data} {
			file = filepath.Join(vectors, file)
			if os.Getenv("PENSTOCK_UPDATE_VECTORS") == "1" {
				must(t, os.MkdirAll(vectors, 0o755))
				must(t, os.WriteFile(file, want, 0o644))
			}
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is another than before (%v)", file, err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(vectors, "*.json"))
	if must(t, err); len(files) != len(all) {
		t.Errorf("%d vectors, want %d", len(files), len(all))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { checkVector(t, file) })
	}
}

// checkVector reads the bytes and compares what comes out with the description.
func checkVector(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	must(t, err)
	var v vector
	must(t, json.Unmarshal(text, &v))
	m, err := manifest.Open(strings.TrimSuffix(file, ".json") + ".bin")
	at, got := "open", (*vector)(nil)
	if err == nil {
		at = "read"
		var prefixes []string
		for p := range v.Prefixes {
			prefixes = append(prefixes, p)
		}
		got, err = describe(m, v.About, prefixes)
	}
	if err == nil {
		at, err = "verify", m.Verify(context.Background())
	}
	if err != nil || v.Error != "" {
		if object.KindOf(err).String() != v.Error || at != v.At {
			t.Errorf("%s: %v, want %s at %s", at, err, cmp.Or(v.Error, "nothing"), cmp.Or(v.At, "all"))
		}
		return
	}
	shown, err := json.MarshalIndent(got, "", "\t")
	if must(t, err); string(shown)+"\n" != string(text) {
		t.Errorf("it holds %s", shown)
	}
}
