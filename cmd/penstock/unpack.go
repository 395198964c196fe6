package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/store"
)

func (p *program) unpackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unpack DATADIR... DIR",
		Short: "Restore all objects from data directories, without a node",
		Long: `Restore all objects from the packs and blobs of data directories that no node is
using. Give all directories of a node together: the newest write of an object may
be in any of them. Objects become files BUCKET/KEY under DIR, which must be empty or
new; keys that cannot be paths get escaped names under DIR/.penstock/escaped, and
DIR/.penstock/objects.ndjson says what every file is.

Plain tar reads packs as well, but knows nothing of deleted and overwritten objects.`,
		Args: wants(2, -1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := args[len(args)-1]
		if err := mustBeEmpty(out); err != nil {
			return err
		}
		var disks []store.Disk
		for _, dir := range args[:len(args)-1] {
			disks = append(disks, store.Disk{FS: disk.NewDir(dir), Name: dir})
		}
		bar := newProgress(p.err)
		report, err := store.Unpack(cmd.Context(), disks, out, store.UnpackOptions{
			Progress: func(objects, bytes int64) { bar.update(bytes, 0, fmt.Sprintf("%d objects", objects)) },
			Problem: func(what string) {
				bar.clear()
				fmt.Fprintf(p.err, "penstock: %s\n", quoted(what))
			},
		})
		bar.clear()
		if err != nil {
			return err
		}
		fmt.Fprintf(p.err, "restored %d objects, %s\n", report.Objects, formatSize(report.Bytes))
		if report.Problems > 0 {
			return errReported
		}
		return nil
	}
	return cmd
}

// mustBeEmpty refuses a directory that holds something: files in it could be
// taken for restored ones, or be lost.
func mustBeEmpty(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	switch _, err := f.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is not empty", dir)
}
