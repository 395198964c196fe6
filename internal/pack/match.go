package pack

import (
	"encoding/binary"
	"hash/crc32"

	"penstock.dev/penstock/internal/object"
)

// ReadAt reads bytes of the pack as they are, for several records in one go; Match
// says whether a record is among them.
func (f *File) ReadAt(b []byte, offset int64) error { return f.readAt(b, offset) }

// Match finds out whether data, read at l, is a record of the name and version with
// its content inline and whole, and returns the content and its CRC-32. It is the
// way of batches: a place that the index knows needs no proof that we made the
// record, only that it is this one, which spares the keyed check and all memory
// (BenchmarkRead/match). If it reports false, Read tells what is wrong, if anything is.
func (f *File) Match(data []byte, l Location, name object.Name, version object.Version) (content []byte, crc uint32, ok bool) {
	if l.Head != Block || int64(len(data)) != l.Head+l.Payload {
		return nil, 0, false
	}
	block, content := data[:Block], data[Block:]
	if block[posType] != '0' || string(block[posMagic:posMagic+len(magic)]) != magic {
		return nil, 0, false
	}
	var facts [factsLen]byte
	if n, err := encoding.Decode(facts[:], block[posLink:posCheck]); err != nil || n != factsLen {
		return nil, 0, false
	}
	if facts[factFormat] != Format || Kind(facts[factKind]) != Object || facts[factFlags]&^flagMD5 != 0 ||
		binary.LittleEndian.Uint32(facts[factMap:]) != version.Map || binary.LittleEndian.Uint64(facts[factCounter:]) != version.Counter {
		return nil, 0, false
	}
	if n, ok := octal(block[posSize : posSize+lenNumber]); !ok || n != l.Payload {
		return nil, 0, false
	}
	var text [lenPrefix + 1 + lenName]byte
	path := appendUstarPath(text[:0], block)
	n := len(name.Bucket)
	if len(path) != n+1+len(name.Key) || string(path[:n]) != name.Bucket || path[n] != '/' || string(path[n+1:]) != name.Key {
		return nil, 0, false
	}
	crc = binary.LittleEndian.Uint32(facts[factCRC:])
	return content, crc, crc32.ChecksumIEEE(content) == crc
}
