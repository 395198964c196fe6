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
	// The first signal ends the context, and with it the command in good order. The
	// second one has its default effect, the process ends at once: so it is before
	// anybody can see that the first one was heeded.
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored, and Notify would bring it back
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		signal.Stop(signals)
		cancel()
	}()
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv}
	os.Exit(p.run(ctx, os.Args[1:]))
}
