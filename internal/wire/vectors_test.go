package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

const vectors = "../../testdata/vectors/wire"

// vector describes a file of bytes, for readers and writers in any language.
type vector struct {
	About    string         `json:"about"`
	Format   string         `json:"format"`             // refs, json, batch or objects
	Bucket   string         `json:"bucket,omitempty"`   // refs: what those without one mean
	Refs     []refJSON      `json:"refs,omitempty"`     // as they come out, each with its bucket
	Count    int            `json:"count,omitempty"`    // batch: items asked for
	Max      int64          `json:"max,omitempty"`      // batch: bytes of the largest segment that is taken
	Segments []int          `json:"segments,omitempty"` // batch: items in each
	Items    []vectorItem   `json:"items,omitempty"`    // those that come out before the error
	Objects  []vectorObject `json:"objects,omitempty"`  // those that come out before the error
	Error    string         `json:"error,omitempty"`    // the kind; empty: all is well

	data []byte
}

type vectorItem struct {
	Bytes   []byte `json:"bytes,omitempty"` // base64
	CRC32   uint32 `json:"crc32,omitempty"`
	Size    int64  `json:"size,omitempty"`  // in the segment, if the item failed
	Error   string `json:"error,omitempty"` // the kind
	Message string `json:"message,omitempty"`
}

type vectorObject struct {
	Key         string `json:"key"`
	ContentType string `json:"content_type,omitempty"`
	CRC32       uint32 `json:"crc32"`
	Bytes       []byte `json:"bytes"` // base64
}

func listed(items []item) (out []vectorItem) {
	for _, it := range items {
		v := vectorItem{Bytes: it.bytes, CRC32: crc32.ChecksumIEEE(it.bytes)}
		if it.err != nil {
			v = vectorItem{Size: int64(len(it.bytes)), Error: object.KindOf(it.err).String(), Message: it.err.Error()}
		}
		out = append(out, v)
	}
	return out
}

func goldenVectors(t *testing.T) map[string]*vector {
	refs := []object.Ref{
		{Name: object.Name{Key: "plain"}},
		{Name: object.Name{Key: "shards/000001.tar"}, Member: "n01440764/ü.jpg"},
		{Name: object.Name{Key: "range"}, Range: object.Range{Offset: 1 << 33, Length: 4096}},
		{Name: object.Name{Key: "suffix"}, Range: object.Range{Offset: -10}},
		{Name: object.Name{Key: "漢字/😀 \" \\ \n", Bucket: "other.bucket"}},
		{Name: object.Name{Key: "all", Bucket: "other.bucket"}, Member: "m", Range: object.Range{Offset: -1 << 63, Length: 1<<63 - 1}},
		{Name: object.Name{Key: strings.Repeat("k", object.MaxKey), Bucket: "other.bucket"}},
	}
	shown := func(refs []object.Ref) (out []refJSON) {
		for _, r := range settled(refs, "bucket") {
			out = append(out, newRefJSON(r))
		}
		return out
	}
	binary, err := wire.AppendRefs(nil, "bucket", refs)
	must(t, err)
	own, err := wire.AppendRefs(nil, "", settled(refs, "bucket"))
	must(t, err)
	sums := []object.Ref{
		{Name: object.Name{Key: "whole"}, CRC32: 0x89abcdef, Checked: true},
		{Name: object.Name{Key: "empty"}, Checked: true},
		{Name: object.Name{Key: "none"}},
		{Name: object.Name{Key: "0/000001.tar"}, Range: object.Range{Offset: 1 << 33, Length: 4096}, CRC32: 1, Checked: true},
		{Name: object.Name{Key: "all", Bucket: "other.bucket"}, Member: "m", Range: object.Range{Offset: -10, Length: 5}, CRC32: 1<<32 - 1, Checked: true},
	}
	checked, err := wire.AppendRefs(nil, "bucket", sums)
	must(t, err)
	changed := func(b []byte, at int, to byte) []byte {
		b = slices.Clone(b)
		b[(at+len(b))%len(b)] = to
		return b
	}

	long := errors.New(strings.Repeat("ä", 256)) // as long as a message may be
	items := []item{
		{bytes: []byte("the first item\n")},
		{bytes: []byte{}},
		{err: object.Errorf(object.NotFound, "bucket/gone does not exist")},
		{bytes: make([]byte, 64), err: object.Errorf(object.Corrupt, "bucket/rotten is damaged at byte 17 — sorry")},
		{bytes: bytes.Repeat([]byte{0xff, 0}, 100)},
		{err: long},
	}
	batch, _ := answer(items, []int{4, 2})
	var every []item
	for _, kind := range object.Kinds() {
		every = append(every, item{err: object.Errorf(kind, "%v", kind)})
	}
	kinds, _ := answer(every, []int{len(every)})
	empty, _ := answer(nil, nil)
	damagedItem := changed(batch, 16+8+4*8, 'T')
	afterDamage := listed(items)
	afterDamage[0] = vectorItem{Size: 15, Error: "Corrupt"} // the message is the reader's own
	end := len(batch) - 8

	uploads := []object.Upload{
		{Key: "a/b.jpg", ContentType: "image/jpeg", Bytes: []byte("not really")},
		{Key: "empty", Bytes: []byte{}},
		{Key: "漢字", ContentType: "text/plain; charset=utf-8", Bytes: bytes.Repeat([]byte{0, 1, 2}, 50)},
	}
	objects := stream(t, uploads)
	var brought []vectorObject
	for _, u := range uploads {
		brought = append(brought, vectorObject{u.Key, u.ContentType, crc32.ChecksumIEEE(u.Bytes), u.Bytes})
	}

	return map[string]*vector{
		"refs":             {About: "all flags", Format: "refs", Bucket: "bucket", Refs: shown(refs), data: binary},
		"refs-own-buckets": {About: "no bucket for all: each has its own", Format: "refs", Refs: shown(refs), data: own},
		"refs-json":        {About: "the same references as in refs, as JSON", Format: "json", Bucket: "bucket", Refs: shown(refs), data: marshalRefs(t, "bucket", refs)},
		"refs-cut":         {About: "ends within the last key", Format: "refs", Error: "Invalid", data: binary[:len(binary)-20]},
		"refs-flag":        {About: "a flag that is not known", Format: "refs", Error: "Invalid", data: changed(binary, 14+6, 8)},
		"refs-trailing":    {About: "one byte too many", Format: "refs", Error: "Invalid", data: append(slices.Clone(binary), 0)},
		"refs-checked":     {About: "the bytes must have a CRC-32", Format: "refs", Bucket: "bucket", Refs: shown(sums), data: checked},
		"refs-checked-cut": {About: "ends within the last CRC-32", Format: "refs", Error: "Invalid", data: checked[:len(checked)-1]},
		"refs-flag-16":     {About: "a flag that is not known", Format: "refs", Error: "Invalid", data: changed(checked, 14+6, 16)},
		"refs-json-sums":   {About: "the same references as in refs-checked, as JSON", Format: "json", Bucket: "bucket", Refs: shown(sums), data: marshalRefs(t, "bucket", sums)},
		"refs-json-twice":  {About: "a field comes twice", Format: "json", Error: "Invalid", data: []byte(`{"bucket":"bucket","refs":[{"key":"a","key":"b"}]}`)},

		"batch":         {About: "two segments; item 3 proved bad on the way and keeps its size", Format: "batch", Count: len(items), Max: 1 << 20, Segments: []int{4, 2}, Items: listed(items), data: batch},
		"batch-empty":   {About: "nothing was asked for", Format: "batch", Max: 1 << 20, data: empty},
		"batch-kinds":   {About: "every kind of error", Format: "batch", Count: len(every), Max: 1 << 20, Segments: []int{len(every)}, Items: listed(every), data: kinds},
		"batch-item":    {About: "a byte of item 0 is wrong: it fails in its place, the rest is good", Format: "batch", Count: len(items), Max: 1 << 20, Items: afterDamage, data: damagedItem},
		"batch-no-end":  {About: "the end mark is missing: all items are good, but the answer is not whole", Format: "batch", Count: len(items), Max: 1 << 20, Items: listed(items), Error: "Unavailable", data: batch[:end]},
		"batch-cut":     {About: "ends within the second segment", Format: "batch", Count: len(items), Max: 1 << 20, Items: listed(items[:4]), Error: "Unavailable", data: batch[:end-300]},
		"batch-segment": {About: "the checksum of the second segment is wrong", Format: "batch", Count: len(items), Max: 1 << 20, Items: listed(items[:4]), Error: "Corrupt", data: changed(batch, -9, batch[end-1]^1)},
		"batch-count":   {About: "one item more was asked for", Format: "batch", Count: len(items) + 1, Max: 1 << 20, Error: "Corrupt", data: batch},
		"batch-large":   {About: "the second segment is larger than the reader takes", Format: "batch", Count: len(items), Max: 199, Items: listed(items[:4]), Error: "Invalid", data: batch},

		"objects":          {About: "three objects, one empty", Format: "objects", Objects: brought, data: objects},
		"objects-none":     {About: "no object", Format: "objects", data: stream(t, nil)},
		"objects-no-end":   {About: "the end is missing", Format: "objects", Objects: brought, Error: "Invalid", data: objects[:len(objects)-16]},
		"objects-count":    {About: "the end speaks of another number", Format: "objects", Objects: brought, Error: "Invalid", data: changed(objects, -12, 2)},
		"objects-size":     {About: "the first size reaches into the next object", Format: "objects", Error: "Invalid", Objects: []vectorObject{{"a/b.jpg", "image/jpeg", crc32.ChecksumIEEE(uploads[0].Bytes), append(slices.Clone(uploads[0].Bytes), 5)}}, data: changed(objects, 8+8, 11)},
		"objects-trailing": {About: "one byte too many", Format: "objects", Objects: brought, Error: "Invalid", data: append(slices.Clone(objects), 0)},
	}
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
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			var v vector
			must(t, json.Unmarshal(text, &v))
			v.data, err = os.ReadFile(strings.TrimSuffix(file, ".json") + ".bin")
			must(t, err)
			v.check(t)
		})
	}
}

// check reads the bytes and compares what comes out with the description.
func (v *vector) check(t *testing.T) {
	var err error
	switch v.Format {
	case "refs", "json":
		parse := wire.ParseRefs
		if v.Format == "json" {
			parse = wire.ParseRefsJSON
		}
		var refs []object.Ref
		refs, err = parse(v.data)
		for i, r := range refs {
			if newRefJSON(r) != v.Refs[i] {
				t.Errorf("reference %d is %+v", i, r)
			}
		}
		if len(refs) != len(v.Refs) {
			t.Errorf("%d references, want %d", len(refs), len(v.Refs))
		}
	case "batch":
		err = v.checkBatch(t)
	case "objects":
		err = v.checkObjects(t)
	default:
		t.Fatalf("format %q", v.Format)
	}
	if (err == nil) != (v.Error == "") || (err != nil && object.KindOf(err).String() != v.Error) {
		t.Errorf("%v, want %q", err, v.Error)
	}
}

func (v *vector) checkBatch(t *testing.T) error {
	b := wire.NewBatchReader(bytes.NewReader(v.data), v.Count, v.Max)
	for i := 0; ; i++ {
		data, crc, err := b.Next()
		if err == io.EOF || b.Broken() != nil {
			if i != len(v.Items) {
				t.Errorf("%d items, want %d", i, len(v.Items))
			}
			return b.Broken()
		}
		want := v.Items[i]
		switch {
		case err == nil && (want.Error != "" || !bytes.Equal(data, want.Bytes) || crc != want.CRC32):
			t.Errorf("item %d is %q with checksum %d", i, data, crc)
		case err != nil && (object.KindOf(err).String() != want.Error || (want.Message != "" && err.Error() != want.Message)):
			t.Errorf("item %d: %v", i, err)
		}
	}
}

func (v *vector) checkObjects(t *testing.T) error {
	o := wire.NewObjectsReader(bytes.NewReader(v.data))
	for i := 0; ; i++ {
		next, err := o.Next()
		if err != nil {
			if i != len(v.Objects) {
				t.Errorf("%d objects, want %d", i, len(v.Objects))
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
		data, err := io.ReadAll(o)
		must(t, err)
		want := v.Objects[i]
		if next.Key != want.Key || next.ContentType != want.ContentType || next.CRC32 != want.CRC32 || !bytes.Equal(data, want.Bytes) {
			t.Errorf("object %d is %+v, %q", i, next, data)
		}
	}
}
