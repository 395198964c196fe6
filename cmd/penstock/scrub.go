package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

func (p *program) scrubCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scrub",
		Short: "Have the node read and check everything it stores",
		Long: `Have the node read and check everything it stores, and print every damage it
finds. Exits with 1 if there is any. The scrub stops when this command does.`,
		Args: wants(0, 0),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := conn.client()
		if err != nil {
			return err
		}
		bar, list := newProgress(p.err), &jsonArray{w: p.out}
		var report penstock.ScrubReport
		findings := 0
		for event, err := range client.Scrub(cmd.Context()) {
			switch {
			case err != nil:
				bar.clear()
				return err
			case event.Progress != nil:
				bar.update(event.Progress.Bytes, event.Progress.TotalBytes, findingCount(findings))
			case event.Finding != nil:
				findings++
				bar.clear()
				if err := p.printDamage(*event.Finding, list, *asJSON); err != nil {
					return err
				}
			case event.Report != nil:
				report = *event.Report
			}
		}
		bar.clear()
		if *asJSON {
			if err := list.end(); err != nil {
				return err
			}
		}
		fmt.Fprintf(p.err, "scrubbed %d records and %d blobs, %s: %s\n", report.Records, report.Blobs, formatSize(report.Bytes), findingCount(findings))
		if findings > 0 {
			return errReported
		}
		return nil
	}
	return cmd
}

// findingCount says how many there are.
func findingCount(n int) string {
	switch n {
	case 0:
		return "no damage"
	case 1:
		return "1 finding"
	}
	return fmt.Sprintf("%d findings", n)
}

// printDamage prints one finding on a line of its own.
func (p *program) printDamage(f penstock.ScrubFinding, list *jsonArray, asJSON bool) error {
	if asJSON {
		return list.add(f)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  disk %s", f.Kind, f.Disk)
	if f.File != "" {
		fmt.Fprintf(&b, "  %s at %d", f.File, f.Offset)
	}
	if f.Name != "" {
		fmt.Fprintf(&b, "  %s", quoted(f.Name))
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, ": %s", quoted(f.Detail))
	}
	_, err := fmt.Fprintln(p.out, b.String())
	return err
}
