package dataset

import (
	"context"
	"errors"
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/shard"
)

// bufferSize is how much of a shard is read, and then written, at once. It fits into
// a core's own cache, where the checksums are taken.
const bufferSize = 1 << 20

// packed is what has come of a shard.
type packed struct {
	number  int
	shard   manifest.Shard // without samples there is none
	reused  bool
	samples []uint32
	pieces  []manifest.Piece // of each sample as many as there are fields
	values  []manifest.Value // of each sample as many as there are columns
	bytes   int64            // in pieces
}

// packer fills shards, one after the other.
type packer struct {
	*run
	layout
	from   Origin
	fields int

	buffer  []byte
	members []member
	spans   []span
	wants   []want
	dropped map[uint32]bool // samples of the current shard that cannot be read

	out  io.Writer
	at   int64 // how much of the shard was written
	done *packed
}

// span is a sample in the buffer.
type span struct {
	sample     uint32
	from, to   int // members
	start, end int // bytes
}

// errAgain says that a shard has to be begun anew, without samples that were found
// to be bad when some of their bytes were written already.
var errAgain = errors.New("the shard is begun anew")

// errNone says that no sample is left for a shard.
var errNone = errors.New("no samples for the shard")

func newPacker(r *run, y layout, from Origin) *packer {
	return &packer{run: r, layout: y, from: from, fields: len(y.shape.fields), buffer: make([]byte, bufferSize+1), dropped: map[uint32]bool{}}
}

// fill writes the samples of a shard to out. What it returns has no name yet.
func (p *packer) fill(ctx context.Context, samples func(func(uint32) bool), out io.Writer) (*packed, error) {
	p.out, p.at, p.done = out, 0, &packed{}
	p.members, p.spans = p.members[:0], p.spans[:0]
	used := 0
	for sample := range samples {
		if p.dropped[sample] {
			continue
		}
		from := len(p.members)
		p.members = p.append(p.members, sample)
		weight := 0
		for i := from; i < len(p.members); i++ {
			weight += int(p.members[i].weight(p.records))
		}
		if len(p.spans) > 0 && used+weight > bufferSize {
			waiting := append([]member(nil), p.members[from:]...)
			p.members = p.members[:from]
			if err := p.flush(ctx); err != nil {
				return nil, err
			}
			used, from = 0, 0
			p.members = append(p.members, waiting...)
		}
		if weight > bufferSize {
			if err := p.large(ctx, sample); err != nil {
				return nil, err
			}
			continue
		}
		p.spans = append(p.spans, span{sample: sample, from: from, to: len(p.members), start: used, end: used + weight})
		for i := from; i < len(p.members); i++ {
			p.members[i].at = used
			used += int(p.members[i].weight(p.records))
		}
	}
	if err := p.flush(ctx); err != nil {
		return nil, err
	}
	if len(p.done.samples) == 0 {
		return nil, errNone
	}
	format := manifest.Records
	if !p.records {
		format = manifest.Tar
		if err := p.write(make([]byte, shard.EndSize)); err != nil {
			return nil, err
		}
	}
	p.done.shard = manifest.Shard{Size: p.at, Format: format}
	return p.done, nil
}

func (p *packer) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := p.out.Write(b)
	p.at += int64(n)
	return err
}

// flush reads the files of the samples in the buffer, puts their headers before
// them, and writes all those that could be read.
func (p *packer) flush(ctx context.Context) error {
	defer func() { p.members, p.spans = p.members[:0], p.spans[:0] }()
	p.wants = p.wants[:0]
	for i := range p.members {
		m := &p.members[i]
		if content := m.at + m.header; m.path != "" {
			p.wants = append(p.wants, want{path: m.path, dst: p.buffer[content : content+int(m.size) : content+int(m.size)+1]})
		}
	}
	p.from.read(ctx, p.wants)
	// Headers come after all content, because reading a file may touch one byte more.
	wants, start, end := p.wants, 0, 0
	for _, s := range p.spans {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		files := 0
		for i := s.from; i < s.to; i++ {
			if p.members[i].path != "" {
				files++
			}
		}
		if p.complete(s, wants[:files], p.at+int64(s.start-start)) {
			end = s.end
		} else {
			if err := p.write(p.buffer[start:end]); err != nil {
				return err
			}
			start, end = s.end, s.end
		}
		wants = wants[files:]
	}
	return p.write(p.buffer[start:end])
}

// complete puts headers and padding around the content of a sample, which will lie
// at an offset in the shard, and keeps it. It names a file that could not be read.
func (p *packer) complete(s span, wants []want, offset int64) bool {
	row := p.row()
	for i := s.from; i < s.to; i++ {
		m := &p.members[i]
		content := p.buffer[m.at+m.header : m.at+m.header+int(m.size)]
		var w want
		if m.path == "" {
			copy(content, m.text)
		} else {
			w, wants = wants[0], wants[1:]
		}
		if w.err == nil {
			w.err = row.take(p, m, content, offset+int64(m.at-s.start+m.header), w.crc)
		}
		if w.err != nil {
			p.badSample(p.from.local(m.path), w.err)
			return false
		}
		if !p.records {
			shard.AppendHeader(p.buffer[:m.at], m.name, m.size)
			clear(p.buffer[m.at+m.header+int(m.size) : m.at+int(m.weight(false))])
		}
	}
	p.keep(s.sample, row)
	return true
}

// row is what the manifest has of a sample.
type row struct {
	pieces []manifest.Piece
	values []manifest.Value
}

// row makes one behind those that are kept.
func (p *packer) row() row {
	d := p.done
	pieces, values := d.pieces, d.values
	for range p.fields {
		pieces = append(pieces, manifest.Piece{Absent: true})
	}
	for range p.shape.list {
		values = append(values, manifest.Value{Missing: true})
	}
	return row{pieces[len(d.pieces):], values[len(d.values):]}
}

// take notes where a member lies, or what it says for its column.
func (w row) take(p *packer, m *member, content []byte, offset int64, crc uint32) (err error) {
	switch {
	case m.summed && m.sum != crc:
		err = errChanged
	case m.field >= 0:
		w.pieces[m.field] = manifest.Piece{Checked: true, CRC32: crc, Offset: offset, Size: m.size}
	case m.path == "": // the class of the folder: the shard has its number, the manifest its name
		w.values[m.column] = manifest.Value{Text: classOf(m.name)}
	default:
		w.values[m.column], err = value(&p.shape.list[m.column], string(content))
	}
	return err
}

// keep makes a row part of the shard.
func (p *packer) keep(sample uint32, w row) {
	d := p.done
	d.samples = append(d.samples, sample)
	d.pieces, d.values = append(d.pieces, w.pieces...), append(d.values, w.values...)
	bytes := int64(0)
	for _, piece := range w.pieces {
		bytes += piece.Size
	}
	d.bytes += bytes
	p.run.done(bytes)
}

// large writes a sample that is larger than the buffer, which is empty. If a file of
// it cannot be read the shard has to be begun again.
func (p *packer) large(ctx context.Context, sample uint32) error {
	row := p.row()
	for i := range p.members {
		m := &p.members[i]
		if !p.records {
			if err := p.write(shard.AppendHeader(nil, m.name, m.size)); err != nil {
				return err
			}
		}
		offset := p.at
		content, crc, err := p.copy(ctx, m)
		if err == nil {
			err = row.take(p, m, content, offset, crc)
		}
		var output *outputError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &output):
			return output.error
		default:
			p.dropped[sample] = true
			p.badSample(p.from.local(m.path), err)
			return errAgain
		}
		if !p.records {
			if err := p.write(make([]byte, shard.Padding(m.size))); err != nil {
				return err
			}
		}
	}
	p.members = p.members[:0]
	p.keep(sample, row)
	return nil
}

// outputError tells that writing failed, not reading.
type outputError struct{ error }

// copy writes the content of one member. It returns it too if it is small.
func (p *packer) copy(ctx context.Context, m *member) (content []byte, crc uint32, err error) {
	if m.path == "" || m.size <= bufferSize {
		wants := []want{{path: m.path, dst: p.buffer[: m.size : m.size+1]}}
		if m.path == "" {
			copy(wants[0].dst, m.text)
		} else if p.from.read(ctx, wants); wants[0].err != nil {
			return nil, 0, wants[0].err
		}
		if err := p.write(wants[0].dst); err != nil {
			return nil, 0, &outputError{err}
		}
		return wants[0].dst, wants[0].crc, nil
	}
	in, err := p.from.stream(ctx, m.path)
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	for left := m.size; left >= 0 && ctx.Err() == nil; {
		n, err := in.Read(p.buffer)
		if left -= int64(n); left < 0 {
			return nil, 0, errGrown
		}
		crc = crc32.Update(crc, crc32.IEEETable, p.buffer[:n])
		if err := p.write(p.buffer[:n]); err != nil {
			return nil, 0, &outputError{err}
		}
		switch {
		case err == io.EOF && left > 0:
			return nil, 0, errShorter
		case err == io.EOF:
			return nil, crc, nil
		case err != nil:
			return nil, 0, localfile.Reason(err)
		}
	}
	return nil, 0, context.Cause(ctx)
}
