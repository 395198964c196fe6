package pack

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Where records appear when plain tar lists a pack. Content lies under
// bucket/key; everything else is under one directory that no bucket can be
// called.
const (
	rootDeleted = ".penstock/deleted/" // tombstones and markers
	rootLarge   = ".penstock/large/"   // content in blobs; the payload is checksums
	rootEscaped = ".penstock/escaped/" // names that tar would refuse or mix up
	rootVersion = ".penstock/version/" // names with an ID, which comes next

	nameHead     = ".penstock/pack"
	nameDir      = ".penstock/directory"
	nameExtended = ".penstock/extended"  // the PAX header's own
	nameLong     = ".penstock/long-name" // where the path is in the PAX header
)

// maxPath has room for the longest path of a record with a valid name.
const maxPath = len(rootVersion) + idText + 1 + maxBucket + 1 + object.MaxStoredKey

const (
	idText    = 24      // hexadecimal digits of an ID
	maxBucket = 63 + 17 // with what names something beside a bucket
)

// appendTarName appends the path tar shows for a record, and tells whether the
// true name follows from it.
func appendTarName(dst []byte, r *Record) (path []byte, exact bool) {
	switch r.Kind {
	case head:
		return append(dst, nameHead...), true
	case directory:
		return append(dst, nameDir...), true
	}
	if r.Hidden || !ordinary(r.Name.Key) {
		return appendEscaped(dst, r), false
	}
	dst = appendTarRoot(dst, r.Kind, len(r.Extents) > 0, r.Name.ID)
	dst = append(dst, r.Name.Bucket...)
	dst = append(dst, '/')
	return append(dst, r.Name.Key...), true
}

func appendTarRoot(dst []byte, kind Kind, large bool, id object.Version) []byte {
	if id == (object.Version{}) {
		return append(dst, tarRoot(kind, large)...)
	}
	return append(appendVersion(append(dst, rootVersion...), id), '/')
}

func tarRoot(kind Kind, large bool) string {
	switch {
	case kind == Tombstone || kind == Marker:
		return rootDeleted
	case large:
		return rootLarge
	}
	return ""
}

// trueName is the inverse of appendTarName for exact paths.
func trueName(kind Kind, large bool, id object.Version, path string) (object.Name, bool) {
	var buf [len(rootVersion) + idText + 1]byte
	root := appendTarRoot(buf[:0], kind, large, id)
	if len(path) < len(root) || path[:len(root)] != string(root) {
		return object.Name{}, false
	}
	bucket, key, ok := strings.Cut(path[len(root):], "/")
	return object.Name{Bucket: bucket, Key: key, ID: id}, ok
}

// ordinary reports whether plain tar restores the key under its own name: a
// relative path of plain components, without control characters.
func ordinary(key string) bool {
	start := 0 // of a component
	for i := 0; i <= len(key); i++ {
		switch {
		case i == len(key) || key[i] == '/':
			part := key[start:i]
			if part == "" || part == "." || part == ".." || len(part) > 255 {
				return false
			}
			start = i + 1
		case key[i] < 0x20 || key[i] == 0x7f:
			return false
		case key[i] == 0xc2 && i+1 < len(key) && key[i+1] < 0xa0:
			return false // U+0080 to U+009F, with which some terminals can be driven
		}
	}
	return true
}

// appendEscaped makes a file name that any tar extracts and that is unique by
// the record's version; the readable part of it is only for people.
func appendEscaped(dst []byte, r *Record) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, rootEscaped...)
	dst = append(dst, r.Name.Bucket...)
	dst = append(dst, '/')
	stop := len(dst) + 120
	for i := 0; i < len(r.Name.Key) && len(dst) < stop; i++ {
		c := r.Name.Key[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return appendVersion(append(dst, '~'), r.Version)
}

// appendVersion writes a version in a fixed width: it is given when the length of the
// record's head is settled.
func appendVersion(dst []byte, v object.Version) []byte {
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], v.Map)
	binary.BigEndian.PutUint64(b[4:], v.Counter)
	return hex.AppendEncode(dst, b[:])
}
