package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

func (p *program) removeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm BUCKET/KEY...", Short: "Delete objects", Args: wants(1, -1)}
	var cond penstock.Condition
	conn := p.connectFlags(cmd)
	cmd.Flags().StringVar(&cond.IfMatch, "if-match", "", "only if the object has this `ETAG`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
