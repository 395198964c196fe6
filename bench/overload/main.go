// Command overload shows what a node does with ten times the load it can take:
// every disk operation of the log takes 5 ms longer, the door has 16 slots, and
// writes come in an open loop, whether earlier ones are answered or not.
//
//	go run ./bench/overload [-seconds 10] [-times 10]
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/httpapi"
	"penstock.dev/penstock/internal/server"
)

const slots = 16

func main() {
	seconds := flag.Int("seconds", 10, "how long each load lasts")
	times := flag.Float64("times", 10, "how many times the rate the node can take")
	flag.Parse()
	if err := run(time.Duration(*seconds)*time.Second, *times); err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

func run(length time.Duration, times float64) error {
	dir, err := os.MkdirTemp("", "penstock-overload-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	slow := fault.InjectOn(disk.NewDir(dir), fault.OpWrite|fault.OpSync, fault.Delay(5*time.Millisecond, fault.OpWrite|fault.OpSync))
	ready := make(chan server.Started, 1)
	s, err := server.New(context.Background(), server.Options{
		Data: []server.Data{{Dir: dir, FS: slow}}, Listen: "127.0.0.1:0", Limits: httpapi.Limits{Requests: slots},
		Ready: func(st server.Started) { ready <- st },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	started := <-ready
	err = measure(started, length, times)
	cancel()
	return errors.Join(err, <-done)
}

func measure(st server.Started, length time.Duration, times float64) error {
	req, err := http.NewRequest(http.MethodPut, st.URL+"/v1/buckets/load", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()

	unloaded := (&loop{address: st.Address, connections: 1}).run(length / 2)
	unloaded.print("unloaded, 1 connection, closed loop")
	full := (&loop{address: st.Address, connections: slots}).run(length / 2)
	full.print(fmt.Sprintf("full, %d connections, closed loop", slots))
	over := (&loop{address: st.Address, connections: 256, rate: times * full.rate()}).run(length)
	over.print(fmt.Sprintf("overloaded, open loop at %.0f times that rate", times))
	after := (&loop{address: st.Address, connections: slots}).run(5 * time.Second)
	after.print("after, closed loop, the first 5 s")
	fmt.Printf("\nadmitted p99 %.2f x unloaded p99, %.2f x full p99; refused p99 %v; rate after / before %.2f\n",
		ratio(over.admitted, unloaded.admitted), ratio(over.admitted, full.admitted), percentile(over.refused, 99), after.rate()/full.rate())
	return nil
}

func ratio(a, b []time.Duration) float64 {
	return float64(percentile(a, 99)) / float64(percentile(b, 99))
}

// loop sends PUTs of 4 KiB over a number of connections: as fast as answers come,
// or at a rate of its own.
type loop struct {
	address     string
	connections int
	rate        float64
}

type outcome struct {
	mu                sync.Mutex
	admitted, refused []time.Duration
	others            int
	length            time.Duration
	memory            uint64
	late              int // requests that no connection was free for
}

func (o *outcome) rate() float64 { return float64(len(o.admitted)) / o.length.Seconds() }

func (o *outcome) print(what string) {
	fmt.Printf("%-48s admitted %6.0f/s p50 %8v p99 %8v   refused %6.0f/s p99 %8v   other %d late %d   heap %d MiB\n", what, o.rate(),
		percentile(o.admitted, 50), percentile(o.admitted, 99), float64(len(o.refused))/o.length.Seconds(), percentile(o.refused, 99), o.others, o.late, o.memory>>20)
}

func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Clone(d)
	slices.Sort(s)
	return s[min(len(s)-1, len(s)*p/100)].Round(10 * time.Microsecond)
}

func (l *loop) run(length time.Duration) *outcome {
	out := &outcome{length: length}
	due := make(chan time.Time, l.connections)
	stop := time.Now().Add(length)
	var number atomic.Int64
	var wg sync.WaitGroup
	for range l.connections {
		wg.Go(func() { l.connection(due, stop, &number, out) })
	}
	if l.rate > 0 {
		for at := time.Now(); at.Before(stop); at = at.Add(time.Duration(float64(time.Second) / l.rate)) {
			if wait := time.Until(at); wait > time.Millisecond {
				time.Sleep(wait)
			}
			select {
			case due <- at:
			default:
				out.late++
			}
		}
	}
	close(due)
	wg.Wait()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	out.memory = m.HeapInuse
	return out
}

// connection sends requests one after the other and notes how they went. In an
// open loop the time counts from when the request was due.
func (l *loop) connection(due <-chan time.Time, stop time.Time, number *atomic.Int64, out *outcome) {
	var c net.Conn
	var r *bufio.Reader
	body := bytes.Repeat([]byte("o"), 4<<10)
	for {
		begin := time.Now()
		if l.rate > 0 {
			at, ok := <-due
			if !ok {
				break
			}
			begin = at
		} else if begin.After(stop) {
			break
		}
		if c == nil {
			var err error
			if c, err = net.Dial("tcp", l.address); err != nil {
				out.note(0, 0)
				continue
			}
			r = bufio.NewReader(c)
		}
		fmt.Fprintf(c, "PUT /v1/objects/load/%d HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", number.Add(1), l.address, len(body), body)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			out.note(0, 0)
			c.Close()
			c = nil
			continue
		}
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // on loopback
		out.note(resp.StatusCode, time.Since(begin))
		if resp.Close {
			c.Close()
			c = nil
		}
	}
	if c != nil {
		c.Close()
	}
}

func (o *outcome) note(status int, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch status {
	case http.StatusOK, http.StatusCreated:
		o.admitted = append(o.admitted, took)
	case http.StatusServiceUnavailable:
		o.refused = append(o.refused, took)
	default:
		o.others++
	}
}
