package dataset

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/object"
)

// ReadOptions go with acts that read all of a version.
type ReadOptions struct {
	Fields   []int                                    // fields that are read; nil: all
	Problem  func(error)                              // is told what is wrong, never twice at the same time
	Progress func(samples, bytes, totalSamples int64) // is told now and then how far it is
}

// ReadReport says what such an act has done.
type ReadReport struct {
	Samples  int64
	Bytes    int64
	Problems int64
}

// readOnce is how many bytes a worker reads at a time, about; what is larger is
// streamed.
const readOnce = 4 << 20

// Verify reads everything: the manifest, the sizes of the shards, and every field of
// every sample. Damage is a problem, not an error; an error means that it did not
// get to the end.
func (v *Version) Verify(ctx context.Context, o ReadOptions) (ReadReport, error) {
	s := newSweep(v, o)
	if err := v.Manifest.Verify(ctx); err != nil {
		if !object.Is(err, object.Corrupt) {
			return s.report(), err
		}
		s.problem(err)
		return s.report(), nil // what it says about samples means nothing
	}
	for n := range v.Shards() {
		if err := ctx.Err(); err != nil {
			return s.report(), err
		}
		shard, err := v.Shard(n)
		if err != nil {
			return s.report(), err
		}
		size, err := v.place.size(ctx, shard.Name)
		switch {
		case object.Is(err, object.NotFound):
			s.problem(object.Errorf(object.Corrupt, "shard %s is missing: %w", shard.Name, err))
		case err != nil:
			s.problem(object.Errorf(object.KindOf(err), "shard %s: %w", shard.Name, err))
		case size != shard.Size:
			s.problem(object.Errorf(object.Corrupt, "shard %s has %d bytes, and should have %d", shard.Name, size, shard.Size))
		}
	}
	err := s.run(ctx, func(ref Ref, data []byte) error { return nil }, func(ref Ref, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	return s.report(), err
}

// sweep reads all samples of a version, several at a time.
type sweep struct {
	*Version
	ReadOptions
	workers                  int
	telling                  sync.Mutex
	samples, bytes, problems atomic.Int64
}

func newSweep(v *Version, o ReadOptions) *sweep {
	s := &sweep{Version: v, ReadOptions: o, workers: min(4*runtime.GOMAXPROCS(0), 16)}
	if s.ReadOptions.Fields == nil {
		for f := range v.Fields() {
			s.ReadOptions.Fields = append(s.ReadOptions.Fields, f)
		}
	}
	return s
}

func (s *sweep) report() ReadReport {
	return ReadReport{Samples: s.samples.Load(), Bytes: s.bytes.Load(), Problems: s.problems.Load()}
}

func (s *sweep) problem(err error) {
	s.problems.Add(1)
	if s.Problem == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	s.Problem(err)
}

// run gives each field to small, or to large if it is. What these return, and what
// cannot be read, is a problem; when the context ends it is over.
func (s *sweep) run(ctx context.Context, small func(Ref, []byte) error, large func(Ref, io.Reader) error) error {
	parallel(s.workers, s.Len(), 64, func(from, to int) {
		var refs []Ref
		bytes := int64(0)
		flush := func() {
			_ = s.Read(ctx, refs, func(i int, data []byte, err error) error { // its error is the context's
				if err == nil {
					err = small(refs[i], data)
				}
				s.count(ctx, int64(len(data)), err)
				return ctx.Err()
			})
			refs, bytes = refs[:0], 0
		}
		for sample := from; sample < to && ctx.Err() == nil; sample++ {
			for _, field := range s.ReadOptions.Fields {
				p, err := s.Piece(sample, field)
				switch {
				case err != nil:
					s.count(ctx, 0, err)
				case p.Absent:
				case p.Size > readOnce:
					s.count(ctx, p.Size, s.whole(ctx, Ref{sample, field}, large))
				default:
					if bytes += p.Size; bytes > readOnce {
						flush()
						bytes = p.Size
					}
					refs = append(refs, Ref{sample, field})
				}
			}
		}
		flush()
		s.samples.Add(int64(to - from))
		if s.Progress != nil && s.telling.TryLock() {
			s.Progress(s.samples.Load(), s.bytes.Load(), int64(s.Len()))
			s.telling.Unlock()
		}
	})
	return ctx.Err()
}

func (s *sweep) whole(ctx context.Context, ref Ref, large func(Ref, io.Reader) error) error {
	r, err := s.Stream(ctx, ref)
	if err != nil {
		return err
	}
	defer r.Close()
	return large(ref, r)
}

// count counts what was read, or a problem. What breaks off because the act is being
// stopped is none.
func (s *sweep) count(ctx context.Context, bytes int64, err error) {
	switch {
	case err == nil:
		s.bytes.Add(bytes)
	case ctx.Err() == nil:
		s.problem(err)
	}
}
