// Package e2e runs the real binary as users do, in scripts.
//
// Each file in testdata is one session: commands, what they print and how they
// exit. Beside what testscript knows, a script has:
//
//	node start NAME [ARGUMENT...]   start a node, wait until it is ready, point
//	                                PENSTOCK_ENDPOINT at it; data in NAME-data
//	node kill|stop|restart NAME     SIGKILL; SIGTERM and exit 0; start again
//	node output NAME                what it has printed, as the last output
//	exits STATUS COMMAND...         run a command that exits with this status
//	json PATH VALUE                 the last output is JSON and has VALUE there
//	certificate CERT KEY            make a certificate for 127.0.0.1
//	damage FILES TEXT               flip a bit of TEXT in one of these files
package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"penstock.dev/penstock/internal/testcluster"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		_, err = testcluster.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return m.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Values[nodesKey{}] = map[string]*testcluster.Node{}
			env.Setenv("PATH", os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node":        node,
			"exits":       exits,
			"json":        jsonValue,
			"certificate": certificate,
			"damage":      damage,
		},
		RequireUniqueNames: true,
	})
}
