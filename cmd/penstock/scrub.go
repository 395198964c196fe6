package main

import (
	"encoding/json"
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
finds. Exits with 1 if there is any. The scrub stops when this command does.

The last line is the sum. With --json every line is a JSON object: {"finding": ...}
for each damage, {"report": ...} at the end; without a report the scrub did not end.`,
		Args: wants(0, 0),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := conn.client()
		if err != nil {
			return err
		}
		bar := newProgress(p.err)
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
				if err := p.printScrub(event, *asJSON); err != nil {
					return err
				}
			case event.Report != nil:
				bar.clear()
				if err := p.printScrub(event, *asJSON); err != nil {
					return err
				}
			}
		}
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

// printScrub prints a finding or the report on a line of its own.
func (p *program) printScrub(event penstock.ScrubEvent, asJSON bool) error {
	switch {
	case asJSON:
		line := json.NewEncoder(p.out)
		line.SetEscapeHTML(false)
		return line.Encode(event)
	case event.Finding != nil:
		_, err := fmt.Fprintln(p.out, damage(*event.Finding))
		return err
	}
	r := event.Report
	_, err := fmt.Fprintf(p.out, "scrubbed %d records and %d blobs, %s: %s\n", r.Records, r.Blobs, formatSize(r.Bytes), findingCount(int(r.Findings)))
	return err
}

// damage says what was found, in one line.
func damage(f penstock.ScrubFinding) string {
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
	return b.String()
}
