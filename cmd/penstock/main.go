// Command penstock runs a node and talks to one. Each subcommand has a file of
// its own: flags in, one call, output out.
//
// It exits with 0 when all went well, 1 when something failed, 2 when it was used
// wrongly.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The first signal ends the context, and with it the command in good order.
	// After it the second one has its default effect: the process ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv}
	os.Exit(p.run(ctx, os.Args[1:]))
}
