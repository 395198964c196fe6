// Package bench puts a load on something that stores objects and measures what
// comes of it: objects and bytes per second, latencies, errors, processor time of
// the client and of the servers.
//
// A Workload says what is asked for: it is a pure function from a seed and a
// position to a key, its size and its bytes, so that reading can be verified
// without anything being remembered. Or it is given objects that exist, with their
// sizes and checksums. A Driver says of whom: a Penstock node, a
// plain HTTP server, Redis, or a directory of files. Run lets several targets do
// the same work in turn, in rounds, because on a machine with other work going on
// only what ran in the same minutes can be compared.
//
// One pass is a number of workers, each with a connection of its own. They take
// tickets from one counter; a ticket is the next request and, in an open loop, the
// moment it is due. Nothing is queued: a request that finds no free worker is late,
// its latency counts from when it was due, and those that were due but never sent
// are counted too. Each worker records into its own histogram, which are merged
// when somebody looks.
//
// The package prints nothing and knows no flags. Run may be called concurrently,
// on different targets.
package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Target is one of the things that are measured.
type Target struct {
	Name   string // what the report calls it
	Driver Driver
	Filler Driver // stores the objects before the measurement; nil: Driver does
	PIDs   []int  // the processes whose processor time counts as the server's, with their children
}

// Options say what Run measures. Workload and at least one target are needed.
type Options struct {
	Workload Workload
	Targets  []Target // the first one is compared with each of the others
	Rounds   int      // how often every target has its turn, 1 if zero
	Fill     bool     // store all keys in all targets first

	// Watch, if not nil, is called about once a second, never concurrently.
	Watch func(Progress)
}

// Validate reports as Invalid what cannot be measured.
func (o Options) Validate() error {
	if err := o.Workload.Validate(); err != nil {
		return err
	}
	if len(o.Targets) == 0 {
		return object.Errorf(object.Invalid, "there is nothing to measure")
	}
	if o.Rounds < 0 || o.Rounds > 1000 {
		return object.Errorf(object.Invalid, "%d rounds are not between 1 and 1000", o.Rounds)
	}
	if o.Fill {
		if o.Workload.Existing != nil {
			return object.Errorf(object.Invalid, "existing objects are only read: there is nothing to fill")
		}
		if err := filling(o.Workload.withDefaults()).checkMemory(); err != nil {
			return err
		}
	}
	names := map[string]bool{}
	for _, t := range o.Targets {
		if names[t.Name] {
			return object.Errorf(object.Invalid, "two targets are called %s", t.Name)
		}
		names[t.Name] = true
	}
	return nil
}

// Run measures all targets. It fails if a target cannot be reached or filled at
// all; errors of single requests are counted in the report. When the context ends
// it returns what was measured so far. It closes no driver.
func Run(ctx context.Context, opts Options) (Report, error) {
	if err := opts.Validate(); err != nil {
		return Report{}, err
	}
	opts.Rounds = max(opts.Rounds, 1)
	opts.Workload = opts.Workload.withDefaults()
	r := &runner{opts: opts, results: make([][]Result, len(opts.Targets)), position: make([]int64, len(opts.Targets))}
	if err := r.run(ctx); err != nil && ctx.Err() == nil {
		return Report{}, err
	}
	return r.report(ctx.Err() != nil), nil
}

// runner is one Run.
type runner struct {
	opts     Options
	conns    [][]Conn // of each target
	results  [][]Result
	position []int64 // where in its sequence each target goes on in the next round
}

func (r *runner) run(ctx context.Context) error {
	defer r.hangUp()
	for i := range r.opts.Targets {
		target := &r.opts.Targets[i]
		if r.opts.Fill {
			if err := r.fill(ctx, target); err != nil {
				return r.about(target, fmt.Errorf("filling: %w", err))
			}
		}
		conns, err := connect(ctx, target.Driver, r.opts.Workload.Workers)
		r.conns = append(r.conns, conns)
		if err != nil {
			return r.about(target, err)
		}
	}
	for round := range r.opts.Rounds {
		for i := range r.opts.Targets {
			// Who comes first has the warmer or the colder machine: let it change.
			if err := r.turn(ctx, round, (i+round)%len(r.opts.Targets)); err != nil {
				return err
			}
		}
	}
	return nil
}

// about says of which target an error is, where there are several.
func (r *runner) about(target *Target, err error) error {
	if len(r.opts.Targets) == 1 {
		return err
	}
	return fmt.Errorf("%s: %w", target.Name, err)
}

// turn lets one target warm up and measures it.
func (r *runner) turn(ctx context.Context, round, which int) error {
	target, work := &r.opts.Targets[which], r.opts.Workload
	if work.Warmup > 0 {
		// From far away in the sequence, so that the measurement still begins a fresh
		// epoch.
		warm := &pass{work: work, conns: r.conns[which], from: warmupPosition, length: work.Warmup}
		warm.run(ctx, r.watcher(warm, target, "warm-up", round))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p := &pass{work: work, conns: r.conns[which], from: r.position[which], length: work.Duration, count: work.Count}
	client, server := startMeter(selfPID()), startMeter(target.PIDs...)
	t, elapsed := p.run(ctx, r.watcher(p, target, "measuring", round))
	result := newResult(work, t, elapsed)
	result.ClientCPU, result.ServerCPU = client.stop(), server.stop()
	result.settle()
	r.results[which] = append(r.results[which], result)
	r.position[which] = p.from + p.taken()
	return ctx.Err()
}

// warmupPosition is where warming up begins: beyond what a measurement reaches.
const warmupPosition = 1 << 60

// fill stores every key once.
func (r *runner) fill(ctx context.Context, target *Target) error {
	driver, work := target.Driver, filling(r.opts.Workload)
	if target.Filler != nil {
		driver = target.Filler
	}
	conns, err := connect(ctx, driver, work.Workers)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	p := &pass{work: work, conns: conns, count: work.Keys, fatal: true}
	t, _ := p.run(ctx, r.watcher(p, target, "filling", 0))
	if t.errors > 0 {
		return t.first
	}
	return ctx.Err()
}

// filling returns the load that stores what another one reads.
func filling(work Workload) Workload {
	work.Op, work.Pattern, work.Rate = PutBatch, Sequential, 0
	work.Batch = int(min(256, max(1, fillBytes/max(1, work.Sizes.Mean()))))
	return work.withDefaults()
}

// fillBytes is about how much one request of a filling brings.
const fillBytes = 4 << 20

// watcher returns what a pass calls now and then, nil if nobody watches.
func (r *runner) watcher(p *pass, target *Target, phase string, round int) func() {
	if r.opts.Watch == nil {
		return nil
	}
	last := Progress{Target: target.Name, Phase: phase, Round: round + 1, Rounds: r.opts.Rounds, Targets: len(r.opts.Targets)}
	return func() {
		last = p.progress(last)
		r.opts.Watch(last)
	}
}

func (r *runner) hangUp() {
	for _, conns := range r.conns {
		closeAll(conns)
	}
}

// connect opens a connection for each worker. What is returned with an error is
// to be closed all the same.
func connect(ctx context.Context, driver Driver, n int) ([]Conn, error) {
	conns := make([]Conn, 0, n)
	for range n {
		conn, err := driver.Connect(ctx)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func closeAll(conns []Conn) {
	for _, conn := range conns {
		_ = conn.Close() // nothing was written that a close could lose
	}
}

// Progress is how far a Run is.
type Progress struct {
	Target  string
	Targets int
	Phase   string // filling, warm-up or measuring
	Round   int    // from 1
	Rounds  int

	Elapsed time.Duration // since the phase began
	Left    time.Duration // about how long the phase goes on; negative if unknown
	Objects int64
	Bytes   int64
	Errors  int64
	P99     time.Duration // since the phase began

	ObjectsPerSecond float64 // since the last Progress
	BytesPerSecond   float64
}

// report makes a report of what there is.
func (r *runner) report(interrupted bool) Report {
	rep := Report{Workload: r.opts.Workload, Interrupted: interrupted}
	for i, target := range r.opts.Targets {
		rep.Targets = append(rep.Targets, TargetReport{Name: target.Name, Total: merge(r.opts.Workload, r.results[i]), Rounds: slices.Clip(r.results[i])})
	}
	for _, reference := range rep.Targets[1:] {
		rep.Ratios = append(rep.Ratios, ratio(rep.Targets[0], reference))
	}
	return rep
}
