// Command s3 measures the S3 door of a node beside its references in the same
// minutes, and prints the tables that docs/guide/performance.md shows. Servers are
// compared by the processor time they take, which noise on a shared machine hardly
// touches; rates are given as ratios to a reference run right before and after.
//
// The client is written for this: it signs by itself, keeps its connections and
// parses as little of an answer as it can, so that it leaves the cores to the server.
//
//	go run ./bench/s3 [-rounds 5] [-penstock bin/penstock] [-versitygw build/tools/versitygw] [-only get,put,list]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

type options struct {
	rounds    int
	keys      int
	binary    string
	signed    string
	versitygw string
	others    string
	dir       string
	only      []string
	show      bool
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each load runs; the median counts")
	flag.IntVar(&o.keys, "keys", 1_000_000, "how many keys are listed")
	flag.StringVar(&o.binary, "penstock", "bin/penstock", "the binary to measure")
	flag.StringVar(&o.signed, "signed", "build/signed", "the bare handler that verifies signatures (go build -o build/signed ./bench/signed)")
	flag.StringVar(&o.versitygw, "versitygw", "", "versitygw, to be measured beside it; empty for without")
	flag.StringVar(&o.others, "others", "", "other builds of penstock, separated by commas, to be measured beside it")
	flag.StringVar(&o.dir, "dir", "", "where to put data; default: the directory for temporary files")
	flag.BoolVar(&o.show, "show", false, "print the address of the node's native door, for a profiler")
	only := flag.String("only", "get,put,list", "which parts to run")
	flag.Parse()
	o.only = strings.Split(*only, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		stop()
		os.Exit(1)
	}
}
