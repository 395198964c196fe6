package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const policy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::open/*"}]}`

// asBoto3 are the headers that boto3 sends with a GET beside those that all have.
var asBoto3 = []field{
	{"accept-encoding", "identity"},
	{"amz-sdk-invocation-id", "2d1f2d7c-6a04-4b53-9d28-0a4d9e3b1f55"},
	{"amz-sdk-request", "attempt=1"},
	{"user-agent", "Boto3/1.43.11 md/Botocore#1.43.11 ua/2.1 os/linux#6.18 md/arch#x86_64 lang/python#3.13.5 md/pyimpl#CPython m/Z,b,D cfg/retry-mode#legacy Botocore/1.43.11"},
	{"x-amz-checksum-mode", "ENABLED"},
}

// gets compares reads: the same objects as files for the references.
func (b *bench) gets() error {
	small, err := b.makeObjects("4KiB", 4<<10, 1000)
	if err != nil {
		return err
	}
	large, err := b.makeObjects("10MiB", 10<<20, 20)
	if err != nil {
		return err
	}
	all := append(b.stores(), b.signed, b.nginx)
	fmt.Println("\nGET, 8 connections, warm: server CPU per request (median of rounds), and penstock's over another's (median of the rounds' ratios)")
	fmt.Printf("%-26s", "")
	for _, s := range all {
		fmt.Printf("  %14s", s.name)
	}
	for _, s := range all[1:] {
		fmt.Printf("  %14s", "/ "+s.name)
	}
	fmt.Println()
	for _, row := range []struct {
		name   string
		names  []string
		count  int
		bucket string
		form   func(c *conn, path string) *request
	}{
		{"4 KiB, signed", small, 20000, "bench", func(_ *conn, path string) *request {
			return &request{method: "GET", path: path, payload: nothing, length: -1}
		}},
		{"4 KiB, as boto3 asks", small, 20000, "bench", func(_ *conn, path string) *request {
			return &request{method: "GET", path: path, payload: nothing, length: -1, fields: asBoto3}
		}},
		{"4 KiB, presigned", small, 20000, "bench", func(c *conn, path string) *request {
			return &request{method: "GET", path: path, query: c.presign(path), length: -1}
		}},
		{"4 KiB, anonymous, policy", small, 20000, "open", func(_ *conn, path string) *request {
			return &request{method: "GET", path: path, length: -1}
		}},
		{"10 MiB, signed", large, 300, "bench", func(_ *conn, path string) *request {
			return &request{method: "GET", path: path, payload: nothing, length: -1}
		}},
	} {
		if row.bucket == "open" {
			if err := b.publish(small); err != nil {
				return err
			}
		}
		cpu := make([][]time.Duration, len(all))
		over := make([][]float64, len(all))
		for round := range b.o.rounds + 1 {
			var ours time.Duration
			for i, s := range all {
				r, err := load(s, 8, row.count, func(c *conn, _ int) (int64, error) {
					return c.do(row.form(c, "/"+row.bucket+"/"+row.names[rand.IntN(len(row.names))]), nil)
				})
				if err != nil {
					return err
				}
				if i == 0 {
					ours = r.perRequest()
				}
				if round > 0 { // the first warms up
					cpu[i] = append(cpu[i], r.perRequest())
					over[i] = append(over[i], float64(ours)/float64(r.perRequest()))
				}
			}
		}
		fmt.Printf("%-26s", row.name)
		for i := range all {
			fmt.Printf("  %11.1f µs", float64(median(cpu[i]))/1e3)
		}
		for i := range all[1:] {
			fmt.Printf("  %14.2f", median(over[i+1]))
		}
		fmt.Println()
	}
	return nil
}

func (b *bench) makeObjects(prefix string, size, number int) ([]string, error) {
	body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	var names []string
	for i := range number {
		name := fmt.Sprintf("%s-%05d", prefix, i)
		names = append(names, name)
		if err := os.WriteFile(filepath.Join(b.files, "bench", name), body, 0o644); err != nil {
			return nil, err
		}
	}
	return names, b.store("bench", names, body)
}

func (b *bench) store(bucket string, names []string, body []byte) error {
	for _, s := range b.stores() {
		_, err := load(s, 8, len(names), func(c *conn, i int) (int64, error) {
			return c.do(&request{method: "PUT", path: "/" + bucket + "/" + names[i], payload: unsigned, length: int64(len(body))}, nil, body)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// publish puts the small objects into a bucket that everybody may read.
func (b *bench) publish(names []string) error {
	for _, s := range b.stores() {
		if err := once(s, &request{method: "PUT", path: "/open", payload: nothing, length: 0}); err != nil {
			return err
		}
		if err := once(s, &request{method: "PUT", path: "/open", query: "policy=", payload: unsigned, length: int64(len(policy))}, []byte(policy)); err != nil {
			return err
		}
	}
	if err := os.Symlink("bench", filepath.Join(b.files, "open")); err != nil {
		return err
	}
	return b.store("open", names, bytes.Repeat([]byte("0123456789abcdef"), 4<<10/16))
}
