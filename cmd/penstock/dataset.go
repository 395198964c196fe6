package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/dataset"
)

func (p *program) datasetCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dataset",
		Short: "Make, look into, verify and export datasets",
		Long: `A dataset is a named list of samples, in versions that never change. A sample is one
or several files that share a key: cats/0001.jpg and cats/0001.txt are the fields jpg
and txt of the sample cats/0001.

A dataset lives in a bucket, and is called by its name; or in a directory that needs
no node, and is called by its path, which contains a slash or begins with a dot.
Behind either may stand a version: pets@3, ./pets@3. Without one the newest is meant.`,
	}, p.datasetCreateCommand(), p.datasetListCommand(), p.datasetShowCommand(), p.datasetHeadCommand(), p.datasetCatCommand(),
		p.datasetVerifyCommand(), p.datasetExplainCommand(), p.datasetExportCommand(), p.datasetRemoveCommand())
}

// datasetName divides an argument NAME[@VERSION] or DIR[@VERSION].
func datasetName(arg string) (name string, version uint64, err error) {
	name = arg
	if at := strings.LastIndexByte(arg, '@'); at >= 0 {
		if version, err = strconv.ParseUint(arg[at+1:], 10, 64); err != nil || version == 0 {
			if isDirectory(arg) {
				return arg, 0, nil // a directory may be called anything
			}
			return "", 0, usagef("%q is not NAME@VERSION: a version is a number from 1 on", arg)
		}
		name = arg[:at]
	}
	if name == "" {
		return "", 0, usagef("%q names no dataset", arg)
	}
	return name, version, nil
}

// isDirectory reports whether an argument means a directory and not a name.
func isDirectory(arg string) bool {
	return strings.Contains(arg, "/") || strings.HasPrefix(arg, ".")
}

// place returns where the dataset of that name lies.
func (c *connection) place(ctx context.Context, name string) (dataset.Place, error) {
	if isDirectory(name) {
		if st, err := os.Stat(name); err != nil {
			return nil, err
		} else if !st.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", name)
		}
		return dataset.Directory(name), nil
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return dataset.Find(ctx, client, name)
}

// openDataset opens the version that an argument names.
func (c *connection) openDataset(ctx context.Context, arg string) (*dataset.Version, error) {
	name, version, err := datasetName(arg)
	if err != nil {
		return nil, err
	}
	place, err := c.place(ctx, name)
	if err != nil {
		return nil, err
	}
	return dataset.Open(ctx, place, version)
}
