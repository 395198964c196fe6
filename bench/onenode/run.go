package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type options struct {
	rounds int
	binary string
	bare   string
	dir    string
	only   []string
}

func run(ctx context.Context, o options) error {
	scratch, err := os.MkdirTemp(o.dir, "penstock-bench-")
	if err != nil {
		return err
	}
	if scratch, err = filepath.Abs(scratch); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	files := filepath.Join(scratch, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return err
	}
	penstock, err := startPenstock(ctx, o, filepath.Join(scratch, "data"))
	if err != nil {
		return err
	}
	defer penstock.stop()
	bare, err := startBare(ctx, o, files)
	if err != nil {
		return err
	}
	defer bare.stop()
	nginx, err := startNginx(ctx, files, scratch)
	if err != nil {
		return err
	}
	defer nginx.stop()
	if err := makeBucket(ctx, penstock); err != nil {
		return err
	}
	b := bench{ctx: ctx, o: o, files: files, penstock: penstock, bare: bare, nginx: nginx}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"get", b.gets}, {"put", b.puts}, {"large", b.largePuts}} {
		if slices.Contains(o.only, part.name) {
			if err := part.run(); err != nil {
				return fmt.Errorf("%w\n%s", err, penstock.logs)
			}
		}
	}
	return nil
}

type bench struct {
	ctx                   context.Context
	o                     options
	files                 string
	penstock, bare, nginx *server
}

func makeBucket(ctx context.Context, s *server) error {
	url := strings.Replace(strings.TrimSuffix(s.url, "/"), "/v1/objects/", "/v1/buckets/", 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return errors.New("creating the bucket: " + resp.Status)
	}
	return nil
}

// gets compares reads: the same objects as files for the references.
func (b *bench) gets() error {
	fmt.Println("\nGET, 8 connections, warm: server CPU per object (median of rounds; ratios are medians of ratios within a round)")
	fmt.Printf("%-8s  %12s  %12s  %12s  %18s  %18s\n", "size", "penstock", "bare Go", "nginx", "penstock/bare", "penstock/nginx")
	for _, size := range []struct {
		name          string
		bytes, number int
		count         int
	}{{"4KiB", 4 << 10, 1000, 30000}, {"128KiB", 128 << 10, 500, 10000}, {"1MiB", 1 << 20, 100, 4000}, {"10MiB", 10 << 20, 20, 500}} {
		names, err := b.makeObjects(size.name, size.bytes, size.number)
		if err != nil {
			return err
		}
		all := []*server{b.penstock, b.bare, b.nginx}
		cpu := make([][]time.Duration, 3)
		var overBare, overNginx []float64
		for round := range b.o.rounds + 1 {
			var in [3]time.Duration
			for i, s := range all {
				r, err := load{connections: 8, count: size.count, names: names}.run(b.ctx, s, "")
				if err != nil {
					return err
				}
				in[i] = r.perObject()
			}
			if round == 0 {
				continue // warms up
			}
			for i := range all {
				cpu[i] = append(cpu[i], in[i])
			}
			overBare = append(overBare, float64(in[0])/float64(in[1]))
			overNginx = append(overNginx, float64(in[0])/float64(in[2]))
		}
		fmt.Printf("%-8s  %12v  %12v  %12v  %18.2f  %18.2f\n", size.name, short(median(cpu[0])), short(median(cpu[1])), short(median(cpu[2])), median(overBare), median(overNginx))
	}
	return nil
}

func short(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

func (b *bench) makeObjects(prefix string, size, number int) ([]string, error) {
	body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	var names []string
	for i := range number {
		name := fmt.Sprintf("%s-%05d", prefix, i)
		names = append(names, name)
		if err := os.WriteFile(filepath.Join(b.files, name), body, 0o644); err != nil {
			return nil, err
		}
		if _, err := (load{body: body}).put(b.ctx, http.DefaultClient, b.penstock.url+name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// puts measures small durable writes.
func (b *bench) puts() error {
	fmt.Println("\nPUT 4 KiB, durable, 64 connections")
	body := bytes.Repeat([]byte("p"), 4<<10)
	var rates []float64
	var cpu []time.Duration
	for round := range b.o.rounds + 1 {
		r, err := load{connections: 64, count: 40000, body: body}.run(b.ctx, b.penstock, fmt.Sprintf("put/%d/", round))
		if err != nil {
			return err
		}
		if round > 0 {
			rates, cpu = append(rates, r.rate()), append(cpu, r.perObject())
		}
	}
	fmt.Printf("%.0f objects/s, %s of server CPU an object (medians of %d rounds)\n", median(rates), short(median(cpu)), b.o.rounds)
	return nil
}

// largePuts compares large durable writes with dd of the same bytes, each beside
// the other.
func (b *bench) largePuts() error {
	fmt.Println("\nPUT 10 MiB, durable, 1 connection, beside dd conv=fsync of the same bytes")
	const size, each = 10 << 20, 20
	body := bytes.Repeat([]byte("L"), size)
	source := filepath.Join(b.files, "dd-source")
	if err := os.WriteFile(source, body, 0o644); err != nil {
		return err
	}
	var ratios, ours, theirs []float64
	for round := range b.o.rounds + 1 {
		r, err := load{connections: 1, count: each, body: body}.run(b.ctx, b.penstock, fmt.Sprintf("large/%d/", round))
		if err != nil {
			return err
		}
		begin := time.Now()
		for i := range each {
			if err := dd(b.ctx, source, filepath.Join(b.files, fmt.Sprintf("dd-%d-%d", round, i))); err != nil {
				return err
			}
		}
		wall := time.Since(begin)
		if round == 0 {
			continue
		}
		mine, other := float64(r.bytes)/r.wall.Seconds()/1e6, float64(size*each)/wall.Seconds()/1e6
		ours, theirs, ratios = append(ours, mine), append(theirs, other), append(ratios, mine/other)
	}
	fmt.Printf("penstock %.0f MB/s, dd %.0f MB/s, ratio %.2f (medians of %d rounds)\n", median(ours), median(theirs), median(ratios), b.o.rounds)
	return nil
}
