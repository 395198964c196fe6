package dataset

import (
	"context"
	"errors"
	"io"
	"sync"

	"penstock.dev/penstock/internal/manifest"
)

// pack makes a version of files that are fields of samples.
func (m *maker) pack(ctx context.Context, folders []*folder) error {
	if err := m.sameColumns(); err != nil {
		return err
	}
	s := newShape(&m.opts)
	if err := m.oldClasses(s); err != nil {
		return err
	}
	l := group(m.run, m.from, folders, s)
	if err := m.check(); err != nil {
		return err
	}
	if l.len() == 0 {
		return nothing(m.from)
	}
	if err := s.finish(l.len()); err != nil {
		return err
	}
	y := layout{listing: l, shape: s, records: m.opts.Records, byClass: m.opts.ClassFromFolder}
	fieldBytes := y.weigh(m.workers())
	d, err := m.compare(ctx, y)
	if err != nil {
		return err
	}
	if d.none() {
		m.unchanged(fieldBytes)
		return nil
	}
	p, err := newPlan(l, d.chosen, &m.opts)
	if err != nil {
		return err
	}
	if err := m.draft.begin(ctx, m.note); err != nil {
		return err
	}
	w, err := manifest.Create(m.draft.manifest(), manifest.Options{
		Info: manifest.Info{
			Name: m.opts.Name, Version: m.base.next, Created: m.opts.now(), Seed: m.opts.Seed,
			ChunkSamples: m.chunkSamples(int64(l.len()), fieldBytes),
		},
		Fields: s.fieldList(), Columns: s.columnList(),
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := m.addKept(ctx, w, d, s.fieldList()); err != nil {
		return err
	}
	m.step("packing", int64(l.len())-m.report.Kept, fieldBytes-m.report.Bytes)
	if err := m.shards(ctx, y, p, w); err != nil {
		return err
	}
	m.report.Added, m.report.Changed, m.report.Removed = d.added, d.changed, d.removed
	if lost := d.added + d.changed - (m.report.Samples - m.report.Kept); lost > 0 {
		m.report.Added -= min(lost, d.added) // samples that could not be read after all
	}
	return m.publish(ctx, w)
}

// oldClasses has the classes of folders keep the numbers that they had.
func (m *maker) oldClasses(s *shape) error {
	if m.base.last == nil || !m.opts.ClassFromFolder {
		return nil
	}
	c, ok := m.base.last.Column(class)
	if !ok {
		return nil
	}
	names, err := m.base.last.Classes(c)
	for i, name := range names {
		s.classes[name] = i
	}
	return err
}

// shards fills the shards of a plan and adds their samples to the manifest, in the
// order of the plan.
func (m *maker) shards(ctx context.Context, y layout, p *plan, w *manifest.Writer) error {
	left := m.leftovers(y)
	numbers, results := make(chan int), make(chan *packed)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var packing sync.WaitGroup
	for range min(m.workers(), p.shards()) {
		packing.Go(func() {
			k := newPacker(m.run, y, m.from)
			for number := range numbers {
				done, err := m.shard(ctx, k, p, number, left)
				if err != nil {
					cancel(err)
					continue
				}
				results <- done
			}
		})
	}
	go func() {
		defer close(results)
		defer packing.Wait()
		defer close(numbers)
		for number := range p.shards() {
			select {
			case numbers <- number:
			case <-ctx.Done():
				return
			}
		}
	}()
	waiting := map[int]*packed{} // shards that came before their turn
	next := 0
	for done := range results {
		waiting[done.number] = done
		for ; waiting[next] != nil && ctx.Err() == nil; next++ {
			if err := m.add(w, y.listing, waiting[next]); err != nil {
				cancel(err)
			}
			delete(waiting, next)
		}
	}
	return context.Cause(ctx)
}

// shard fills one shard, or finds that a run before has done so.
func (m *maker) shard(ctx context.Context, k *packer, p *plan, number int, left leftovers) (*packed, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if done := left.take(ctx, k, p, number); done != nil {
		return done, nil
	}
	name := m.shardName(number)
	clear(k.dropped)
	for {
		var done *packed
		written, tag, err := m.draft.write(ctx, name, func(out io.Writer) (err error) {
			done, err = k.fill(ctx, p.shard(number), out)
			return err
		})
		switch {
		case err == nil:
			done.number, done.shard.Name, done.shard.Tag = number, written, tag
			return done, nil
		case errors.Is(err, errNone):
			return &packed{number: number}, nil
		case errors.Is(err, errAgain), ctx.Err() == nil && m.draft.again(ctx, name, err):
			k.undo()
		default:
			return nil, err
		}
	}
}

func (m *maker) shardName(number int) string {
	extension := ".tar"
	if m.opts.Records {
		extension = ".records"
	}
	return shardName(m.base.next, number, extension)
}

// add adds a shard's samples to the manifest.
func (m *maker) add(w *manifest.Writer, l *listing, done *packed) error {
	if len(done.samples) == 0 {
		return nil
	}
	shard, err := w.AddShard(done.shard)
	if err != nil {
		return err
	}
	fields, columns := len(done.pieces)/len(done.samples), len(done.values)/len(done.samples)
	for i, sample := range done.samples {
		s := manifest.Sample{Key: l.key(sample), Pieces: done.pieces[i*fields : (i+1)*fields], Values: done.values[i*columns : (i+1)*columns]}
		for f := range s.Pieces {
			if !s.Pieces[f].Absent {
				s.Pieces[f].Shard = shard
			}
		}
		if err := w.Add(&s); err != nil {
			return err
		}
	}
	m.report.Samples += int64(len(done.samples))
	m.report.Bytes += done.bytes
	if done.reused {
		m.report.Reused++
	} else {
		m.report.Shards++
	}
	return nil
}
