// Command onenode measures one node beside its references in the same minutes,
// and prints the table that docs/guide/performance.md shows. Servers are
// compared by the processor time they take per object, which noise on a shared
// machine hardly touches; rates are given as ratios to a reference run right
// before and after.
//
//	go run ./bench/onenode [-rounds 5] [-penstock bin/penstock] [-only get,put,large]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each load runs; the median counts")
	flag.StringVar(&o.binary, "penstock", "bin/penstock", "the binary to measure")
	flag.StringVar(&o.bare, "bare", "build/bare", "the bare Go handler (go build -o build/bare ./bench/bare)")
	flag.StringVar(&o.dir, "dir", "", "where to put data; default: a temporary directory under build/")
	only := flag.String("only", "get,put,large", "which parts to run")
	flag.Parse()
	o.only = strings.Split(*only, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "onenode:", err)
		stop()
		os.Exit(1)
	}
}
