package index

import "encoding/binary"

// Batch is a list of changes, to be applied in the order they were added. It
// keeps copies of the keys and values it is given. The zero value is empty and
// ready; a batch that is Reset keeps its memory. Not for concurrent use.
type Batch struct {
	buf   []byte // tag(uvarint) key-length(uvarint) key value; the tag is as in a block
	count int
}

// Set gives key a value. Keys are meant to be up to about 1200 bytes and values
// up to 64 KiB; larger ones work, slowly.
func (b *Batch) Set(key, value []byte) {
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value))+1)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)))
	b.buf = append(append(b.buf, key...), value...)
	b.count++
}

// Delete removes key. It need not be there.
func (b *Batch) Delete(key []byte) {
	b.buf = append(b.buf, 0)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)))
	b.buf = append(b.buf, key...)
	b.count++
}

// Len returns the number of changes.
func (b *Batch) Len() int { return b.count }

// Reset empties the batch.
func (b *Batch) Reset() { b.buf, b.count = b.buf[:0], 0 }

// each calls f with every change. What it passes lies in the batch.
func (b *Batch) each(f func(key, value []byte, deleted bool)) {
	for rest := b.buf; len(rest) > 0; {
		tag, n := binary.Uvarint(rest)
		rest = rest[n:]
		keyLen, n := binary.Uvarint(rest)
		rest = rest[n:]
		valueLen := max(tag, 1) - 1
		f(rest[:keyLen], rest[keyLen:keyLen+valueLen], tag == 0)
		rest = rest[keyLen+valueLen:]
	}
}
