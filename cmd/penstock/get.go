package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

func (p *program) getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get BUCKET/KEY PATH",
		Short: "Read an object into a file, or with -r many",
		Long: `Read an object into a file. PATH may be - for standard output, or a directory.

The file appears under its name only when it is whole and its CRC-32 is right.

With -r, write all objects under BUCKET[/PREFIX]/ as files below the directory PATH,
with the times of the objects. Files are left alone that have the size of their
object and are not older; with --checksum, that have its content. So a run that was
interrupted is continued by running it again. Nothing is written outside of PATH.
Every object that fails is named on standard error; the exit status is 1 if there
is any.`,
		Args: wants(2, 2),
	}
	var offset, length size
	conn := p.connectFlags(cmd)
	cmd.Flags().Var(&offset, "offset", "first byte to read")
	cmd.Flags().Var(&length, "length", "bytes to read; 0 means up to the end")
	trees := p.treeFlags(cmd, "write all objects under a prefix as files below a directory", "offset", "length")
	trees.compareFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := trees.check(cmd); err != nil {
			return err
		}
		if trees.recursive {
			return p.getTree(cmd.Context(), conn, trees, args[0], args[1])
		}
		name, err := objectName(args[0])
		if err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		r, err := client.Open(cmd.Context(), name, penstock.Range{Offset: int64(offset), Length: int64(length)})
		if err != nil {
			return err
		}
		defer r.Close()
		if args[1] == "-" {
			_, err := r.WriteTo(p.out)
			return err
		}
		path, err := outputPath(args[1], name)
		if err != nil {
			return err
		}
		bar := newProgress(p.err)
		defer bar.clear()
		return writeFile(cmd.Context(), path, r, bar)
	}
	return cmd
}

// getTree writes what is under a prefix to a directory.
func (p *program) getTree(ctx context.Context, conn *connection, f *treeFlags, from, dir string) error {
	place, err := placeName(from)
	if err != nil {
		return err
	}
	client, err := conn.client()
	if err != nil {
		return err
	}
	return p.runTree(ctx, f, "wrote", func(o tree.Options) (tree.Report, error) {
		return tree.Get(ctx, client, place.Bucket, place.Prefix, dir, o)
	})
}

// outputPath returns the file to write: path, or the last part of the key in it
// if it is a directory.
func outputPath(path string, name penstock.Name) (string, error) {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return path, nil // an error shows again when the file is made
	}
	base := name.Key[strings.LastIndexByte(name.Key, '/')+1:]
	if base == "" || base == "." || base == ".." || strings.ContainsRune(base, 0) {
		return "", fmt.Errorf("%s is a directory, and %q is no name for a file in it: give the file's name", path, base)
	}
	return filepath.Join(path, base), nil
}

// writeFile writes r to a new file beside path and puts it in its place when it
// is whole. What is there and is no plain file (a pipe, /dev/null) is written to
// directly.
func writeFile(ctx context.Context, path string, r penstock.Reader, bar *progress) (err error) {
	_, length := r.Bounds()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // replace the file, not the link to it
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if _, err := r.WriteTo(&watchedWriter{Writer: f, bar: bar, total: length}); err != nil {
			f.Close()
			return err
		}
		return f.Close()
	}
	// Not os.CreateTemp, whose files only their owner can read.
	temporary := filepath.Join(filepath.Dir(path), fmt.Sprintf(".penstock-get-%08x.tmp", rand.Uint32()))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temporary)
		}
	}()
	if _, err := r.WriteTo(&watchedWriter{Writer: f, bar: bar, total: length}); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
