package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/server"
)

// finding is the outcome of one thing the doctor looked at.
type finding struct {
	Check  string `json:"check"`
	Status status `json:"status"`
	Detail string `json:"detail"`
}

type status string

const (
	statusOK   status = "ok"
	statusWarn status = "warn"
	statusFail status = "fail"
)

// examination collects findings.
type examination struct{ findings []finding }

func (e *examination) add(check string, s status, format string, args ...any) {
	e.findings = append(e.findings, finding{check, s, fmt.Sprintf(format, args...)})
}

func (e *examination) failed() bool {
	for _, f := range e.findings {
		if f.Status == statusFail {
			return true
		}
	}
	return false
}

func (p *program) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a node on this machine needs",
		Long: `Check what a node on this machine needs: the data directories, the limits, the
clock, the port, and, if a node is running, its health and its disks. It changes
nothing, but writes and removes a small file in each data directory.

Exits with 1 if a check failed; a warning is not a failure.`,
		Args: wants(0, 0),
	}
	conn, asJSON, data := p.connectFlags(cmd), jsonFlag(cmd), dataFlags(cmd)
	listen := cmd.Flags().String("listen", defaultListen, "`ADDRESS` the node will listen at")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// What a start would refuse as wrong use is that here, too.
		opts := server.Options{Data: data.disks(), Listen: *listen}
		if err := opts.Validate(); err != nil {
			return &usageError{err}
		}
		e := new(examination)
		e.checkSystem()
		for _, dir := range data.all() {
			e.checkData(dir)
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		e.checkNode(cmd.Context(), client, *listen)
		if err := p.printFindings(e, *asJSON); err != nil {
			return err
		}
		if e.failed() {
			return errReported
		}
		return nil
	}
	return cmd
}

// defaultListen is where a node listens when it is told nothing else.
const defaultListen = "127.0.0.1:7400"

// defaultS3 is where its S3 door is.
const defaultS3 = "127.0.0.1:7480"

func (p *program) printFindings(e *examination, asJSON bool) error {
	if asJSON {
		return p.printJSON(e.findings)
	}
	for _, f := range e.findings {
		if _, err := fmt.Fprintf(p.out, "%-4s  %-14s  %s\n", f.Status, f.Check, f.Detail); err != nil {
			return err
		}
	}
	return nil
}
