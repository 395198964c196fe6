package s3api_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// openDisk opens a store on a directory; close ends it, at the latest with the test.
func openDisk(t *testing.T, dir string) (s *store.Store, closing func()) {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: disk.NewDir(dir), Name: "disk"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	closing = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(closing)
	return s, closing
}

// dyingStore deletes nothing any more once it is dead.
type dyingStore struct {
	keepingStore
	dead atomic.Bool
}

func (s *dyingStore) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	if s.dead.Load() {
		return object.Errorf(object.Unavailable, "the node was killed")
	}
	return s.keepingStore.Delete(ctx, name, cond)
}

// TestKilledWhileCompleting ends a node when the object is there and the upload is not
// yet gone. Whoever completes it again makes no second version.
func TestKilledWhileCompleting(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"complete", "abort", "clean"} {
		t.Run(then, func(t *testing.T) {
			dir := t.TempDir()
			s, closing := openDisk(t, dir)
			dying := &dyingStore{keepingStore: s}
			d := beginOn(t, func(node.Store) node.Store { return dying }, "bucket")
			d.version(t, "bucket", node.VersioningEnabled)
			upload := d.create(t, "/bucket/key", "x-amz-checksum-algorithm", "CRC32C")
			parts := partsXML(1, d.part(t, upload, 1, large("a")), 2, d.part(t, upload, 2, "b"))
			waiting := d.create(t, "/bucket/waiting") // goes on after the restart
			d.part(t, waiting, 1, large("w"))
			dying.dead.Store(true)
			first := d.must(t, 200, "POST", upload, parts)
			closing()

			s, _ = openDisk(t, dir)
			d = beginOn(t, func(node.Store) node.Store { return s }, "bucket")
			d.version(t, "bucket", node.VersioningEnabled)
			if state := d.state(t); strings.Count(state, "part ") != 3 {
				t.Fatalf("the upload was cleaned already: %s", state)
			}
			switch then {
			case "complete":
				for range 2 {
					again := d.must(t, 200, "POST", upload, parts)
					if again.id() != first.id() || again.element("ChecksumCRC32C") != first.element("ChecksumCRC32C") {
						t.Errorf("another version was made: %v", again.header)
					}
				}
			case "abort":
				d.must(t, 204, "DELETE", upload, "")
			case "clean":
				if err := d.node.CleanUploads(t.Context(), time.Now().Add(-time.Hour)); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(d.state(t), "upload bucket/waiting") {
					t.Error("what is young was cleaned, too")
				}
				d.part(t, waiting, 2, "end")
				d.must(t, 200, "POST", waiting, partsXML(1, md5Hex(large("w")), 2, md5Hex("end")))
				if got := d.must(t, 200, "GET", "/bucket/waiting", ""); got.body != large("w")+"end" {
					t.Errorf("%d bytes", len(got.body))
				}
				if err := d.node.CleanUploads(t.Context(), time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			state := d.state(t)
			if strings.Contains(state, "upload bucket/key") || strings.Count(state, "bucket/key ") != 1 {
				t.Errorf("what is left: %s", state)
			}
			if got := d.must(t, 200, "GET", "/bucket/key?versionId="+first.id(), ""); got.body != large("a")+"b" {
				t.Errorf("%d bytes", len(got.body))
			}
		})
	}
}
