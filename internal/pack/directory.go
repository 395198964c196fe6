package pack

import (
	"encoding/binary"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// A sealed pack ends with a directory of its records. Its payload is
//
//	repeated: uvarint length, bucket/key, stub
//	zeros up to the trailer
//	trailer: u64 number of entries, u64 offset of the directory record, magic
//
// and fills whole blocks, so that the trailer is found from the end of the file.
const (
	directoryMagic   = "PSTKDIR1"
	directoryTrailer = 24
)

type directoryBuilder struct {
	entries []byte
	count   uint64
	partial bool // records from before a restart are missing
}

func (b *directoryBuilder) add(r *Record, l Location) {
	if b.partial || r.Kind == head || r.Kind == directory {
		return
	}
	b.entries = binary.AppendUvarint(b.entries, uint64(len(r.Name.Bucket)+1+len(r.Name.Key)))
	b.entries = append(b.entries, r.Name.Bucket...)
	b.entries = append(b.entries, '/')
	b.entries = append(b.entries, r.Name.Key...)
	stub := stubOf(r, l)
	b.entries = stub.Append(b.entries)
	b.count++
}

func (b *directoryBuilder) size() int64 {
	return padded(int64(len(b.entries)) + directoryTrailer)
}

// finish appends the payload to dst.
func (b *directoryBuilder) finish(dst []byte, offset int64) []byte {
	end := int64(len(dst)) + b.size()
	dst = append(dst, b.entries...)
	dst = append(dst, zeros[:end-directoryTrailer-int64(len(dst))]...)
	dst = binary.LittleEndian.AppendUint64(dst, b.count)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(offset))
	return append(dst, directoryMagic...)
}

// Directory calls visit for each record of a sealed pack, in the order of their
// places, and returns where the records end. It is Corrupt if the directory is
// damaged, NotFound if the pack was not sealed or the very end of it is lost.
func (f *File) Directory(visit func(object.Name, Stub) error) (end int64, err error) {
	size, err := f.file.Size()
	if err != nil {
		return 0, f.ioError(err)
	}
	notSealed := object.Errorf(object.NotFound, "pack %016x has no directory", f.id)
	if size < 4*Block {
		return 0, notSealed
	}
	var tail [directoryTrailer]byte
	if err := f.readAt(tail[:], size-2*Block-directoryTrailer); err != nil {
		return 0, err
	}
	offset := int64(binary.LittleEndian.Uint64(tail[8:]))
	if string(tail[16:]) != directoryMagic || offset <= 0 || offset%Block != 0 || offset > size-4*Block {
		return 0, notSealed
	}
	place := Location{Offset: offset, Head: Block, Payload: size - 3*Block - offset}
	// The head first: anybody may upload what looks like a trailer.
	if r, err := f.Head(place); err != nil {
		return 0, err
	} else if r.Kind != directory {
		return 0, f.damaged(offset, "no directory stands there")
	}
	_, payload, err := f.Read(place, nil)
	if err != nil {
		return 0, err
	}
	count := binary.LittleEndian.Uint64(payload[len(payload)-directoryTrailer:])
	entries := payload[:len(payload)-directoryTrailer]
	for range count {
		n, size := binary.Uvarint(entries)
		if size <= 0 || n > uint64(len(entries)-size) {
			return 0, f.damaged(offset, "directory is malformed")
		}
		name := string(entries[size : size+int(n)])
		stub, rest, err := ParseStub(entries[size+int(n):])
		if err != nil {
			return 0, f.damaged(offset, "directory is malformed")
		}
		entries = rest
		bucket, key, _ := strings.Cut(name, "/")
		if err := visit(object.Name{Bucket: bucket, Key: key, ID: stub.ID}, stub); err != nil {
			return 0, err
		}
	}
	return offset, nil
}
