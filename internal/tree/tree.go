// Package tree moves trees of files to and from a bucket, and trees of objects
// within and out of one: what `put -r`, `get -r`, `cp -r` and `rm -r` do.
//
// It is made for millions of small files. A walk or a listing runs ahead through a
// bounded channel; small files travel many in a request, large ones alone; a few
// requests are under way at once. About 64 MiB of content are in memory at most,
// and a few dozen files open. What is there already and has not changed is left
// alone, so a run that was stopped is continued by running it again.
//
// A file that fails is named and counted, and the others go on. A node that goes
// away is waited for; if it does not come back the run stops. An error of the four
// acts means that they did not get to the end; a Report with Failed zero and no
// error means that everything is where it belongs.
//
// A prefix is a directory here: if it is neither empty nor ends with a slash, one
// is added. The package uses the public client only and may be used concurrently,
// except that one directory takes one Get at a time.
package tree

import (
	"strings"
	"time"

	"penstock.dev/penstock/internal/object"
)

// smallFile is the size up to which files travel together. It is the node's own
// border: what is larger it stores alone.
const smallFile = 256 << 10

// Options go with every act; the zero value is the usual way.
type Options struct {
	// Checksum compares the CRC-32 of a file's content with the object's to find
	// out whether it has changed, in the place of its time. All files are read.
	Checksum bool

	// Force moves everything, also what is there and has not changed.
	Force bool

	// Follow has Put store the files that symbolic links lead to; otherwise links
	// are skipped. Links to directories always are.
	Follow bool

	// ContentType goes with every object that Put stores.
	ContentType string

	// Requests is how many are under way at once: for Put and Get 4 if zero, for
	// Copy and Remove 16.
	Requests int

	// Patience is how long a node that is away is waited for: 30 s if zero.
	Patience time.Duration

	// CountAfter is when all that there is to do begins to be counted, beside the
	// work: 3 s after its beginning if zero. That takes a sixth of the time of a Put
	// of small files, and work that is done by then needs no total.
	CountAfter time.Duration

	// Problem is told about each file that failed or was skipped. Progress is told
	// several times a second how far the act is. They are never called at the same
	// time.
	Problem  func(Problem)
	Progress func(State)
}

// Problem is a file or an object that was not moved.
type Problem struct {
	Path    string // of the file, or BUCKET/KEY
	Err     error  // why
	Skipped bool   // on purpose: it is not counted as failed
}

// Report says what an act has done.
type Report struct {
	Files     int64 // stored, written, copied or removed
	Bytes     int64 // in them
	Unchanged int64 // there already
	Skipped   int64 // symbolic links, sockets and what else has no content of its own
	Failed    int64
	Elapsed   time.Duration
}

// State says how far an act is.
type State struct {
	Report
	UnchangedBytes int64

	// TotalFiles and TotalBytes are all that there is to look at, once that is
	// known: they are zero until then, and may be a little off where the tree is
	// changing.
	TotalFiles, TotalBytes int64
}

// Directory returns a prefix as the acts understand it: empty, or with a slash at
// its end.
func Directory(prefix string) string {
	if prefix == "" || strings.HasSuffix(prefix, "/") {
		return prefix
	}
	return prefix + "/"
}

// checkPlace reports as Invalid what cannot be the place of a tree.
func checkPlace(bucket, prefix string) error {
	if err := object.ValidateBucket(bucket); err != nil {
		return err
	}
	if prefix == "" {
		return nil
	}
	return object.ValidateKey(prefix)
}
