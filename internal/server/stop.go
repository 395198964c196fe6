package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"penstock.dev/penstock/internal/httpapi"
)

// stopTime is how long requests that were cut off may take to notice.
const stopTime = 10 * time.Second

// keepOpen serves on the listener until one of the contexts ends, and closes the
// door in good order.
func (s *Server) keepOpen(ctx, below context.Context, api *httpapi.API, listener net.Listener, started Started) error {
	requests, cutOff := context.WithCancel(below)
	defer cutOff()
	door := api.Server()
	door.BaseContext = func(net.Listener) context.Context { return requests }
	served := make(chan error, 1)
	go func() { served <- door.Serve(listener) }()
	api.SetReady(true)
	s.opts.Logger.Info("serving", "name", started.Name, "address", started.Address, "disks", len(s.opts.Data))
	if s.opts.Ready != nil {
		s.opts.Ready(started)
	}
	var end error
	select {
	case <-ctx.Done():
	case <-below.Done():
	case end = <-served: // the listener broke
	}
	s.opts.Logger.Info("stopping", "name", started.Name)
	api.SetReady(false)
	err := s.drain(door, api, cutOff)
	if end == nil {
		end = <-served
	}
	if errors.Is(end, http.ErrServerClosed) {
		end = nil
	}
	return errors.Join(end, err)
}

// drain closes the listener and lets requests finish for a while; those that take
// longer are cut off. When it returns none is at work on the store, or s.stuck is
// set.
func (s *Server) drain(door *http.Server, api *httpapi.API, cutOff func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Drain)
	defer cancel()
	err := door.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.opts.Logger.Warn("requests are cut off: the time to drain is over", "drain", s.opts.Drain)
		cutOff()
		err = door.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	last, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	stuck := api.Stop(last)
	s.stuck = stuck != nil
	return errors.Join(err, stuck)
}
