package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [NAME | DIR]",
		Short: "List datasets, or the versions of one",
		Args:  wants(0, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var lines []datasetLine
		var err error
		switch {
		case len(args) == 0:
			lines, err = conn.listDatasets(cmd.Context())
		case isDirectory(args[0]):
			lines, err = listDirectory(cmd.Context(), args[0])
		default:
			lines, err = conn.listVersions(cmd.Context(), args[0])
		}
		if err != nil {
			return err
		}
		if *asJSON {
			array := &jsonArray{w: p.out}
			for _, line := range lines {
				if err := array.add(line); err != nil {
					return err
				}
			}
			return array.end()
		}
		w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "DATASET\tSAMPLES\tBYTES\tFIELDS\tCREATED\tPLACE")
		for _, l := range lines {
			if l.Problem != "" {
				fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Problem)
				continue
			}
			fmt.Fprintf(w, "%s@%d\t%d\t%s\t%s\t%s\t%s\n", l.Name, l.Version, l.Samples, formatSize(l.Bytes),
				strings.Join(append(l.Fields, l.Columns...), ","), l.Created.UTC().Format(time.RFC3339), l.Place)
		}
		return w.Flush()
	}
	return cmd
}

// datasetLine is a line of a listing: one version.
type datasetLine struct {
	Name    string    `json:"name"`
	Version int64     `json:"version"`
	Newest  bool      `json:"newest"`
	Place   string    `json:"place"`
	Samples int64     `json:"samples"`
	Bytes   int64     `json:"bytes"`
	Fields  []string  `json:"fields"`
	Columns []string  `json:"columns"`
	Created time.Time `json:"created"`
	Problem string    `json:"problem,omitempty"`
}

// listDatasets returns the newest version of each dataset of the node.
func (c *connection) listDatasets(ctx context.Context) ([]datasetLine, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	all, err := client.Datasets(ctx)
	if err != nil {
		return nil, err
	}
	var lines []datasetLine
	for _, d := range all {
		if d.Problem != "" {
			lines = append(lines, datasetLine{Name: d.Name, Problem: d.Problem})
			continue
		}
		lines = append(lines, versionLines(d)[len(d.Versions)-1])
	}
	return lines, nil
}

// listVersions returns all versions of a dataset.
func (c *connection) listVersions(ctx context.Context, name string) ([]datasetLine, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	d, err := client.Dataset(ctx, name)
	if err != nil {
		return nil, err
	}
	return versionLines(d), nil
}

// listDirectory returns all versions in a directory.
func listDirectory(ctx context.Context, dir string) ([]datasetLine, error) {
	numbers, err := dataset.Versions(ctx, dataset.Directory(dir))
	if err != nil {
		return nil, err
	}
	var lines []datasetLine
	for i, number := range numbers {
		v, err := dataset.Open(ctx, dataset.Directory(dir), number)
		if err != nil {
			return nil, err
		}
		d, err := describeDataset(ctx, v)
		v.Close()
		if err != nil {
			return nil, err
		}
		line := datasetLine{
			Name: d.Name, Version: int64(number), Newest: i == len(numbers)-1, Place: d.Place, Samples: int64(d.Samples), Bytes: d.Bytes,
			Fields: d.Fields, Columns: []string{}, Created: d.Created,
		}
		for _, c := range d.Columns {
			line.Columns = append(line.Columns, c.Name)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// versionLines returns a line for each version of a dataset.
func versionLines(d penstock.Dataset) []datasetLine {
	var lines []datasetLine
	for _, v := range d.Versions {
		lines = append(lines, datasetLine{
			Name: d.Name, Version: v.Version, Newest: v.Version == d.Newest, Place: d.Bucket + "/" + d.Name, Samples: v.Samples, Bytes: v.Bytes,
			Fields: v.Fields, Columns: v.Columns, Created: v.Created,
		})
	}
	return lines
}
