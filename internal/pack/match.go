package pack

import (
	"encoding/binary"
	"hash/crc32"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// Raw returns the file itself, for reading several records in one go; Match says
// whether a record is among what was read.
func (f *File) Raw() disk.File { return f.file }

// MatchHead is the length of the heads that Match knows.
const MatchHead = Block

const matchFacts = factModified + 1 // a multiple of three: whole groups of base64

// Match finds out whether head and content, read from the pack, are a record of the
// name and version, and returns the content's CRC-32, which it has verified. It is the
// way of batches: a place that the index knows needs no proof that we made the
// record, only that it is this one, which spares the keyed check and all memory
// (BenchmarkRead/match). If it reports false, Read tells what is wrong, if anything is.
func Match(head, content []byte, name object.Name, version object.Version) (crc uint32, ok bool) {
	if len(head) != MatchHead || head[posType] != '0' || string(head[posMagic:posMagic+len(magic)]) != magic {
		return 0, false
	}
	var facts [matchFacts]byte // those that matter here, which come first
	if n, err := encoding.Decode(facts[:], head[posLink:posLink+matchFacts/3*4]); err != nil || n != matchFacts {
		return 0, false
	}
	if facts[factFormat] != Format || Kind(facts[factKind]) != Object || facts[factFlags]&^(flagMD5|flagID) != 0 ||
		binary.LittleEndian.Uint32(facts[factMap:]) != version.Map || binary.LittleEndian.Uint64(facts[factCounter:]) != version.Counter {
		return 0, false
	}
	if n, ok := octal(head[posSize : posSize+lenNumber]); !ok || n != int64(len(content)) {
		return 0, false
	}
	var text [lenPrefix + 1 + lenName]byte
	path := appendUstarPath(text[:0], head)
	if named := facts[factFlags]&flagID != 0; named || name.ID != (object.Version{}) {
		var buf [len(rootVersion) + idText + 1]byte
		root := appendTarRoot(buf[:0], Object, false, name.ID)
		if !named || len(path) < len(root) || string(path[:len(root)]) != string(root) {
			return 0, false
		}
		path = path[len(root):]
	}
	n := len(name.Bucket)
	if len(path) != n+1+len(name.Key) || string(path[:n]) != name.Bucket || path[n] != '/' || string(path[n+1:]) != name.Key {
		return 0, false
	}
	crc = binary.LittleEndian.Uint32(facts[factCRC:])
	return crc, crc32.ChecksumIEEE(content) == crc
}
