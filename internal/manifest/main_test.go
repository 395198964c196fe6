package manifest_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind object.Kind, format string, args ...any) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Fatalf("%s: %v, want %v", fmt.Sprintf(format, args...), err, kind)
	}
}

// table is a manifest as plain values: what goes in and must come out.
type table struct {
	options manifest.Options
	shards  []manifest.Shard
	samples []manifest.Sample
}

var plainInfo = manifest.Info{Name: "mine", Version: 3, Created: time.Unix(1_700_000_000, 123456789).UTC(), Seed: 1<<64 - 1, ChunkSamples: 32}

// write makes the manifest of a table, or returns why it cannot.
func (tb *table) write(path string) error {
	w, err := manifest.Create(path, tb.options)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i := range tb.samples {
		if err := w.Add(&tb.samples[i]); err != nil {
			return err
		}
	}
	for i, s := range tb.shards {
		if number, err := w.AddShard(s); err != nil || number != uint32(i) {
			return cmp.Or(err, fmt.Errorf("shard %d has number %d", i, number))
		}
	}
	return w.Finish()
}

// file makes the manifest in a directory of its own.
func (tb *table) file(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest")
	must(t, tb.write(path))
	return path
}

// bytes makes the manifest and returns what is in the file.
func (tb *table) bytes(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(tb.file(t))
	must(t, err)
	return data
}

// read takes everything out of a manifest, through all its doors.
func read(m *manifest.Manifest) (*table, error) {
	tb := &table{options: manifest.Options{Info: m.Info(), Fields: m.Fields(), Columns: m.Columns()}}
	for c, col := range tb.options.Columns {
		classes, err := m.Classes(c)
		if err != nil {
			return nil, err
		}
		if col.Type == manifest.Class {
			tb.options.Columns[c].Classes = classes
		}
	}
	for i := range m.Shards() {
		s, err := m.Shard(i)
		if err != nil {
			return nil, err
		}
		tb.shards = append(tb.shards, s)
	}
	for i := range m.Len() {
		s, err := m.Sample(i)
		if err != nil {
			return nil, err
		}
		tb.samples = append(tb.samples, s)
	}
	return tb, checkKeys(m, tb)
}

// checkKeys looks up every key, and lists them all.
func checkKeys(m *manifest.Manifest, tb *table) error {
	for i, s := range tb.samples {
		if found, err := m.Find(s.Key); err != nil || found != i {
			return cmp.Or(err, fmt.Errorf("sample %d, %q, is found as %d", i, s.Key, found))
		}
	}
	last, rank := "", 0
	for i, err := range m.Prefix("") {
		if err != nil {
			return err
		}
		if key := tb.samples[i].Key; key <= last {
			return fmt.Errorf("%q is listed after %q", key, last)
		} else {
			last = key
		}
		rank++
	}
	if rank != len(tb.samples) {
		return fmt.Errorf("%d of %d samples are listed", rank, len(tb.samples))
	}
	return nil
}

// shown is the table as it comes out again: checksums that are not kept are gone,
// classes are sorted and have numbers.
func (tb *table) shown() *table {
	out := &table{options: tb.options, shards: tb.shards}
	out.options.Memory = 0
	out.options.Columns = slices.Clone(tb.options.Columns)
	for c := range out.options.Columns {
		col := &out.options.Columns[c]
		if col.Type == manifest.Class && col.Classes == nil {
			col.Classes = []string{}
			for _, s := range tb.samples {
				if !s.Values[c].Missing && !slices.Contains(col.Classes, s.Values[c].Text) {
					col.Classes = append(col.Classes, s.Values[c].Text)
				}
			}
			slices.Sort(col.Classes)
		}
	}
	for _, s := range tb.samples {
		s.Pieces, s.Values = slices.Clone(s.Pieces), slices.Clone(s.Values)
		for f := range s.Pieces {
			p := &s.Pieces[f]
			if p.Checked = !p.Absent && !tb.options.Fields[f].Unchecked; !p.Checked {
				p.CRC32 = 0
			}
		}
		for c := range s.Values {
			if col := out.options.Columns[c]; col.Type == manifest.Class && !s.Values[c].Missing {
				s.Values[c].Int = int64(slices.Index(col.Classes, s.Values[c].Text))
			}
		}
		out.samples = append(out.samples, s)
	}
	return out
}

// same compares tables; a float that is not a number equals itself.
func same(a, b *table) bool {
	return fmt.Sprintf("%#v", normal(a)) == fmt.Sprintf("%#v", normal(b)) && a.options.Created.Equal(b.options.Created)
}

func normal(tb *table) any {
	o := tb.options
	o.Created = time.Time{}
	return []any{o.Info, fmt.Sprintf("%+v", o.Fields), fmt.Sprintf("%+v", o.Columns), fmt.Sprintf("%+v", tb.shards), fmt.Sprintf("%+v", tb.samples)}
}

// random makes a table of up to max samples: any mixture of fields, columns and
// shards that a manifest can hold.
func random(r *rand.Rand, most int) *table {
	tb := &table{options: manifest.Options{Info: plainInfo, Memory: []int64{0, 1, 1 << 17}[r.IntN(3)]}}
	tb.options.ChunkSamples = 1 + r.Uint32N(100)
	for f := range r.IntN(5) {
		tb.options.Fields = append(tb.options.Fields, manifest.Field{
			Name: fmt.Sprintf("f%d.%c", f, 'a'+r.IntN(26)), Unchecked: r.IntN(4) == 0, Apart: f > 0 && r.IntN(4) == 0,
		})
	}
	for c := range r.IntN(6) {
		col := manifest.Column{Name: fmt.Sprint("c", c), Type: manifest.Type(1 + r.IntN(4)), Optional: r.IntN(2) == 0}
		if col.Type == manifest.Class && r.IntN(2) == 0 {
			col.Classes = []string{"zebra", "ape", "日本語", "b", "a"}
		}
		tb.options.Columns = append(tb.options.Columns, col)
	}
	for i := range 1 + r.IntN(20) {
		tb.shards = append(tb.shards, manifest.Shard{
			Name: fmt.Sprintf("shards/%06d.tar", i), Size: 1 << 40, Format: manifest.Format(r.IntN(6)),
			Tag: []string{"", "5d41402abc4b2a76b9719d911017c592-7", "ü"}[r.IntN(3)],
		})
	}
	far := r.IntN(2) == 0
	taken := make(map[string]bool)
	for len(tb.samples) < most {
		key := randomKey(r)
		if taken[key] {
			continue
		}
		taken[key] = true
		tb.samples = append(tb.samples, randomSample(r, tb, key, far))
	}
	return tb
}

// randomKey makes keys that share beginnings, some of which end where others go on.
func randomKey(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString([]string{"a", "b/", "train/n0144", "\x00", "ü", "0", "1", "zzzzzzzz", "漢字\n"}[r.IntN(9)])
	}
	fmt.Fprint(&b, r.IntN(1000))
	if r.IntN(50) == 0 {
		b.WriteString(strings.Repeat("k", object.MaxKey-b.Len()))
	}
	return b.String()
}

func randomSample(r *rand.Rand, tb *table, key string, far bool) manifest.Sample {
	s := manifest.Sample{Key: key, Pieces: make([]manifest.Piece, len(tb.options.Fields)), Values: make([]manifest.Value, len(tb.options.Columns))}
	shard := r.Uint32N(uint32(len(tb.shards)))
	for f := range s.Pieces {
		if r.IntN(5) == 0 {
			s.Pieces[f].Absent = true
			continue
		}
		p := &s.Pieces[f]
		p.Shard, p.CRC32, p.Size = shard, r.Uint32(), r.Int64N(1<<20)
		switch {
		case tb.options.Fields[f].Apart:
			p.Shard = r.Uint32N(uint32(len(tb.shards)))
		case far:
			p.Offset, p.Size = r.Int64N(1<<30)<<9, []int64{0, manifest.MaxSize}[r.IntN(2)]
		default:
			p.Offset = 1<<32 + r.Int64N(1<<31)
		}
	}
	for c, col := range tb.options.Columns {
		v := &s.Values[c]
		if col.Optional && r.IntN(3) == 0 {
			v.Missing = true
			continue
		}
		switch col.Type {
		case manifest.Int:
			v.Int = int64(r.Uint64())
		case manifest.Float:
			v.Float = []float64{math.NaN(), math.Inf(-1), 0, -1.5, r.NormFloat64()}[r.IntN(5)]
		case manifest.Text:
			v.Text = strings.Repeat([]string{"", "x", "ein kurzer Text", "漢"}[r.IntN(4)], r.IntN(5))
		case manifest.Class:
			v.Text = []string{"zebra", "ape", "日本語"}[r.IntN(3)]
		}
	}
	return s
}

// equal reports a difference between tables, the first sample first.
func equal(t testing.TB, got, want *table) {
	t.Helper()
	if same(got, want) {
		return
	}
	for i := range min(len(got.samples), len(want.samples)) {
		if a, b := fmt.Sprintf("%+v", got.samples[i]), fmt.Sprintf("%+v", want.samples[i]); a != b {
			t.Fatalf("sample %d is\n%s\nwant\n%s", i, a, b)
		}
	}
	if !reflect.DeepEqual(got.shards, want.shards) {
		t.Fatalf("shards are %+v, want %+v", got.shards, want.shards)
	}
	t.Fatalf("%d samples, %+v\nwant %d samples, %+v", len(got.samples), got.options, len(want.samples), want.options)
}
