package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"penstock.dev/penstock/internal/object"
)

// Record is a piece of a file of records.
type Record struct {
	Offset int64 // of its first byte, behind what says how long it is
	Size   int64
	CRC32  uint32 // IEEE
}

// MaxRecord is the largest size of a record.
const MaxRecord = 1<<32 - 2

// Records yields the records of a file that has nothing between them: each has the
// given length. The last one may be shorter, if the file ends there.
func Records(r io.Reader, length int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s := newSums(r)
		for {
			record, err := s.sum(length)
			if err == io.EOF && record.Size == 0 {
				return
			}
			if err != nil && err != io.EOF {
				yield(Record{}, err)
				return
			}
			if !yield(record, nil) || err == io.EOF {
				return
			}
		}
	}
}

// PrefixedRecords yields the records of a file in which before each of them stands how
// long it is: a little-endian number of 2, 4 or 8 bytes.
func PrefixedRecords(r io.Reader, width int) iter.Seq2[Record, error] {
	return framed(r, width, 0, func(head []byte) (uint64, bool) {
		var whole [8]byte
		copy(whole[:], head)
		return binary.LittleEndian.Uint64(whole[:]), true
	}, nil)
}

// TFRecords yields the records of a TensorFlow file, and checks its checksums.
func TFRecords(r io.Reader) iter.Seq2[Record, error] {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return framed(r, 12, 4, func(head []byte) (uint64, bool) {
		right := masked(crc32.Checksum(head[:8], castagnoli)) == binary.LittleEndian.Uint32(head[8:])
		return binary.LittleEndian.Uint64(head), right
	}, castagnoli)
}

// masked is how TensorFlow stores a checksum.
func masked(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

// framed yields records that have a head before them and a foot behind, which is a
// masked checksum if there is a table for it. length says whether a head is right.
func framed(r io.Reader, head, foot int, length func([]byte) (uint64, bool), table *crc32.Table) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f := frames{sums: newSums(r), head: make([]byte, head), foot: make([]byte, foot), length: length, table: table}
		for {
			at := f.at
			record, err := f.next()
			switch err {
			case io.EOF:
				return
			case io.ErrUnexpectedEOF:
				err = object.Errorf(object.Invalid, "at offset %d: the file ends inside of a record", at)
			case errFrame:
				err = object.Errorf(object.Invalid, "at offset %d: there is no record, or it is damaged", at)
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

var errFrame = errors.New("not a record")

type frames struct {
	*sums
	head, foot []byte
	length     func([]byte) (uint64, bool)
	table      *crc32.Table
}

func (f *frames) next() (Record, error) {
	if _, err := f.read(f.head); err != nil {
		return Record{}, err
	}
	length, right := f.length(f.head)
	if !right || length > MaxRecord {
		return Record{}, errFrame
	}
	if f.table != nil {
		f.second = crc32.New(f.table)
	}
	record, err := f.sum(int64(length))
	if err == nil {
		_, err = f.read(f.foot)
	}
	switch {
	case err == io.EOF:
		return Record{}, io.ErrUnexpectedEOF
	case err != nil:
		return Record{}, err
	case f.table != nil && masked(f.second.Sum32()) != binary.LittleEndian.Uint32(f.foot):
		return Record{}, errFrame
	}
	return record, nil
}

// sums reads a stream in large pieces and takes checksums of parts of it.
type sums struct {
	source   io.Reader
	window   []byte
	from, to int
	at       int64
	second   hash.Hash32 // gets the same bytes, if it is not nil
}

func newSums(r io.Reader) *sums { return &sums{source: r, window: make([]byte, windowSize)} }

// fill makes sure that there is something in the window.
func (s *sums) fill() error {
	for tries := 0; s.from == s.to; tries++ {
		n, err := s.source.Read(s.window)
		if s.from, s.to = 0, n; n > 0 {
			return nil
		}
		if err == nil && tries == 100 {
			err = io.ErrNoProgress
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("reading records at offset %d: %w", s.at, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read fills b. At the end of the stream it says how much there was.
func (s *sums) read(b []byte) (n int, err error) {
	for n < len(b) {
		if err := s.fill(); err != nil {
			if err == io.EOF && n > 0 {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		got := copy(b[n:], s.window[s.from:s.to])
		n, s.from, s.at = n+got, s.from+got, s.at+int64(got)
	}
	return n, nil
}

// sum passes over a record. If the stream ends in it, the record is shorter and the
// error is io.EOF.
func (s *sums) sum(length int64) (Record, error) {
	r := Record{Offset: s.at}
	for r.Size < length {
		if err := s.fill(); err != nil {
			return r, err
		}
		b := s.window[s.from:min(int64(s.to), int64(s.from)+length-r.Size)]
		r.CRC32 = crc32.Update(r.CRC32, crc32.IEEETable, b)
		if s.second != nil {
			s.second.Write(b)
		}
		r.Size, s.from, s.at = r.Size+int64(len(b)), s.from+len(b), s.at+int64(len(b))
	}
	return r, nil
}
