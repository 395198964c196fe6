package chaos

import (
	"os"
	"path/filepath"
	"testing"
)

// A power cut that loses nothing proves nothing.
func TestCutLosesWhatWasNotSynced(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			v := newVolume(t, kind, "320MiB")
			write := func(name string, sync bool) {
				t.Helper()
				f, err := os.Create(filepath.Join(v.dir, name))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString(name); err != nil {
					t.Fatal(err)
				}
				if !sync {
					return
				}
				dir, err := os.Open(v.dir)
				if err != nil {
					t.Fatal(err)
				}
				defer dir.Close()
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				if err := dir.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			write("synced", true)
			write("unsynced", false)
			if err := v.cut(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(v.dir, "late"), nil, 0o600); err == nil {
				t.Error("the file system still works")
			}
			v.unmount()
			v.mount()
			if data, err := os.ReadFile(filepath.Join(v.dir, "synced")); err != nil || string(data) != "synced" {
				t.Errorf("synced: %q, %v", data, err)
			}
			if data, err := os.ReadFile(filepath.Join(v.dir, "unsynced")); err == nil && len(data) > 0 {
				t.Errorf("unsynced data survived: %q", data)
			}
		})
	}
}
