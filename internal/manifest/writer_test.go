package manifest_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

func TestOptions(t *testing.T) {
	with := func(change func(*manifest.Options)) manifest.Options {
		o := manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}, {Name: "cls"}}}
		change(&o)
		return o
	}
	many := func(n int) (all []manifest.Field) {
		for i := range n {
			all = append(all, manifest.Field{Name: fmt.Sprintf("f%d%s", i, strings.Repeat("x", manifest.MaxName-4))})
		}
		return all
	}
	for about, o := range map[string]manifest.Options{
		"no name":       with(func(o *manifest.Options) { o.Name = "" }),
		"long name":     with(func(o *manifest.Options) { o.Name = strings.Repeat("x", 129) }),
		"hidden name":   with(func(o *manifest.Options) { o.Name = ".x" }),
		"slash in name": with(func(o *manifest.Options) { o.Name = "a/b" }),
		"at in name":    with(func(o *manifest.Options) { o.Name = "a@3" }),
		"no chunk":      with(func(o *manifest.Options) { o.ChunkSamples = 0 }),
		"too early":     with(func(o *manifest.Options) { o.Created = time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"twice":         with(func(o *manifest.Options) { o.Fields[1].Name = "jpg" }),
		"field, column": with(func(o *manifest.Options) { o.Columns = []manifest.Column{{Name: "jpg", Type: manifest.Int}} }),
		"no field name": with(func(o *manifest.Options) { o.Fields[1].Name = "" }),
		"kept name":     with(func(o *manifest.Options) { o.Fields[1].Name = "__key__" }),
		"space":         with(func(o *manifest.Options) { o.Fields[1].Name = "a b" }),
		"first apart":   with(func(o *manifest.Options) { o.Fields[0].Apart = true }),
		"many fields":   with(func(o *manifest.Options) { o.Fields = many(manifest.MaxFields + 1) }),
		"no type":       with(func(o *manifest.Options) { o.Columns = []manifest.Column{{Name: "c"}} }),
		"other classes": with(func(o *manifest.Options) {
			o.Columns = []manifest.Column{{Name: "c", Type: manifest.Int, Classes: []string{"a"}}}
		}),
		"same classes": with(func(o *manifest.Options) {
			o.Columns = []manifest.Column{{Name: "c", Type: manifest.Class, Classes: []string{"a", "a"}}}
		}),
		"no class name": with(func(o *manifest.Options) {
			o.Columns = []manifest.Column{{Name: "c", Type: manifest.Class, Classes: []string{""}}}
		}),
		"memory": with(func(o *manifest.Options) { o.Memory = -1 }),
	} {
		dir := t.TempDir()
		_, err := manifest.Create(filepath.Join(dir, "m"), o)
		wantKind(t, err, object.Invalid, "%s", about)
		empty(t, dir)
	}
	most := &table{options: with(func(o *manifest.Options) { o.Fields = many(manifest.MaxFields) })}
	for i := range manifest.MaxColumns {
		most.options.Columns = append(most.options.Columns, manifest.Column{Name: fmt.Sprintf("c%d%s", i, strings.Repeat("x", 60)), Type: manifest.Class, Optional: true})
	}
	m, err := manifest.Parse(most.bytes(t))
	must(t, err)
	must(t, m.Verify(context.Background()))
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if must(t, err); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestRefusals: what a manifest cannot hold is refused, and does not disturb what
// comes before and after it.
func TestRefusals(t *testing.T) {
	const giga = 1 << 30
	tb := small()
	tb.options.Columns[0].Classes = []string{"cat", "dog"}
	path := filepath.Join(t.TempDir(), "m")
	w, err := manifest.Create(path, tb.options)
	must(t, err)
	for _, s := range tb.shards {
		_, err := w.AddShard(s)
		must(t, err)
	}
	refuse := func(about string, change func(*manifest.Sample)) {
		t.Helper()
		s := small().samples[0]
		s.Key = "refused"
		change(&s)
		wantKind(t, w.Add(&s), object.Invalid, "%s", about)
	}
	for i := range tb.samples {
		refuse("no key", func(s *manifest.Sample) { s.Key = "" })
		refuse("long key", func(s *manifest.Sample) { s.Key = strings.Repeat("k", object.MaxKey+1) })
		refuse("key not UTF-8", func(s *manifest.Sample) { s.Key = "\xff" })
		refuse("too few pieces", func(s *manifest.Sample) { s.Pieces = s.Pieces[:2] })
		refuse("too many values", func(s *manifest.Sample) { s.Values = append(s.Values, manifest.Value{}) })
		refuse("4 GiB", func(s *manifest.Sample) { s.Pieces[0].Size = 4*giga - 1 })
		refuse("negative size", func(s *manifest.Sample) { s.Pieces[0].Size = -1 })
		refuse("negative offset", func(s *manifest.Sample) { s.Pieces[0].Offset = -1 })
		refuse("large offset", func(s *manifest.Sample) { s.Pieces[0].Offset = math.MaxInt64 })
		refuse("beyond the shard", func(s *manifest.Sample) { s.Pieces[0].Offset = 4901 })
		refuse("absent with a size", func(s *manifest.Sample) { s.Pieces[1].Absent = true })
		refuse("another shard", func(s *manifest.Sample) { s.Pieces[1] = manifest.Piece{Shard: 1} })
		refuse("apart with an offset", func(s *manifest.Sample) { s.Pieces[2].Offset, s.Pieces[2].Size = 1, 1 })
		refuse("too far", func(s *manifest.Sample) {
			s.Pieces[0].Shard, s.Pieces[1].Shard, s.Pieces[1].Offset = 5, 5, 3*giga+1
		})
		refuse("much too far", func(s *manifest.Sample) {
			s.Pieces[0].Shard, s.Pieces[1].Shard, s.Pieces[1].Offset = 5, 5, 2048*giga
		})
		refuse("missing value", func(s *manifest.Sample) { s.Values[1].Missing = true })
		refuse("unknown class", func(s *manifest.Sample) { s.Values[0].Text = "cow" })
		refuse("text not UTF-8", func(s *manifest.Sample) { s.Values[3].Text = "\xff" })
		refuse("long text", func(s *manifest.Sample) { s.Values[3].Text = strings.Repeat("x", manifest.MaxText+1) })
		must(t, w.Add(&tb.samples[i]))
	}
	for about, s := range map[string]manifest.Shard{
		"no name": {}, "not UTF-8": {Name: "\xff"}, "negative": {Name: "a", Size: -1}, "tag": {Name: "a", Tag: strings.Repeat("x", 256)},
	} {
		_, err := w.AddShard(s)
		wantKind(t, err, object.Invalid, "%s", about)
	}
	must(t, w.Finish())
	w.Abort()
	wantKind(t, w.Add(&tb.samples[0]), object.Internal, "after the end")
	wantKind(t, w.Finish(), object.Internal, "after the end")
	data, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(data, tb.bytes(t)) {
		t.Error("refused samples left something")
	}
}

// TestTwice: a key that occurs twice is found wherever the two are, and named.
func TestTwice(t *testing.T) {
	for _, memory := range []int64{0, 1} {
		for _, key := range []string{"17", "00000017/of/a/deep/tree/with/long/names", "1\x00"} {
			tb := &table{options: manifest.Options{Info: plainInfo, Memory: memory}}
			for i := range 5000 {
				tb.samples = append(tb.samples, manifest.Sample{Key: fmt.Sprintf("%08d/of/a/deep/tree/with/long/names", i+100)})
			}
			tb.samples[3].Key, tb.samples[4990].Key = key, key
			dir := t.TempDir()
			err := tb.write(filepath.Join(dir, "m"))
			wantKind(t, err, object.Exists, "%q", key)
			if !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) || !strings.Contains(err.Error(), "3 and 4990") {
				t.Error(err)
			}
			empty(t, dir)
		}
	}
}

func TestShardsThatAreNotThere(t *testing.T) {
	sample := manifest.Sample{Key: "k", Pieces: []manifest.Piece{{Shard: 1, Offset: 100, Size: 100}}}
	tb := &table{
		options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}}},
		shards:  []manifest.Shard{{Name: "a", Size: 0}}, samples: []manifest.Sample{sample},
	}
	dir := t.TempDir()
	wantKind(t, tb.write(filepath.Join(dir, "m")), object.Invalid, "one shard of two")
	tb.shards = append(tb.shards, manifest.Shard{Name: "b", Size: 199})
	wantKind(t, tb.write(filepath.Join(dir, "m")), object.Invalid, "a shard that is too small")
	empty(t, dir)
	tb.shards[1].Size = 200
	must(t, tb.write(filepath.Join(dir, "m")))
}

// TestFarFields: in tars a field may lie a terabyte away, behind or before.
func TestFarFields(t *testing.T) {
	tb := &table{
		options: manifest.Options{Info: plainInfo, Fields: []manifest.Field{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
		shards:  []manifest.Shard{{Name: "a", Size: 1 << 50}},
	}
	for i, gap := range []int64{1 << 31, -1 << 31, (1<<31 - 1) << 9, -1 << 40, 512, 0, -512} {
		tb.samples = append(tb.samples, manifest.Sample{Key: fmt.Sprint(i), Pieces: []manifest.Piece{
			{Offset: 1<<40 + 7}, {Offset: 1<<40 + 7 + gap}, {Offset: 1<<40 + int64(i)},
		}})
	}
	m, err := manifest.Parse(tb.bytes(t))
	must(t, err)
	got, err := read(m)
	must(t, err)
	equal(t, got, tb.shown())
}

// TestCrowded: keys that were made to fall into one bucket are found all the same.
func TestCrowded(t *testing.T) {
	const samples, count = 200, 200/16 + 1
	tb := &table{options: manifest.Options{Info: plainInfo}}
	for i := 0; len(tb.samples) < samples; i++ {
		key := fmt.Sprint("key-", i)
		if uint64(crc32.ChecksumIEEE([]byte(key))*0x9e3779b1)*count>>32 == 3 {
			tb.samples = append(tb.samples, manifest.Sample{Key: key})
		}
	}
	m, err := manifest.Parse(tb.bytes(t))
	must(t, err)
	_, err = read(m)
	must(t, err)
	must(t, m.Verify(context.Background()))
	for i := range 1000 {
		_, err := m.Find(fmt.Sprint("other-", i))
		wantKind(t, err, object.NotFound, "other")
	}
}

func TestManyClasses(t *testing.T) {
	tb := &table{options: manifest.Options{Info: plainInfo, Columns: []manifest.Column{{Name: "label", Type: manifest.Class}}}}
	for i := range 1<<16 + 1 {
		tb.samples = append(tb.samples, manifest.Sample{Key: fmt.Sprint(i), Values: []manifest.Value{{Text: fmt.Sprintf("class %06d", 1<<16-i)}}})
	}
	for range 2 {
		m, err := manifest.Parse(tb.bytes(t))
		must(t, err)
		for _, i := range []int{0, 1, len(tb.samples) - 1} {
			v, err := m.Value(i, 0)
			if must(t, err); v.Int != int64(len(tb.samples)-1-i) && len(tb.samples) > 1<<16 || v.Text != tb.samples[i].Values[0].Text {
				t.Errorf("%d: %+v", i, v)
			}
		}
		tb.samples = tb.samples[:1<<16]
	}
}

// TestBytesPerSample: what the issue promises.
func TestBytesPerSample(t *testing.T) {
	for fields, most := range map[int]float64{1: 40, 2: 52, 3: 64, 10: 148} {
		tb := &table{options: manifest.Options{Info: plainInfo}, shards: []manifest.Shard{{Name: "a", Size: 1 << 20}}}
		for f := range fields {
			tb.options.Fields = append(tb.options.Fields, manifest.Field{Name: fmt.Sprint("f", f)})
		}
		keys := 0
		for i := range 20_000 {
			s := manifest.Sample{Key: fmt.Sprintf("%07d", i), Pieces: make([]manifest.Piece, fields)}
			keys += len(s.Key)
			tb.samples = append(tb.samples, s)
		}
		each := float64(len(tb.bytes(t))-keys) / float64(len(tb.samples))
		if t.Logf("%d fields: %.2f bytes a sample beside its key", fields, each); each > most {
			t.Errorf("more than %v", most)
		}
	}
}

func TestNoPlaceToWrite(t *testing.T) {
	_, err := manifest.Create(filepath.Join(t.TempDir(), "no", "such", "m"), manifest.Options{Info: plainInfo})
	wantKind(t, err, object.NotFound, "no directory")
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "m"), 0o755))
	tb := &table{options: manifest.Options{Info: plainInfo}}
	if err := tb.write(filepath.Join(dir, "m")); err == nil {
		t.Error("a directory was replaced")
	}
	must(t, os.Remove(filepath.Join(dir, "m")))
	empty(t, dir)
}
