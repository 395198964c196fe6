package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME --from (DIR | FILE | BUCKET[/PREFIX]) [--bucket BUCKET | --to DIR]",
		Short: "Make a dataset, or its next version",
		Long: `Make the first or the next version of a dataset, and publish it when it is whole.

--from is a directory or a file if it begins with / or . or is there under that name;
otherwise it is BUCKET[/PREFIX]. file:///DIR and bucket:BUCKET/PREFIX leave no doubt.

Files that share a path up to the first dot of their name are one sample; what is
behind that dot is the field. They are written to tar shards in the order of a
permutation (--seed), so that neighbours have nothing in common. Hidden files are
skipped, and symbolic links unless --follow. Files that are empty, unreadable,
duplicates or have impossible names are named; with --on-error abort, the default,
nothing is published then, with skip their samples are left out.

A further version keeps the shards of the one before, and writes only the samples that
were added or have changed. --repack writes all of them.

Tars, TFRecords and flat files of records are taken as they are. If all files are
called .tar, or .tfrecord, they are taken for that; --input says it otherwise.

A run that was interrupted is continued by running it again.`,
		Args: wants(1, 1),
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	f := &createFlags{}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts, err := f.options(args[0])
		if err != nil {
			return err
		}
		from, err := f.origin(conn)
		if err != nil {
			return err
		}
		place, err := f.place(cmd.Context(), conn, args[0], from)
		if err != nil {
			return err
		}
		return p.createDataset(cmd.Context(), place, from, opts, *asJSON)
	}
	return cmd
}

// createFlags are those of dataset create.
type createFlags struct {
	from, bucket, to     string
	shardSize, chunkSize size
	columns              []string
	onError, input       choice
	tokens, recordPrefix string
	seqLen               int64
	recordLength         size
	field                string
	opts                 dataset.Options
}

func (f *createFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.shardSize, f.chunkSize = 64<<20, 4<<20
	f.onError = choice{"abort", []string{"abort", "skip"}}
	f.input = choice{"auto", []string{"auto", "files", "tar", "tfrecord"}}
	flags.StringVar(&f.from, "from", "", "`WHERE` the samples come from")
	flags.StringVar(&f.bucket, "bucket", "", "`BUCKET` to make it in; that of the version before if there is one")
	flags.StringVar(&f.to, "to", "", "`DIR` to make it in, for use without a node")
	flags.Var(&f.shardSize, "shard-size", "about how large a shard is")
	flags.Var(&f.chunkSize, "chunk-size", "about how large a chunk is: samples that are read and cached together")
	flags.Uint64Var(&f.opts.Seed, "seed", 0, "of the permutation")
	flags.BoolVar(&f.opts.KeepOrder, "keep-order", false, "do not permute: keep the order of the paths")
	flags.BoolVar(&f.opts.Repack, "repack", false, "write all samples anew")
	flags.Var(&f.onError, "on-error", "what to do about files that cannot be part of it")
	flags.BoolVar(&f.opts.AllowEmpty, "allow-empty", false, "take empty files too")
	flags.BoolVar(&f.opts.Follow, "follow", false, "take the files that symbolic links lead to")
	flags.BoolVar(&f.opts.ClassFromFolder, "class-from-folder", false, "make a column cls of the first folder of a sample's path")
	flags.StringArrayVar(&f.columns, "column", nil, "make a column of a field, `NAME:TYPE` with a type int, float, text or class; may be repeated")
	flags.Var(&f.input, "input", "what the files are")
	flags.StringVar(&f.tokens, "tokens", "", "take flat files of tokens of this `TYPE`, as they are: uint8, uint16, uint32, int32 or int64; needs --seq-len")
	flags.Int64Var(&f.seqLen, "seq-len", 0, "`TOKENS` in a sample")
	flags.Var(&f.recordLength, "record-length", "take flat files of records of this length, as they are")
	flags.StringVar(&f.recordPrefix, "record-prefix", "", "take flat files of records, as they are, with a little-endian length of this `TYPE` before each: uint16, uint32 or uint64")
	flags.StringVar(&f.field, "field", "", "`NAME` of the field that records become; tokens.TYPE or bin if empty")
	flags.BoolVar(&f.opts.Records, "records", false, "write bare records instead of tars: less space for tiny samples; only Penstock reads them")
}

func (f *createFlags) options(name string) (dataset.Options, error) {
	opts := f.opts
	opts.Name, opts.ShardSize, opts.ChunkSize = name, int64(f.shardSize), int64(f.chunkSize)
	opts.Skip = f.onError.value == "skip"
	if f.input.value != "auto" {
		opts.Input = dataset.Input(f.input.value)
	}
	if err := f.records(&opts); err != nil {
		return opts, err
	}
	for _, text := range f.columns {
		c, err := dataset.ParseColumn(text)
		if err != nil {
			return opts, &usageError{err}
		}
		opts.Columns = append(opts.Columns, c)
	}
	if f.from == "" {
		return opts, usagef("--from is missing: where do the samples come from?")
	}
	if f.bucket != "" && f.to != "" {
		return opts, usagef("--bucket and --to do not go together")
	}
	if err := opts.Validate(); err != nil {
		return opts, &usageError{err}
	}
	return opts, nil
}

// widths of numbers, in bytes.
var widths = map[string]int{"uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8}

// records says how flat files are cut.
func (f *createFlags) records(opts *dataset.Options) error {
	tokens, length, prefix := f.tokens, int64(f.recordLength), f.recordPrefix
	given := 0
	for _, is := range []bool{tokens != "", length != 0, prefix != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return usagef("only one of --tokens, --record-length and --record-prefix can be given")
	case given == 0 && (f.seqLen != 0 || f.field != ""):
		return usagef("--seq-len and --field are for flat files: say --tokens, --record-length or --record-prefix too")
	case given == 0:
		return nil
	case (tokens != "") != (f.seqLen != 0):
		return usagef("--tokens and --seq-len go together")
	case f.seqLen < 0 || f.seqLen > 1<<40:
		return usagef("--seq-len %d makes no sense", f.seqLen)
	case f.input.value != "auto":
		return usagef("--input %s does not go with --tokens, --record-length or --record-prefix", f.input.value)
	case tokens != "" && widths[tokens] == 0:
		return usagef("--tokens %s is none of uint8, uint16, uint32, int32 and int64", tokens)
	case prefix != "" && widths[prefix] < 2:
		return usagef("--record-prefix %s is none of uint16, uint32 and uint64", prefix)
	}
	opts.Input, opts.Record = dataset.Flat, dataset.Record{Length: length, Prefix: widths[prefix], Field: f.field}
	if tokens != "" {
		opts.Record.Length = f.seqLen * int64(widths[tokens])
		if f.field == "" {
			opts.Record.Field = "tokens." + tokens
		}
	}
	return nil
}

// origin decides whether --from is a directory or a part of a bucket.
func (f *createFlags) origin(conn *connection) (dataset.Origin, error) {
	from := f.from
	if dir, ok := strings.CutPrefix(from, "file://"); ok {
		return dataset.Tree(dir), nil
	}
	name, bucket := strings.CutPrefix(from, "bucket:")
	if !bucket && strings.Contains(from, "://") {
		return nil, usagef("--from %s: only file:// is read so far; use `get -r` or `bucket create --source` first", from)
	}
	if !bucket {
		if _, err := os.Stat(from); err == nil || strings.HasPrefix(from, "/") || strings.HasPrefix(from, ".") {
			return dataset.Tree(from), nil
		}
	}
	place, err := placeName(name)
	if err != nil {
		return nil, fmt.Errorf("--from %s is neither a directory here nor BUCKET[/PREFIX]: %w", from, err)
	}
	client, err := conn.client()
	if err != nil {
		return nil, err
	}
	return dataset.Objects(client, place.Bucket, place.Prefix), nil
}

// place decides where the dataset is made.
func (f *createFlags) place(ctx context.Context, conn *connection, name string, from dataset.Origin) (dataset.Place, error) {
	if f.to != "" {
		return dataset.Directory(f.to), nil
	}
	client, err := conn.client()
	if err != nil {
		return nil, err
	}
	bucket := f.bucket
	if bucket != "" {
		if err := bucketName(bucket); err != nil {
			return nil, err
		}
	}
	place, err := dataset.Bucket(ctx, client, name, bucket)
	if err != nil && bucket == "" {
		return nil, fmt.Errorf("%w; say --bucket BUCKET or --to DIR", err)
	}
	return place, err
}

// createDataset makes it, shows how far it is, and prints the sum.
func (p *program) createDataset(ctx context.Context, place dataset.Place, from dataset.Origin, opts dataset.Options, asJSON bool) error {
	bar := newProgress(p.err)
	opts.Progress = bar.dataset
	opts.Problem = func(problem dataset.Problem) {
		bar.clear()
		skipped := ""
		if problem.Skipped {
			skipped = "skipped "
		}
		fmt.Fprintf(p.err, "penstock: %s%s: %s\n", skipped, quoted(problem.Path), oneLine(problem.Err))
	}
	report, err := dataset.Create(ctx, place, from, opts)
	bar.clear()
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted; run the command again to go on")
		}
		if report.Problems > 0 && !opts.Skip {
			return fmt.Errorf("%w; --on-error skip leaves them out", err)
		}
		return err
	}
	return p.printCreated(place, opts.Name, report, asJSON)
}

func (p *program) printCreated(place dataset.Place, name string, r dataset.Report, asJSON bool) error {
	if asJSON {
		return p.printJSON(struct {
			Name      string  `json:"name"`
			Version   uint64  `json:"version"`
			Place     string  `json:"place"`
			Published bool    `json:"published"`
			Samples   int64   `json:"samples"`
			Bytes     int64   `json:"bytes"`
			Added     int64   `json:"added"`
			Changed   int64   `json:"changed"`
			Removed   int64   `json:"removed"`
			Kept      int64   `json:"kept"`
			Shards    int64   `json:"shards"`
			Reused    int64   `json:"reused"`
			Taken     int64   `json:"taken"`
			Problems  int64   `json:"problems"`
			Skipped   int64   `json:"skipped"`
			Seconds   float64 `json:"seconds"`
		}{
			name, r.Version, place.String(), r.Published, r.Samples, r.Bytes, r.Added, r.Changed, r.Removed, r.Kept,
			r.Shards, r.Reused, r.Taken, r.Problems, r.Skipped, r.Elapsed.Seconds(),
		})
	}
	if !r.Published {
		_, err := fmt.Fprintf(p.out, "nothing has changed: %s@%d stays the newest\n", name, r.Version)
		return err
	}
	anew := ""
	if n := r.Samples - r.Added - r.Changed - r.Kept; n > 0 {
		anew = fmt.Sprintf(", %d written anew", n)
	}
	_, err := fmt.Fprintf(p.out, "%s@%d in %s: %s, %s; %d added, %d changed, %d removed, %d kept%s\n",
		name, r.Version, place, count(r.Samples, "sample"), formatSize(r.Bytes), r.Added, r.Changed, r.Removed, r.Kept, anew)
	if err != nil {
		return err
	}
	line := "wrote " + count(r.Shards, "shard")
	if r.Taken > 0 {
		line += fmt.Sprintf(", took %d as found", r.Taken)
	}
	if r.Reused > 0 {
		line += fmt.Sprintf(", took over %d of a run before", r.Reused)
	}
	if r.Problems > 0 {
		line += fmt.Sprintf(", left out %s", count(r.Problems, "file"))
	}
	_, err = fmt.Fprintf(p.out, "%s, in %s\n", line, r.Elapsed.Round(time.Millisecond))
	return err
}

// count writes a number and what it counts.
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// dataset says how far the making of a dataset is.
func (p *progress) dataset(s dataset.State) {
	total, done := s.TotalBytes, s.Bytes
	if s.TotalSamples > 0 {
		total, done = total+s.TotalSamples*fileCost, done+s.Samples*fileCost
	}
	p.draw(done, total, func(time.Time) string {
		if s.Doing == "listing" {
			return fmt.Sprintf("listing  %d files", s.Files)
		}
		line := s.Doing
		switch {
		case s.TotalSamples == 0 && s.TotalBytes > 0:
			line += fmt.Sprintf("  %d samples  %s of %s", s.Samples, formatSize(s.Bytes), formatSize(s.TotalBytes))
		case s.TotalSamples > 0:
			line += fmt.Sprintf("  %3.0f%%  %d/%d samples  %s of %s", 100*float64(done)/float64(max(total, 1)), s.Samples, s.TotalSamples, formatSize(s.Bytes), formatSize(s.TotalBytes))
		}
		return line
	})
}
