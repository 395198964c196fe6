package manifest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// TestRoundTrip: what was written comes out, from a file and from bytes, whatever
// it was, and looking up and listing agree with a map and a sorted list.
func TestRoundTrip(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		tb := random(r, []int{0, 1, 2, 7, 8, 9, 300, 3000}[r.IntN(8)])
		t.Run(fmt.Sprintf("seed=%d,samples=%d", seed, len(tb.samples)), func(t *testing.T) {
			path := tb.file(t)
			data, err := os.ReadFile(path)
			must(t, err)
			opened, err := manifest.Open(path)
			must(t, err)
			parsed, err := manifest.Parse(data)
			must(t, err)
			for _, m := range []*manifest.Manifest{opened, parsed} {
				got, err := read(m)
				must(t, err)
				equal(t, got, tb.shown())
				must(t, m.Verify(context.Background()))
				checkLookups(t, r, m, tb)
			}
			if opened.Tag() != parsed.Tag() || opened.Hash() != parsed.Hash() {
				t.Error("a file and its bytes have different tags")
			}
			left, err := os.ReadDir(filepath.Dir(path))
			if must(t, err); len(left) != 1 {
				t.Errorf("%v is left beside the manifest", left)
			}
		})
	}
}

func checkLookups(t *testing.T, r *rand.Rand, m *manifest.Manifest, tb *table) {
	numbers := make(map[string]int)
	var sorted []string
	for i, s := range tb.samples {
		numbers[s.Key] = i
		sorted = append(sorted, s.Key)
	}
	slices.Sort(sorted)
	for range 200 {
		probe := randomKey(r)
		if len(sorted) > 0 && r.IntN(2) == 0 {
			probe = sorted[r.IntN(len(sorted))]
			probe = probe[:r.IntN(len(probe)+1)] // may end within a letter
		}
		i, err := m.Find(probe)
		if want, there := numbers[probe]; there != (err == nil) || i != want || (err != nil && !object.Is(err, object.NotFound)) {
			t.Fatalf("%q is %d, %v; want %d, %v", probe, i, err, want, there)
		}
		rank, err := m.Rank(probe)
		must(t, err)
		if want, _ := slices.BinarySearch(sorted, probe); rank != want {
			t.Fatalf("%q has rank %d, want %d", probe, rank, want)
		}
		var listed []string
		for i, err := range m.Prefix(probe) {
			must(t, err)
			listed = append(listed, tb.samples[i].Key)
		}
		want := slices.DeleteFunc(slices.Clone(sorted), func(k string) bool { return !strings.HasPrefix(k, probe) })
		if !slices.Equal(listed, want) {
			t.Fatalf("%q lists %q, want %q", probe, listed, want)
		}
	}
}

// TestSameInputSameBytes: nothing in a manifest depends on anything else than what
// was put in; not on the memory either.
func TestSameInputSameBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tb := random(rand.New(rand.NewPCG(seed, 1)), 5000)
	tb.options.Memory = 0
	data := tb.bytes(t)
	tb.options.Memory = 1
	if string(tb.bytes(t)) != string(data) {
		t.Error("with less memory the manifest is another")
	}
}

// TestHash: it covers the logical part, all of it and nothing else.
func TestHash(t *testing.T) {
	make := func() *table {
		return &table{
			options: manifest.Options{
				Info: plainInfo, Fields: []manifest.Field{{Name: "jpg"}, {Name: "txt"}},
				Columns: []manifest.Column{{Name: "label", Type: manifest.Class}, {Name: "n", Type: manifest.Int, Optional: true}},
			},
			shards: []manifest.Shard{{Name: "a", Size: 1000}},
			samples: []manifest.Sample{
				{Key: "x", Pieces: []manifest.Piece{{Size: 10, CRC32: 1}, {Offset: 20, Size: 10, CRC32: 2}}, Values: []manifest.Value{{Text: "cat"}, {Int: 7}}},
				{Key: "y", Pieces: []manifest.Piece{{Size: 10, CRC32: 1}, {Absent: true}}, Values: []manifest.Value{{Text: "dog"}, {Missing: true}}},
			},
		}
	}
	open := func(tb *table) *manifest.Manifest {
		m, err := manifest.Parse(tb.bytes(t))
		must(t, err)
		return m
	}
	first := open(make())
	for about, change := range map[string]func(*table){
		"name":    func(tb *table) { tb.options.Name = "other" },
		"version": func(tb *table) { tb.options.Version++ },
		"seed":    func(tb *table) { tb.options.Seed++ },
		"created": func(tb *table) { tb.options.Created = tb.options.Created.Add(1) },
		"offset":  func(tb *table) { tb.samples[0].Pieces[0].Offset++ },
		"shard":   func(tb *table) { tb.shards[0].Name = "b" },
		"tag":     func(tb *table) { tb.shards[0].Tag = "b" },
	} {
		tb := make()
		change(tb)
		if m := open(tb); m.Hash() != first.Hash() || m.Tag() == first.Tag() {
			t.Errorf("another %s: the hash must be the same and the tag another", about)
		}
	}
	for about, change := range map[string]func(*table){
		"chunk":     func(tb *table) { tb.options.ChunkSamples++ },
		"field":     func(tb *table) { tb.options.Fields[0].Name = "png" },
		"column":    func(tb *table) { tb.options.Columns[0].Name = "class" },
		"unchecked": func(tb *table) { tb.options.Fields[0].Unchecked = true },
		"key":       func(tb *table) { tb.samples[0].Key = "z" },
		"size":      func(tb *table) { tb.samples[0].Pieces[0].Size++ },
		"checksum":  func(tb *table) { tb.samples[0].Pieces[0].CRC32++ },
		"class":     func(tb *table) { tb.samples[0].Values[0].Text = "dog" },
		"classes":   func(tb *table) { tb.options.Columns[0].Classes = []string{"dog", "cat"} },
		"value":     func(tb *table) { tb.samples[0].Values[1].Int++ },
		"missing":   func(tb *table) { tb.samples[1].Values[1].Missing = false },
		"order":     func(tb *table) { slices.Reverse(tb.samples) },
		"absent":    func(tb *table) { tb.samples[1].Pieces[1] = manifest.Piece{} },
	} {
		tb := make()
		change(tb)
		if m := open(tb); m.Hash() == first.Hash() {
			t.Errorf("another %s: the hash must be another", about)
		}
	}
}

// TestMany readers at a time meet blocks that nobody has checked yet.
func TestMany(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tb := random(rand.New(rand.NewPCG(seed, 1)), 4000)
	var want []string
	for _, s := range tb.shown().samples {
		want = append(want, fmt.Sprintf("%+v", s))
	}
	m, err := manifest.Open(tb.file(t))
	must(t, err)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range m.Len() {
				s, err := m.Sample(i)
				if err != nil || fmt.Sprintf("%+v", s) != want[i] {
					t.Errorf("sample %d: %+v, %v", i, s, err)
					return
				}
			}
		})
	}
	group.Wait()
}
