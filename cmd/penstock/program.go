package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
)

// program is one run of the command line: its streams and what all subcommands
// share.
type program struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	env func(string) (string, bool)

	// started is set when flags, arguments and settings have proved right: from
	// then on an error is a failure, before it is wrong use.
	started bool
}

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run executes one command line and returns the exit status.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	cmd, err := root.ExecuteContextC(ctx)
	var wrong *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case p.started && !errors.As(err, &wrong):
		fmt.Fprintf(p.err, "penstock: %s\n", oneLine(err))
		return exitFailed
	}
	fmt.Fprintf(p.err, "penstock: %s\nRun '%s --help' for usage.\n", oneLine(err), cmd.CommandPath())
	return exitUsage
}

// root returns the tree of commands.
func (p *program) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "penstock",
		Short:         "Storage and cache tier for machine learning",
		SilenceErrors: true,
		SilenceUsage:  true,
	}, p.serveCommand(), p.benchCommand(), p.bucketCommand(), p.datasetCommand(), p.putCommand(), p.getCommand(), p.listCommand(), p.statCommand(),
		p.removeCommand(), p.copyCommand(), p.scrubCommand(), p.userCommand(), p.unpackCommand(), p.doctorCommand(), p.versionCommand(),
		p.completionCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	root.Long = `Penstock carries training data from slow, cheap storage to GPUs.

Every option is also read from the environment (--tls-cert from PENSTOCK_TLS_CERT)
and from a YAML file (--config FILE; key tls-cert). Flags win over the environment,
the environment wins over the file.`
	root.PersistentFlags().String("config", "", "YAML `FILE` with options (PENSTOCK_CONFIG)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := settle(cmd, p.env); err != nil {
			return err
		}
		p.started = true
		return nil
	}
	return root
}

// group makes cmd a command that only has subcommands.
func group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		return usagef("which command of %s? There are %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// wants checks the number of arguments. A negative most means any number.
func wants(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return fmt.Errorf("%d arguments are given; use: %s", len(args), cmd.UseLine())
		}
		return nil
	}
}

// usageError is wrong use that shows only when a command runs.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// errReported ends a command that has told everything itself.
var errReported = errors.New("reported")

// oneLine returns an error's message without line breaks.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// objectName parses an argument BUCKET/KEY.
func objectName(arg string) (penstock.Name, error) {
	name, err := penstock.ParseName(arg)
	if err != nil {
		return penstock.Name{}, &usageError{err}
	}
	return name, nil
}

// bucketName checks an argument BUCKET.
func bucketName(arg string) error {
	if err := object.ValidateBucket(arg); err != nil {
		return &usageError{err}
	}
	return nil
}
