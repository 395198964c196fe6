package dataset

import (
	"context"
	"math"
	"sync"
	"time"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// Create makes the next version of the dataset in a place and publishes it. If
// nothing has changed since the last one it publishes none.
func Create(ctx context.Context, place Place, from Origin, opts Options) (Report, error) {
	if err := opts.Validate(); err != nil {
		return Report{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := newRun(opts, stop)
	beside, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if opts.Progress != nil {
		watching.Go(func() { r.watch(beside) })
	}
	report, err := r.create(ctx, place, from)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // what came of it says less
	}
	end()
	watching.Wait()
	report.Problems, report.Skipped, report.Elapsed = r.problems.Load(), r.skipped.Load(), time.Since(r.begun)
	return report, err
}

func (r *run) create(ctx context.Context, place Place, from Origin) (report Report, err error) {
	if err := from.open(r); err != nil {
		return report, failed(err)
	}
	defer from.close()
	base, err := r.base(ctx, place)
	if err != nil {
		return report, err
	}
	t, err := place.draft(ctx, base.next)
	if err != nil {
		return report, err
	}
	defer t.close()
	r.owned = place.owned(from)
	folders, err := from.list(ctx, r)
	if err != nil {
		return report, failed(err)
	}
	m := &maker{run: r, place: place, from: from, base: base, draft: t, note: newNote(from, r.begun)}
	input, err := r.opts.Input.of(folders)
	switch {
	case err != nil:
	case input == Files:
		err = m.pack(ctx, folders)
	default:
		err = m.index(ctx, folders, input)
	}
	return m.report, err
}

// base is the version that a new one builds on.
type base struct {
	version uint64             // zero: none
	last    *manifest.Manifest // nil: none
	note    note
	next    uint64 // the number of the new version
}

// base finds the version that the new one builds on.
func (r *run) base(ctx context.Context, place Place) (b base, err error) {
	published, last, err := place.versions(ctx)
	if err != nil {
		return b, err
	}
	b.next = last + 1
	if len(published) == 0 {
		return b, nil
	}
	b.version = published[len(published)-1]
	if b.last, err = place.manifest(ctx, b.version); err != nil {
		return b, err
	}
	if name := b.last.Info().Name; name != r.opts.Name {
		return b, object.Errorf(object.Exists, "%s holds the dataset %q, not %q", place, name, r.opts.Name)
	}
	if b.note, err = place.note(ctx, b.version); err != nil {
		return b, err
	}
	return b, nil
}

// maker makes one version.
type maker struct {
	*run
	place  Place
	from   Origin
	base   base
	draft  draft
	note   note
	report Report
}

// chunkSamples is how many samples make a chunk of the size that is wanted.
func (m *maker) chunkSamples(samples, bytes int64) uint32 {
	if bytes <= 0 || samples == 0 {
		return 1
	}
	k := math.Round(float64(m.opts.ChunkSize) * float64(samples) / float64(bytes))
	return uint32(min(max(1, k), 1<<31))
}

// publish ends the version.
func (m *maker) publish(ctx context.Context, w *manifest.Writer) error {
	m.step("publishing", 0, 0)
	if err := w.Finish(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	base := uint64(0)
	if m.report.Kept > 0 {
		base = m.base.version
	}
	if err := m.draft.publish(ctx, m.report.Bytes, base); err != nil {
		return err
	}
	m.report.Version, m.report.Published = m.base.next, true
	return nil
}

// unchanged says that the last version is still the right one.
func (m *maker) unchanged(bytes int64) {
	m.report.Version, m.report.Kept, m.report.Bytes = m.base.version, int64(m.base.last.Len()), bytes
	m.report.Samples = m.report.Kept
}
