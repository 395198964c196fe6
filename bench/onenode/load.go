package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is a number of requests over a number of connections.
type load struct {
	connections int
	count       int
	names       []string // each request takes one, in random order
	body        []byte   // not nil: PUT to a new name each time
}

type result struct {
	objects int
	cpu     time.Duration // of the server
	wall    time.Duration
	bytes   int64
}

func (r result) perObject() time.Duration { return r.cpu / time.Duration(r.objects) }

func (r result) rate() float64 { return float64(r.objects) / r.wall.Seconds() }

func (l load) run(ctx context.Context, s *server, prefix string) (result, error) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: l.connections, MaxConnsPerHost: l.connections, DisableCompression: true, ReadBufferSize: 256 << 10,
		DialContext: (&net.Dialer{}).DialContext,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var next, bytesSum atomic.Int64
	var failed atomic.Pointer[error]
	before, err := s.cpu()
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for range l.connections {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for {
				i := int(next.Add(1)) - 1
				if i >= l.count || failed.Load() != nil {
					return
				}
				var n int64
				var err error
				if l.body != nil {
					n, err = l.put(ctx, client, s.url+fmt.Sprintf("%s%08d", prefix, i))
				} else {
					n, err = get(ctx, client, s.url+l.names[r.IntN(len(l.names))])
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				bytesSum.Add(n)
			}
		})
	}
	wg.Wait()
	wall := time.Since(begin)
	if err := failed.Load(); err != nil {
		return result{}, fmt.Errorf("%s: %w", s.name, *err)
	}
	after, err := s.cpu()
	return result{objects: l.count, cpu: after - before, wall: wall, bytes: bytesSum.Load()}, err
}

func get(ctx context.Context, client *http.Client, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n != resp.ContentLength) {
		err = fmt.Errorf("%s: %s, %d bytes", url, resp.Status, n)
	}
	return n, err
}

func (l load) put(ctx context.Context, client *http.Client, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(l.body))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	msg, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, msg)
	}
	return int64(len(l.body)), err
}

func median[T int64 | float64 | time.Duration](v []T) T {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
