package main

import (
	"context"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/bench"
	"penstock.dev/penstock/internal/tree"
)

// existingFlags add --existing, to read what a bucket holds already, and --members.
func existingFlags(cmd *cobra.Command) (existing, members *bool) {
	return cmd.Flags().Bool("existing", false, "read the objects that the bucket has under --prefix, by default one epoch of all"),
		cmd.Flags().Bool("members", false, "with --existing: they are tars; read the files in them, in batches")
}

// useExisting has a load read what the first target's bucket holds. Targets that
// are directories hold the same below them: `put -r` was given one and --prefix.
func useExisting(ctx context.Context, cmd *cobra.Command, opts *bench.Options, members bool) error {
	for _, name := range []string{"keys", "size", "fill"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s does not go with --existing", name)
		}
	}
	work := &opts.Workload
	if !cmd.Flags().Changed("prefix") {
		work.Prefix = ""
	}
	work.Prefix = tree.Directory(work.Prefix)
	if members && work.Op != bench.Batch {
		return usagef("--members are read in batches: it goes with --op batch only")
	}
	var first *bench.Penstock
	switch driver := opts.Targets[0].Driver.(type) {
	case *bench.Penstock:
		first = driver
	case *bench.JSON:
		first = &driver.Penstock
	default:
		return usagef("--existing lists a bucket: it goes with --driver penstock or json only")
	}
	for _, target := range opts.Targets {
		switch driver := target.Driver.(type) {
		case *bench.Penstock:
			driver.Members = members
		case *bench.JSON:
			driver.Members = members
		case *bench.Files:
			driver.Prefix = work.Prefix
		case *bench.HTTP:
			driver.Prefix = work.Prefix
		}
	}
	var err error
	if work.Existing, err = bench.List(ctx, first.Client, first.Bucket, work.Prefix, members); err != nil {
		return err
	}
	if !cmd.Flags().Changed("duration") && work.Count == 0 {
		work.Duration, work.Count = 0, work.Existing.Len()
	}
	return nil
}
