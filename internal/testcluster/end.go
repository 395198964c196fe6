package testcluster

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Pid returns the process id of the node, zero if it does not run.
func (n *Node) Pid() int {
	if !n.Running() {
		return 0
	}
	return n.cmd.Process.Pid
}

// Running reports whether the process has been started and not yet been seen to
// end.
func (n *Node) Running() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// Data returns the arguments of --data.
func (n *Node) Data() []string { return n.opts.Data }

// Stderr returns the last of what the node logged since it was last started.
func (n *Node) Stderr() string { return n.stderr.String() }

// Stdout returns the last of what the node printed since it was last started.
func (n *Node) Stdout() string { return n.stdout.String() }

// Exited is closed when the process that runs now has ended.
func (n *Node) Exited() <-chan struct{} { return n.exited }

// ExitCode returns how the last process ended: its status, or -1 if a signal
// ended it. It waits until it has.
func (n *Node) ExitCode() int {
	<-n.exited
	return n.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the node.
func (n *Node) Signal(sig os.Signal) error { return n.cmd.Process.Signal(sig) }

// Kill ends the node as a crash would, with SIGKILL, and waits until it is gone.
func (n *Node) Kill() { n.end() }

// Stop ends the node with SIGTERM. It is an error if the node does not exit with
// 0 in time.
func (n *Node) Stop() error {
	if !n.Running() {
		return fmt.Errorf("testcluster: the node is not running")
	}
	if err := n.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timeout := time.NewTimer(n.opts.Timeout)
	defer timeout.Stop()
	select {
	case <-n.exited:
	case <-timeout.C:
		n.end()
		return fmt.Errorf("testcluster: the node did not stop in %s\n%s", n.opts.Timeout, n.stderr)
	}
	if n.err != nil {
		return fmt.Errorf("testcluster: stopped with %w\n%s", n.err, n.stderr)
	}
	return nil
}

// Restart starts the node again on the same port and data, killing it first if it
// runs.
func (n *Node) Restart() error {
	n.end()
	return n.Start()
}

// SetArgs replaces the further arguments of `penstock serve` for the next start.
func (n *Node) SetArgs(args ...string) { n.opts.Args = args }

// SetData replaces the arguments of --data for the next start.
func (n *Node) SetData(data ...string) { n.opts.Data = data }

// end kills the process, if it runs, and waits for it.
func (n *Node) end() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended by itself
	<-n.exited
}
