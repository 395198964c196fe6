package dataset

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// duplicates finds samples whose key another one has that comes before it, names them
// and leaves them out.
func (x *indexer) duplicates(all []*taken) {
	type place struct {
		hash  uint64
		shard uint32
		index uint32
	}
	var places []place
	seed := maphash.MakeSeed()
	key := func(p place) string {
		t := all[p.shard]
		if t.old != nil {
			k, _ := x.base.last.Key(t.old[p.index]) // what cannot be read is found when it is written
			return k
		}
		return t.key(int(p.index))
	}
	for s, t := range all {
		for i := range max(t.len(), len(t.old)) {
			p := place{shard: uint32(s), index: uint32(i)}
			p.hash = maphash.String(seed, key(p))
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.shard, b.shard), cmp.Compare(a.index, b.index))
	})
	for i := 1; i < len(places); i++ {
		// Those with the same hash follow one another; nearly always there is one.
		for j := i - 1; j >= 0 && places[j].hash == places[i].hash; j-- {
			if key(places[i]) != key(places[j]) {
				continue
			}
			t := all[places[i].shard]
			if t.dropped == nil {
				t.dropped = make([]bool, max(t.len(), len(t.old)))
			}
			t.dropped[places[i].index] = true
			x.problem(at(x.from.local(t.path), key(places[i])), invalid("the sample is a duplicate: %s has one of that key", x.from.local(all[places[j].shard].path)))
			break
		}
	}
}

// write makes the manifest of shards that were taken, and publishes it.
func (x *indexer) write(ctx context.Context, all []*taken) error {
	samples, bytes, err := x.survey(all)
	if err != nil {
		return err
	}
	switch {
	case samples == 0:
		return nothing(x.from)
	case x.report.Added+x.report.Changed+x.report.Removed == 0 && x.sameShards(all):
		x.unchanged(bytes)
		return nil
	}
	if err := x.shape.finish(int(samples)); err != nil {
		return err
	}
	if err := x.begin(); err != nil {
		return err
	}
	w, err := manifest.Create(x.draft.manifest(), manifest.Options{
		Info: manifest.Info{
			Name: x.opts.Name, Version: x.base.next, Created: x.opts.now(), Seed: x.opts.Seed, ChunkSamples: x.chunkSamples(samples, bytes),
		},
		Fields: x.shape.fieldList(), Columns: x.shape.columnList(),
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, t := range all {
		number, err := w.AddShard(t.shard)
		if err != nil {
			return err
		}
		switch {
		case t.copied:
			x.report.Shards++
		case t.old == nil:
			x.report.Taken++
		}
		for i := range max(t.len(), len(t.old)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if t.dropped != nil && t.dropped[i] {
				continue
			}
			if err := x.add(w, t, i, number); err != nil {
				return err
			}
		}
	}
	x.report.Samples, x.report.Bytes = samples, bytes
	return x.publish(ctx, w)
}

// sameShards reports whether the last version has these shards and no others.
func (x *indexer) sameShards(all []*taken) bool {
	if x.base.last == nil || x.opts.Repack || len(all) != x.base.last.Shards() {
		return false
	}
	for i, t := range all {
		if was, err := x.base.last.Shard(i); err != nil || was != t.shard {
			return false
		}
	}
	return true
}

// survey counts, also what the samples are to the last version, and finds out which
// fields and classes there are.
func (x *indexer) survey(all []*taken) (samples, bytes int64, err error) {
	classes := map[string]bool{}
	for _, t := range all {
		for i := range max(t.len(), len(t.old)) {
			if t.dropped != nil && t.dropped[i] {
				continue
			}
			s, err := x.sample(t, i)
			if err != nil {
				return 0, 0, err
			}
			samples++
			for name, p := range s.pieces {
				x.shape.has[name]++
				bytes += p.Size
			}
			for c, v := range s.values {
				if !v.Missing {
					x.shape.has[x.shape.list[c].Name]++
				}
			}
			if x.opts.ClassFromFolder {
				classes[classOf(s.key)] = true
			}
			if err := x.compareOne(s, t.old != nil); err != nil {
				return 0, 0, err
			}
		}
	}
	x.shape.addClasses(classes)
	if x.base.last != nil {
		x.report.Removed = int64(x.base.last.Len()) - x.report.Kept - x.report.Changed
	}
	return samples, bytes, nil
}

// loose is a sample whose fields have names and no numbers yet.
type loose struct {
	key    string
	pieces map[string]manifest.Piece
	values []manifest.Value
}

func (x *indexer) sample(t *taken, i int) (loose, error) {
	s := loose{pieces: map[string]manifest.Piece{}}
	if t.old == nil {
		s.key = t.key(i)
		for _, m := range t.of(i) {
			s.pieces[x.names.list[m.field]] = manifest.Piece{Checked: true, CRC32: m.crc, Offset: m.offset, Size: int64(m.size)}
		}
		s.values = t.values[i*t.columns : (i+1)*t.columns]
		return s, nil
	}
	return x.oldSample(t.old[i])
}

// oldSample returns a sample of the last version.
func (x *indexer) oldSample(number int) (loose, error) {
	s := loose{pieces: map[string]manifest.Piece{}}
	was, err := x.base.last.Sample(number)
	if err != nil {
		return s, err
	}
	s.key, s.values = was.Key, was.Values
	for f, p := range was.Pieces {
		if !p.Absent {
			s.pieces[x.base.last.Fields()[f].Name] = p
		}
	}
	return s, nil
}

// compareOne counts what a sample is to the last version.
func (x *indexer) compareOne(s loose, kept bool) error {
	if kept {
		x.report.Kept++
		return nil
	}
	if x.base.last == nil {
		x.report.Added++
		return nil
	}
	old, err := x.base.last.Find(s.key)
	if object.Is(err, object.NotFound) {
		x.report.Added++
		return nil
	}
	if err != nil {
		return err
	}
	was, err := x.oldSample(old)
	if err != nil {
		return err
	}
	if s.same(was) {
		x.report.Kept++
	} else {
		x.report.Changed++
	}
	return nil
}

// add adds a sample to the manifest.
func (x *indexer) add(w *manifest.Writer, t *taken, i int, shard uint32) error {
	s, err := x.sample(t, i)
	if err != nil {
		return err
	}
	pieces := make([]manifest.Piece, len(x.shape.fields))
	for f := range pieces {
		pieces[f].Absent = true
	}
	for name, p := range s.pieces {
		p.Shard = shard
		pieces[x.shape.fields[name]] = p
	}
	return w.Add(&manifest.Sample{Key: s.key, Pieces: pieces, Values: s.values})
}

// same reports whether both have the same content.
func (s loose) same(was loose) bool {
	if len(s.pieces) != len(was.pieces) || len(s.values) != len(was.values) {
		return false
	}
	for name, p := range s.pieces {
		if old, ok := was.pieces[name]; !ok || !old.Checked || old.Size != p.Size || old.CRC32 != p.CRC32 {
			return false
		}
	}
	for c := range s.values {
		if valueOnly(s.values[c]) != valueOnly(was.values[c]) {
			return false
		}
	}
	return true
}

// sameOffsets reports whether both lie at the same places, so far as the shards are
// the same.
func (s loose) sameOffsets(was loose) bool {
	for name, p := range s.pieces {
		if was.pieces[name].Offset != p.Offset {
			return false
		}
	}
	return true
}
