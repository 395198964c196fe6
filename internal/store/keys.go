package store

import (
	"bytes"
	"encoding/binary"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Keys of the index. A name is its bucket, a zero, and its key, in which a zero
// byte is written as 00 FF; 00 01 ends it. So keys sort as their names do, and
// what follows the end can hold further versions of the same name later.
const (
	spaceObject = 'o' // name -> pack and stub of the newest record
	spaceDead   = 'd' // name, pack -> nothing: an older record of the name is still in that pack
	spaceBlob   = 'b' // blob -> number of records that need it
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

func objectKey(b []byte, name object.Name) []byte {
	return append(appendName(b, spaceObject, name.Bucket, name.Key), 0, 1)
}

func deadPrefix(b []byte, name object.Name) []byte {
	return append(appendName(b, spaceDead, name.Bucket, name.Key), 0, 1)
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

// parseObjectKey is the inverse of objectKey; the bucket is cut off by the caller.
func parseObjectKey(b []byte) (key string, ok bool) {
	b, ok = bytes.CutSuffix(b, []byte{0, 1})
	if !ok {
		return "", false
	}
	if bytes.IndexByte(b, 0) < 0 {
		return string(b), true
	}
	return string(bytes.ReplaceAll(b, []byte{0, 0xff}, []byte{0})), true
}

// splitKey separates the parts of a key in the object or dead space.
func splitKey(b []byte) (name object.Name, rest []byte, ok bool) {
	bucket, tail, ok := bytes.Cut(b[1:], []byte{0})
	if !ok {
		return name, nil, false
	}
	end := bytes.Index(tail, []byte{0, 1})
	if end < 0 {
		return name, nil, false
	}
	key, ok := parseObjectKey(tail[:end+2])
	return object.Name{Bucket: string(bucket), Key: key}, tail[end+2:], ok
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
