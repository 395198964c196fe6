package dataset

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/object"
)

// tick is the time between two calls of Progress.
const tick = 200 * time.Millisecond

// run is one making of a version: what it was asked for, how far it is, whom it
// tells.
type run struct {
	opts  Options
	begun time.Time
	stop  context.CancelCauseFunc
	owned func(path string) bool // what of the origin is the dataset itself; may be nil

	listed, samples, bytes, totalSamples, totalBytes atomic.Int64
	problems, skipped                                atomic.Int64

	doing   atomic.Pointer[string]
	telling sync.Mutex // held during Problem and Progress
}

func newRun(opts Options, stop context.CancelCauseFunc) *run {
	if opts.ShardSize == 0 {
		opts.ShardSize = 64 << 20
	}
	if opts.ChunkSize == 0 {
		opts.ChunkSize = 4 << 20
	}
	if opts.now == nil {
		opts.now = time.Now
	}
	r := &run{opts: opts, begun: opts.now(), stop: stop}
	r.step("listing", 0, 0)
	return r
}

// workers is how many do the same thing at a time. Some wait for disks while others
// work.
func (r *run) workers() int {
	if r.opts.Workers > 0 {
		return r.opts.Workers
	}
	return min(4*runtime.GOMAXPROCS(0), 32)
}

// step begins to count anew.
func (r *run) step(doing string, samples, bytes int64) {
	r.samples.Store(0)
	r.bytes.Store(0)
	r.totalSamples.Store(samples)
	r.totalBytes.Store(bytes)
	r.doing.Store(&doing)
}

// done counts a sample.
func (r *run) done(bytes int64) {
	r.samples.Add(1)
	r.bytes.Add(bytes)
}

// watch tells of the progress until the context ends.
func (r *run) watch(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		r.telling.Lock()
		r.opts.Progress(State{
			Doing: *r.doing.Load(), Files: r.listed.Load(), Samples: r.samples.Load(), Bytes: r.bytes.Load(),
			TotalSamples: r.totalSamples.Load(), TotalBytes: r.totalBytes.Load(), Elapsed: time.Since(r.begun),
		})
		r.telling.Unlock()
	}
}

// problem names a file that cannot be part of the dataset.
func (r *run) problem(path string, err error) {
	r.problems.Add(1)
	r.tell(Problem{Path: path, Err: err})
}

// skip names a file that is not meant to be.
func (r *run) skip(path string, why error) {
	r.skipped.Add(1)
	r.tell(Problem{Path: path, Err: why, Skipped: true})
}

func (r *run) tell(p Problem) {
	if r.opts.Problem == nil {
		return
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.opts.Problem(p)
}

// own reports whether something of the origin is left alone because it is the dataset
// itself.
func (r *run) own(path string) bool { return r.owned != nil && r.owned(path) }

// check ends the run if there are problems and they are not to be skipped.
func (r *run) check() error {
	if n := r.problems.Load(); n > 0 && !r.opts.Skip {
		return object.Errorf(object.Invalid, "%d files cannot be part of the dataset, and nothing was published", n)
	}
	return nil
}

// badSample names a file whose sample is left out, or ends the run. That a node is
// away says nothing about a file.
func (r *run) badSample(path string, err error) {
	if object.Is(err, object.Unavailable) || object.Is(err, object.Busy) || object.Is(err, object.Canceled) {
		r.stop(err)
		return
	}
	r.problem(path, err)
	if !r.opts.Skip {
		r.stop(r.check())
	}
}
