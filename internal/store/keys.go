package store

import (
	"bytes"
	"encoding/binary"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Keys of the index. A name is its bucket, a zero, and its key, in which a zero
// byte is written as 00 FF. 00 01 ends it if it has no ID; otherwise 00 02 and the ID
// inverted, 12 bytes. So keys sort as their names do, and the versions of a name stand
// behind what has no ID, the newest first.
const (
	spaceObject = 'o' // name -> pack and stub of the newest record
	spaceDead   = 'd' // name, pack -> nothing: an older record of the name is still in that pack
	spaceBlob   = 'b' // blob -> number of extents of records that need it
	spaceParent = 'p' // bucket, path -> nothing: plain tar needs this path as a directory
)

func appendName(b []byte, space byte, bucket, key string) []byte {
	b = append(b, space)
	b = append(b, bucket...)
	b = append(b, 0)
	return appendEscaped(b, key)
}

func appendEscaped(b []byte, key string) []byte {
	for {
		i := strings.IndexByte(key, 0)
		if i < 0 {
			return append(b, key...)
		}
		b = append(b, key[:i]...)
		b = append(b, 0, 0xff)
		key = key[i+1:]
	}
}

func appendID(b []byte, id object.Version) []byte {
	if id == (object.Version{}) {
		return append(b, 0, 1)
	}
	b = append(b, 0, 2)
	b = binary.BigEndian.AppendUint32(b, ^id.Map)
	return binary.BigEndian.AppendUint64(b, ^id.Counter)
}

const idLen = 12

func objectKey(b []byte, name object.Name) []byte {
	return appendID(appendName(b, spaceObject, name.Bucket, name.Key), name.ID)
}

func deadPrefix(b []byte, name object.Name) []byte {
	return appendID(appendName(b, spaceDead, name.Bucket, name.Key), name.ID)
}

func deadKey(b []byte, name object.Name, pack uint64) []byte {
	return binary.BigEndian.AppendUint64(deadPrefix(b, name), pack)
}

func blobKey(b []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, spaceBlob), id)
}

func parentKey(b []byte, bucket, path string) []byte {
	return appendName(b, spaceParent, bucket, path)
}

// parseObjectKey is the inverse of objectKey, and of deadPrefix with something behind
// it, which is returned. The bucket is cut off by the caller.
func parseObjectKey(b []byte) (key string, id object.Version, rest []byte, ok bool) {
	end := 0
	for {
		i := bytes.IndexByte(b[end:], 0)
		if i < 0 || end+i+1 >= len(b) {
			return "", id, nil, false
		}
		end += i
		if b[end+1] != 0xff {
			break
		}
		end += 2
	}
	raw, rest := b[:end], b[end+2:]
	switch b[end+1] {
	case 1:
	case 2:
		if len(rest) < idLen {
			return "", id, nil, false
		}
		id = object.Version{Map: ^binary.BigEndian.Uint32(rest), Counter: ^binary.BigEndian.Uint64(rest[4:])}
		rest = rest[idLen:]
	default:
		return "", id, nil, false
	}
	if bytes.IndexByte(raw, 0) < 0 {
		return string(raw), id, rest, true
	}
	return string(bytes.ReplaceAll(raw, []byte{0, 0xff}, []byte{0})), id, rest, true
}

// splitKey separates the parts of a key in the object or dead space.
func splitKey(b []byte) (name object.Name, rest []byte, ok bool) {
	bucket, tail, ok := bytes.Cut(b[1:], []byte{0})
	if !ok {
		return name, nil, false
	}
	key, id, rest, ok := parseObjectKey(tail)
	return object.Name{Bucket: string(bucket), Key: key, ID: id}, rest, ok
}

// successor returns the smallest key behind all that begin with b, nil if there
// is none.
func successor(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			next := bytes.Clone(b[:i+1])
			next[i]++
			return next
		}
	}
	return nil
}
