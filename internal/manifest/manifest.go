// Package manifest reads and writes manifests: the one file of a dataset version
// that says which samples there are and where their bytes lie. docs/internals/manifest.md
// draws the bytes; testdata/vectors/manifest holds examples that Go and Python read.
//
// A manifest has two parts. The logical one never changes inside a version: the
// samples in their order, their keys, the sizes and checksums of their fields, and
// small columns of values. Its hash is what the state of a training run refers to.
// The locations say in which shard, and where in it, each piece lies. Relocate makes
// a manifest with the same logical part and other locations.
//
//	Create -> Writer    Add, Add, ... Finish -> file
//	Open   -> Manifest  Piece, Find, Prefix, Value, ...
//	          Manifest.Relocate -> Relocation  Add, Add, ... Finish -> file
//
// It knows nothing of tar, buckets, nodes or orders: a location is a shard, an
// offset and a length.
//
// Nothing here trusts what it reads. Opening checks the head; every other block of
// 64 KiB is checked when it is first touched. Damage is object.Corrupt and names the
// section; an unknown format is Invalid.
//
// A Manifest may be used by many at a time. A Writer and a Relocation have one user.
package manifest

import (
	"errors"
	"io/fs"
	"time"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

// What a manifest can hold.
const (
	MaxSamples = 1<<32 - 2
	MaxShards  = 1<<32 - 2
	MaxFields  = 64
	MaxColumns = 64
	MaxClasses = 1 << 20   // in one column
	MaxName    = 64        // bytes in the name of a field or column
	MaxTag     = 255       // bytes in the tag of a shard
	MaxClass   = 255       // bytes in the name of a class
	MaxText    = 1<<16 - 1 // bytes in a value of a text column
	MaxSize    = 1<<32 - 2 // bytes in a piece
)

// Info is what a manifest says about itself.
type Info struct {
	Name         string    // of the dataset
	Version      uint64    // of the dataset
	Created      time.Time // to the nanosecond
	Seed         uint64    // of the permutation that put the samples into this order
	ChunkSamples uint32    // how many consecutive samples are a chunk, at least 1; the order depends on it
}

// Field is a file that samples have.
type Field struct {
	Name string

	// Unchecked says that the checksums of its pieces were not known when the
	// version was made, so they are no part of its identity. A Relocation may add
	// them.
	Unchecked bool

	// Apart says that each piece is a whole shard by itself, and not beside the
	// others of its sample: objects as they were found, for instance. The first
	// field is never apart, because the others are placed relative to it.
	Apart bool
}

// Type is the type of a column's values.
type Type uint8

// The types of columns.
const (
	Int   Type = 1 + iota // int64
	Float                 // float64
	Text                  // UTF-8, up to MaxText bytes
	Class                 // one of a list of names
)

// Column is a small value that samples have, kept in the manifest itself.
type Column struct {
	Name     string
	Type     Type
	Optional bool // a sample may have none

	// Classes are the names of a Class column, in the order of their numbers. A
	// Writer that is given none takes the names as they come, and sorts them at the
	// end. A Manifest leaves it empty: see its method Classes.
	Classes []string
}

// Value is what a sample has in a column.
type Value struct {
	Missing bool
	Int     int64   // Int columns; in Class columns the number of the class, if read
	Float   float64 // Float columns
	Text    string  // Text columns; in Class columns the name of the class
}

// Piece is the bytes of one field of one sample: how many, and where.
type Piece struct {
	Absent  bool   // the sample has no such field; the rest is zero
	Checked bool   // CRC32 is known; a Writer need not be told
	Shard   uint32 // number of the shard
	CRC32   uint32 // IEEE, of the bytes
	Offset  int64  // of the first byte in the shard
	Size    int64  // up to MaxSize
}

// Sample is a line of the table. Pieces and Values are in the order of the
// manifest's fields and columns.
type Sample struct {
	Key    string
	Pieces []Piece
	Values []Value
}

// Format says what a shard is. No reader of pieces needs to know.
type Format uint8

// The formats of shards. Others may come.
const (
	Tar      Format = 1 + iota // WebDataset
	Records                    // pieces one behind the other
	TFRecord                   // TensorFlow's
	Foreign                    // anything else: pieces are known by their place only
)

// Shard is an object that holds pieces.
type Shard struct {
	// Name is a key; docs/internals/datasets.md says what it is relative to. It may
	// be any: whoever takes it for a path must first make sure that it leads nowhere
	// else.
	Name   string
	Size   int64
	Tag    string // ETag or checksum, as its place has it; may be empty
	Format Format
}

const (
	absent  = 1<<32 - 1 // as a size: the sample has no such field
	noShard = 1<<32 - 1 // the sample has no piece outside shards of their own
)

// validName accepts what may name a field or a column. Two underscores in front
// are kept for what a sample has by itself, such as __key__.
func validName(name string) error {
	if len(name) < 1 || len(name) > MaxName {
		return invalid("name %q must have 1 to %d bytes", name, MaxName)
	}
	if len(name) > 1 && name[:2] == "__" {
		return invalid("name %q must not begin with two underscores", name)
	}
	return ordinary(name)
}

// validDataset accepts what may name a dataset: it stands in URLs and file names.
func validDataset(name string) error {
	if len(name) < 1 || len(name) > 128 {
		return invalid("name %q of a dataset must have 1 to 128 bytes", name)
	}
	if name[0] == '.' || name[0] == '-' {
		return invalid("name %q of a dataset must not begin with a dot or dash", name)
	}
	return ordinary(name)
}

func ordinary(name string) error {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return invalid("name %q may hold only letters, digits, dot, dash and underscore", name)
		}
	}
	return nil
}

func validClass(name string) error {
	if len(name) < 1 || len(name) > MaxClass || !utf8.ValidString(name) {
		return invalid("class %q must have 1 to %d bytes of UTF-8", name, MaxClass)
	}
	return nil
}

func (s *Shard) validate() error {
	if err := object.ValidateKey(s.Name); err != nil {
		return invalid("name of a shard: %w", err)
	}
	switch {
	case s.Size < 0:
		return invalid("shard %q has %d bytes", s.Name, s.Size)
	case len(s.Tag) > MaxTag || !utf8.ValidString(s.Tag):
		return invalid("tag %q of shard %q must have at most %d bytes of UTF-8", s.Tag, s.Name, MaxTag)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return object.Errorf(object.Invalid, format, args...)
}

// failed gives an error of the operating system its kind.
func failed(what string, err error) error {
	kind := object.Unavailable
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = object.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = object.Denied
	}
	return object.Errorf(kind, "%s: %w", what, err)
}
