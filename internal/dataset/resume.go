package dataset

import (
	"context"
	"hash/crc32"
	"io"
	"strings"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/shard"
)

// leftovers are shards that a run left that did not get to publish its version. One
// of them is used again, and its files are not read, if
//
//   - it is a tar: it says itself what is in it. Shards have their names only when
//     they are whole and durable;
//   - it was made of this origin, as the note says that was written before it;
//   - none of the files that belong into it was changed since then, or they have the
//     checksums that the origin says;
//   - its members are exactly these, of these sizes, in this order.
//
// It is read once more for its checksums.
type leftovers struct {
	*maker
	names map[int][]string // by number of the shard
}

func (m *maker) leftovers(y layout) leftovers {
	l := leftovers{m, map[int][]string{}}
	for _, name := range m.draft.left() {
		if number, ok := shardNumber(name); ok && !y.records && strings.HasSuffix(name, ".tar") {
			l.names[number] = append(l.names[number], name)
		}
	}
	return l
}

// take returns what a shard that was left holds, if there is one that can be used.
func (l leftovers) take(ctx context.Context, k *packer, p *plan, number int) *packed {
	for _, name := range l.names[number] {
		if done := l.try(ctx, k, p, number, name); done != nil {
			done.number, done.reused = number, true
			return done
		}
		k.undo()
	}
	return nil
}

func (l leftovers) try(ctx context.Context, k *packer, p *plan, number int, name string) *packed {
	k.done = nil
	file, by, err := l.draft.open(ctx, name)
	if err != nil {
		return nil
	}
	defer file.Close()
	if !by.sameAs(l.note) || !by.old(k.listing, p, number) {
		return nil
	}
	in := &counted{Reader: file}
	done, ok := k.recognize(ctx, p.shard(number), in)
	if !ok {
		return nil
	}
	done.shard = manifest.Shard{Name: name, Size: in.n, Tag: l.draft.reuse(name), Format: manifest.Tar}
	return done
}

// old reports whether no file of a shard was changed since the run began that wrote
// the note.
func (n note) old(l *listing, p *plan, number int) bool {
	for sample := range p.shard(number) {
		from, to := l.sample(sample)
		f, i := l.at(from)
		for ; from < to; from++ {
			if f.sums == nil && !n.before(f.stamps[i]) {
				return false
			}
			i++
		}
	}
	return true
}

// recognize reads a shard and reports whether it is what fill would write.
func (p *packer) recognize(ctx context.Context, samples func(func(uint32) bool), in io.Reader) (*packed, bool) {
	p.done = &packed{}
	r := shard.NewReader(in)
	for sample := range samples {
		p.members = p.append(p.members[:0], sample)
		row := p.row()
		for i := range p.members {
			m := &p.members[i]
			file, err := r.Next()
			if err != nil || ctx.Err() != nil || file.Refused != nil || file.Name != m.name || file.Size != m.size {
				return nil, false
			}
			content, crc, err := p.readMember(r, m)
			if err != nil || (m.path == "" && string(content) != m.text) || row.take(p, m, content, file.Offset, crc) != nil {
				return nil, false
			}
		}
		p.keep(sample, row)
	}
	if _, err := r.Next(); err != io.EOF {
		return nil, false
	}
	_, err := io.Copy(io.Discard, in) // what is behind the end mark belongs to its size
	return p.done, err == nil
}

// readMember returns the content of a small member, and the checksum of any.
func (p *packer) readMember(r io.Reader, m *member) (content []byte, crc uint32, err error) {
	for left := m.size; left > 0; {
		n, err := r.Read(p.buffer[:min(left, bufferSize)])
		if err != nil {
			return nil, 0, err
		}
		crc = crc32.Update(crc, crc32.IEEETable, p.buffer[:n])
		if m.size <= maxColumn {
			content = append(content, p.buffer[:n]...)
		}
		left -= int64(n)
	}
	return content, crc, nil
}

// undo takes back what was counted of a shard that is begun again.
func (p *packer) undo() {
	if p.done != nil {
		p.run.samples.Add(-int64(len(p.done.samples)))
		p.run.bytes.Add(-p.done.bytes)
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n int64
}

// Read counts.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}
