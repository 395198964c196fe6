package dataset

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// Record says how Flat files are cut into records: all of one length, or each with
// its length before it.
type Record struct {
	Length int64  // in bytes
	Prefix int    // bytes of the length, little-endian: 2, 4 or 8
	Field  string // what a record is called; "bin" if empty
}

func (c Record) validate(in Input) error {
	switch {
	case in != Flat && c != Record{}:
		return invalid("only flat files are cut into records")
	case in != Flat:
		return nil
	case (c.Length > 0) == (c.Prefix > 0):
		return invalid("records of flat files have either a length or a prefix")
	case c.Length < 0 || c.Length > shard.MaxRecord:
		return invalid("a record cannot have %d bytes", c.Length)
	case c.Prefix != 0 && c.Prefix != 2 && c.Prefix != 4 && c.Prefix != 8:
		return invalid("a prefix has 2, 4 or 8 bytes, not %d", c.Prefix)
	case c.Field != "" && (!plainField(c.Field) || len(c.Field) > manifest.MaxName):
		return invalid("%q cannot be a field", c.Field)
	}
	return nil
}

// scan reads a shard to its end and finds its samples.
func (x *indexer) scan(ctx context.Context, t *taken, in io.Reader) error {
	read := &counted{Reader: &canceled{in, ctx}}
	var err error
	switch {
	case x.input == Tar:
		err = x.scanTar(t, read)
	case x.input == TFRecord:
		err = x.scanRecords(t, shard.TFRecords(read), "tfrecord")
	case x.opts.Record.Prefix > 0:
		err = x.scanRecords(t, shard.PrefixedRecords(read, x.opts.Record.Prefix), x.opts.Record.Field)
	default:
		err = x.scanRecords(t, shard.Records(read, x.opts.Record.Length), x.opts.Record.Field)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, read)
	}
	switch {
	case err != nil:
		return err
	case read.n > t.shard.Size:
		return errGrown
	case read.n < t.shard.Size:
		return errShorter
	}
	return nil
}

// canceled reads until the context ends.
type canceled struct {
	io.Reader
	ctx context.Context
}

// Read reads.
func (c *canceled) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(b)
}

// scanRecords takes each record for a sample, whose key is the file's path and the
// record's number in it.
func (x *indexer) scanRecords(t *taken, records iter.Seq2[shard.Record, error], field string) error {
	if field == "" {
		field = "bin"
	}
	number, err := x.names.number(field)
	if err != nil {
		return err
	}
	n := 0
	for r, err := range records {
		if err != nil {
			return err
		}
		if length := x.opts.Record.Length; r.Size < length {
			x.skip(at(x.from.local(t.path), fmt.Sprintf("the last %d bytes", r.Size)), object.Errorf(object.Invalid, "they are no whole record of %d bytes", length))
			break
		}
		s := sampler{indexer: x, taken: t}
		s.begin(fmt.Sprintf("%s/%08d", t.path, n))
		t.members = append(t.members, takenMember{r.Offset, uint32(r.Size), r.CRC32, number})
		s.end()
		n++
	}
	return nil
}

// scanTar takes members that follow one another and share a key for a sample.
func (x *indexer) scanTar(t *taken, in io.Reader) error {
	r := shard.NewReader(in)
	s := sampler{indexer: x, taken: t, buffer: make([]byte, 64<<10)}
	for {
		file, err := r.Next()
		if err == io.EOF {
			s.end()
			return nil
		}
		if err != nil {
			return err
		}
		name := file.Key
		if file.Refused != nil {
			name = file.Name
		}
		key, field, ok := SplitMember(name)
		if !ok {
			x.skip(at(x.from.local(t.path), name), object.Errorf(object.Invalid, "its name has no field"))
			continue
		}
		if !s.open || key != s.key {
			s.end()
			s.begin(key)
		}
		if err := s.member(r, file, field); err != nil {
			return err
		}
	}
}

// sampler adds samples to a shard that is taken.
type sampler struct {
	*indexer
	*taken
	buffer []byte

	key    string
	open   bool
	bad    bool
	row    []manifest.Value
	fields map[string]bool
}

func (s *sampler) begin(key string) {
	s.key, s.open, s.bad = key, true, false
	s.fields = map[string]bool{}
	s.row = s.row[:0]
	for range s.taken.columns {
		s.row = append(s.row, manifest.Value{Missing: true})
	}
	if !s.opts.ClassFromFolder {
		return
	}
	folder := classOf(key)
	if folder == key || len(folder) > manifest.MaxClass {
		s.refuse(key, invalid("it lies in no folder that could be its class"))
		return
	}
	s.row[s.shape.columns[class]] = manifest.Value{Text: folder}
}

func (s *sampler) refuse(member string, err error) {
	s.bad = true
	s.problem(at(s.from.local(s.taken.path), member), err)
}

// member adds a file of the current sample. An error means that the shard cannot be
// read any further.
func (s *sampler) member(r io.Reader, file shard.File, field string) error {
	column, isColumn := s.shape.columns[field]
	switch {
	case file.Refused != nil:
		s.refuse(file.Name, file.Refused)
		return nil
	case len(field) > manifest.MaxName || !plainField(field):
		s.refuse(file.Name, invalid("%q cannot be a field", field))
	case s.fields[field]:
		s.refuse(file.Name, invalid("its sample has a field %q already: a duplicate", field))
	case file.Size == 0 && !s.opts.AllowEmpty:
		s.refuse(file.Name, invalid("it is empty"))
	case file.Size > manifest.MaxSize:
		s.refuse(file.Name, invalid("it has %d bytes: a field of 4 GiB or more cannot be part of a sample", file.Size))
	case field == class && s.opts.ClassFromFolder:
		s.refuse(file.Name, invalid("the class comes from the folder, and cannot be a file too"))
	case isColumn && file.Size > maxColumn:
		s.refuse(file.Name, invalid("it has %d bytes, too many for the column %q", file.Size, field))
	}
	if s.bad {
		return nil
	}
	s.fields[field] = true
	content, crc, err := s.read(r, file.Size, isColumn)
	if err != nil {
		return err
	}
	if isColumn {
		if s.row[column], err = value(&s.shape.list[column], string(content)); err != nil {
			s.refuse(file.Name, err)
		}
		return nil
	}
	number, err := s.names.number(field)
	s.members = append(s.members, takenMember{file.Offset, uint32(file.Size), crc, number})
	return err
}

// read returns the checksum of a member, and its content if that is wanted.
func (s *sampler) read(r io.Reader, size int64, wanted bool) (content []byte, crc uint32, err error) {
	for size > 0 {
		n, err := r.Read(s.buffer[:min(size, int64(len(s.buffer)))])
		if err != nil {
			return nil, 0, err
		}
		crc = crc32.Update(crc, crc32.IEEETable, s.buffer[:n])
		if wanted {
			content = append(content, s.buffer[:n]...)
		}
		size -= int64(n)
	}
	return content, crc, nil
}

// end keeps the current sample, or forgets it.
func (s *sampler) end() {
	start := uint32(0)
	if n := len(s.last); n > 0 {
		start = s.last[n-1]
	}
	if s.open && !s.bad && object.ValidateKey(s.key) != nil {
		s.refuse(s.key, invalid("it is too long for a key"))
	}
	if !s.open || s.bad || len(s.fields) == 0 && int(start) == len(s.members) {
		s.members = s.members[:start]
		s.open = false
		return
	}
	s.open = false
	bytes := int64(0)
	for _, m := range s.members[start:] {
		bytes += int64(m.size)
	}
	s.keys = append(s.keys, s.key...)
	s.ends = append(s.ends, uint32(len(s.keys)))
	s.last = append(s.last, uint32(len(s.members)))
	s.values = append(s.values, s.row...)
	s.done(bytes)
}
