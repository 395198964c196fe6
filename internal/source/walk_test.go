package source_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/object/objecttest"
	"penstock.dev/penstock/internal/source"
)

// forest is a tree in memory that counts the directories which are read.
type forest struct {
	keys   []string
	window int
	read   []string
}

func (f *forest) Level(_ context.Context, dir string, want func(sort string) bool) (source.Level, error) {
	f.read = append(f.read, dir)
	var level source.Level
	for _, key := range f.keys {
		rest, ok := strings.CutPrefix(key, dir)
		if !ok {
			continue
		}
		first, _, below := strings.Cut(rest, "/")
		if child := (source.Child{Name: first, Dir: below}); want(child.Sort()) && !slices.Contains(level.Children, child) {
			level.Children = append(level.Children, child)
		}
	}
	slices.SortFunc(level.Children, func(a, b source.Child) int { return strings.Compare(a.Sort(), b.Sort()) })
	if len(level.Children) > f.window {
		level.Children, level.More = level.Children[:f.window], true
	}
	level.Info = func(_ context.Context, i int) (object.Info, error) {
		return object.Info{Size: int64(len(dir + level.Children[i].Name))}, nil
	}
	return level, nil
}

// TestWalk compares listings of random trees with those of the model.
func TestWalk(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	letters := []string{"a", "b", "/", "0", "-", ".x", "é"}
	word := func(n int) string {
		var b strings.Builder
		for range random.IntN(n) {
			b.WriteString(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	for range 50 {
		f, model := &forest{window: 1 + random.IntN(5)}, objecttest.NewMemory()
		for range 60 {
			key := word(9)
			if !source.PathKey(key) || slices.ContainsFunc(f.keys, func(k string) bool {
				return k == key || strings.HasPrefix(k, key+"/") || strings.HasPrefix(key, k+"/")
			}) {
				continue
			}
			f.keys = append(f.keys, key)
			if _, err := model.Put(t.Context(), object.Name{Bucket: objecttest.Bucket, Key: key}, strings.NewReader(key), object.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 40 {
			opts := object.ListOptions{Prefix: word(4), After: word(5), Limit: random.IntN(6)}
			if random.IntN(3) > 0 {
				opts.Delimiter = letters[random.IntN(len(letters))]
			}
			var got, want []string
			for e, err := range source.Walk(t.Context(), f, objecttest.Bucket, opts) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(e.Prefix, " ", e.Info.Name.Key, " ", e.Info.Size))
			}
			for e, err := range model.List(t.Context(), objecttest.Bucket, opts) {
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprint(e.Prefix, " ", e.Info.Name.Key, " ", e.Info.Size))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v of %q lists\n%q, want\n%q", opts, f.keys, got, want)
			}
		}
	}
}

func TestWalkReadsLittle(t *testing.T) {
	f := &forest{window: 1000}
	for i := range 100 {
		for j := range 10 {
			f.keys = append(f.keys, fmt.Sprintf("d%02d/e%d/f", i, j))
		}
	}
	for _, tt := range []struct {
		opts object.ListOptions
		most int
	}{
		{object.ListOptions{Prefix: "d50/e5/"}, 1},
		{object.ListOptions{Prefix: "d50/e5"}, 2},
		{object.ListOptions{Prefix: "d50/"}, 11},
		{object.ListOptions{Prefix: "d5", Delimiter: "/"}, 21},
		{object.ListOptions{After: "d98/e9/f"}, 14}, // e9 is read for what may come after f
		{object.ListOptions{Limit: 1}, 3},
		{object.ListOptions{Delimiter: "/", After: "d98/"}, 3},
		{object.ListOptions{Prefix: "d50/../d51/"}, 0},
	} {
		f.read = nil
		for _, err := range source.Walk(t.Context(), f, objecttest.Bucket, tt.opts) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(f.read) > tt.most {
			t.Errorf("%+v reads %d directories, not %d: %q", tt.opts, len(f.read), tt.most, f.read)
		}
	}
}
