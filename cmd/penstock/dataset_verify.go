package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify NAME[@VERSION]",
		Short: "Read and check everything of a dataset",
		Long: `Read the manifest, look at the sizes of all shards, and read every field of every
sample. What is damaged is named, with its sample, shard and offset; the exit status is
1 if there is anything.`,
		Args: wants(1, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.sweepDataset(cmd.Context(), conn, args[0], "verified", *asJSON, func(v *dataset.Version, o dataset.ReadOptions) (dataset.ReadReport, error) {
			return v.Verify(cmd.Context(), o)
		})
	}
	return cmd
}

func (p *program) datasetExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export NAME[@VERSION] DIR",
		Short: "Write the samples of a dataset as files",
		Long: `Write every field of every sample to a file DIR/KEY.FIELD, and every column too. Files
that are there are replaced. Everything is checked; what is damaged is named and not
written. Nothing is written outside of DIR.`,
		Args: wants(2, 2),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	names := cmd.Flags().StringSlice("fields", nil, "only these `FIELDS` and columns, separated by commas")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.sweepDataset(cmd.Context(), conn, args[0], "exported", *asJSON, func(v *dataset.Version, o dataset.ReadOptions) (dataset.ReadReport, error) {
			fields, columns, err := chooseMembers(v, *names)
			if err != nil {
				return dataset.ReadReport{}, err
			}
			o.Fields = fields
			return v.Export(cmd.Context(), args[1], columns, o)
		})
	}
	return cmd
}

// chooseMembers returns the numbers of fields and columns of these names, or of all.
func chooseMembers(v *dataset.Version, names []string) (fields, columns []int, err error) {
	for _, name := range names {
		if !slices.Contains(memberNames(v), name) {
			return nil, nil, usagef("there is no field %q; there are %q", name, memberNames(v))
		}
	}
	fields = []int{}
	for i, f := range v.Fields() {
		if len(names) == 0 || slices.Contains(names, f.Name) {
			fields = append(fields, i)
		}
	}
	for i, c := range v.Columns() {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			columns = append(columns, i)
		}
	}
	return fields, columns, nil
}

// sweepDataset runs an act that reads all of a version, names what is wrong, and
// prints the sum.
func (p *program) sweepDataset(ctx context.Context, conn *connection, arg, verb string, asJSON bool, act func(*dataset.Version, dataset.ReadOptions) (dataset.ReadReport, error)) error {
	v, err := conn.openDataset(ctx, arg)
	if err != nil {
		return err
	}
	defer v.Close()
	bar, begun := newProgress(p.err), time.Now()
	report, err := act(v, dataset.ReadOptions{
		Problem: func(err error) {
			bar.clear()
			fmt.Fprintf(p.err, "penstock: %s\n", quoted(oneLine(err)))
		},
		Progress: func(samples, bytes, total int64) {
			bar.draw(samples, total, func(now time.Time) string {
				return fmt.Sprintf("%3.0f%%  %d/%d samples  %s/s", 100*float64(samples)/float64(max(total, 1)), samples, total, formatSize(int64(float64(bytes)/now.Sub(begun).Seconds())))
			})
		},
	})
	bar.clear()
	if err != nil {
		return err
	}
	elapsed := time.Since(begun)
	if asJSON {
		err = p.printJSON(struct {
			Name     string  `json:"name"`
			Version  uint64  `json:"version"`
			Samples  int64   `json:"samples"`
			Bytes    int64   `json:"bytes"`
			Problems int64   `json:"problems"`
			Seconds  float64 `json:"seconds"`
		}{v.Info().Name, v.Info().Version, report.Samples, report.Bytes, report.Problems, elapsed.Seconds()})
	} else {
		damage := "no damage"
		if report.Problems > 0 {
			damage = count(report.Problems, "problem")
		}
		_, err = fmt.Fprintf(p.out, "%s %s, %s, in %s: %s\n", verb, count(report.Samples, "sample"), formatSize(report.Bytes), elapsed.Round(time.Millisecond), damage)
	}
	if err == nil && report.Problems > 0 {
		return errReported
	}
	return err
}
