package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/tree"
)

// treeFlags are what commands that take -r have for it.
type treeFlags struct {
	recursive bool
	asJSON    *bool
	opts      tree.Options
	own       []string // flags that only mean something with -r
	others    []string // flags that only mean something without
}

// treeFlags adds -r to a command. The flags that the command has so far are for
// single objects, except those that are for both.
func (p *program) treeFlags(cmd *cobra.Command, usage string, single ...string) *treeFlags {
	f := &treeFlags{others: single}
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "r", false, usage)
	if cmd.Flags().Lookup("json") == nil {
		f.asJSON = cmd.Flags().Bool("json", false, "with -r: print the sum as JSON")
		f.own = append(f.own, "json")
	}
	return f
}

// compareFlags adds the flags that say what has to be moved.
func (f *treeFlags) compareFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.opts.Checksum, "checksum", false, "with -r: compare contents, not times, to see what has changed")
	f.forceFlag(cmd, "with -r: move also what has not changed")
	f.own = append(f.own, "checksum")
}

func (f *treeFlags) followFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.opts.Follow, "follow", false, "with -r: store the files that symbolic links lead to")
	f.own = append(f.own, "follow")
}

func (f *treeFlags) forceFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVar(&f.opts.Force, "force", false, usage)
	f.own = append(f.own, "force")
}

// check refuses flags that do not go with -r, or need it.
func (f *treeFlags) check(cmd *cobra.Command) error {
	names, problem := f.own, "--%s is only for -r"
	if f.recursive {
		names, problem = f.others, "--%s does not go with -r"
	}
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usagef(problem, name)
		}
	}
	return nil
}

// placeName parses an argument BUCKET[/PREFIX].
func placeName(arg string) (tree.Place, error) {
	bucket, prefix, _ := strings.Cut(arg, "/")
	return tree.Place{Bucket: bucket, Prefix: prefix}, bucketName(bucket)
}

// runTree shows how far an act on a tree is, names what goes wrong, and prints the
// sum. verb says what is done to a file.
func (p *program) runTree(ctx context.Context, f *treeFlags, verb string, act func(tree.Options) (tree.Report, error)) error {
	bar, opts := newProgress(p.err), f.opts
	opts.Progress = bar.tree
	if !bar.terminal {
		opts.CountAfter = bar.every - time.Second // for the first line
	}
	opts.Problem = func(problem tree.Problem) {
		bar.clear()
		path := quoted(problem.Path)
		if problem.Skipped {
			fmt.Fprintf(p.err, "penstock: skipped %s: %s\n", path, oneLine(problem.Err))
			return
		}
		fmt.Fprintf(p.err, "penstock: %s: %s\n", path, oneLine(problem.Err))
	}
	report, err := act(opts)
	bar.clear()
	if err != nil && report == (tree.Report{Elapsed: report.Elapsed}) && ctx.Err() == nil {
		return err // nothing was begun
	}
	if printed := p.printReport(report, err == nil, *f.asJSON, verb); printed != nil {
		return printed
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted; run the command again to go on")
	case err != nil:
		return fmt.Errorf("%w; run the command again to go on", err)
	case report.Failed > 0:
		return errReported
	}
	return nil
}

// printReport prints what an act has done.
func (p *program) printReport(r tree.Report, complete, asJSON bool, verb string) error {
	if asJSON {
		return p.printJSON(struct {
			Files     int64   `json:"files"`
			Bytes     int64   `json:"bytes"`
			Unchanged int64   `json:"unchanged"`
			Skipped   int64   `json:"skipped"`
			Failed    int64   `json:"failed"`
			Seconds   float64 `json:"seconds"`
			Complete  bool    `json:"complete"`
		}{r.Files, r.Bytes, r.Unchanged, r.Skipped, r.Failed, r.Elapsed.Seconds(), complete})
	}
	files := "files"
	if r.Files == 1 {
		files = "file"
	}
	_, err := fmt.Fprintf(p.out, "%s %d %s, %s, in %s; %d unchanged, %d skipped, %d failed\n",
		verb, r.Files, files, formatSize(r.Bytes), r.Elapsed.Round(time.Millisecond), r.Unchanged, r.Skipped, r.Failed)
	return err
}

// fileCost is what a file costs beside its bytes, in bytes, where the time that is
// left is guessed.
const fileCost = 16 << 10

// tree says how far an act on a tree is.
func (p *progress) tree(s tree.State) {
	seen := s.Files + s.Unchanged + s.Failed
	done := s.Bytes + s.UnchangedBytes + seen*fileCost
	total := int64(0)
	if s.TotalFiles > 0 {
		total = max(done, s.TotalBytes+s.TotalFiles*fileCost)
	}
	p.draw(done, total, func(time.Time) string {
		var b strings.Builder
		if total > 0 {
			fmt.Fprintf(&b, "%3.0f%%  %d/%d files", 100*float64(done)/float64(total), seen, max(seen, s.TotalFiles))
		} else {
			fmt.Fprintf(&b, "%d files", seen)
		}
		if seconds := s.Elapsed.Seconds(); seconds > 0 {
			fmt.Fprintf(&b, "  %s/s", formatSize(int64(float64(s.Bytes)/seconds)))
		}
		// What did not have to be moved says nothing about the speed.
		if work := s.Bytes + s.Files*fileCost; work > 0 && total > done {
			left := time.Duration(float64(total-done) / float64(work) * float64(s.Elapsed))
			fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
		}
		fmt.Fprintf(&b, "  %s", formatSize(s.Bytes))
		if s.Failed > 0 {
			fmt.Fprintf(&b, "  %d failed", s.Failed)
		}
		return b.String()
	})
}
