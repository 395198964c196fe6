package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"penstock.dev/penstock/internal/manifest"
)

// Place is where the versions of one dataset lie.
type Place interface {
	String() string // as the user would write it

	// versions returns the numbers of the published versions, rising, and the highest
	// number that was ever given out.
	versions(ctx context.Context) (published []uint64, last uint64, err error)

	// manifest returns that of a version.
	manifest(ctx context.Context, version uint64) (*manifest.Manifest, error)

	// read calls each for every range, in their order, with its bytes or what went
	// wrong, until it returns an error. The bytes are valid until it returns.
	read(ctx context.Context, ranges []stretch, each func(i int, data []byte, err error) error) error

	// stream gives a range that is too large for memory, from first to last.
	stream(ctx context.Context, r stretch) (io.ReadCloser, error)

	// size returns how large a shard is.
	size(ctx context.Context, shard string) (int64, error)

	// note returns what the writer of a version noted about it; the zero note if there
	// is none.
	note(ctx context.Context, version uint64) (note, error)

	// draft begins a version.
	draft(ctx context.Context, version uint64) (draft, error)

	// foreign returns the name by which readers of the place find a file of an origin
	// where it lies, or "" if they cannot.
	foreign(from Origin, path string) string

	// owned returns a function that says which paths of an origin belong to the dataset
	// itself, because one lies inside of the other; those of folders end with a slash.
	// It is nil if none do.
	owned(from Origin) func(path string) bool

	// hold keeps writers away until release is called, where that is possible.
	hold() (release func(), err error)

	// withdraw takes a version away, and returns the names of what belongs to it beside
	// its shards. remove removes things by name.
	withdraw(ctx context.Context, version uint64) (rest []string, err error)
	remove(ctx context.Context, names []string) error

	close()
}

// stretch is a range of a shard, and the CRC-32 its bytes must have, if that is
// known. Whoever reads it need not check it.
type stretch struct {
	shard   string
	offset  int64
	length  int64
	crc     uint32
	checked bool
}

// draft is a version that is being written. Its shards may be written at the same
// time.
type draft interface {
	// begin is called before the first write, with the note of this run.
	begin(ctx context.Context, n note) error

	// left returns the names of shards that runs before this one have left.
	left() []string

	// open reads a shard that was left, and returns the note of the run that wrote it.
	open(ctx context.Context, name string) (io.ReadCloser, note, error)

	// reuse makes a shard that was left a part of this draft, and returns its tag.
	reuse(name string) (tag string)

	// write makes a shard of what fill writes, and returns when it is durable, with
	// the name that it got: the one that was asked for or, if that is taken, one that
	// is like it. If fill fails there is none.
	write(ctx context.Context, name string, fill func(io.Writer) error) (written, tag string, err error)

	// again reports whether a write that failed is worth another try, and waits until
	// it is.
	again(ctx context.Context, name string, err error) bool

	// manifest is where the manifest is to be written to.
	manifest() string

	// publish makes it the version's, with all shards that were written or reused, and
	// removes what was left otherwise. bytes is how many there are in fields. base is
	// the version whose shards it keeps, zero if it keeps none: it answers NotFound if
	// that was removed.
	publish(ctx context.Context, bytes int64, base uint64) error

	// close ends the draft, published or not.
	close()
}

// note is what the writer of a version writes down for those that come after it: for a
// run that goes on where this one was killed, and for the next version.
type note struct {
	From  string    `json:"from"`  // hash of Origin.where
	Begun time.Time `json:"begun"` // before the first file was looked at
}

func newNote(from Origin, begun time.Time) note {
	sum := sha256.Sum256([]byte(from.where()))
	return note{From: hex.EncodeToString(sum[:16]), Begun: begun}
}

// sameAs reports whether the writer of a later note reads the same files, so far as
// these were not changed. If the clock was set back in between it says no: files may
// have changed that look older than n.
func (n note) sameAs(later note) bool {
	return n.From != "" && n.From == later.From && n.Begun.Before(later.Begun)
}

// settled is how much older than a note a file must be to be taken for unchanged:
// the kernel's time of a change may lag behind the clock by as much.
const settled = 20 * time.Millisecond

// before reports whether a file that was last changed then is as the note's writer
// found it.
func (n note) before(stamp int64) bool { return stamp < n.Begun.Add(-settled).UnixNano() }

const (
	manifestPrefix = "manifest-"
	noteName       = "origin"
)

func folderName(version uint64) string   { return fmt.Sprintf("%06d", version) }
func manifestName(version uint64) string { return manifestPrefix + folderName(version) }

func notePath(version uint64) string { return folderName(version) + "/" + noteName }

// shardName returns the name of a shard of a version, from the dataset's place.
func shardName(version uint64, number int, extension string) string {
	return fmt.Sprintf("%06d/%06d%s", version, number, extension)
}

// shardNumber returns the number in the name of a shard, which may have something
// behind it.
func shardNumber(name string) (number int, ok bool) {
	digits := name[strings.LastIndexByte(name, '/')+1:]
	if end := strings.IndexAny(digits, "-."); end >= 0 {
		digits = digits[:end]
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil && number >= 0
}

// parseVersion reads the number at the end of a manifest's name.
func parseVersion(name string) (version uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	version, err := strconv.ParseUint(digits, 10, 64)
	return version, err == nil && version > 0 && manifestName(version) == name
}
