package main

import (
	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

func (p *program) copyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp BUCKET/KEY BUCKET/KEY",
		Short: "Copy an object inside the node",
		Args:  wants(2, 2),
	}
	var cond penstock.Condition
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	conditionFlags(cmd, &cond)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
