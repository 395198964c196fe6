package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"time"
)

// lists walks through many keys, a page of 1,000 after the other.
func (b *bench) lists() error {
	fmt.Printf("\nListing %d keys with ListObjectsV2, pages of 1,000, one connection\n", b.o.keys)
	if err := once(b.penstock, &request{method: "PUT", path: "/many", payload: nothing, length: 0}); err != nil {
		return err
	}
	begin := time.Now()
	fill := exec.CommandContext(b.ctx, b.o.binary, "bench", "load", "--endpoint", "http://"+b.penstock.native, "--bucket", "many",
		"--op", "put-batch", "--batch", "1024", "--prefix", "train/", "--size", "100", "--keys", strconv.Itoa(b.o.keys),
		"--count", strconv.Itoa(b.o.keys), "--workers", "4")
	if out, err := fill.CombinedOutput(); err != nil {
		return fmt.Errorf("filling: %w: %s", err, out)
	}
	fmt.Printf("(filled by put-batch in %.0f s)\n", time.Since(begin).Seconds())
	var rates []float64
	var cpu []time.Duration
	for round := range b.o.rounds + 1 {
		keys := 0
		r, err := load(b.penstock, 1, 1, func(c *conn, _ int) (n int64, err error) {
			keys, n, err = walk(c)
			return n, err
		})
		if err != nil {
			return err
		}
		if keys != b.o.keys {
			return fmt.Errorf("listed %d keys of %d", keys, b.o.keys)
		}
		if round > 0 {
			rates, cpu = append(rates, float64(keys)/r.wall.Seconds()), append(cpu, r.cpu/time.Duration(keys))
		}
	}
	fmt.Printf("%.0f keys/s, %.2f µs of server CPU a key (medians of %d rounds)\n", median(rates), float64(median(cpu))/1e3, b.o.rounds)
	return nil
}

func walk(c *conn) (keys int, size int64, err error) {
	var page bytes.Buffer
	query := "list-type=2"
	for {
		n, err := c.do(&request{method: "GET", path: "/many", query: query, payload: nothing, length: -1}, &page)
		if err != nil {
			return keys, size, err
		}
		size += n
		keys += bytes.Count(page.Bytes(), []byte("<Key>"))
		const element = "<NextContinuationToken>"
		at := bytes.LastIndex(page.Bytes(), []byte(element))
		if at < 0 {
			return keys, size, nil
		}
		token, _, _ := bytes.Cut(page.Bytes()[at+len(element):], []byte{'<'})
		query = "continuation-token=" + url.QueryEscape(string(token)) + "&list-type=2"
	}
}
