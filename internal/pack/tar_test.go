package pack_test

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/pack"
)

// tool is a program that reads tar files.
type tool struct {
	program string
	list    []string // arguments; the pack's path follows
	extract []string // likewise, in the directory to extract to
}

var tools = []tool{
	{"tar", []string{"--quoting-style=literal", "--show-transformed", "-tf"}, []string{"-xf"}},
	{"bsdtar", []string{"-tf"}, []string{"-xf"}},
	{
		"python3",
		[]string{"-c", "import tarfile, sys\nfor m in tarfile.open(sys.argv[1]): print(m.name)"},
		[]string{"-c", "import tarfile, sys\ntarfile.open(sys.argv[1]).extractall(filter='data')"},
	},
}

func (x tool) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(x.program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	// GNU tar says of our PAX fields that it does not know them. All else would be
	// a complaint.
	for line := range strings.Lines(stderr.String()) {
		if !strings.Contains(line, "Ignoring unknown extended header keyword") && !strings.Contains(line, "in the future") {
			t.Errorf("%s: %s", x.program, line)
		}
	}
	return string(out)
}

// TestPlainTar: tools list ordinary names exactly, restore their content, and
// put nothing outside the directory they extract to.
func TestPlainTar(t *testing.T) {
	d := newDisk(t)
	l := newLog(t, d, options(1))
	namesLog(t, l)
	path := filepath.Join(d.Root(), pack.FileName(1))
	sealed := false
	for _, stage := range []string{"open", "sealed"} {
		if stage == "sealed" {
			l.seal()
			sealed = true
		}
		for _, x := range tools {
			t.Run(stage+"/"+x.program, func(t *testing.T) {
				if _, err := exec.LookPath(x.program); err != nil {
					t.Skipf("%s is not installed (apt install libarchive-tools has bsdtar)", x.program)
				}
				want := l.restored()
				if x.program == "bsdtar" {
					composed := strings.ReplaceAll("bkt/"+decomposed, "e\u0301", "\u00e9")
					want[composed] = want["bkt/"+decomposed]
					delete(want, "bkt/"+decomposed)
				}
				var listed []string
				for line := range strings.Lines(x.run(t, t.TempDir(), append(x.list, path)...)) {
					if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, ".penstock/") {
						listed = append(listed, line)
					}
				}
				names := slices.Sorted(maps.Keys(want))
				slices.Sort(listed)
				for i := range min(len(names), len(listed)) {
					if x.program == "bsdtar" { // it has no literal style of listing
						names[i] = strings.ReplaceAll(names[i], "\\", "\\\\")
					}
					if listed[i] != names[i] {
						t.Fatalf("listed %q, want %q", listed[i], names[i])
					}
				}
				if len(listed) != len(names) {
					t.Errorf("listed %d names, want %d", len(listed), len(names))
				}
				checkExtraction(t, x, path, want, len(awkwardKeys()), sealed)
			})
		}
	}
}

func checkExtraction(t *testing.T, x tool, path string, want map[string]string, awkward int, sealed bool) {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "a", "b", "c")
	must(t, os.MkdirAll(dir, 0o700))
	x.run(t, dir, append(x.extract, path)...)
	plain := map[string]string{}
	own := 0
	must(t, filepath.WalkDir(outer, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() || strings.HasPrefix(rel, "..") {
			t.Errorf("%q of type %v", rel, e.Type())
		}
		if strings.HasPrefix(rel, ".penstock/") {
			own++
			return nil
		}
		content, err := os.ReadFile(path)
		plain[rel] = string(content)
		return err
	}))
	if !maps.Equal(plain, want) {
		for name, content := range want {
			if plain[name] != content {
				t.Errorf("%q is %q, not %q", name, plain[name], content)
			}
		}
		t.Errorf("%d files, want %d", len(plain), len(want))
	}
	count := 1 + awkward + 1 + 2 + 1 // head, escaped, hidden, tombstones, marker
	if sealed {
		count++
	}
	if own != count {
		t.Errorf("%d files of our own, want %d", own, count)
	}
}
