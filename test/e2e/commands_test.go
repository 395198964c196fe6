package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"penstock.dev/penstock/internal/testcluster"
)

// nodesKey is where a script keeps its nodes.
type nodesKey struct{}

// scriptT makes a script a test for testcluster. A script prints its log when it
// fails, so a node's errors always go there.
type scriptT struct{ *testscript.TestScript }

func (scriptT) Helper()            {}
func (t scriptT) Cleanup(f func()) { t.Defer(f) }
func (scriptT) Failed() bool       { return true }
func (t scriptT) TempDir() string  { return t.MkAbs(".") }

// node starts, kills, stops and restarts nodes.
func node(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: node start|kill|stop|restart|output NAME [ARGUMENT...]")
	}
	nodes := ts.Value(nodesKey{}).(map[string]*testcluster.Node)
	n := nodes[args[1]]
	if n == nil {
		binary, err := exec.LookPath("penstock")
		ts.Check(err)
		n = testcluster.New(scriptT{ts}, testcluster.Options{
			Binary: binary, Dir: ts.MkAbs("."), Data: []string{ts.MkAbs(args[1] + "-data")}, Args: args[2:],
			Env: []string{"PENSTOCK_TOKEN=" + ts.Getenv("PENSTOCK_TOKEN")},
		})
		nodes[args[1]] = n
	}
	switch args[0] {
	case "start":
		ts.Check(n.Start())
	case "kill":
		n.Kill()
	case "stop":
		ts.Check(n.Stop())
	case "restart":
		ts.Check(n.Restart())
	case "output":
		fmt.Fprint(ts.Stdout(), n.Stdout())
	default:
		ts.Fatalf("node: unknown %q", args[0])
	}
	ts.Setenv("PENSTOCK_ENDPOINT", n.Endpoint)
}

// exits runs a command and compares its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// jsonValue looks into the last output: `json 0.key cat.jpg`. A dot alone is the
// whole of it; for objects and lists the value is their length.
func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	ts.Check(dec.Decode(&v))
	if dec.More() {
		ts.Fatalf("more than one JSON value")
	}
	for _, step := range strings.FieldsFunc(args[0], func(r rune) bool { return r == '.' }) {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			ts.Check(err)
			if i >= len(at) {
				ts.Fatalf("%s: there are only %d", args[0], len(at))
			}
			v = at[i]
		default:
			ts.Fatalf("%s: nothing at %q", args[0], step)
		}
	}
	switch at := v.(type) {
	case map[string]any:
		v = len(at)
	case []any:
		v = len(at)
	}
	if got := fmt.Sprint(v); (got == args[1]) == neg {
		ts.Fatalf("%s is %s", args[0], got)
	}
}

// damage flips one bit where a text first occurs in one of the files that match a
// pattern.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILES TEXT")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		at := bytes.Index(data, []byte(args[1]))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		ts.Check(err)
		defer f.Close()
		_, err = f.WriteAt([]byte{data[at] ^ 1}, int64(at))
		ts.Check(err)
		return
	}
	ts.Fatalf("%q is in none of %d files", args[1], len(files))
}
