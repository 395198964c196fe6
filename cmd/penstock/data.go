package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/server"
)

// dataDir is one --data: a directory that is a disk to the node.
type dataDir struct {
	path  string
	kind  string // "" if not given
	quota int64  // zero: no limit
}

// dataFlag is the flag --data DIR[,kind=ssd][,quota=SIZE], which may be repeated.
// It is a pflag.SliceValue.
type dataFlag struct {
	dirs []dataDir
	text []string
}

// dataFlags adds --data to a command.
func dataFlags(cmd *cobra.Command) *dataFlag {
	f := new(dataFlag)
	cmd.Flags().Var(f, "data", "data directory, `DIR[,kind=ssd|hdd][,quota=SIZE]`; may be repeated (default ./penstock-data)")
	return f
}

// all returns the directories, or the default one.
func (f *dataFlag) all() []dataDir {
	if len(f.dirs) == 0 {
		return []dataDir{{path: "penstock-data"}}
	}
	return f.dirs
}

// disks returns the directories as a server takes them.
func (f *dataFlag) disks() []server.Data {
	var all []server.Data
	for _, dir := range f.all() {
		all = append(all, server.Data{Dir: dir.path, Kind: dir.kind, Quota: dir.quota})
	}
	return all
}

// parseDataDir reads DIR[,kind=ssd][,quota=SIZE].
func parseDataDir(text string) (dataDir, error) {
	parts := strings.Split(text, ",")
	d := dataDir{path: parts[0]}
	if d.path == "" {
		return d, fmt.Errorf("%q names no directory", text)
	}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		var err error
		switch key {
		case "kind":
			if d.kind = value; value != "ssd" && value != "hdd" {
				err = fmt.Errorf("kind %q is neither ssd nor hdd", value)
			}
		case "quota":
			d.quota, err = parseSize(value)
		default:
			err = fmt.Errorf("unknown option %q: want kind or quota", part)
		}
		if err != nil {
			return d, fmt.Errorf("%s: %w", d.path, err)
		}
	}
	return d, nil
}

// Set adds one directory.
func (f *dataFlag) Set(text string) error { return f.Append(text) }

// Append adds one directory.
func (f *dataFlag) Append(text string) error {
	d, err := parseDataDir(text)
	if err != nil {
		return err
	}
	for _, other := range f.dirs {
		if other.path == d.path {
			return fmt.Errorf("%s is given twice", d.path)
		}
	}
	f.dirs, f.text = append(f.dirs, d), append(f.text, text)
	return nil
}

// Replace takes these directories instead.
func (f *dataFlag) Replace(texts []string) error {
	*f = dataFlag{}
	for _, text := range texts {
		if err := f.Append(text); err != nil {
			return err
		}
	}
	return nil
}

// GetSlice returns the directories as they were written.
func (f *dataFlag) GetSlice() []string { return f.text }

// String returns the directories as they were written.
func (f *dataFlag) String() string { return strings.Join(f.text, ";") }

// Type is how help names the value.
func (f *dataFlag) Type() string { return "DIR" }
