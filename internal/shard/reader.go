package shard

import (
	"io"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// File is an entry of an uploaded tar, and what becomes of it.
type File struct {
	Entry
	Key     string // to store it under; empty if it is refused
	Refused error  // why it cannot be an object: of kind Invalid. The next entry may be fine
}

// Reader gives out the files of a tar that somebody uploads. Directories are
// passed over. Everything else comes out, refused if it must not become an object:
// links, devices, FIFOs, sparse files, and names Key refuses.
type Reader struct {
	s       *scanner
	refused error
}

// NewReader returns a Reader of the tar that r gives. It reads ahead, and nothing
// behind the archive's end mark except by that.
func NewReader(r io.Reader) *Reader { return &Reader{s: newScanner(r.Read)} }

// Next goes to the next file, whether or not the current one has been read. Behind
// the last one it returns io.EOF. An archive that is malformed or ends too early
// is Invalid; other errors are those of the underlying reader. Errors stay.
func (r *Reader) Next() (File, error) {
	for {
		r.refused = nil
		if err := r.s.next(); err != nil {
			return File{}, err
		}
		if r.s.kind == TypeDir {
			continue
		}
		f := File{Entry: r.s.entry()}
		if f.Refused = f.refuse(); f.Refused == nil {
			f.Key, f.Refused = Key(f.Name)
		}
		r.refused = f.Refused
		return f, nil
	}
}

// Read reads the content of the current file, up to io.EOF. Of a refused one it
// gives nothing but the refusal.
func (r *Reader) Read(p []byte) (int, error) {
	switch {
	case r.refused != nil:
		return 0, r.refused
	case r.s.failed != nil:
		return 0, r.s.failed
	case r.s.left == 0:
		return 0, io.EOF
	}
	return r.s.read(p)
}

// refuse says why an entry's content cannot be an object's, whatever its name.
func (e Entry) refuse() error {
	switch {
	case e.Sparse:
		return refusal(e.Name, "is a sparse file")
	case e.Type == TypeLink, e.Type == TypeSymlink:
		return refusal(e.Name, "is a link")
	case e.Type == TypeChar, e.Type == TypeBlock:
		return refusal(e.Name, "is a device")
	case e.Type == TypeFifo:
		return refusal(e.Name, "is a FIFO")
	case e.Type != TypeFile && e.Type != TypeContiguous:
		return object.Errorf(object.Invalid, "tar entry %q is of the unknown type %q", e.Name, e.Type)
	}
	return nil
}

func refusal(name, why string) error {
	return object.Errorf(object.Invalid, "tar entry %q %s", name, why)
}

// Key returns the key of an object that is made of the file of that name in an
// untrusted tar: the name without leading "./". Refused as Invalid are names that
// mean another place than the one they are put in, or none: absolute ones, ones
// with an element "..", empty ones and ones that end in a slash, and what no key
// can be: NUL, what is not UTF-8, and too many bytes.
func Key(name string) (string, error) {
	key := plain(name)
	switch {
	case key == "" || key == ".":
		return "", refusal(name, "has an empty name")
	case key[0] == '/':
		return "", refusal(name, "has an absolute name")
	case strings.IndexByte(key, 0) >= 0:
		return "", refusal(name, "has a NUL in its name")
	case strings.HasSuffix(key, "/"):
		return "", refusal(name, "is a file with the name of a directory")
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == ".." {
			return "", refusal(name, `has a name with ".."`)
		}
	}
	if err := object.ValidateKey(key); err != nil {
		return "", object.Errorf(object.Invalid, "tar entry %q: %w", name, err)
	}
	return key, nil
}
