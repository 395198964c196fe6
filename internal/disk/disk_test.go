package disk_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

func TestSealedFiles(t *testing.T) {
	dir := t.TempDir()
	d := disk.NewDir(dir)
	if _, err := disk.ReadSealed(d, "note", "note", 1); !object.Is(err, object.NotFound) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, content := range []string{"first, and rather long", "second", ""} {
		if err := disk.WriteSealed(d, "note", "note", 1, []byte(content)); err != nil {
			t.Fatal(err)
		}
		disk.KeepSpare(d, "note") // used by the next one
		got, err := disk.ReadSealed(d, "note", "note", 1)
		if err != nil || string(got) != content {
			t.Errorf("%q, %v; want %q", got, err, content)
		}
	}
	if _, err := disk.ReadSealed(d, "note", "note", 2); !object.Is(err, object.Invalid) {
		t.Errorf("another format: %v", err)
	}
	if _, err := disk.ReadSealed(d, "note", "other", 1); !object.Is(err, object.Corrupt) {
		t.Errorf("another kind: %v", err)
	}
}

// TestSealedDamage flips every bit of a sealed file: it is never read as right.
func TestSealedDamage(t *testing.T) {
	dir := t.TempDir()
	d := disk.NewDir(dir)
	if err := disk.WriteSealed(d, "note", "note", 1, []byte("some content")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "note"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(whole) * 8 {
		damaged := slices.Clone(whole)
		damaged[i/8] ^= 1 << (i % 8)
		if err := os.WriteFile(filepath.Join(dir, "note"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := disk.ReadSealed(d, "note", "note", 1); err == nil && string(got) != "some content" {
			t.Errorf("bit %d: read %q", i, got)
		}
	}
}

func TestIdentityIsRepaired(t *testing.T) {
	dir := t.TempDir()
	d := disk.NewDir(dir)
	made, err := disk.NewIdentity(d, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"identity", "identity.copy"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time both copies are right
			if got, err := disk.ReadIdentity(d); err != nil || got != made {
				t.Errorf("%s damaged: %+v, %v", name, got, err)
			}
		}
	}
	for _, name := range []string{"identity", "identity.copy"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := disk.ReadIdentity(d); !object.Is(err, object.Corrupt) {
		t.Errorf("both damaged: %v", err)
	}
}

func TestLock(t *testing.T) {
	d := disk.NewDir(t.TempDir())
	lock, err := d.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock("lock"); err == nil {
		t.Error("locked twice")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestSub(t *testing.T) {
	dir := t.TempDir()
	s := disk.Sub(disk.NewDir(dir), "inner")
	if err := s.MkdirAll("."); err != nil {
		t.Fatal(err)
	}
	f, err := s.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Allocate(8192); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := s.Rename("file", "other"); err != nil {
		t.Fatal(err)
	}
	if err := s.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	names, err := s.ReadDir(".")
	if err != nil || !slices.Equal(names, []string{"other"}) {
		t.Errorf("%v, %v", names, err)
	}
	raw, err := os.Open(filepath.Join(dir, "inner", "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if got, err := io.ReadAll(raw); err != nil || len(got) != 8192 || got[0] != 'x' {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
