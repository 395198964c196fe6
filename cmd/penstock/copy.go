package main

import (
	"context"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

func (p *program) copyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp BUCKET/KEY BUCKET/KEY",
		Short: "Copy an object, or with -r many, inside the node",
		Long: `Copy an object inside the node. With -r, copy all objects under BUCKET[/PREFIX]/ to
another BUCKET[/PREFIX]/; those that are there with the same size and CRC-32 are left
alone.`,
		Args: wants(2, 2),
	}
	var cond penstock.Condition
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	conditionFlags(cmd, &cond)
	trees := p.treeFlags(cmd, "copy all objects under a prefix", "if-match", "if-none-match")
	trees.asJSON = asJSON
	trees.forceFlag(cmd, "with -r: copy also what has not changed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := trees.check(cmd); err != nil {
			return err
		}
		if trees.recursive {
			return p.copyTree(cmd.Context(), conn, trees, args[0], args[1])
		}
		from, err := objectName(args[0])
		if err != nil {
			return err
		}
		to, err := objectName(args[1])
		if err != nil {
			return err
		}
		if err := writable(penstock.PutOptions{Condition: cond}); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		info, err := client.Copy(cmd.Context(), to, from, cond)
		if err != nil || !*asJSON {
			return err
		}
		return p.printJSON(describe(info))
	}
	return cmd
}

// copyTree copies what is under a prefix.
func (p *program) copyTree(ctx context.Context, conn *connection, f *treeFlags, fromArg, toArg string) error {
	from, err := placeName(fromArg)
	if err != nil {
		return err
	}
	to, err := placeName(toArg)
	if err != nil {
		return err
	}
	client, err := conn.client()
	if err != nil {
		return err
	}
	return p.runTree(ctx, f, "copied", func(o tree.Options) (tree.Report, error) {
		return tree.Copy(ctx, client, to, from, o)
	})
}
