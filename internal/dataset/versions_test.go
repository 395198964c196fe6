package dataset_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/dataset"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// TestVersionsHoldWhatChanged: each version holds the tree of its time; old shards
// stay as they are, and only what was added or has changed is written.
func TestVersionsHoldWhatChanged(t *testing.T) {
	r := seeded(t)
	m := newMaker(t)
	tree := randomTree(r, 200)
	tree.write(t, m.tree)
	opts := dataset.Options{ShardSize: 200 << 10}
	m.mustCreate(opts)
	versions := []content{maps.Clone(tree)}
	shards := readTree(t, m.to)
	for number := 2; number <= 6; number++ {
		added, changed, removed := disturb(t, r, m.tree, tree)
		if r.IntN(2) == 0 {
			settle()
		}
		report := m.mustCreate(opts)
		want := dataset.Report{
			Version: uint64(number), Published: true, Samples: int64(keys(tree)), Bytes: report.Bytes, Added: int64(added), Changed: int64(changed),
			Removed: int64(removed), Kept: int64(keys(tree) - added - changed), Shards: report.Shards, Elapsed: report.Elapsed,
		}
		if report != want {
			t.Errorf("version %d: %+v\nwant %+v", number, report, want)
		}
		versions = append(versions, maps.Clone(tree))
		written := 0
		for path, data := range readTree(t, m.to) {
			old, was := shards[path]
			if was && old != data {
				t.Errorf("%s has changed", path)
			}
			if !was && strings.HasSuffix(path, ".tar") {
				written += len(data)
			}
			shards[path] = data
		}
		if written > (added+changed)*20<<10+(8<<20) {
			t.Errorf("%d bytes were written for %d samples", written, added+changed)
		}
	}
	for i, want := range versions {
		m.holds(uint64(i+1), want)
	}
	m.noRubbish(len(versions))
	// The same tree again is no version.
	if report := m.mustCreate(opts); report.Published || report.Version != 6 || report.Kept != int64(keys(tree)) {
		t.Errorf("%+v", report)
	}
	// And all of it anew.
	opts.Repack = true
	if report := m.mustCreate(opts); !report.Published || report.Version != 7 || report.Kept != 0 || report.Samples != int64(keys(tree)) {
		t.Errorf("%+v", report)
	}
	v := m.holds(7, tree)
	for i := range v.Shards() {
		if s, err := v.Shard(i); err != nil || !strings.HasPrefix(s.Name, "000007/") {
			t.Errorf("shard %s, %v", s.Name, err)
		}
	}
}

func keys(c content) int {
	all := map[string]bool{}
	for path := range c {
		key, _, _ := dataset.SplitMember(path)
		all[key] = true
	}
	return len(all)
}

// disturb changes some samples of a tree, and the same in content.
func disturb(t *testing.T, r *rand.Rand, dir string, tree content) (added, changed, removed int) {
	samples := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		key, _, _ := dataset.SplitMember(path)
		samples[key] = append(samples[key], path)
	}
	for _, key := range slices.Sorted(maps.Keys(samples)) {
		paths := samples[key]
		path := paths[r.IntN(len(paths))]
		name := filepath.Join(dir, path)
		switch r.IntN(20) {
		case 0: // other content of the same length, or of another
			data := []byte(tree[path])
			data[r.IntN(len(data))] ^= 1
			if r.IntN(2) == 0 {
				data = append(data, 'x')
			}
			tree[path] = string(data)
			must(t, os.WriteFile(name, data, 0o666))
			changed++
		case 1:
			for _, path := range paths {
				must(t, os.Remove(filepath.Join(dir, path)))
				delete(tree, path)
			}
			removed++
		case 2: // one field more
			tree[key+".new"] = "a further field"
			if slices.Contains(paths, key+".new") {
				must(t, os.Remove(filepath.Join(dir, key+".new")))
				delete(tree, key+".new")
				if len(paths) == 1 {
					removed++
					continue
				}
			} else {
				must(t, os.WriteFile(filepath.Join(dir, key+".new"), []byte(tree[key+".new"]), 0o666))
			}
			changed++
		case 3: // written again, with the same content
			must(t, os.WriteFile(name, []byte(tree[path]), 0o666))
		}
	}
	for range r.IntN(20) {
		path := fmt.Sprintf("added/%08x.jpg", r.Uint32())
		tree[path] = strings.Repeat("a", 1+r.IntN(5000))
		content{path: tree[path]}.write(t, dir)
		added++
	}
	return added, changed, removed
}

// TestAnotherTreeIsRead: files of another tree are compared by their content, however
// old they are.
func TestAnotherTreeIsRead(t *testing.T) {
	m := newMaker(t)
	other := t.TempDir()
	tree := content{"a.jpg": "one", "b.jpg": "two", "c.jpg": "six"}
	content{"a.jpg": "one", "b.jpg": "TWO", "c.jpg": "six"}.write(t, other)
	tree.write(t, m.tree)
	settle()
	m.mustCreate(dataset.Options{})
	m.tree = other
	report := m.mustCreate(dataset.Options{})
	if report.Changed != 1 || report.Kept != 2 {
		t.Errorf("%+v", report)
	}
	tree["b.jpg"] = "TWO"
	m.holds(2, tree)
}

// TestDamageIsNamed: verify says which sample is damaged, in which shard and where,
// and nothing damaged is given out.
func TestDamageIsNamed(t *testing.T) {
	r := seeded(t)
	m := newMaker(t)
	tree := randomTree(r, 60)
	tree.write(t, m.tree)
	m.mustCreate(dataset.Options{ShardSize: 1 << 20})
	v := m.open(1)
	sample := r.IntN(v.Len())
	s, err := v.Sample(sample)
	must(t, err)
	field := slices.IndexFunc(s.Pieces, func(p manifest.Piece) bool { return !p.Absent })
	p := s.Pieces[field]
	shard, err := v.Shard(int(p.Shard))
	must(t, err)
	name := filepath.Join(m.to, shard.Name)
	data, err := os.ReadFile(name)
	must(t, err)
	broken := bytes.Clone(data)
	broken[p.Offset+r.Int64N(p.Size)] ^= 1 << r.IntN(8)
	must(t, os.WriteFile(name, broken, 0o666))
	want := fmt.Sprintf("sample %d, %q, field %s: in shard %s at offset %d: the checksum", sample, s.Key, v.Fields()[field].Name, shard.Name, p.Offset)
	if wrong := m.verify(v); len(wrong) != 1 || !strings.HasPrefix(wrong[0], want) {
		t.Errorf("%q\nwant %q", wrong, want)
	}
	ref := dataset.Ref{Sample: sample, Field: field}
	must(t, v.Read(t.Context(), []dataset.Ref{ref}, func(_ int, data []byte, err error) error {
		if data != nil || !object.Is(err, object.Corrupt) {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		return nil
	}))
	in, err := v.Stream(t.Context(), ref)
	must(t, err)
	defer in.Close()
	if _, err := io.Copy(io.Discard, in); !object.Is(err, object.Corrupt) {
		t.Errorf("a stream of it: %v", err)
	}
	// A shard that was cut, one that is gone, a manifest that is damaged.
	must(t, os.WriteFile(name, data[:p.Offset+p.Size-1], 0o666))
	if wrong := m.verify(m.open(1)); len(wrong) < 2 || !slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, "shard "+shard.Name+" has ") }) {
		t.Errorf("%q", wrong)
	}
	must(t, os.Remove(name))
	if wrong := m.verify(m.open(1)); len(wrong) < 2 || !slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, "shard "+shard.Name+" is missing") }) {
		t.Errorf("%q", wrong)
	}
}

// TestRemoveFromDirectory: shards stay as long as a version needs them, and numbers
// are not used again.
func TestRemoveFromDirectory(t *testing.T) {
	m := newMaker(t)
	tree := randomTree(seeded(t), 50)
	tree.write(t, m.tree)
	m.mustCreate(dataset.Options{ShardSize: 100 << 10})
	more := content{"more.jpg": "x"}
	more.write(t, m.tree)
	m.mustCreate(dataset.Options{})
	maps.Copy(more, tree)
	must(t, dataset.Remove(t.Context(), m.place(), 1))
	m.holds(0, more)
	if err := dataset.Remove(t.Context(), m.place(), 1); !object.Is(err, object.NotFound) {
		t.Errorf("again: %v", err)
	}
	must(t, dataset.Remove(t.Context(), m.place(), 0))
	for name := range readTree(t, m.to) {
		if !strings.HasSuffix(name, ".removed") {
			t.Errorf("%s is left", name)
		}
	}
	if report := m.mustCreate(dataset.Options{}); report.Version != 3 || report.Kept != 0 {
		t.Errorf("%+v", report)
	}
	m.holds(3, more)
}

// TestDatasetInsideOfItsTree does not become a part of itself.
func TestDatasetInsideOfItsTree(t *testing.T) {
	m := newMaker(t)
	m.to = filepath.Join(m.tree, "sets/pets")
	tree := content{"a.jpg": "x", "sets/b.jpg": "y"}
	tree.write(t, m.tree)
	m.mustCreate(dataset.Options{})
	m.holds(1, tree)
	if report := m.mustCreate(dataset.Options{}); report.Published {
		t.Errorf("%+v", report)
	}
	m.to = m.tree
	content{"c.jpg": "z"}.write(t, m.tree)
	tree["c.jpg"] = "z"
	must(t, os.RemoveAll(filepath.Join(m.tree, "sets/pets")))
	for version := range 2 {
		m.mustCreate(dataset.Options{Repack: true})
		m.holds(uint64(version+1), tree)
	}
}

// TestAClockThatWasSetBack: by the clock a file is older than the last version, and was
// changed after it all the same.
func TestAClockThatWasSetBack(t *testing.T) {
	m := newMaker(t)
	tree := content{"a.jpg": "one", "b.jpg": "two"}
	tree.write(t, m.tree)
	var ahead dataset.Options
	ahead.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
	m.mustCreate(ahead)
	tree["b.jpg"] = "TWO"
	tree.write(t, m.tree)
	settle()
	if report := m.mustCreate(dataset.Options{}); report.Changed != 1 || report.Kept != 1 {
		t.Errorf("%+v", report)
	}
	m.holds(2, tree)
}
