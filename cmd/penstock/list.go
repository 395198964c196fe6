package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

func (p *program) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [BUCKET[/PREFIX]]",
		Short: "List objects, or buckets",
		Long: `List the objects of a bucket whose keys begin with PREFIX; without an argument,
list the buckets. Keys that go on behind a slash are folded into one line; -r lists
them all. Keys that a terminal could not show are quoted; --json has them exactly.`,
		Args: wants(0, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	recursive := cmd.Flags().BoolP("recursive", "r", false, "do not fold keys at slashes")
	limit := cmd.Flags().Int("limit", 0, "stop after so many `LINES`; 0 means all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 0 {
			return usagef("--limit %d is negative", *limit)
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return p.listBuckets(cmd, client, *asJSON)
		}
		bucket, prefix, _ := strings.Cut(args[0], "/")
		if err := bucketName(bucket); err != nil {
			return err
		}
		opts := penstock.ListOptions{Prefix: prefix, Delimiter: "/", Limit: *limit}
		if *recursive {
			opts.Delimiter = ""
		}
		return p.listObjects(client.List(cmd.Context(), bucket, opts), *asJSON)
	}
	return cmd
}

// listObjects prints a listing as it comes.
func (p *program) listObjects(entries iter.Seq2[penstock.Entry, error], asJSON bool) error {
	w := bufio.NewWriter(p.out)
	defer w.Flush() // what came before an error
	array := &jsonArray{w: w}
	var incomplete error
	for entry, err := range entries {
		switch {
		case errors.Is(err, penstock.ErrIncomplete):
			incomplete = err
			continue
		case err != nil:
			return err
		}
		if asJSON {
			err = array.add(entryJSON(entry))
		} else {
			err = printEntry(w, entry)
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		if err := array.end(); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return incomplete
}

// entryJSON returns what --json prints for an entry.
func entryJSON(e penstock.Entry) any {
	if e.Prefix != "" {
		return struct {
			Prefix string `json:"prefix"`
		}{e.Prefix}
	}
	return describe(e.Info)
}

// printEntry prints an entry on a line.
func printEntry(w io.Writer, e penstock.Entry) error {
	size, modified, key := "-", "", e.Prefix
	if e.Prefix == "" {
		size, modified, key = strconv.FormatInt(e.Info.Size, 10), e.Info.Modified.UTC().Format(time.RFC3339), e.Info.Name.Key
	}
	_, err := fmt.Fprintf(w, "%12s  %20s  %s\n", size, modified, quoted(key))
	return err
}
