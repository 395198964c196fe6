package dataset_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/dataset"
	"penstock.dev/penstock/internal/object"
)

// TestTreeComesBack: whatever the tree, the version holds it, and real tar lists its
// shards.
func TestTreeComesBack(t *testing.T) {
	r := seeded(t)
	for round := range 6 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			m := newMaker(t)
			tree := randomTree(r, 1+r.IntN(300))
			tree.write(t, m.tree)
			opts := dataset.Options{ShardSize: int64(1 + r.IntN(1<<20)), KeepOrder: round%2 == 0, Seed: r.Uint64(), Workers: 1 + r.IntN(5), Records: round == 4}
			report := m.mustCreate(opts)
			v := m.holds(0, tree)
			if report.Version != 1 || !report.Published || int(report.Samples) != v.Len() || report.Added != report.Samples || v.Info().Name != "set" || v.Info().Seed != opts.Seed {
				t.Errorf("%+v", report)
			}
			bytes := 0
			for _, data := range tree {
				bytes += len(data)
			}
			if report.Bytes != int64(bytes) {
				t.Errorf("%d bytes, want %d", report.Bytes, bytes)
			}
			if opts.Records {
				return
			}
			listed := m.listTars(1)
			if want := slices.Sorted(maps.Keys(tree)); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
				t.Errorf("tar lists %d files, want %d", len(listed), len(want))
			}
			// The shards have the samples in the order of the manifest, each in one piece.
			var keys []string
			for _, name := range listed {
				key, _, _ := dataset.SplitMember(name)
				if len(keys) == 0 || keys[len(keys)-1] != key {
					keys = append(keys, key)
				}
			}
			for i, key := range keys {
				if has, err := v.Key(i); err != nil || has != key {
					t.Fatalf("sample %d is %q in the shards and %q, %v in the manifest", i, key, has, err)
				}
			}
			if len(keys) != v.Len() {
				t.Errorf("%d samples in the shards, %d in the manifest", len(keys), v.Len())
			}
			if opts.KeepOrder && !strings.Contains(keys[0], "/") && keys[0] != slices.Min(keys) {
				t.Errorf("the first sample is %q", keys[0])
			}
		})
	}
}

// TestPythonReadsShards asks Python's tarfile, which WebDataset reads with.
func TestPythonReadsShards(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	m := newMaker(t)
	tree := randomTree(seeded(t), 100)
	tree.write(t, m.tree)
	m.mustCreate(dataset.Options{ShardSize: 1 << 20})
	out := t.TempDir()
	script := `
import glob, sys, tarfile
for name in sorted(glob.glob(sys.argv[1] + "/000001/*.tar")):
    with tarfile.open(name) as tar:
        assert all(m.isreg() and m.mtime == 0 and m.uid == 0 for m in tar)
        tar.extractall(sys.argv[2])
`
	if said, err := exec.Command(python, "-c", script, m.to, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	same(t, readTree(t, out), tree)
}

// TestEqualTreesMakeEqualShards, whoever fills them and when.
func TestEqualTreesMakeEqualShards(t *testing.T) {
	tree := randomTree(seeded(t), 200)
	var first content
	var hash [32]byte
	for workers := 1; workers <= 5; workers += 4 {
		m := newMaker(t)
		tree.write(t, m.tree)
		m.mustCreate(dataset.Options{ShardSize: 100 << 10, Seed: 7, Workers: workers})
		shards := readTree(t, filepath.Join(m.to, "000001"))
		delete(shards, "origin")
		if first == nil {
			first, hash = shards, m.open(1).Hash()
			continue
		}
		same(t, shards, first)
		if m.open(1).Hash() != hash {
			t.Error("the logical parts differ")
		}
	}
	if len(first) < 3 {
		t.Errorf("only %d shards", len(first))
	}
}

// TestShardsAndChunksHaveTheirSizes.
func TestShardsAndChunksHaveTheirSizes(t *testing.T) {
	m := newMaker(t)
	tree := content{}
	for i := range 1000 {
		tree[fmt.Sprintf("%04d.bin", i)] = strings.Repeat("x", 10<<10)
	}
	tree["huge.bin"] = strings.Repeat("y", 3<<20)
	tree.write(t, m.tree)
	m.mustCreate(dataset.Options{ShardSize: 1 << 20, ChunkSize: 200 << 10})
	v := m.holds(1, tree)
	small := 0
	for i := range v.Shards() {
		s, err := v.Shard(i)
		must(t, err)
		switch {
		case s.Size > 1<<20+1024 && s.Size < 3<<20, s.Size > 5<<20:
			t.Errorf("shard %d has %d bytes", i, s.Size)
		case s.Size < 900<<10:
			small++
		}
	}
	if small > 2 { // the last one, and the one before the huge sample
		t.Errorf("%d shards are small", small)
	}
	// 13,3 MB in 1001 samples: 13312 bytes each.
	if k := v.Info().ChunkSamples; k != 15 {
		t.Errorf("a chunk has %d samples", k)
	}
}

// TestEmptyFilesBeforeALargeOne: where nothing takes no room.
func TestEmptyFilesBeforeALargeOne(t *testing.T) {
	for _, records := range []bool{false, true} {
		m := newMaker(t)
		tree := content{"a.jpg": "", "b.jpg": "", "c.jpg": noise[:2<<20], "d.jpg": "", "e.jpg": "x"}
		tree.write(t, m.tree)
		m.mustCreate(dataset.Options{AllowEmpty: true, KeepOrder: true, Records: records})
		m.holds(1, tree)
	}
}

// TestProblemsAreNamed: abort publishes nothing, skip leaves those samples out.
func TestProblemsAreNamed(t *testing.T) {
	m := newMaker(t)
	good := content{"a/1.jpg": "one", "a/1.txt": "text", "a/2.jpg": "two", "b/3.JPG": "three"}
	bad := content{
		"empty.jpg": "", "empty.txt": "not empty", "twice.jpg": "x", "twice.JPG": "y", "README": "no field", "odd.j~g": "z",
		"dot..": "x", "a/bad\xff.jpg": "x", "a/new\nline.jpg": "x", "a/4.__key": "x", strings.Repeat("k", 200) + "/" + strings.Repeat("long/", 190) + "5.jpg": "x",
	}
	good.write(t, m.tree)
	bad.write(t, m.tree)
	content{".hidden": "x", ".git/config.txt": "x"}.write(t, m.tree)
	must(t, os.Symlink("1.jpg", filepath.Join(m.tree, "a/6.jpg")))
	want := []string{
		`README: its name has no extension`,
		"a/4.__key: \"__key\" cannot be a field",
		"a/bad\xff.jpg: its name is not UTF-8",
		"a/new\nline.jpg: its name holds characters",
		"dot..: \".\" cannot be a field",
		"empty.jpg: it is empty",
		strings.Repeat("k", 200) + "/" + strings.Repeat("long/", 190) + "5.jpg: its name has 1156 bytes",
		`odd.j~g: "j~g" cannot be a field`,
		"skipped .git: it is hidden",
		"skipped .hidden: it is hidden",
		"skipped a/6.jpg: it is a symbolic link",
		`twice.jpg: its sample has a field "jpg" already`,
	}
	check := func() {
		t.Helper()
		if len(m.problems) != len(want) {
			t.Fatalf("%d problems:\n%s", len(m.problems), strings.Join(m.problems, "\n"))
		}
		for i, text := range m.problems {
			if !strings.HasPrefix(text, want[i]) {
				t.Errorf("problem %d is\n%s\nand not\n%s", i, text, want[i])
			}
		}
	}
	report, err := m.create(dataset.Options{})
	if !object.Is(err, object.Invalid) || report.Published || report.Problems != 9 || report.Skipped != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	check()
	if names, err := os.ReadDir(m.to); err != nil || len(names) > 0 {
		t.Errorf("there is %v, %v", names, err)
	}
	report = m.mustCreate(dataset.Options{Skip: true})
	check()
	good["b/3.jpg"] = good["b/3.JPG"]
	delete(good, "b/3.JPG")
	m.holds(1, good)
	if report.Samples != 3 {
		t.Errorf("%+v", report)
	}
	m.mustCreate(dataset.Options{Skip: true, AllowEmpty: true, Follow: true})
	good["a/6.jpg"] = "one"
	good["empty.jpg"], good["empty.txt"] = "", "not empty"
	m.holds(2, good)
}

// TestFilesChangeUnderWay: files that are gone, shorter, longer or something else
// when they are packed are named, and their samples left out or nothing published.
func TestFilesChangeUnderWay(t *testing.T) {
	big := strings.Repeat("b", 3<<20)
	tree := content{"gone.jpg": "x", "gone.txt": "x", "shorter.jpg": "longer", "longer.jpg": "x", "pipe.jpg": "x", "big.bin": big, "bigger.bin": big, "bigger.txt": "x"}
	for i := range 50 {
		tree[fmt.Sprintf("good/%d.jpg", i)] = strings.Repeat("g", 1000*(i+1))
	}
	disturb := func(dir string) func() time.Time {
		calls := 0
		return func() time.Time {
			if calls++; calls == 2 {
				must(t, os.Remove(filepath.Join(dir, "gone.txt")))
				must(t, os.Remove(filepath.Join(dir, "pipe.jpg")))
				must(t, exec.Command("mkfifo", filepath.Join(dir, "pipe.jpg")).Run())
				content{"shorter.jpg": "short", "longer.jpg": "xyz", "big.bin": "small", "bigger.bin": big + "more"}.write(t, dir)
			}
			return time.Now()
		}
	}
	for _, skip := range []bool{false, true} {
		m := newMaker(t)
		tree.write(t, m.tree)
		opts := dataset.Options{Skip: skip, Workers: 1}
		opts.SetClock(disturb(m.tree))
		report, err := m.create(opts)
		if !skip {
			if !object.Is(err, object.Invalid) || report.Published || len(m.problems) == 0 {
				t.Errorf("%+v, %v", report, err)
			}
			if versions, err := dataset.Versions(t.Context(), dataset.Directory(m.to)); err != nil || len(versions) > 0 {
				t.Errorf("published %v, %v", versions, err)
			}
			continue
		}
		must(t, err)
		want := []string{
			"big.bin: it became shorter while it was read", "bigger.bin: it grew while it was read", "gone.txt: no such file or directory",
			"longer.jpg: it grew while it was read", "pipe.jpg: it became shorter while it was read", "shorter.jpg: it became shorter while it was read",
		}
		if !slices.Equal(m.problems, want) {
			t.Errorf("problems:\n%s", strings.Join(m.problems, "\n"))
		}
		good := content{}
		for path, data := range tree {
			if strings.HasPrefix(path, "good/") {
				good[path] = data
			}
		}
		m.holds(1, good)
		if report.Samples != 50 || report.Added != 50 {
			t.Errorf("%+v", report)
		}
	}
}

// TestWhatCannotBe says so.
func TestWhatCannotBe(t *testing.T) {
	m := newMaker(t)
	if _, err := m.create(dataset.Options{}); !object.Is(err, object.NotFound) {
		t.Errorf("an empty tree: %v", err)
	}
	content{"a.jpg": "x"}.write(t, m.tree)
	for _, name := range []string{"", ".x", "-x", "a/b", "ä", strings.Repeat("x", 129)} {
		o := dataset.Options{Name: name}
		if _, err := dataset.Create(t.Context(), dataset.Directory(m.to), dataset.Tree(m.tree), o); !object.Is(err, object.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := dataset.Create(t.Context(), dataset.Directory(m.to), dataset.Tree(m.tree+"/missing"), dataset.Options{Name: "x"}); !object.Is(err, object.NotFound) {
		t.Errorf("a missing tree: %v", err)
	}
	if _, err := dataset.Open(t.Context(), dataset.Directory(m.to), 0); !object.Is(err, object.NotFound) {
		t.Errorf("opening nothing: %v", err)
	}
	m.mustCreate(dataset.Options{})
	if _, err := m.create(dataset.Options{Name: "other"}); !object.Is(err, object.Exists) {
		t.Errorf("another name: %v", err)
	}
	tree := content{}
	for i := range 70 {
		tree[fmt.Sprintf("photo %d.5.%d.jpg", i, i)] = "x"
	}
	tree.write(t, m.tree)
	if _, err := m.create(dataset.Options{}); !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), "71 different fields") {
		t.Errorf("too many fields: %v", err)
	}
}
