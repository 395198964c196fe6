package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm NAME[@VERSION]",
		Short: "Remove a version of a dataset, or all of it",
		Long: `Remove a version of a dataset and those of its shards that no other version has. All
versions are removed with --force. Shards that were taken as they were found stay. The
number of a version is never used again.`,
		Args: wants(1, 1),
	}
	conn := p.connectFlags(cmd)
	force := cmd.Flags().Bool("force", false, "remove all versions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, version, err := datasetName(args[0])
		if err != nil {
			return err
		}
		if version == 0 && !*force {
			return usagef("%s is a whole dataset: name a version, %s@1, or say --force to remove all of them", name, name)
		}
		place, err := conn.place(cmd.Context(), name)
		if err != nil {
			return err
		}
		if err := dataset.Remove(cmd.Context(), place, version); err != nil {
			return err
		}
		what := name
		if version != 0 {
			what = fmt.Sprintf("%s@%d", name, version)
		}
		_, err = fmt.Fprintf(p.out, "removed %s\n", what)
		return err
	}
	return cmd
}
