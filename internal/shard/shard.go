// Package shard reads tar files whose members are the samples of a dataset, or
// objects on their way in, and files of records; and it lays out the headers of tars
// that others write. It knows nothing of clusters, stores or HTTP, and opens nothing.
//
// A scanner finds the entries of a tar that comes as a stream. Scan gives them
// out, Reader gives their content and says what may become an object, Build makes
// an Index of it: where each file lies and what its checksum is, so that one file
// can be read by its place and verified without the rest. Indexes keeps indexes
// in memory, up to a bound.
//
//	stream -> scanner -> Scan    Entry, Entry, ...
//	                  -> Reader  File and its bytes, ...
//	                  -> Build   Index -> kept by Indexes
//
// Archives come from anybody. What is malformed is Invalid and the error says at
// which offset. What archive/tar accepts is read as archive/tar reads it, except
// that a name longer than MaxName is refused, as are those few archives that tar
// programs read differently: a global PAX header with a path, a size or a sparse
// map, and one that stands between a member and its own extended header. Sparse
// files are named, and their content is not given out.
//
// An Index may be used, and the methods of Indexes called, by many at a time. A
// Reader has one user.
package shard

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// MaxName is the largest length of a member's name in bytes.
const MaxName = 4096

// The types of entries as they stand in a tar. Others occur.
const (
	TypeFile       = '0' // old archives have a NUL, which is given out as '0', or as '5' if the name ends in a slash
	TypeLink       = '1'
	TypeSymlink    = '2'
	TypeChar       = '3'
	TypeBlock      = '4'
	TypeDir        = '5'
	TypeFifo       = '6'
	TypeContiguous = '7' // a file like any other
	TypeSparse     = 'S'
)

// Entry is one entry of a tar: a file, a directory, a link, or something else.
type Entry struct {
	Name   string // as it stands in the archive
	Type   byte
	Sparse bool  // the bytes in the archive are a map and pieces, not the content
	Offset int64 // of the first byte in the stream
	Size   int64 // number of bytes there; zero for what has no content
}

// Scan yields the entries of the tar that r gives, in their order. It reads to the
// end mark, in large pieces. An error is the last thing it yields: Invalid if the
// archive is malformed or ends too early, else what r failed with.
func Scan(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s := newScanner(r.Read)
		for {
			switch err := s.next(); {
			case err == io.EOF:
				return
			case err != nil:
				yield(Entry{}, err)
				return
			case !yield(s.entry(), nil):
				return
			}
		}
	}
}

// errUnreadable is in the chain of every error that is the archive's own fault.
var errUnreadable = errors.New("unreadable tar")

func malformed(offset int64, format string, args ...any) error {
	return object.Errorf(object.Invalid, "%w: at offset %d: %s", errUnreadable, offset, fmt.Sprintf(format, args...))
}

// plain takes the leading "./" away that names have in archives of ".".
func plain(name string) string {
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	return name
}
