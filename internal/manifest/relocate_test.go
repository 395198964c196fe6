package manifest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// TestRelocate: another place for everything, and the same samples.
func TestRelocate(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		from := random(r, []int{0, 1, 100, 3000}[r.IntN(4)])
		t.Run(fmt.Sprintf("seed=%d,samples=%d", seed, len(from.samples)), func(t *testing.T) {
			path := from.file(t)
			m, err := manifest.Open(path)
			must(t, err)
			layout := manifest.Layout{Checksums: r.IntN(2) == 0}
			want := moved(r, from, &layout)
			if r.IntN(2) == 0 {
				path = filepath.Join(t.TempDir(), "other")
			}
			move, err := m.Relocate(path, layout)
			must(t, err)
			for i := range want.samples {
				must(t, move.Add(want.samples[i].Pieces))
			}
			for _, s := range want.shards {
				_, err := move.AddShard(s)
				must(t, err)
			}
			must(t, move.Finish())
			after, err := manifest.Open(path)
			must(t, err)
			must(t, after.Verify(context.Background()))
			got, err := read(after)
			must(t, err)
			equal(t, got, want)
			if after.Hash() != m.Hash() || after.Tag() == m.Tag() {
				t.Error("the hash must be the same and the tag another")
			}
		})
	}
}

// moved gives all pieces new places, one behind the other in new shards.
func moved(r *rand.Rand, from *table, layout *manifest.Layout) *table {
	to := from.shown()
	to.options.Fields = slices.Clone(to.options.Fields)
	to.shards = []manifest.Shard{{Name: "new/0", Size: 1 << 60, Tag: "new"}, {Name: "new/1", Size: 1 << 60}}
	for f := range to.options.Fields {
		field := &to.options.Fields[f]
		if field.Apart = f > 0 && r.IntN(3) == 0; field.Apart {
			layout.Apart = append(layout.Apart, field.Name)
		}
	}
	end := int64(0)
	for i := range to.samples {
		pieces := slices.Clone(to.samples[i].Pieces)
		for f := range pieces {
			p := &pieces[f]
			if p.Absent {
				continue
			}
			if p.Shard, p.Offset = uint32(i%2), end; to.options.Fields[f].Apart {
				p.Shard, p.Offset = r.Uint32N(2), 0
			}
			end = (end + p.Size + 1023) &^ 511
			if to.options.Fields[f].Unchecked && layout.Checksums {
				p.Checked, p.CRC32 = true, r.Uint32()
			}
		}
		to.samples[i].Pieces = pieces
	}
	return to
}

func TestRelocateRefusals(t *testing.T) {
	tb := small()
	m, err := manifest.Open(tb.file(t))
	must(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "m")
	for _, name := range []string{"jpg", "none", "label"} {
		_, err := m.Relocate(path, manifest.Layout{Apart: []string{name}})
		wantKind(t, err, object.Invalid, "%s apart", name)
	}
	move, err := m.Relocate(path, manifest.Layout{Apart: []string{"raw"}})
	must(t, err)
	for about, change := range map[string]func([]manifest.Piece) []manifest.Piece{
		"too few":          func(p []manifest.Piece) []manifest.Piece { return p[:2] },
		"another size":     func(p []manifest.Piece) []manifest.Piece { p[0].Size++; return p },
		"another checksum": func(p []manifest.Piece) []manifest.Piece { p[0].CRC32++; return p },
		"absent":           func(p []manifest.Piece) []manifest.Piece { p[1] = manifest.Piece{Absent: true}; return p },
		"another shard":    func(p []manifest.Piece) []manifest.Piece { p[1].Shard = 1; return p },
	} {
		wantKind(t, move.Add(change(slices.Clone(tb.samples[0].Pieces))), object.Invalid, "%s", about)
	}
	must(t, move.Add(tb.samples[0].Pieces))
	wantKind(t, move.Finish(), object.Invalid, "one sample of three")
	wantKind(t, move.Add(tb.samples[1].Pieces), object.Internal, "after the end")
	empty(t, dir)
}
