package bench

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// pass is one stretch of a load on one target: until a time, a number of objects,
// or the end of the context.
type pass struct {
	work   Workload // with defaults
	conns  []Conn   // one for each worker
	from   int64    // the position in the sequence to begin at
	length time.Duration
	count  int64
	fatal  bool // the first error ends it

	start     time.Time
	next      atomic.Int64 // objects given out as tickets; may run beyond the last one
	failed    atomic.Bool
	recorders []recorder
}

// ticket is the next request.
type ticket struct {
	position int64
	n        int       // objects
	due      time.Time // zero in a closed loop
	late     bool      // it was due before a worker was free
}

var errOverdue = errors.New("not answered in time after the end of the measurement")

// run lets the workers work and waits for them. watch, if not nil, is called once
// a second.
func (p *pass) run(ctx context.Context, watch func()) (*tally, time.Duration) {
	p.start = time.Now()
	p.recorders = make([]recorder, len(p.conns))
	requests := ctx
	if p.length > 0 {
		var cancel context.CancelFunc
		requests, cancel = context.WithDeadlineCause(ctx, p.start.Add(p.length+p.work.Grace), errOverdue)
		defer cancel()
	}
	done := make(chan struct{})
	var workers, watcher sync.WaitGroup
	for i, conn := range p.conns {
		workers.Go(func() { p.worker(ctx, requests, conn, &p.recorders[i]) })
	}
	if watch != nil {
		watcher.Go(func() { every(time.Second, done, watch) })
	}
	workers.Wait()
	elapsed := time.Since(p.start)
	close(done)
	watcher.Wait()
	t := p.sum()
	t.unsent = p.unsent(ctx, elapsed)
	return t, elapsed
}

// every calls f at intervals until done.
func every(interval time.Duration, done <-chan struct{}, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-done:
			return
		}
	}
}

// worker makes one request after the other.
func (p *pass) worker(ctx, requests context.Context, conn Conn, rec *recorder) {
	w := newWorker(&p.work, conn)
	failures := 0
	for {
		t, ok := p.take()
		if !ok || ctx.Err() != nil {
			return
		}
		w.prepare(t)
		begin := time.Now()
		if !t.due.IsZero() {
			// The time a request waits for a worker is time its caller waits.
			begin = t.due
			if wait(ctx, time.Until(t.due)) != nil {
				return
			}
		}
		one := w.do(requests)
		one.time, one.late = time.Since(begin), t.late
		if ctx.Err() != nil && len(one.failed) > 0 {
			return // it was broken off, it did not fail
		}
		rec.add(one)
		if len(one.failed) == 0 {
			failures = 0
			continue
		}
		if p.fatal {
			p.failed.Store(true)
		}
		failures++
		if t.due.IsZero() && wait(ctx, pause(failures)) != nil {
			return
		}
	}
}

// pause keeps a closed loop from turning into a storm when a target refuses
// everything at once.
func pause(failures int) time.Duration {
	return min(5*time.Millisecond<<min(failures, 10), time.Second)
}

// take returns the next request, or false if there is none any more.
func (p *pass) take() (ticket, bool) {
	now, end := time.Now(), p.start.Add(p.length)
	if p.failed.Load() || (p.length > 0 && !now.Before(end)) {
		return ticket{}, false
	}
	n := int64(p.work.Batch)
	first := p.next.Add(n) - n
	if p.count > 0 {
		if n = min(n, p.count-first); n <= 0 {
			return ticket{}, false
		}
	}
	t := ticket{position: p.from + first, n: int(n)}
	if p.work.Rate > 0 {
		t.due = p.start.Add(time.Duration(float64(first) / p.work.Rate * float64(time.Second)))
		t.late = t.due.Before(now)
		if p.length > 0 && !t.due.Before(end) {
			return ticket{}, false
		}
	}
	return t, true
}

// taken returns how many objects of the sequence are used up.
func (p *pass) taken() int64 {
	if p.count > 0 {
		return min(p.next.Load(), p.count)
	}
	return p.next.Load()
}

// unsent returns how many objects an open loop was to ask for and did not.
func (p *pass) unsent(ctx context.Context, elapsed time.Duration) int64 {
	if p.work.Rate == 0 {
		return 0
	}
	if p.length > 0 && ctx.Err() == nil {
		elapsed = p.length
	}
	due := int64(math.Ceil(min(elapsed.Seconds()*p.work.Rate, math.MaxInt64/2)))
	if batch := int64(p.work.Batch); due%batch != 0 {
		due += batch - due%batch
	}
	if p.count > 0 {
		due = min(due, p.count)
	}
	var asked int64
	for i := range p.recorders {
		t := &p.recorders[i].total
		asked += t.objects + t.errors
	}
	return max(0, due-asked)
}

// sum returns what all workers have counted so far.
func (p *pass) sum() *tally {
	t := new(tally)
	for i := range p.recorders {
		p.recorders[i].addTo(t)
	}
	return t
}

// progress says how far the pass is, and how fast it was since last.
func (p *pass) progress(last Progress) Progress {
	t, elapsed := p.sum(), time.Since(p.start)
	now := last
	now.Elapsed, now.Objects, now.Bytes, now.Errors = elapsed, t.objects, t.bytes, t.errors
	now.P99 = t.all().quantile(0.99)
	if span := (elapsed - last.Elapsed).Seconds(); span > 0 {
		now.ObjectsPerSecond = float64(t.objects-last.Objects) / span
		now.BytesPerSecond = float64(t.bytes-last.Bytes) / span
	}
	now.Left = -1
	if p.count > 0 && t.objects > 0 {
		now.Left = time.Duration(float64(elapsed) / float64(t.objects) * float64(max(0, p.count-t.objects-t.errors)))
	}
	if p.length > 0 && (now.Left < 0 || p.length-elapsed < now.Left) {
		now.Left = max(0, p.length-elapsed)
	}
	return now
}

// wait returns after a time, or with an error when the context ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
