package wire

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

const (
	objectHead     = 16
	maxContentType = 1 << 10 // as in a header of a single PUT
)

// AppendObjectsHead appends what stands before the first object.
func AppendObjectsHead(b []byte) []byte { return append(b, objectsMagic...) }

// AppendObject appends one object with its checksum: the one it must have, if it is
// Checked, so that whoever stores it refuses other bytes. What ObjectsReader would
// refuse is Invalid, and b comes back as it was.
func AppendObject(b []byte, u *object.Upload) ([]byte, error) {
	if err := checkObject(u.Key, u.ContentType); err != nil {
		return b, err
	}
	crc := u.CRC32
	if !u.Checked {
		crc = crc32.ChecksumIEEE(u.Bytes)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(u.Key)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(u.ContentType)))
	b = binary.LittleEndian.AppendUint32(b, crc)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(u.Bytes)))
	b = append(b, u.Key...)
	b = append(b, u.ContentType...)
	return append(b, u.Bytes...), nil
}

// AppendObjectsEnd appends the end of a stream of count objects.
func AppendObjectsEnd(b []byte, count int) []byte {
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(count))
	return append(b, objectsEnd...)
}

func checkObject(key, contentType string) error {
	if err := object.ValidateKey(key); err != nil {
		return err
	}
	// A control character could not have come in a header, and must not go out in
	// one.
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(contentType) > maxContentType || !utf8.ValidString(contentType) || strings.ContainsFunc(contentType, control) {
		return invalid("content type must be UTF-8 of at most %d bytes without control characters", maxContentType)
	}
	return nil
}

// Object is what stands before an object's bytes.
type Object struct {
	Key         string
	ContentType string
	Size        int64
	CRC32       uint32 // what the bytes must have; PutOptions.CRC32 has it checked
}

// ObjectsReader reads a stream of objects: Next, then Read up to io.EOF, and again.
// It holds no object in memory and does not compare checksums: whoever stores the
// bytes does.
//
// A stream that is malformed or ends too early is Invalid; errors of the reader
// below are passed on as they are. After an error there is nothing more.
type ObjectsReader struct {
	r     *bufio.Reader
	begun bool
	count uint32 // objects so far
	left  int64  // bytes of the current one that were not read
	err   error  // what ended the stream
	head  [objectHead]byte
	text  []byte
}

// NewObjectsReader reads objects from r, up to its end.
func NewObjectsReader(r io.Reader) *ObjectsReader {
	return &ObjectsReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// Next goes on to the next object, over what is left of the current one. At the
// proper end of the stream it returns io.EOF.
func (o *ObjectsReader) Next() (Object, error) {
	var next Object
	if o.err == nil {
		next, o.err = o.next()
	}
	if o.err != nil {
		return Object{}, o.err
	}
	o.left = next.Size
	o.count++
	return next, nil
}

func (o *ObjectsReader) next() (Object, error) {
	if !o.begun {
		if _, err := io.ReadFull(o.r, o.head[:len(objectsMagic)]); err != nil {
			return Object{}, o.short(err)
		}
		if string(o.head[:len(objectsMagic)]) != objectsMagic {
			return Object{}, invalid("the stream does not begin with %q", objectsMagic)
		}
		o.begun = true
	}
	for o.left > 0 {
		n, err := o.r.Discard(int(min(o.left, 1<<30)))
		o.left -= int64(n)
		if err != nil {
			return Object{}, o.short(err)
		}
	}
	if _, err := io.ReadFull(o.r, o.head[:]); err != nil {
		return Object{}, o.short(err)
	}
	key, contentType := int(binary.LittleEndian.Uint16(o.head[:])), int(binary.LittleEndian.Uint16(o.head[2:]))
	if key == 0 {
		return Object{}, o.end()
	}
	next := Object{CRC32: binary.LittleEndian.Uint32(o.head[4:]), Size: int64(binary.LittleEndian.Uint64(o.head[8:]))}
	if next.Size < 0 || key > object.MaxKey || contentType > maxContentType {
		return Object{}, invalid("object %d has impossible sizes: key %d, content type %d, content %d", o.count, key, contentType, next.Size)
	}
	if cap(o.text) < key+contentType {
		o.text = make([]byte, object.MaxKey+maxContentType)
	}
	text := o.text[:key+contentType]
	if _, err := io.ReadFull(o.r, text); err != nil {
		return Object{}, o.short(err)
	}
	next.Key, next.ContentType = string(text[:key]), string(text[key:])
	if err := checkObject(next.Key, next.ContentType); err != nil {
		return Object{}, invalid("object %d: %w", o.count, err)
	}
	return next, nil
}

// end looks at the end of the stream, which is in head, and beyond it.
func (o *ObjectsReader) end() error {
	if binary.LittleEndian.Uint32(o.head[:]) != 0 || string(o.head[8:]) != objectsEnd {
		return invalid("object %d has no key", o.count)
	}
	if count := binary.LittleEndian.Uint32(o.head[4:]); count != o.count {
		return invalid("the stream ends with %d objects, but says %d", o.count, count)
	}
	switch _, err := o.r.ReadByte(); err {
	case io.EOF:
		return io.EOF
	case nil:
		return invalid("something follows the end of the stream")
	default:
		return o.short(err)
	}
}

// Read reads bytes of the current object, and returns io.EOF at its end.
func (o *ObjectsReader) Read(p []byte) (int, error) {
	if o.left == 0 {
		return 0, io.EOF
	}
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.r.Read(p[:min(int64(len(p)), o.left)])
	o.left -= int64(n)
	if err != nil && o.left > 0 {
		o.err = o.short(err)
		return n, o.err
	}
	return n, nil
}

// short says what it means that a read failed.
func (o *ObjectsReader) short(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return invalid("the stream breaks off behind object %d", o.count)
	}
	return err
}
