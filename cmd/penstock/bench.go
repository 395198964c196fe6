package main

import (
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/bench"
)

func (p *program) benchCommand() *cobra.Command {
	return group(&cobra.Command{Use: "bench", Short: "Measure a node, beside other servers"}, p.benchLoadCommand())
}

func (p *program) benchLoadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Put a load on a node and measure it",
		Long: `Put a load on a node and measure objects and bytes per second, latencies, errors
and processor time. Keys, sizes and bytes follow from --seed, --prefix, --keys and
--size alone, so that what one run stored another one can read and verify.

With --existing, read what is there instead: each object under --prefix once, in
random order, verified against its size and, with --verify, its CRC-32. A reference
files:DIR is then the directory that was given to 'penstock put -r'.

Machines are noisy: --also lets references do the same work in turn, and shows the
median of the ratios of each round. A reference is written

  redis:ADDRESS           MGET for batches
  http:URL                such as nginx; dir=DIR says where --fill stores its files
  files:DIR               no server at all: open, read, close; fsync for durable writes
  penstock:URL/BUCKET     another node
  json:URL/BUCKET         a node whose batches are asked for in JSON

and after it, if wanted, ,pid=PID (of the server, with its children; may be repeated)
and ,name=NAME. Results go to standard output, the live view to standard error.
Exits with 1 if any object failed.`,
		Example: `  penstock bench load --op batch --bucket photos --fill --size 16KiB --keys 10000 \
    --server-pid 4711 --also redis:127.0.0.1:6379,pid=4712 --rounds 5
  penstock put -r train photos/train
  penstock bench load --op batch --bucket photos --existing --prefix train --also files:train`,
		Args: wants(0, 0),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	load, targets := loadFlags(cmd), targetFlags(cmd)
	existing, members := existingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		opts, err := load()
		if err != nil {
			return err
		}
		if opts.Targets, err = targets.open(conn); err != nil {
			return err
		}
		defer closeTargets(opts.Targets)
		if *existing {
			if err := useExisting(cmd.Context(), cmd, &opts, *members); err != nil {
				return err
			}
		} else if *members {
			return usagef("--members goes with --existing only")
		}
		if err := opts.Validate(); err != nil {
			return &usageError{err}
		}
		view := newLoadView(p.err)
		opts.Watch = view.update
		report, err := bench.Run(cmd.Context(), opts)
		view.clear()
		if err != nil {
			return err
		}
		if *asJSON {
			err = p.printJSON(report)
		} else {
			err = printReport(p.out, report)
		}
		if err == nil && report.Errors() > 0 {
			printLoadErrors(p.err, report)
			err = errReported
		}
		return err
	}
	return cmd
}

// loadFlags adds the flags that describe the load, and returns what reads them.
func loadFlags(cmd *cobra.Command) func() (bench.Options, error) {
	opts := &bench.Options{}
	w, flags := &opts.Workload, cmd.Flags()
	op := choice{"get", []string{"get", "put", "batch", "put-batch", "mixed"}}
	pattern := choice{"epoch", []string{"epoch", "random", "sequential"}}
	w.Sizes, _ = bench.Fixed(4 << 10) // in range
	flags.Var(&op, "op", "what requests do")
	flags.StringVar(&w.Prefix, "prefix", "bench/", "`TEXT` that all keys begin with")
	flags.Var((*sizes)(&w.Sizes), "size", "size of objects: 4KiB, uniform:1KiB-1MiB, or lognormal:100KiB,1.0 (mean and sigma)")
	flags.Int64Var(&w.Keys, "keys", 1000, "`N` different objects")
	flags.Var(&pattern, "pattern", "order of keys; epoch: each once, in random order")
	flags.IntVar(&w.Workers, "workers", 8, "`N` requests at once")
	flags.IntVar(&w.Batch, "batch", 256, "`N` objects in a request of batch and put-batch")
	flags.Float64Var(&w.Writes, "put-share", 0.1, "`SHARE` of PUTs in mixed, 0 to 1")
	flags.DurationVar(&w.Duration, "duration", 0, "`TIME` to measure, for each target and round (default 10s without --count)")
	flags.Int64Var(&w.Count, "count", 0, "`N` objects to ask for, for each target and round")
	flags.Float64Var(&w.Rate, "rate", 0, "`N` objects a second, in an open loop; 0: the next when the last is answered")
	flags.DurationVar(&w.Warmup, "warmup", 0, "`TIME` of the same load before each measurement")
	flags.BoolVar(&w.Verify, "verify", false, "compare every byte that is read")
	flags.Uint64Var(&w.Seed, "seed", 1, "`N` that keys' order, sizes and bytes follow from")
	flags.BoolVar(&opts.Fill, "fill", false, "store all keys in all targets first")
	flags.IntVar(&opts.Rounds, "rounds", 1, "`N` turns for each target")
	return func() (bench.Options, error) {
		for _, name := range []string{"keys", "workers", "batch", "rounds"} {
			// Zero would mean the default.
			if text := flags.Lookup(name).Value.String(); text == "0" {
				return *opts, usagef("--%s 0: want 1 or more", name)
			}
		}
		w.Op, w.Pattern = bench.Op(op.value), bench.Pattern(pattern.value)
		if w.Duration == 0 && w.Count == 0 {
			w.Duration = 10 * time.Second
		}
		return *opts, nil
	}
}

func closeTargets(targets []bench.Target) {
	for _, t := range targets {
		t.Driver.Close()
		if t.Filler != nil {
			t.Filler.Close()
		}
	}
}
