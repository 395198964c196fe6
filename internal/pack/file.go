package pack

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// File reads a pack. Every byte it gives has been verified.
type File struct {
	id   uint64
	file disk.File
	key  *Key
	about
}

// Open opens a pack for reading. The secret is the disk's; with nil the key is
// taken from the pack's own head, which unpack does for a disk that lost its
// identity. A pack of an unknown format or with unknown features is refused as
// Invalid, and so is one that belongs under another number or to another disk. A
// damaged head is not an error if the secret is given.
func Open(fsys disk.FS, id uint64, secret []byte) (*File, error) {
	f := &File{id: id}
	file, err := fsys.Open(FileName(id))
	if err != nil {
		return nil, f.ioError(err)
	}
	f.file = file
	if secret != nil {
		f.key = NewKey(secret, id)
	}
	if err := f.readAbout(); err != nil && (secret == nil || !object.Is(err, object.Corrupt)) {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// ID returns the number of the pack.
func (f *File) ID() uint64 { return f.id }

// Size returns the length of the file.
func (f *File) Size() (int64, error) { return f.file.Size() }

// Previous returns the log pack before this one and where that one ends; zero if
// there is none or the head is damaged.
func (f *File) Previous() (id uint64, end int64) { return f.previous, f.end }

// Moved reports whether the pack holds records moved from other packs.
func (f *File) Moved() bool { return f.moved }

// Head reads and verifies a record's head.
func (f *File) Head(l Location) (*Record, error) {
	if err := f.possible(l); err != nil {
		return nil, err
	}
	buf := make([]byte, l.Head)
	if err := f.readAt(buf, l.Offset); err != nil {
		return nil, err
	}
	h, err := f.decode(buf, l)
	if err != nil {
		return nil, err
	}
	return &h.Record, nil
}

// Read reads a whole record in one go, into buf if that is large enough, and
// verifies head and payload. The payload is valid as long as buf is.
func (f *File) Read(l Location, buf []byte) (*Record, []byte, error) {
	if err := f.possible(l); err != nil {
		return nil, nil, err
	}
	n := l.Head + l.Payload
	if int64(cap(buf)) < n {
		if err := f.inside(l); err != nil {
			return nil, nil, err
		}
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if err := f.readAt(buf, l.Offset); err != nil {
		return nil, nil, err
	}
	h, err := f.decode(buf[:l.Head], l)
	if err != nil {
		return nil, nil, err
	}
	payload := buf[l.Head:]
	if crc32.ChecksumIEEE(payload) != h.crc {
		return nil, nil, f.damaged(l.Offset, "checksum of "+h.Name.String()+" does not match")
	}
	return &h.Record, payload, nil
}

// possible rules out what no record's location can be: an index may be damaged.
func (f *File) possible(l Location) error {
	if l.Offset < 0 || l.Head < Block || l.Head > 2*Block+maxPAX || l.Head%Block != 0 || l.Payload < 0 || l.Payload > maxOctal {
		return f.damaged(l.Offset, "no record can stand there")
	}
	return nil
}

// inside reports a large record that would reach beyond the file before memory
// is taken for it.
func (f *File) inside(l Location) error {
	if l.Payload < 1<<20 {
		return nil
	}
	size, err := f.file.Size()
	if err != nil {
		return f.ioError(err)
	}
	if size < l.Offset+l.Head+l.Payload {
		return f.damaged(l.Offset, "file ends too early")
	}
	return nil
}

// decode decodes the head that should be at l.
func (f *File) decode(head []byte, l Location) (*header, error) {
	h, err := decodeHead(head, f.key, l.Offset)
	switch {
	case errors.Is(err, errNoRecord):
		return nil, f.damaged(l.Offset, err.Error())
	case err != nil:
		return nil, err
	case h.Location != l:
		return nil, f.damaged(l.Offset, "another record stands there")
	}
	return h, nil
}

func (f *File) readAt(b []byte, offset int64) error {
	n, err := f.file.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return f.damaged(offset, "file ends too early")
	}
	return f.ioError(err)
}

func (f *File) damaged(offset int64, what string) error {
	return object.Errorf(object.Corrupt, "pack %016x at %d: %s", f.id, offset, what)
}

func (f *File) ioError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return object.Errorf(object.NotFound, "pack %016x: %w", f.id, err)
	}
	return object.Errorf(object.Unavailable, "pack %016x: %w", f.id, err)
}
