package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopTime is how long requests that were cut off may take to notice.
const stopTime = 10 * time.Second

// keepOpen serves at all doors until one of the contexts ends, and closes them in good
// order.
func (s *Server) keepOpen(ctx, below context.Context, doors []entrance, ready func(bool), started Started) error {
	requests, cutOff := context.WithCancel(below)
	defer cutOff()
	served := make(chan error, len(doors))
	servers := make([]*http.Server, len(doors))
	for i, d := range doors {
		servers[i] = d.Server()
		servers[i].BaseContext = func(net.Listener) context.Context { return requests }
		go func() { served <- servers[i].Serve(d.listener) }()
	}
	ready(true)
	s.opts.Logger.Info("serving", "name", started.Name, "address", started.Address, "s3", started.S3, "disks", len(s.opts.Data))
	if s.opts.Ready != nil {
		s.opts.Ready(started)
	}
	var ends []error
	select {
	case <-ctx.Done():
	case <-below.Done():
	case end := <-served: // a listener broke
		ends = append(ends, end)
	}
	s.opts.Logger.Info("stopping", "name", started.Name)
	ready(false)
	err := s.drain(doors, servers, cutOff)
	for len(ends) < len(doors) {
		ends = append(ends, <-served)
	}
	for i, end := range ends {
		if errors.Is(end, http.ErrServerClosed) {
			ends[i] = nil
		}
	}
	return errors.Join(errors.Join(ends...), err)
}

// drain closes the listeners and lets requests finish for a while; those that take
// longer are cut off. When it returns none is at work on the store, or s.stuck is set.
func (s *Server) drain(doors []entrance, servers []*http.Server, cutOff func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Drain)
	defer cancel()
	var group errgroup.Group
	for _, server := range servers {
		group.Go(func() error { return server.Shutdown(ctx) })
	}
	err := group.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		s.opts.Logger.Warn("requests are cut off: the time to drain is over", "drain", s.opts.Drain)
		cutOff()
		err = nil
		for _, server := range servers {
			err = errors.Join(err, server.Close())
		}
	}
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	last, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for _, d := range doors {
		if stuck := d.Stop(last); stuck != nil {
			s.stuck = true
			err = errors.Join(err, stuck)
		}
	}
	return err
}
