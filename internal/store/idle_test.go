package store_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// openBlobs returns the blobs under dir that this process has open, and how many
// of those files are removed already.
func openBlobs(t *testing.T, dir string) (open, removed int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc to look at")
	}
	for _, e := range entries {
		path, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if !strings.HasPrefix(path, dir+"/blobs/") {
			continue
		}
		open++
		if strings.HasSuffix(path, "(deleted)") {
			removed++
		}
	}
	return open, removed
}

// TestIdleBlobs reads, overwrites and deletes large objects at once. Files stay
// open for the next reader, up to a number, but none that is removed, and none
// after the end.
func TestIdleBlobs(t *testing.T) {
	dir := t.TempDir()
	s, stop := start(t, small(disk.NewDir(dir)))
	large := bytesOf("large", 20<<10)
	for i := range 400 {
		put(t, s, fmt.Sprintf("many%d", i), large)
		holds(t, s, fmt.Sprintf("many%d", i), large)
	}
	if open, _ := openBlobs(t, dir); open == 0 || open > 256 {
		t.Errorf("%d blobs are open", open)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				name := key(fmt.Sprintf("k%d", i%3))
				var err error
				switch {
				case w == 0:
					_, err = s.Put(ctx, name, bytes.NewReader(bytesOf(fmt.Sprint(i), 20<<10)), object.PutOptions{})
				case w == 1 && i%10 == 0:
					err = s.Delete(ctx, name, object.Condition{})
				default:
					_, err = readRange(s, name, object.Range{Offset: int64(i), Length: 10 << 10}, i%5 == 0)
				}
				if err != nil && !object.Is(err, object.NotFound) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	wg.Wait()
	if _, removed := openBlobs(t, dir); removed > 0 {
		t.Errorf("%d removed blobs are kept open", removed)
	}
	stop()
	if open, _ := openBlobs(t, dir); open > 0 {
		t.Errorf("%d blobs are open after the end", open)
	}
}
