package chaos

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock"
)

// scrub has the node check everything and returns what it found wrong.
func (s *subject) scrub() []penstock.ScrubFinding {
	s.tb.Helper()
	var found []penstock.ScrubFinding
	for event, err := range s.client.Scrub(s.tb.Context()) {
		if err != nil {
			s.tb.Errorf("scrub: %v", err)
			return found
		}
		if event.Finding != nil {
			found = append(found, *event.Finding)
		}
	}
	return found
}

// settleTime is what a node without work is given to tidy up after a start. From
// outside there is no event for it.
const settleTime = 5 * time.Second

// checkSettled gives the node time to tidy up and then wants nothing wrong and
// nothing left over. All in the ledger must be certain.
func (s *subject) checkSettled() {
	s.tb.Helper()
	time.Sleep(settleTime)
	for _, f := range s.scrub() {
		s.tb.Errorf("scrub found %+v", f)
	}
	live, large, distinct := s.live()
	files := measure(s.tb, s.node.Data()[0])
	if files.blobs > large || files.blobs < distinct {
		s.tb.Errorf("%d blobs are on disk; %d objects with %d contents need one", files.blobs, large, distinct)
	}
	for _, name := range files.temporary {
		s.tb.Errorf("%s was left over", name)
	}
	if limit := live*3/2 + slack; files.bytes > limit {
		s.tb.Errorf("%d MiB are used on disk for %d MiB of objects", files.bytes>>20, live>>20)
	}
	s.tb.Logf("%d MiB are used on disk for %d MiB of objects, %d blobs", files.bytes>>20, live>>20, files.blobs)
}

// slack is what a node may use besides: packs that are not full, preallocated
// space, the index.
const slack = 48 << 20

// live returns the bytes of all objects, how many of them are too large for a
// record, and how many different contents those have: copies may share a blob.
func (s *subject) live() (bytes int64, large, distinct int) {
	contents := map[state]bool{}
	for _, key := range s.ledger.keys() {
		now, _, _ := s.ledger.known(key)
		bytes += now.Size
		if now.Size > inlineMax {
			large++
			contents[now] = true
		}
	}
	return bytes, large, len(contents)
}

type usage struct {
	bytes     int64
	blobs     int
	temporary []string
}

// measure looks at a data directory with its own eyes.
func measure(tb testing.TB, dir string) usage {
	tb.Helper()
	var u usage
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		u.bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		name := strings.TrimPrefix(path, dir+"/")
		if strings.HasPrefix(name, "blobs/") {
			u.blobs++
		}
		if strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, "probe") {
			u.temporary = append(u.temporary, name)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return u
}
