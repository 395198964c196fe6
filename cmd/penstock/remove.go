package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

func (p *program) removeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm BUCKET/KEY...",
		Short: "Delete objects",
		Long: `Delete objects. With -r, delete all objects under BUCKET/PREFIX/, without asking;
all of a BUCKET only with --force. The bucket itself stays.`,
		Args: wants(1, -1),
	}
	var cond penstock.Condition
	conn := p.connectFlags(cmd)
	cmd.Flags().StringVar(&cond.IfMatch, "if-match", "", "only if the object has this `ETAG`")
	trees := p.treeFlags(cmd, "delete all objects under a prefix", "if-match")
	trees.forceFlag(cmd, "with -r: delete also all objects of a whole bucket")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := trees.check(cmd); err != nil {
			return err
		}
		if trees.recursive {
			return p.removeTrees(cmd.Context(), conn, trees, args)
		}
		var names []penstock.Name
		for _, arg := range args {
			name, err := objectName(arg)
			if err != nil {
				return err // before anything is gone
			}
			names = append(names, name)
		}
		if err := writable(penstock.PutOptions{Condition: cond}); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		var failed error
		for _, name := range names {
			if err := client.Delete(cmd.Context(), name, cond); err != nil {
				if len(names) == 1 {
					return err
				}
				fmt.Fprintf(p.err, "penstock: %s\n", oneLine(err))
				failed = errReported
			}
		}
		return failed
	}
	return cmd
}

// removeTrees deletes what is under some prefixes.
func (p *program) removeTrees(ctx context.Context, conn *connection, f *treeFlags, args []string) error {
	var places []tree.Place
	for _, arg := range args {
		place, err := placeName(arg)
		if err != nil {
			return err
		}
		if place.Prefix == "" && !f.opts.Force {
			return usagef("%s is a whole bucket: say --force to delete all objects in it", arg)
		}
		places = append(places, place)
	}
	client, err := conn.client()
	if err != nil {
		return err
	}
	return p.runTree(ctx, f, "deleted", func(o tree.Options) (sum tree.Report, err error) {
		for _, place := range places {
			report, err := tree.Remove(ctx, client, place.Bucket, place.Prefix, o)
			sum.Files += report.Files
			sum.Bytes += report.Bytes
			sum.Failed += report.Failed
			sum.Elapsed += report.Elapsed
			if err != nil {
				return sum, err
			}
		}
		return sum, nil
	})
}
