package store_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// counted is a drive that knows how many of its files are open.
type counted struct {
	disk.FS
	open atomic.Int64
}

type countedFile struct {
	disk.File
	open *atomic.Int64
}

func (f *countedFile) Close() error {
	f.open.Add(-1)
	return f.File.Close()
}

func (c *counted) Open(name string) (disk.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedFile{f, &c.open}, nil
}

// unpacked unpacks drives and returns the content by name, after making sure that
// nothing lies outside the target and nothing on the drives has changed.
func unpacked(t *testing.T, drives ...*fault.Memory) (map[object.Name][]byte, store.UnpackReport) {
	t.Helper()
	var disks []store.Disk
	var files []*counted
	var before []shot
	for i, d := range drives {
		files = append(files, &counted{FS: d})
		disks = append(disks, store.Disk{FS: files[i], Name: fmt.Sprintf("disk%d", i)})
		before = append(before, take(t, d, "."))
	}
	parent := t.TempDir()
	out := filepath.Join(parent, "x", "out")
	must(t, os.MkdirAll(filepath.Dir(out), 0o755))
	report, err := store.Unpack(ctx, disks, out, store.UnpackOptions{Problem: func(what string) { t.Logf("problem: %s", what) }})
	must(t, err)
	for i, d := range drives {
		if n := files[i].open.Load(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
		after := take(t, d, ".")
		delete(after, "lock")
		delete(before[i], "lock")
		if !maps.EqualFunc(before[i], after, bytes.Equal) {
			t.Errorf("unpacking has changed the drive: %v became %v", slices.Sorted(maps.Keys(before[i])), slices.Sorted(maps.Keys(after)))
		}
	}
	for _, dir := range []string{parent, filepath.Join(parent, "x")} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s holds %v (%v)", dir, entries, err)
		}
	}
	got := make(map[object.Name][]byte)
	list, err := os.Open(filepath.Join(out, ".penstock", "objects.ndjson"))
	must(t, err)
	defer list.Close()
	paths := make(map[string]bool)
	for lines := bufio.NewScanner(list); lines.Scan(); {
		var line store.Unpacked
		must(t, json.Unmarshal(lines.Bytes(), &line))
		if !filepath.IsLocal(line.Path) || paths[line.Path] {
			t.Errorf("path %q", line.Path)
		}
		paths[line.Path] = true
		data, err := os.ReadFile(filepath.Join(out, line.Path))
		must(t, err)
		if line.Size != int64(len(data)) || line.CRC32 != fmt.Sprintf("%08x", crc32.ChecksumIEEE(data)) {
			t.Errorf("%q: listed as %d bytes, has %d", line.Path, line.Size, len(data))
		}
		name := object.Name{Bucket: line.Bucket, Key: line.Key}
		if rest, older := strings.CutPrefix(line.Path, ".penstock/versions/"); older {
			if name.ID = idOf(t, line.ID); !strings.HasPrefix(rest, line.ID+"/") {
				t.Errorf("version %s is at %q", line.ID, line.Path)
			}
		} else if line.ID != "" && idOf(t, line.ID).String() != line.Version {
			t.Errorf("version %s has ID %s", line.Version, line.ID)
		}
		got[name] = data
	}
	if report.Objects != int64(len(got)) {
		t.Errorf("reported %d objects, listed %d", report.Objects, len(got))
	}
	return got, report
}

func idOf(t *testing.T, text string) (id object.Version) {
	t.Helper()
	if text == "null" {
		return object.NullID
	}
	if _, err := fmt.Sscanf(text, "%08x%016x", &id.Map, &id.Counter); err != nil || len(text) != 24 {
		t.Fatalf("ID %q: %v", text, err)
	}
	return id
}

// TestUnpackVersions restores the newest version of each key under its name, unless it
// is the mark of a deletion, and the others beside them; and nothing of what lies
// beside buckets.
func TestUnpackVersions(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_UNPACKS", 5, func(t *testing.T, seed uint64) {
				box, k := newMachine(disks, seed), newKeeper()
				_, end := box.die(1<<40, true)
				s, stop, err := running(box.options(false, plain))
				must(t, err)
				c := newClient(k, s, random(seed, 96), "")
				for range 200 {
					must(t, c.step())
				}
				end()
				stop() //nolint:errcheck // the process is dead
				want := make(map[object.Name][]byte)
				for _, name := range c.mine {
					for i, v := range k.only(name) {
						if of := v.name(name); i > 0 && !v.marker {
							want[of] = k.data(v.n)
						} else if !v.marker {
							want[name] = k.data(v.n)
						}
					}
				}
				got, report := unpacked(t, box.drives...)
				if !maps.EqualFunc(got, want, bytes.Equal) || report.Problems > 0 {
					t.Fatalf("%d problems; restored %v, not %v", report.Problems, slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
				}
			})
		})
	}
}

// TestUnpack restores what crashed drives hold, with and without what they have
// beside packs and blobs.
func TestUnpack(t *testing.T) {
	t.Parallel()
	for _, disks := range []int{1, 3} {
		t.Run(fmt.Sprintf("disks=%d", disks), func(t *testing.T) {
			runs(t, "PENSTOCK_UNPACKS", 6, func(t *testing.T, seed uint64) {
				r := random(seed, 71)
				box := newMachine(disks, seed)
				m := newModel()
				for range 2 {
					wrap, end := box.die(1<<40, r.IntN(2) == 0)
					s, stop, err := running(box.options(false, wrap))
					must(t, err)
					m.steps(t, s, r, 100)
					end()
					stop() //nolint:errcheck // the power is cut
				}
				for _, d := range box.drives {
					for _, dir := range []string{"index", "identity", "identity.copy", "roster"} {
						switch {
						case r.IntN(2) == 0:
						case dir == "index":
							erase(t, d, dir)
						default:
							must(t, d.Remove(dir))
							must(t, d.SyncDir("."))
						}
					}
				}
				got, report := unpacked(t, box.drives...)
				for name := range m.possible {
					states := m.states(name)
					data, there := got[name]
					if !slices.ContainsFunc(states, func(n int) bool { return there == (n != 0) && (!there || bytes.Equal(data, content(n))) }) {
						t.Errorf("%s, which may be %v: there %v, %d bytes", name, states, there, len(data))
					}
				}
				if report.Problems > 0 {
					t.Errorf("%d problems", report.Problems)
				}
			})
		})
	}
}

// TestUnpackNames restores keys of every kind, inside the target.
func TestUnpackNames(t *testing.T) {
	keys := []string{
		"plain", "a", "a/b", "a/b/c", "a/b/", "a/", "/", "//", ".", "..", "../..", "../../escape", "x/../../escape", "/etc/passwd", "./x", "x/./y",
		"nul\x00byte", "line\nfeed", "back\\slash", "tab\t", "ünï/cødé", "世界", ".penstock/objects.ndjson", "%2E%2E", "~", "CON", "a:b",
		strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("n", 1024), strings.Repeat("d/", 512), strings.Repeat("../", 300),
		strings.Repeat("é", 512), "trailing ", " leading", "-rf", "a/b/c/d/e/f",
	}
	// Two long keys that begin alike and have the same CRC-32.
	seen := make(map[uint32]string)
	for i := 0; ; i++ {
		k := fmt.Sprintf("%s%08x", strings.Repeat("l", 300), i*2654435761)
		if other, ok := seen[crc32.ChecksumIEEE([]byte(k))]; ok {
			keys = append(keys, k, other)
			break
		}
		seen[crc32.ChecksumIEEE([]byte(k))] = k
	}
	mem := fault.NewMemory(1)
	s := still(t, small(mem))
	for _, k := range keys {
		put(t, s, k, []byte("content of "+k))
		holds(t, s, k, []byte("content of "+k))
	}
	must(t, s.Close())
	got, report := unpacked(t, mem)
	for _, k := range keys {
		if string(got[key(k)]) != "content of "+k {
			t.Errorf("%q: %q", k, got[key(k)])
		}
	}
	if len(got) != len(keys) || report.Problems > 0 {
		t.Errorf("%d keys restored of %d, %d problems", len(got), len(keys), report.Problems)
	}
}

// TestUnpackInUse refuses a directory that a store uses.
func TestUnpackInUse(t *testing.T) {
	mem := fault.NewMemory(1)
	s := still(t, small(mem))
	_, err := store.Unpack(ctx, small(mem).Disks, t.TempDir(), store.UnpackOptions{})
	wantKind(t, "unpack", err, object.Unavailable)
	must(t, s.Close())
	_, err = store.Unpack(ctx, small(mem).Disks, t.TempDir(), store.UnpackOptions{})
	must(t, err)
}
