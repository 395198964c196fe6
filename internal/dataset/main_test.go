package dataset_test

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/dataset"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if dir := os.Getenv(childVariable); dir != "" {
		return child(dir)
	}
	status := m.Run()
	os.RemoveAll(built)
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seeded returns random numbers that can be repeated.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PENSTOCK_SEED"); text != "" {
		fmt.Sscan(text, &seed)
	}
	t.Logf("PENSTOCK_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// content is the files of a tree, by their paths.
type content map[string]string

// write makes the tree.
func (c content) write(t testing.TB, dir string) {
	t.Helper()
	for path, data := range c {
		name := filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(name), 0o777))
		must(t, os.WriteFile(name, []byte(data), 0o666))
	}
}

// readTree returns the files below a directory.
func readTree(t testing.TB, dir string) content {
	t.Helper()
	c := content{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		path, _ := filepath.Rel(dir, name)
		c[filepath.ToSlash(path)] = string(data)
		return err
	}))
	return c
}

func same(t testing.TB, got, want content) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if data, ok := got[path]; !ok || data != want[path] {
			t.Errorf("%q: there=%v, %d bytes, want %d", path, ok, len(data), len(want[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[path]; !ok {
			t.Errorf("%q should not be there", path)
		}
	}
}

// noise is what files are made of.
var noise = func() string {
	r := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 4<<20)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	return string(data)
}()

// randomTree returns samples with one to four fields in folders of all kinds.
func randomTree(r *rand.Rand, samples int) content {
	folders := []string{"", "cats/", "dogs/", "a b/c/", "größe/", strings.Repeat("long/", 25), strings.Repeat("x", 130) + "/"}
	c := content{}
	for i := range samples {
		key := folders[r.IntN(len(folders))] + fmt.Sprintf("%04d", i)
		if r.IntN(20) == 0 {
			key += strings.Repeat("n", 110)
		}
		fields := []string{"jpg", "txt", "seg.png", "json"}
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		for _, field := range fields[:1+r.IntN(3)] {
			size := 1 + r.IntN(3000)
			switch r.IntN(60) {
			case 0:
				size = 1<<20 + r.IntN(1<<20)
			case 1:
				size = 512 * (1 + r.IntN(8))
			}
			start := r.IntN(len(noise) - size)
			c[key+"."+field] = noise[start : start+size]
		}
	}
	return c
}

// maker makes versions, in a directory if it is told nothing else.
type maker struct {
	testing.TB
	tree, to string
	place    func() dataset.Place
	origin   func() dataset.Origin
	problems []string
}

func newMaker(t testing.TB) *maker {
	m := &maker{TB: t, tree: t.TempDir(), to: filepath.Join(t.TempDir(), "set")}
	m.place = func() dataset.Place { return dataset.Directory(m.to) }
	m.origin = func() dataset.Origin { return dataset.Tree(m.tree) }
	return m
}

func (m *maker) create(opts dataset.Options) (dataset.Report, error) {
	m.Helper()
	m.problems = nil
	if opts.Name == "" {
		opts.Name = "set"
	}
	opts.Problem = func(p dataset.Problem) {
		text := fmt.Sprintf("%s: %v", strings.TrimPrefix(p.Path, m.tree+"/"), p.Err)
		if p.Skipped {
			text = "skipped " + text
		}
		m.problems = append(m.problems, text)
	}
	report, err := dataset.Create(m.Context(), m.place(), m.origin(), opts)
	slices.Sort(m.problems)
	return report, err
}

func (m *maker) mustCreate(opts dataset.Options) dataset.Report {
	m.Helper()
	report, err := m.create(opts)
	if err != nil {
		m.Fatalf("%v\n%s", err, strings.Join(m.problems, "\n"))
	}
	return report
}

func (m *maker) open(version uint64) *dataset.Version {
	m.Helper()
	v, err := dataset.Open(m.Context(), m.place(), version)
	must(m, err)
	m.Cleanup(v.Close)
	return v
}

// verify returns what is wrong with a version.
func (m *maker) verify(v *dataset.Version) (problems []string) {
	m.Helper()
	report, err := v.Verify(m.Context(), dataset.ReadOptions{Problem: func(err error) { problems = append(problems, err.Error()) }})
	must(m, err)
	if int64(len(problems)) != report.Problems {
		m.Errorf("%d problems were told of, %d counted", len(problems), report.Problems)
	}
	slices.Sort(problems)
	return problems
}

// holds checks that a version holds exactly these files, and nothing is wrong.
func (m *maker) holds(version uint64, want content) *dataset.Version {
	m.Helper()
	v := m.open(version)
	if wrong := m.verify(v); len(wrong) > 0 {
		m.Errorf("%s", strings.Join(wrong, "\n"))
	}
	out := m.TempDir()
	report, err := v.Export(m.Context(), out, allColumns(v), dataset.ReadOptions{Problem: func(err error) { m.Error(err) }})
	must(m, err)
	if report.Problems > 0 {
		m.Errorf("%+v", report)
	}
	same(m, readTree(m, out), want)
	return v
}

func allColumns(v *dataset.Version) (all []int) {
	for i := range v.Columns() {
		all = append(all, i)
	}
	return all
}

// listTars returns what tar finds in the shards of a version, in their order.
func (m *maker) listTars(version int) []string {
	m.Helper()
	shards, err := filepath.Glob(filepath.Join(m.to, fmt.Sprintf("%06d", version), "*.tar"))
	must(m, err)
	var names []string
	for _, shard := range shards {
		out, err := exec.Command("tar", "--quoting-style=literal", "-tf", shard).Output()
		must(m, err)
		names = append(names, strings.Fields(strings.ReplaceAll(string(out), " ", "\x01"))...)
	}
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], "\x01", " ")
	}
	return names
}
