// Package pack is a disk's log of records, kept as tar files. A record says that
// an object was written or deleted; it carries the object's bytes, or names the
// blobs that hold them. Appending a record and syncing the pack is the only
// commit there is.
//
// A pack is a valid tar archive at every moment: a head record, records, and
// zeros. When it is full it is sealed: a directory of its records is appended,
// so that an index can be rebuilt without reading the objects, and so that a
// damaged record is still known by name. docs/internals/pack.md draws the bytes.
//
// Data flows Record -> Draft -> Writer -> file -> File -> Record. The package
// knows where an object begins and ends in a file; it does not know which record
// of a name is the newest: that is the store's.
//
// A Writer has one user at a time. A File may be read concurrently.
package pack

import (
	"fmt"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Block is the unit of tar: heads and payloads begin at its multiples.
const Block = 512

// Format is the version of the pack format this package writes. Features are
// bits that a reader must know to read a pack; none are defined yet.
const (
	Format   = 1
	Features = 0
)

// Kind says what a record means.
type Kind uint8

// The kinds of record. A Marker says that the object is gone, and is
// a version of it all the same.
const (
	Object    Kind = 1 // the object has this content now
	Tombstone Kind = 2 // the object is gone
	Marker    Kind = 3
	head      Kind = 4 // first record of a pack: who made it and its key
	directory Kind = 5 // last record of a sealed pack
)

// Extent is a piece of content that lies in a blob on the same disk.
type Extent struct {
	Blob   uint64
	Offset int64
	Length int64
}

// Record is one entry of the log.
type Record struct {
	Kind        Kind
	Name        object.Name
	Version     object.Version
	Modified    time.Time
	ETag        string // empty: the native one, made from version and checksum
	ContentType string
	Metadata    map[string]string

	Size  int64  // of the content
	CRC32 uint32 // of the content

	// Extents say where the content is, if it is not the record's own payload.
	// The payload then holds the blobs' block checksums (package store).
	Extents []Extent

	// Hidden keeps a record with an ordinary name out of the way of plain tar,
	// because another key needs that name as a directory. Of a name that tar cannot
	// show anyway it says nothing.
	Hidden bool
}

// Info describes the object as it is seen outside.
func (r *Record) Info() object.Info {
	info := object.Info{
		Name: r.Name, Size: r.Size, Version: r.Version, ETag: r.ETag, Modified: r.Modified,
		CRC32: r.CRC32, ContentType: r.ContentType, Metadata: r.Metadata, Marker: r.Kind == Marker,
	}
	switch {
	case info.ETag == "":
		info.ETag = object.NativeETag(r.Version, r.CRC32)
	case !isMD5(info.ETag): // of several parts, each of which is an extent
		for _, e := range r.Extents {
			info.Parts = append(info.Parts, e.Length)
		}
	}
	return info
}

// Location is where a record lies in a pack: Head bytes of tar headers at
// Offset, then Payload bytes, then padding to a full block.
type Location struct {
	Offset  int64
	Head    int64
	Payload int64
}

// Len is the number of bytes the record takes in the pack.
func (l Location) Len() int64 { return l.Head + padded(l.Payload) }

// End is where the next record begins.
func (l Location) End() int64 { return l.Offset + l.Len() }

func padded(n int64) int64 { return (n + Block - 1) &^ (Block - 1) }

// FileName is the name of a pack in its disk's directory.
func FileName(id uint64) string { return fmt.Sprintf("%s/%016x.tar", Dir, id) }

// Dir is the directory of a disk that holds its packs.
const Dir = "packs"

// ParseFileName is the inverse of FileName for a name as ReadDir gives it.
func ParseFileName(name string) (id uint64, ok bool) {
	var rest string
	n, _ := fmt.Sscanf(name, "%016x%s", &id, &rest)
	return id, n == 2 && rest == ".tar" && fmt.Sprintf("%016x.tar", id) == name
}
