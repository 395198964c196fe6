package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain NAME[@VERSION]",
		Short: "Say how well shuffles mix a dataset",
		Long: `Count the different classes in the batches of an epoch, on average and in the worst
one, for several ways to shuffle: none; window:SIZE, which keeps about SIZE of samples
in memory; full. 100 % is what a batch has that is drawn from all samples.

The classes are those of a column of that type. If there is none, the samples are taken
for sorted by class, which is the hardest case there is.`,
		Args: wants(1, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	batch := cmd.Flags().Uint64("batch", 256, "`SAMPLES` in a batch, over all ranks")
	classes := cmd.Flags().Uint64("classes", 1000, "how many to assume, where there is no column")
	column := cmd.Flags().String("column", "", "`NAME` of the column with the classes; the first one of that type if empty")
	shuffles := cmd.Flags().StringArray("shuffle", []string{"none", "window:256MiB", "window:2GiB", "full"}, "`POLICY` to look at; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *batch == 0 || *classes == 0 {
			return usagef("--batch and --classes must be more than 0")
		}
		policies, err := dataset.Policies(*shuffles)
		if err != nil {
			return &usageError{err}
		}
		v, err := conn.openDataset(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer v.Close()
		number := v.ClassColumn(*column)
		if *column != "" && number < 0 {
			return usagef("there is no column %q of classes", *column)
		}
		all, err := v.Mix(cmd.Context(), policies, number, *classes, *batch)
		if err != nil {
			return err
		}
		return p.printMixing(v, all, number, *classes, *batch, *asJSON)
	}
	return cmd
}

func (p *program) printMixing(v *dataset.Version, all []dataset.Mixing, column int, classes, batch uint64, asJSON bool) error {
	if asJSON {
		type line struct {
			Shuffle string  `json:"shuffle"`
			Mean    float64 `json:"mean"`
			Worst   uint64  `json:"worst"`
			Full    float64 `json:"full"`
			Batches uint64  `json:"batches"`
			Chunks  uint64  `json:"chunks"`
		}
		lines := []line{}
		for _, m := range all {
			lines = append(lines, line{m.Policy.String(), m.Quality.Mean, m.Quality.Worst, m.Quality.Full, m.Quality.Batches, m.Chunks})
		}
		return p.printJSON(lines)
	}
	by := fmt.Sprintf("as if sorted by %d classes", min(classes, uint64(v.Len())))
	if column >= 0 {
		by = fmt.Sprintf("by the column %s", v.Columns()[column].Name)
	}
	fmt.Fprintf(p.out, "%s@%d: %s, %d in a chunk; classes in batches of %d, %s\n",
		v.Info().Name, v.Info().Version, count(int64(v.Len()), "sample"), v.Info().ChunkSamples, batch, by)
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SHUFFLE\tMEAN\tWORST\tOF FULL\tWORST OF FULL")
	for _, m := range all {
		full := max(m.Quality.Full, 1e-9)
		fmt.Fprintf(w, "%s\t%.1f\t%d\t%.0f%%\t%.0f%%\n", m.Policy, m.Quality.Mean, m.Quality.Worst, 100*m.Quality.Mean/full, 100*float64(m.Quality.Worst)/full)
	}
	return w.Flush()
}
