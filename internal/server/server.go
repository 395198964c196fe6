// Package server makes a node out of its parts: disks, control records, store,
// data path and door. It is the only place that sees all of them, and the one
// that starts and stops them.
//
// New opens what can be opened without work under way; Run starts the parts in
// the order in which they need each other, serves until its context ends, drains,
// and stops them in the opposite order. Several servers may run in one process.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/s3api"
	"penstock.dev/penstock/internal/store"
)

// Server is one node.
type Server struct {
	opts     Options
	registry *prometheus.Registry
	store    *store.Store
	control  *cluster.Alone
	listener net.Listener // of the native door
	s3       net.Listener // of the S3 door; nil if that is closed
	tls      *tls.Config
	stuck    bool // requests did not end
}

// New opens the disks and the port. The caller runs or closes the server.
func New(ctx context.Context, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: o, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the parts, those that fail most cheaply first.
func (s *Server) open(ctx context.Context) (err error) {
	o := &s.opts
	if o.TLSCert != "" {
		pair, err := openCertificate(o.TLSCert, o.TLSKey, o.Logger, time.Now)
		if err != nil {
			return object.Errorf(object.Invalid, "TLS: %w", err)
		}
		s.tls = &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if s.listener, err = net.Listen(network(o.Listen), o.Listen); err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	if err := s.listenS3(); err != nil {
		return err
	}
	if o.Root.Token == "" && !s.loopback() && !o.used() {
		return object.Errorf(object.Denied, "listening beyond loopback without credentials is refused: set PENSTOCK_TOKEN, or start once on loopback to have a token made")
	}
	if err := s.openDisks(ctx); err != nil {
		return err
	}
	if o.Root.Token == "" && !s.loopback() {
		// Refuse now what could be refused only later, when credentials are made.
		err = auth.RequireToken(ctx, s.control)
	}
	return err
}

// listenS3 opens the port of the S3 door. If nobody asked for that port, and another
// process has it, the node goes without.
func (s *Server) listenS3() (err error) {
	o := &s.opts
	if o.S3 == "" {
		return nil
	}
	s.s3, err = net.Listen(network(o.S3), o.S3)
	if err != nil && o.S3Optional {
		o.Logger.Warn("the S3 door stays closed: its usual port cannot be had; --s3 gives it another", "address", o.S3, "error", err)
		return nil
	}
	if err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	return nil
}

// network keeps 0.0.0.0 to what it says: Go would listen on IPv6 too.
func network(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

// openDisks opens the store first, because it keeps other processes off the disks.
func (s *Server) openDisks(ctx context.Context) (err error) {
	o := &s.opts
	var disks []store.Disk
	var copies []cluster.Disk
	for _, d := range o.Data {
		fs := d.FS
		if fs == nil {
			fs = disk.NewDir(d.Dir)
		}
		disks = append(disks, store.Disk{FS: fs, Name: d.Dir, Kind: d.Kind, Quota: d.Quota})
		copies = append(copies, cluster.Disk{FS: fs, Name: d.Dir})
	}
	s.store, err = store.Open(ctx, store.Options{
		Disks: disks, Forget: o.Forget, Relaxed: o.Relaxed, PackSize: o.PackSize, Logger: o.Logger, Registry: s.registry,
	})
	if err != nil {
		return err
	}
	if len(copies) == 1 {
		// A second copy on the only disk, so that one damaged byte does not cost them.
		second := disk.Sub(copies[0].FS, "control.copy")
		if err := second.MkdirAll("."); err != nil {
			return object.Errorf(object.Unavailable, "%w", err)
		}
		copies = append(copies, cluster.Disk{FS: second, Name: copies[0].Name + "/control.copy"})
	}
	s.control, err = cluster.OpenAlone(cluster.AloneOptions{Disks: copies, AcceptLoss: len(o.Forget) > 0, Logger: o.Logger})
	return err
}

// Addr returns where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// loopback reports whether the server can be reached from this machine only. It
// asks the listener, not the option: names resolve to what they like.
func (s *Server) loopback() bool { return onLoopback(s.listener) }

func onLoopback(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Close frees what New opened, for a server that is not run.
func (s *Server) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.listener, s.s3} {
		if l != nil {
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// Run serves until the context ends, then drains: requests under way may finish,
// new ones are refused. It returns nil after a stop that was asked for, and frees
// what New opened. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	// What stands below the door outlives it: requests that finish need it.
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, below := errgroup.WithContext(below)
	group.Go(func() error { return s.control.Run(below) })
	group.Go(func() error { return s.store.Run(below) })
	err := s.serve(ctx, below, group)
	stop()
	if below := group.Wait(); !errors.Is(below, context.Canceled) {
		err = errors.Join(below, err) // the cause first
	}
	if s.stuck {
		return err // requests are still at work on the disks, which stay as after a crash
	}
	return errors.Join(err, s.Close())
}

// serve makes node and door, and keeps the door open until ctx or a part below
// ends.
func (s *Server) serve(ctx, below context.Context, group *errgroup.Group) error {
	o, addr := &s.opts, s.Addr().String()
	authority, fresh, err := auth.Open(below, s.control, auth.Options{Given: o.Root, MustExist: !s.loopback()})
	if err != nil {
		return err
	}
	group.Go(func() error { return authority.Run(below) })
	n, err := node.Open(below, node.Options{Name: o.Name, Address: addr, Store: s.store, Control: s.control, Logger: o.Logger, Registry: s.registry})
	if err != nil {
		return err
	}
	s.reportStrays(n)
	group.Go(func() error { return n.Run(below) })
	api, err := httpapi.New(httpapi.Options{
		Node: n, Authority: authority, Loopback: s.loopback(), Address: addr, Version: o.Version,
		Limits: o.Limits, Registry: s.registry, Gatherer: s.registry, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	doors := []entrance{s.entrance(api, api.Listen(s.listener, s.tls == nil))}
	started := Started{Name: o.Name, URL: s.url(s.listener), Address: addr, Fresh: fresh}
	if s.s3 != nil {
		s3, err := s3api.New(s3api.Options{
			Node: n, Authority: authority, Region: o.S3Region, Domains: o.S3Domains, Secure: s.tls != nil,
			Limits: s3Limits(o.Limits), Registry: s.registry, Logger: o.Logger,
		})
		if err != nil {
			return err
		}
		doors, started.S3 = append(doors, s.entrance(s3, s3.Listen(s.s3, s.tls == nil))), s.url(s.s3)
	}
	return s.keepOpen(ctx, below, doors, api.SetReady, started)
}

// s3Limits are those of the native door, as far as the S3 door has them.
func s3Limits(l httpapi.Limits) s3api.Limits {
	return s3api.Limits{Requests: l.Requests, Limits: l.Limits}
}

// entrance is a door with the port it is reached at.
type entrance struct {
	door
	listener net.Listener
}

// door is what every door has.
type door interface {
	Server() *http.Server
	Stop(ctx context.Context) error
}

// entrance puts TLS, if there is any, around a door's port.
func (s *Server) entrance(d door, l net.Listener) entrance {
	if s.tls != nil {
		return entrance{d, tls.NewListener(l, s.tls)}
	}
	if !onLoopback(l) {
		s.opts.Logger.Warn("listening beyond loopback without TLS: what passes can be read on the way", "address", l.Addr().String())
	}
	return entrance{d, l}
}

func (s *Server) url(l net.Listener) string {
	if s.tls != nil {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// reportStrays says which buckets have objects but no record: control records may
// have been lost. Making such a bucket again brings its objects back.
func (s *Server) reportStrays(n *node.Node) {
	for _, bucket := range s.store.Buckets() {
		if _, err := n.Bucket(object.BesideOf(bucket)); object.Is(err, object.NotFound) {
			s.opts.Logger.Error("objects of a bucket are there, but the bucket is not: were control records lost?", "bucket", bucket)
		}
	}
}
