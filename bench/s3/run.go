package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bench is the servers, and where files for the references lie.
type bench struct {
	ctx      context.Context
	o        options
	files    string
	penstock *server
	signed   *server
	nginx    *server
	peers    []*server // others that store
}

func run(ctx context.Context, o options) (err error) {
	scratch, err := os.MkdirTemp(o.dir, "penstock-bench-")
	if err != nil {
		return err
	}
	if scratch, err = filepath.Abs(scratch); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	b := &bench{ctx: ctx, o: o, files: filepath.Join(scratch, "files")}
	if err := os.MkdirAll(filepath.Join(b.files, "bench"), 0o755); err != nil {
		return err
	}
	if b.penstock, err = startPenstock(ctx, o, "penstock", o.binary, filepath.Join(scratch, "data")); err != nil {
		return err
	}
	defer b.penstock.stop()
	if b.signed, err = startSigned(ctx, o, b.files); err != nil {
		return err
	}
	defer b.signed.stop()
	if b.nginx, err = startNginx(ctx, b.files, scratch); err != nil {
		return err
	}
	defer b.nginx.stop()
	if o.versitygw != "" {
		s, err := startVersitygw(ctx, o, filepath.Join(scratch, "versitygw"))
		if err != nil {
			return err
		}
		defer s.stop()
		b.peers = append(b.peers, s)
	}
	for i, binary := range strings.FieldsFunc(o.others, func(c rune) bool { return c == ',' }) {
		name := fmt.Sprintf("other %d", i+1)
		s, err := startPenstock(ctx, o, name, binary, filepath.Join(scratch, name))
		if err != nil {
			return err
		}
		defer s.stop()
		b.peers = append(b.peers, s)
	}
	for _, s := range b.stores() {
		if err := once(s, &request{method: "PUT", path: "/bench", payload: nothing, length: 0}); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"get", b.gets}, {"put", b.puts}, {"list", b.lists}} {
		if slices.Contains(o.only, part.name) {
			if err := part.run(); err != nil {
				return fmt.Errorf("%w\n%s", err, b.penstock.logs)
			}
		}
	}
	return nil
}

// stores are the servers to which objects can be written.
func (b *bench) stores() []*server { return append([]*server{b.penstock}, b.peers...) }

// once asks a server one thing.
func once(s *server, r *request, body ...[]byte) error {
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.do(r, nil, body...); err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return err
}

type result struct {
	requests int
	bytes    int64
	cpu      time.Duration // of the server
	wall     time.Duration
}

func (r result) perRequest() time.Duration { return r.cpu / time.Duration(r.requests) }

// perGB returns seconds of the server's CPU.
func (r result) perGB() float64 { return r.cpu.Seconds() / float64(r.bytes) * 1e9 }

// rate returns MB/s.
func (r result) rate() float64 { return float64(r.bytes) / r.wall.Seconds() / 1e6 }

// load asks a server a number of times over a number of connections. ask does so once,
// and returns how many bytes of content went over.
func load(s *server, connections, count int, ask func(c *conn, i int) (int64, error)) (result, error) {
	var next, sum atomic.Int64
	var failed atomic.Pointer[error]
	conns := make([]*conn, connections)
	for i := range conns {
		c, err := dial(s.address)
		if err != nil {
			return result{}, err
		}
		defer c.Close()
		conns[i] = c
	}
	before, err := s.cpu()
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count || failed.Load() != nil {
					return
				}
				n, err := ask(c, i)
				if err != nil {
					failed.Store(&err)
					return
				}
				sum.Add(n)
			}
		})
	}
	wg.Wait()
	wall := time.Since(begin)
	if err := failed.Load(); err != nil {
		return result{}, fmt.Errorf("%s: %w", s.name, *err)
	}
	after, err := s.cpu()
	return result{requests: count, bytes: sum.Load(), cpu: after - before, wall: wall}, err
}

func median[T int64 | float64 | time.Duration](v []T) T {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
