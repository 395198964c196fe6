package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

func (p *program) putCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "put PATH BUCKET/KEY",
		Short: "Store a file, or with -r a directory",
		Long: `Store a file as an object. PATH may be - for standard input.

A file is sent with its CRC-32, which the node checks before it acknowledges; it
is read twice for that. Standard input is checked after it is stored.

With -r, store all files below the directory PATH under BUCKET[/PREFIX]/. Files are
left alone that have the size of their object and were not written after it; with
--checksum, that have its content. So a run that was interrupted is continued by
running it again. Links, pipes, sockets and devices are skipped. Every file that
fails is named on standard error; the exit status is 1 if there is any.`,
		Args: wants(2, 2),
	}
	var opts penstock.PutOptions
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	conditionFlags(cmd, &opts.Condition)
	cmd.Flags().StringVar(&opts.ContentType, "content-type", "", "`TYPE` to store with the object, such as image/jpeg")
	metadata := cmd.Flags().StringArray("meta", nil, "`KEY=VALUE` to store with the object; may be repeated")
	trees := p.treeFlags(cmd, "store all files below a directory", "if-match", "if-none-match", "meta")
	trees.asJSON = asJSON
	trees.compareFlags(cmd)
	trees.followFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := trees.check(cmd); err != nil {
			return err
		}
		if trees.recursive {
			return p.putTree(cmd.Context(), conn, trees, args[0], args[1], opts)
		}
		name, err := objectName(args[1])
		if err != nil {
			return err
		}
		if opts.Metadata, err = parseMetadata(*metadata); err != nil {
			return err
		}
		if err := writable(opts); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		src, closeSrc, err := p.openInput(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer closeSrc()
		bar := newProgress(p.err)
		if f, ok := src.(*os.File); ok && isRegular(f) {
			src = watchFile(f, fileSize(f), bar)
		}
		info, err := client.Put(cmd.Context(), name, src, opts)
		bar.clear()
		if err != nil || !*asJSON {
			return err
		}
		return p.printJSON(describe(info))
	}
	return cmd
}

// putTree stores a directory.
func (p *program) putTree(ctx context.Context, conn *connection, f *treeFlags, dir, to string, opts penstock.PutOptions) error {
	place, err := placeName(to)
	if err != nil {
		return err
	}
	if err := writable(opts); err != nil {
		return err
	}
	f.opts.ContentType = opts.ContentType
	client, err := conn.client()
	if err != nil {
		return err
	}
	return p.runTree(ctx, f, "stored", func(o tree.Options) (tree.Report, error) {
		return tree.Put(ctx, client, dir, place.Bucket, place.Prefix, o)
	})
}

// conditionFlags adds the flags that make a write depend on what is there.
func conditionFlags(cmd *cobra.Command, cond *penstock.Condition) {
	cmd.Flags().StringVar(&cond.IfMatch, "if-match", "", "only if the object has this `ETAG` (* for any)")
	cmd.Flags().StringVar(&cond.IfNoneMatch, "if-none-match", "", "only if the object does not have this `ETAG` (* for none at all)")
}

// writable checks what goes with a write, before anything is opened or asked.
func writable(opts penstock.PutOptions) error {
	if err := penstock.ValidatePut(opts); err != nil {
		return &usageError{err}
	}
	return nil
}

// parseMetadata splits KEY=VALUE arguments.
func parseMetadata(pairs []string) (map[string]string, error) {
	metadata := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("--meta %q is not KEY=VALUE", pair)
		}
		metadata[strings.ToLower(key)] = value
	}
	return metadata, nil
}

// openInput opens a file to read, or standard input for "-". What it returns can
// be sought if the file can.
func (p *program) openInput(ctx context.Context, path string) (src io.Reader, closeSrc func() error, err error) {
	f, ok := p.in.(*os.File)
	switch {
	case path != "-":
		if f, err = os.Open(path); err != nil {
			return nil, nil, err
		}
	case !ok || !isRegular(f):
		in := interruptible(ctx, p.in)
		return in, in.Close, nil
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		f.Close()
		return nil, nil, fmt.Errorf("%s is a directory", path)
	}
	return f, f.Close, nil
}

func isRegular(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode().IsRegular()
}

func fileSize(f *os.File) int64 {
	st, err := f.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// interruptible returns a reader of r that fails when the context ends. A read of
// a terminal or pipe cannot be ended; it is left behind, and the process ends.
func interruptible(ctx context.Context, r io.Reader) io.ReadCloser {
	pr, pw := io.Pipe()
	stop := context.AfterFunc(ctx, func() { pw.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		_, err := io.Copy(pw, r)
		pw.CloseWithError(err)
	}()
	return pr
}
