package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// sample returns a tree of commands with flags of each kind.
func sample() (root, leaf *cobra.Command) {
	root = &cobra.Command{Use: "root"}
	root.PersistentFlags().String("config", "", "")
	leaf = &cobra.Command{Use: "leaf", Run: func(*cobra.Command, []string) {}}
	dataFlags(leaf)
	leaf.Flags().String("tls-cert", "default", "")
	leaf.Flags().Int("limit", 1, "")
	leaf.Flags().Var(new(size), "quota", "")
	leaf.Flags().Bool("json", false, "")
	other := &cobra.Command{Use: "other"}
	other.Flags().String("endpoint", "", "")
	root.AddCommand(leaf, other)
	return root, leaf
}

// settled parses a command line of leaf and settles it.
func settled(t *testing.T, file string, env map[string]string, args ...string) (*cobra.Command, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "penstock.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	_, leaf := sample()
	if err := leaf.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return leaf, settle(leaf, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestPrecedence(t *testing.T) {
	const file = "tls-cert: from file\nlimit: 3\nquota: 64MiB\ndata:\n  - /f1,kind=ssd\n  - /f2\njson: true\nendpoint: http://elsewhere\n"
	env := map[string]string{"PENSTOCK_TLS_CERT": "from env", "PENSTOCK_LIMIT": "2", "PENSTOCK_DATA": "/e1;/e2,quota=1KiB"}
	for _, tt := range []struct {
		what string
		file string
		env  map[string]string
		args []string
		want map[string]string
	}{
		{"nothing", "", nil, nil, map[string]string{"tls-cert": "default", "limit": "1", "quota": "0", "data": "", "json": "false"}},
		{"file", file, nil, nil, map[string]string{"tls-cert": "from file", "limit": "3", "quota": "64MiB", "data": "/f1,kind=ssd;/f2", "json": "true"}},
		{"environment over file", file, env, nil, map[string]string{"tls-cert": "from env", "limit": "2", "quota": "64MiB", "data": "/e1;/e2,quota=1KiB"}},
		{
			"flags over both", file, env,
			[]string{"--tls-cert", "from flag", "--limit=1", "--data", "/a"},
			map[string]string{"tls-cert": "from flag", "limit": "1", "quota": "64MiB", "data": "/a"},
		},
		{"an empty variable is none", file, map[string]string{"PENSTOCK_LIMIT": ""}, nil, map[string]string{"limit": "3"}},
		{"one value for many", "data: /one\n", nil, nil, map[string]string{"data": "/one"}},
		{"numbers are not touched", "tls-cert: 007\nquota: 1000\n", nil, nil, map[string]string{"tls-cert": "007", "quota": "1000B"}},
		{"only comments", "# nothing\n", nil, nil, map[string]string{"limit": "1"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			cmd, err := settled(t, tt.file, tt.env, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if got := cmd.Flag(name).Value.String(); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestWrongSettings(t *testing.T) {
	for _, tt := range []struct {
		file string
		env  map[string]string
		want string
	}{
		{"tls-cret: x\n", nil, `:1: unknown option "tls-cret"`},
		{"limit: 1\nlimit: 2\n", nil, `:2: option "limit" is there twice`},
		{"limit: many\n", nil, `invalid argument "many" for "--limit"`},
		{"quota: 64M\n", nil, `"64M" is not a size`},
		{"limit: [1, 2]\n", nil, "limit takes one value, not a list"},
		{"limit:\n", nil, "must be a value"},
		{"limit: {a: b}\n", nil, "must be a value"},
		{"data: [[/a]]\n", nil, "list of plain values"},
		{"data: []\n", nil, "must be a value"},
		{"- a\n", nil, "must be a list of KEY: VALUE"},
		{"a: b: c\n", nil, "mapping values are not allowed"},
		{"limit: 1\n---\nlimit: 2\n", nil, "more than one document"},
		{"help: true\n", nil, "unknown option"},
		{"config: other.yaml\n", nil, "unknown option"},
		{"", map[string]string{"PENSTOCK_LIMIT": "x"}, `PENSTOCK_LIMIT: invalid argument "x"`},
		{"", map[string]string{"PENSTOCK_CONFIG": "/nowhere.yaml"}, "/nowhere.yaml"},
	} {
		_, err := settled(t, tt.file, tt.env)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %v: %v, want %q", tt.file, tt.env, err, tt.want)
		}
	}
}
