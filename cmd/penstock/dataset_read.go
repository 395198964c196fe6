package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME[@VERSION]",
		Short: "Show what a version of a dataset is",
		Args:  wants(1, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := conn.openDataset(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer v.Close()
		d, err := describeDataset(cmd.Context(), v)
		if err != nil {
			return err
		}
		if *asJSON {
			return p.printJSON(d)
		}
		var columns []string
		for _, c := range d.Columns {
			text := c.Name + " " + c.Type
			if c.Classes > 0 {
				text += fmt.Sprintf(" (%d classes)", c.Classes)
			}
			columns = append(columns, text)
		}
		return printFields(p.out, "name", d.Name, "version", strconv.FormatUint(d.Version, 10), "place", d.Place,
			"created", d.Created.Format(time.RFC3339), "samples", strconv.Itoa(d.Samples), "bytes", formatSize(d.Bytes),
			"fields", strings.Join(d.Fields, ", "), "columns", strings.Join(columns, ", "),
			"shards", strconv.Itoa(d.Shards), "chunk", fmt.Sprintf("%d samples", d.Chunk), "seed", strconv.FormatUint(d.Seed, 10), "logical", d.Logical)
	}
	return cmd
}

// datasetJSON is a version as --json prints it.
type datasetJSON struct {
	Name    string       `json:"name"`
	Version uint64       `json:"version"`
	Place   string       `json:"place"`
	Created time.Time    `json:"created"`
	Samples int          `json:"samples"`
	Bytes   int64        `json:"bytes"`
	Fields  []string     `json:"fields"`
	Columns []columnJSON `json:"columns"`
	Shards  int          `json:"shards"`
	Chunk   uint32       `json:"chunk"`
	Seed    uint64       `json:"seed"`
	Logical string       `json:"logical"`
}

type columnJSON struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Optional bool   `json:"optional,omitempty"`
	Classes  int    `json:"classes,omitempty"`
}

func describeDataset(ctx context.Context, v *dataset.Version) (datasetJSON, error) {
	info, hash := v.Info(), v.Hash()
	d := datasetJSON{
		Name: info.Name, Version: info.Version, Place: v.Place().String(), Created: info.Created, Samples: v.Len(), Fields: []string{},
		Columns: []columnJSON{}, Shards: v.Shards(), Chunk: info.ChunkSamples, Seed: info.Seed, Logical: hex.EncodeToString(hash[:]),
	}
	for _, f := range v.Fields() {
		d.Fields = append(d.Fields, f.Name)
	}
	for i, c := range v.Columns() {
		classes, err := v.Classes(i)
		if err != nil {
			return d, err
		}
		d.Columns = append(d.Columns, columnJSON{c.Name, dataset.TypeName(c), c.Optional, len(classes)})
	}
	var err error
	d.Bytes, err = v.Bytes(ctx)
	return d, err
}

func (p *program) datasetHeadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "head NAME[@VERSION]",
		Short: "List the first samples of a dataset",
		Long: `List the first samples of a dataset: their numbers, keys, the sizes of their fields and
the values of their columns. Sample numbers never change inside of a version.`,
		Args: wants(1, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	limit := cmd.Flags().IntP("number", "n", 10, "list so many `SAMPLES`; 0 means all")
	skip := cmd.Flags().Int("skip", 0, "begin behind so many `SAMPLES`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 0 || *skip < 0 {
			return usagef("--number and --skip must not be negative")
		}
		v, err := conn.openDataset(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer v.Close()
		from := min(*skip, v.Len())
		to := v.Len()
		if *limit > 0 {
			to = min(to, from+*limit)
		}
		w := bufio.NewWriter(p.out)
		defer w.Flush() // what came before an error
		if *asJSON {
			return listSamplesJSON(cmd.Context(), w, v, from, to)
		}
		return listSamples(cmd.Context(), w, v, from, to)
	}
	return cmd
}

func listSamples(ctx context.Context, out io.Writer, v *dataset.Version, from, to int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "NUMBER\tKEY"
	for _, f := range v.Fields() {
		head += "\t" + f.Name
	}
	for _, c := range v.Columns() {
		head += "\t" + c.Name
	}
	fmt.Fprintln(w, head)
	for i := from; i < to && ctx.Err() == nil; i++ {
		s, err := v.Sample(i)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%d\t%s", i, quoted(s.Key))
		for _, piece := range s.Pieces {
			if piece.Absent {
				line += "\t-"
			} else {
				line += "\t" + strconv.FormatInt(piece.Size, 10)
			}
		}
		for c, value := range s.Values {
			if value.Missing {
				line += "\t-"
			} else {
				line += "\t" + quoted(dataset.Text(v.Columns()[c], value))
			}
		}
		fmt.Fprintln(w, line)
		if (i-from)%1000 == 999 {
			w.Flush() // columns are as wide as a thousand lines want them
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Flush()
}

func listSamplesJSON(ctx context.Context, out *bufio.Writer, v *dataset.Version, from, to int) error {
	type piece struct {
		Size   int64  `json:"size"`
		CRC32  string `json:"crc32,omitempty"`
		Shard  string `json:"shard"`
		Offset int64  `json:"offset"`
	}
	array := &jsonArray{w: out}
	for i := from; i < to && ctx.Err() == nil; i++ {
		s, err := v.Sample(i)
		if err != nil {
			return err
		}
		fields, columns := map[string]piece{}, map[string]any{}
		for f, at := range s.Pieces {
			if at.Absent {
				continue
			}
			shard, err := v.Shard(int(at.Shard))
			if err != nil {
				return err
			}
			one := piece{Size: at.Size, Shard: shard.Name, Offset: at.Offset}
			if at.Checked {
				one.CRC32 = fmt.Sprintf("%08x", at.CRC32)
			}
			fields[v.Fields()[f].Name] = one
		}
		for c, value := range s.Values {
			if !value.Missing {
				columns[v.Columns()[c].Name] = dataset.Plain(v.Columns()[c], value)
			}
		}
		err = array.add(struct {
			Number  int              `json:"number"`
			Key     string           `json:"key"`
			Fields  map[string]piece `json:"fields"`
			Columns map[string]any   `json:"columns"`
		}{i, s.Key, fields, columns})
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return array.end()
}

func (p *program) datasetCatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat NAME[@VERSION] KEY.FIELD...",
		Short: "Print fields of samples",
		Long: `Print the content of fields, or the values of columns, one behind the other. Everything
is checked; if the exit status is 1 what was printed may be damaged or not all.`,
		Args: wants(2, -1),
	}
	conn := p.connectFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := conn.openDataset(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer v.Close()
		for _, arg := range args[1:] {
			if err := p.catSample(cmd.Context(), v, arg); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func (p *program) catSample(ctx context.Context, v *dataset.Version, arg string) error {
	key, name, ok := dataset.SplitMember(arg)
	if !ok {
		return usagef("%q is not KEY.FIELD", arg)
	}
	sample, err := v.Find(key)
	if err != nil {
		return err
	}
	if c, column := v.Column(name); column {
		value, err := v.Value(sample, c)
		if err == nil {
			_, err = fmt.Fprintln(p.out, dataset.Text(v.Columns()[c], value))
		}
		return err
	}
	field, found := v.Field(name)
	if !found {
		return fmt.Errorf("%s has no field %q; it has %s", arg, name, strings.Join(memberNames(v), ", "))
	}
	r, err := v.Stream(ctx, dataset.Ref{Sample: sample, Field: field})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(p.out, r)
	return err
}

// memberNames returns the names of fields and columns.
func memberNames(v *dataset.Version) []string {
	var names []string
	for _, f := range v.Fields() {
		names = append(names, f.Name)
	}
	for _, c := range v.Columns() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}
