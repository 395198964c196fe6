package main

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"penstock.dev/penstock"
)

// checkNode asks the node at the endpoint how it is, and looks whether a new one
// could listen.
func (e *examination) checkNode(ctx context.Context, client *penstock.Client, listen string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := client.Health(ctx)
	reached := !penstock.Is(err, penstock.Unavailable) && !penstock.Is(err, penstock.Canceled)
	e.checkPort(listen, reached)
	switch {
	case !reached:
		e.add("node", statusOK, "none answers: %s", oneLine(err))
		return
	case penstock.Is(err, penstock.Busy):
		e.add("node", statusWarn, "%s", oneLine(err))
	case err != nil:
		e.add("node", statusFail, "%s", oneLine(err))
	default:
		e.add("node", statusOK, "%s is ready", client.Endpoint())
	}
	e.checkVersion(ctx, client)
	e.checkDisks(ctx, client)
}

// checkVersion compares the node's program with this one.
func (e *examination) checkVersion(ctx context.Context, client *penstock.Client) {
	mine := readVersion().Version
	switch theirs, err := client.Version(ctx); {
	case err != nil:
		e.add("version", statusWarn, "%s", oneLine(err))
	case theirs != mine:
		e.add("version", statusWarn, "the node is %s, this command is %s", theirs, mine)
	default:
		e.add("version", statusOK, "the node is %s", theirs)
	}
}

// checkDisks asks the node about its disks.
func (e *examination) checkDisks(ctx context.Context, client *penstock.Client) {
	disks, err := client.Disks(ctx)
	if err != nil {
		e.add("disks", statusWarn, "%s", oneLine(err))
		return
	}
	for _, d := range disks {
		switch d.State {
		case "ok":
			e.add("disk", statusOK, "%s %s: %s free of %s, %s in use", d.ID, d.Name, formatSize(d.Free), formatSize(d.Size), formatSize(d.Used))
		case "full", "rebuilding":
			e.add("disk", statusWarn, "%s %s: %s %s", d.ID, d.Name, d.State, d.Error)
		default:
			e.add("disk", statusFail, "%s %s: %s %s", d.ID, d.Name, d.State, d.Error)
		}
	}
}

// checkPort tries whether a node could listen.
func (e *examination) checkPort(address string, reached bool) {
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		listener.Close()
		e.add("port", statusOK, "%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE) && reached:
		e.add("port", statusOK, "%s is in use, and a node answers", address)
	case errors.Is(err, syscall.EADDRINUSE):
		e.add("port", statusFail, "%s is in use, and no node answers; choose another with --listen", address)
	default:
		e.add("port", statusFail, "%v", err)
	}
}
