package tree

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock"
)

// tick is the time between two calls of Progress.
const tick = 200 * time.Millisecond

// tally is one run of an act: what it has done so far, whom it tells, and whether
// it should go on.
type tally struct {
	client *penstock.Client
	opts   Options
	begun  time.Time
	stop   context.CancelCauseFunc

	files, bytes, unchanged, unchangedBytes, skipped, failed atomic.Int64

	moving atomic.Int64 // bytes of large files that are on their way

	totalFiles, totalBytes atomic.Int64
	counted                atomic.Bool

	telling sync.Mutex // held during Problem and Progress
}

// act runs work, and beside it tells of its progress and counts what there is to
// do. It returns when all of that has ended.
func act(ctx context.Context, client *penstock.Client, opts Options, work func(context.Context, *tally) error, count func(context.Context, *tally) error) (Report, error) {
	if opts.Patience == 0 {
		opts.Patience = 30 * time.Second
	}
	if opts.CountAfter == 0 {
		opts.CountAfter = 3 * time.Second
	}
	ctx, stop := context.WithCancelCause(ctx)
	t := &tally{client: client, opts: opts, begun: time.Now(), stop: stop}
	beside, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if opts.Progress != nil {
		watching.Go(func() { t.watch(beside, count) })
	}
	err := work(ctx, t)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what came of it says less
	}
	end()
	watching.Wait()
	stop(nil)
	return t.report(), err
}

// watch tells of the progress until the context ends.
func (t *tally) watch(ctx context.Context, count func(context.Context, *tally) error) {
	var counting sync.WaitGroup
	defer counting.Wait()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if count != nil && time.Since(t.begun) >= t.opts.CountAfter {
			counter := count
			count = nil
			counting.Go(func() {
				// What cannot be counted has no total; the work itself will say why.
				if counter(ctx, t) == nil && ctx.Err() == nil {
					t.counted.Store(true)
				}
			})
		}
		t.telling.Lock()
		t.opts.Progress(t.state())
		t.telling.Unlock()
	}
}

func (t *tally) report() Report {
	return Report{
		Files: t.files.Load(), Bytes: t.bytes.Load(), Unchanged: t.unchanged.Load(),
		Skipped: t.skipped.Load(), Failed: t.failed.Load(), Elapsed: time.Since(t.begun),
	}
}

func (t *tally) state() State {
	s := State{Report: t.report(), UnchangedBytes: t.unchangedBytes.Load()}
	s.Bytes += t.moving.Load()
	if t.counted.Load() {
		s.TotalFiles, s.TotalBytes = t.totalFiles.Load(), t.totalBytes.Load()
	}
	return s
}

// done counts a file that was moved.
func (t *tally) done(size int64) {
	t.files.Add(1)
	t.bytes.Add(size)
}

// same counts a file that did not have to be.
func (t *tally) same(size int64) {
	t.unchanged.Add(1)
	t.unchangedBytes.Add(size)
}

// count counts a file that there is to look at.
func (t *tally) count(size int64) {
	t.totalFiles.Add(1)
	t.totalBytes.Add(size)
}

// fail names a file that was not moved. What breaks off because the run is being
// stopped has not failed.
func (t *tally) fail(ctx context.Context, path string, err error) {
	if ctx.Err() != nil && penstock.Is(err, penstock.Canceled) {
		return
	}
	t.failed.Add(1)
	t.tell(Problem{Path: path, Err: err})
}

// skip names a file that is not meant to be moved.
func (t *tally) skip(path string, why error) {
	t.skipped.Add(1)
	t.tell(Problem{Path: path, Err: why, Skipped: true})
}

func (t *tally) tell(p Problem) {
	if t.opts.Problem == nil {
		return
	}
	t.telling.Lock()
	defer t.telling.Unlock()
	t.opts.Problem(p)
}

// try makes a request. If it finds no node, try waits for the node to come back
// and makes it once more; if none comes, the whole run is stopped: everything
// else would fail in the same way.
func (t *tally) try(ctx context.Context, request func() error) error {
	err := request()
	if !penstock.Is(err, penstock.Unavailable) || ctx.Err() != nil {
		return err
	}
	if !t.await(ctx) {
		t.stop(err)
		return err
	}
	return request()
}

// await waits until the node is ready, as long as patience lasts.
func (t *tally) await(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.opts.Patience)
	defer cancel()
	return t.client.Await(ctx) == nil
}

// orElse returns n, or what stands for zero.
func orElse(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}
