package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// settle gives every flag of cmd that is not on the command line its value from
// the environment, or else from the file that --config names. The flag tls-cert
// is PENSTOCK_TLS_CERT there and tls-cert here. This is the only way in for
// options, so all commands and all flags have all three.
func settle(cmd *cobra.Command, env func(string) (string, bool)) error {
	file := ""
	if flag := cmd.Flag("config"); flag != nil {
		if text, ok := env(envName("config")); ok && !flag.Changed {
			file = text
		} else {
			file = flag.Value.String()
		}
	}
	settings := map[string][]string{}
	if file != "" {
		var err error
		if settings, err = readSettings(file, flagNames(cmd.Root())); err != nil {
			return err
		}
	}
	var wrong error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if wrong != nil || flag.Changed || !settable(flag) {
			return
		}
		if text, ok := env(envName(flag.Name)); ok && text != "" {
			wrong = set(cmd, flag, splitEnv(flag, text), envName(flag.Name))
		} else if values, ok := settings[flag.Name]; ok {
			wrong = set(cmd, flag, values, file)
		}
	})
	return wrong
}

// settable reports whether a flag may come from the environment or a file.
func settable(flag *pflag.Flag) bool {
	return flag.Name != "help" && flag.Name != "config" && flag.Annotations[flagOnly] == nil
}

// flagOnly marks flags that have no other way in.
const flagOnly = "flag only"

// onlyFlags marks flags whose names mean something else in the environment.
func onlyFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flag(name).Annotations = map[string][]string{flagOnly: {"true"}}
	}
}

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return "PENSTOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// splitEnv returns the values of a variable. Those of a flag that may be repeated
// are separated by semicolons: commas and colons are parts of paths and options.
func splitEnv(flag *pflag.Flag, text string) []string {
	if _, many := flag.Value.(pflag.SliceValue); many {
		return strings.Split(text, ";")
	}
	return []string{text}
}

// set gives a flag its values, as if they were on the command line.
func set(cmd *cobra.Command, flag *pflag.Flag, values []string, where string) error {
	if _, many := flag.Value.(pflag.SliceValue); !many && len(values) != 1 {
		return fmt.Errorf("%s: %s takes one value, not a list", where, flag.Name)
	}
	for _, value := range values {
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return nil
}

// flagNames returns the names of all flags of all commands: one file serves them
// all, and a key that is none of them is a mistake.
func flagNames(root *cobra.Command) map[string]bool {
	names := map[string]bool{}
	add := func(flag *pflag.Flag) {
		if settable(flag) {
			names[flag.Name] = true
		}
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return names
}

// readSettings reads a YAML file of one mapping from option names to a value or a
// list of values.
func readSettings(path string, known map[string]bool) (map[string][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var doc, second yaml.Node
	dec := yaml.NewDecoder(io.LimitReader(f, 1<<20))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil // empty, or only comments
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: holds more than one document", path)
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: must be a list of KEY: VALUE", path, top.Line)
	}
	settings := map[string][]string{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if !known[key.Value] {
			return nil, fmt.Errorf("%s:%d: unknown option %q", path, key.Line, key.Value)
		}
		if _, twice := settings[key.Value]; twice {
			return nil, fmt.Errorf("%s:%d: option %q is there twice", path, key.Line, key.Value)
		}
		values, err := settingValues(value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: option %q: %w", path, value.Line, key.Value, err)
		}
		settings[key.Value] = values
	}
	return settings, nil
}

// settingValues returns a scalar, or the scalars of a list, as they are written.
func settingValues(node *yaml.Node) ([]string, error) {
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag != "!!null":
		return []string{node.Value}, nil
	case node.Kind == yaml.SequenceNode && len(node.Content) > 0:
		var values []string
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return nil, errors.New("must be a list of plain values")
			}
			values = append(values, item.Value)
		}
		return values, nil
	}
	return nil, errors.New("must be a value or a list of values")
}
