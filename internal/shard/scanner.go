package shard

import (
	"bytes"
	"fmt"
	"io"
)

const (
	block      = 512
	windowSize = 256 << 10 // fits a core's own cache: content is read into it and checksummed there
	maxSpecial = 1 << 20   // of a PAX block or a long name, as in archive/tar
)

// scanner goes through a tar as a stream. After next it stands at the beginning of
// an entry's content, which may be taken with chunk or read, or left alone.
type scanner struct {
	source func([]byte) (int, error)
	window []byte
	from   int   // window[from:to] has been read and not yet taken
	to     int   //
	pos    int64 // offset of window[from] in the stream
	late   error // came together with the last bytes
	failed error // ends everything

	// The current entry.
	name   []byte // valid until anything more is read
	kind   byte
	sparse bool
	offset int64
	size   int64
	left   int64 // bytes of its content not yet taken
	pad    int64 // bytes behind it, up to the next block

	// What stands before an entry and belongs to it.
	long    []byte // GNU's long name
	pax     extended
	special []byte // the block that pax points into
	joined  []byte // prefix and name
}

func newScanner(source func([]byte) (int, error)) *scanner {
	return &scanner{source: source, window: make([]byte, windowSize)}
}

func (s *scanner) entry() Entry {
	return Entry{Name: string(s.name), Type: s.kind, Sparse: s.sparse, Offset: s.offset, Size: s.size}
}

// file reports whether the entry is a file whose bytes are its content.
func (s *scanner) file() bool {
	return (s.kind == TypeFile || s.kind == TypeContiguous) && !s.sparse
}

// next goes to the next entry, or returns io.EOF behind the last.
func (s *scanner) next() error {
	if s.failed == nil {
		s.failed = s.advance()
	}
	return s.failed
}

func (s *scanner) advance() error {
	s.long = s.long[:0]
	s.pax = extended{}
	own := false // there was a header that belongs to the next entry
	for {
		if err := s.skip(); err != nil {
			return err
		}
		at := s.pos
		b, err := s.header()
		if err != nil {
			return err
		}
		h, err := parse(b, at)
		if err != nil {
			return err
		}
		if err := s.extent(h.kind, h.size, at); err != nil {
			return err
		}
		switch h.kind {
		case 'x', 'g':
			if s.special, err = s.whole(s.special[:0], at); err != nil {
				return err
			}
			pax, err := parseExtended(s.special, s.offset)
			if err != nil {
				return err
			}
			if h.kind == 'x' {
				s.pax, own = pax, true
			} else if own || pax.decides() {
				return malformed(at, "a global header that tar programs read differently")
			}
		case 'L':
			if s.long, err = s.whole(s.long[:0], at); err != nil {
				return err
			}
			s.long = cString(s.long)
			own = true
		case 'K':
			if s.size > maxSpecial {
				return malformed(at, "a link name of %d bytes", s.size)
			}
			own = true
		default:
			return s.begin(b, h, at)
		}
	}
}

// begin takes b, and what stood before it, as the header of an entry.
func (s *scanner) begin(b []byte, h header, at int64) error {
	s.name = cString(b[:100])
	if len(h.prefix) > 0 {
		s.joined = append(append(append(s.joined[:0], h.prefix...), '/'), s.name...)
		s.name = s.joined
	}
	size, err := s.pax.apply(h.size, at)
	if err != nil {
		return err
	}
	if name := s.pax.value[paxPath]; len(name) > 0 {
		s.name = name
	}
	if len(s.long) > 0 {
		s.name = s.long
	}
	if h.kind == 0 {
		h.kind = TypeFile
		if bytes.HasSuffix(s.name, []byte("/")) {
			h.kind = TypeDir
		}
	}
	if err := s.extent(h.kind, size, at); err != nil {
		return err
	}
	s.sparse = h.kind == TypeSparse || s.pax.sparse
	if name := s.pax.sparseName; s.sparse && len(name) > 0 {
		s.name = name
	}
	if len(s.name) > MaxName {
		return malformed(at, "a name of %d bytes is longer than %d", len(s.name), MaxName)
	}
	if h.kind == TypeSparse {
		return s.sparseMap(b, h, at)
	}
	return nil
}

// sparseMap passes over what GNU's old sparse format has between header and data.
func (s *scanner) sparseMap(b []byte, h header, at int64) error {
	if h.format != formatGNU {
		return malformed(at, "a sparse file in a format that has none")
	}
	more := b[482] != 0
	if !more {
		return nil
	}
	s.joined = append(s.joined[:0], s.name...) // the name lies in the window
	s.name = s.joined
	for n := 0; more; n++ {
		if n == maxSpecial/block {
			return malformed(at, "a sparse map of more than %d bytes", maxSpecial)
		}
		b, err := s.block()
		if err == io.EOF {
			return malformed(s.pos, "the archive ends inside a sparse map")
		} else if err != nil {
			return err
		}
		more = b[504] != 0
	}
	s.offset = s.pos
	return nil
}

// empty reports whether entries of this type have no content, whatever size they
// claim.
func empty(kind byte) bool { return kind >= TypeLink && kind <= TypeFifo }

// extent says where the content of an entry lies: from here on.
func (s *scanner) extent(kind byte, size, at int64) error {
	if empty(kind) {
		size = 0
	}
	if size < 0 || s.pos+size < 0 {
		return malformed(at, "a size of %d bytes", size)
	}
	s.kind, s.offset, s.size, s.left, s.pad = kind, s.pos, size, size, -size&(block-1)
	return nil
}

// header returns the next block that is a header, or io.EOF at the end mark: two
// blocks of zeros, one and the end of the stream, or that alone.
func (s *scanner) header() ([]byte, error) {
	b, err := s.block()
	if err != nil || !zero(b) {
		return b, err
	}
	at := s.pos
	if b, err = s.block(); err != nil {
		return nil, err
	}
	if !zero(b) {
		return nil, malformed(at, "something stands behind a block of zeros")
	}
	return nil, io.EOF
}

// block takes one block, or returns io.EOF if the stream has ended.
func (s *scanner) block() ([]byte, error) {
	if s.to-s.from < block {
		s.to = copy(s.window, s.window[s.from:s.to])
		s.from = 0
		for s.to < block {
			err := s.fill()
			if err == io.EOF && s.to > 0 {
				return nil, malformed(s.pos, "the archive ends inside a header")
			} else if err != nil {
				return nil, err
			}
		}
	}
	return s.take(block), nil
}

// chunk takes the next piece of the entry's content; at its end, nothing.
func (s *scanner) chunk() ([]byte, error) {
	if s.left == 0 {
		return nil, nil
	}
	if s.from == s.to {
		s.from, s.to = 0, 0
		if err := s.fill(); err != nil {
			return nil, s.short(err)
		}
	}
	n := min(s.left, int64(s.to-s.from))
	s.left -= n
	return s.take(int(n)), nil
}

// read copies content to p. Large pieces do not go through the window.
func (s *scanner) read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), s.left)]
	if len(p) == 0 {
		return 0, nil
	}
	if s.from == s.to && len(p) >= windowSize/4 {
		n, err := s.pull(p)
		s.left -= int64(n)
		s.pos += int64(n)
		if n == 0 {
			return 0, s.short(err)
		}
		return n, nil
	}
	if s.from == s.to {
		s.from, s.to = 0, 0
		if err := s.fill(); err != nil {
			return 0, s.short(err)
		}
	}
	n := copy(p, s.window[s.from:s.to])
	s.left -= int64(n)
	s.take(n)
	return n, nil
}

// short makes of an end in the middle of content what it is.
func (s *scanner) short(err error) error {
	if err == io.EOF {
		err = malformed(s.pos, "the archive ends %d bytes before the end of %d bytes that begin at %d", s.left, s.size, s.offset)
	}
	s.failed = err
	return err
}

// skip passes over what is left of the entry. If the stream ends in the bytes that
// fill its last block, that is an end like any other.
func (s *scanner) skip() error {
	for s.left > 0 {
		if _, err := s.chunk(); err != nil {
			return err
		}
	}
	for s.pad > 0 {
		if s.from == s.to {
			s.from, s.to = 0, 0
			if err := s.fill(); err != nil {
				return err
			}
		}
		n := min(s.pad, int64(s.to-s.from))
		s.pad -= n
		s.take(int(n))
	}
	return nil
}

// whole appends all of the entry's content to buf.
func (s *scanner) whole(buf []byte, at int64) ([]byte, error) {
	if s.size > maxSpecial {
		return nil, malformed(at, "an extended header of %d bytes is larger than %d", s.size, maxSpecial)
	}
	for s.left > 0 {
		b, err := s.chunk()
		if err != nil {
			return nil, err
		}
		buf = append(buf, b...)
	}
	return buf, nil
}

func (s *scanner) take(n int) []byte {
	b := s.window[s.from : s.from+n]
	s.from += n
	s.pos += int64(n)
	return b
}

// fill reads more into the window, which has room.
func (s *scanner) fill() error {
	n, err := s.pull(s.window[s.to:])
	s.to += n
	if n > 0 {
		return nil
	}
	return err
}

// pull reads at least one byte or returns an error, never both.
func (s *scanner) pull(p []byte) (int, error) {
	if s.late != nil {
		return 0, s.late
	}
	for range 100 {
		n, err := s.source(p)
		if err != nil && err != io.EOF {
			err = fmt.Errorf("reading a tar at offset %d: %w", s.pos+int64(s.to-s.from+n), err)
		}
		if n > 0 {
			s.late = err
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
