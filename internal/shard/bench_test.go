package shard_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock/internal/shard"
)

// large returns a tar of so many files of 4 KiB, with names of 16 bytes.
func large(b *testing.B, members int) []byte {
	b.Helper()
	var all []member
	content := strings.Repeat("0123456789abcdef", 256)
	for i := range members {
		all = append(all, member{name: fmt.Sprintf("%07d/item.jpg", i), content: content})
	}
	return archive(b, all...)
}

// report tells what a member took, as time and as time of the processor: the
// second means something on a busy machine as well.
func report(b *testing.B, data []byte, members int, begun time.Duration) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	all := float64(b.N) * float64(members)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/member")
	b.ReportMetric(float64((processor(b)-begun).Nanoseconds())/all, "cpu-ns/member")
}

func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// go test -bench . ./internal/shard
func BenchmarkBuild(b *testing.B) {
	for _, members := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			data := large(b, members)
			b.ReportAllocs()
			begun := processor(b)
			var x *shard.Index
			for b.Loop() {
				var err error
				x, err = shard.Build(b.Context(), bytes.NewReader(data))
				must(b, err)
			}
			report(b, data, members, begun)
			b.ReportMetric(float64(x.Bytes())/float64(members)-16, "B/member+name")
		})
	}
}

// BenchmarkScan: of "headers" without content what remains is the work on them;
// with "files" of 4 KiB there is the cost of reading as well. "std" is archive/tar.
func BenchmarkScan(b *testing.B) {
	const members = 10_000
	files := large(b, members)
	headers := bytes.Repeat(raw('0', "0000001/item.jpg", "00000000000", ustar), members)
	for name, data := range map[string][]byte{"files": files, "headers": headers} {
		b.Run(name+"/shard", func(b *testing.B) {
			b.ReportAllocs()
			begun := processor(b)
			for b.Loop() {
				for _, err := range shard.Scan(bytes.NewReader(data)) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			report(b, data, members, begun)
		})
		b.Run(name+"/std", func(b *testing.B) {
			b.ReportAllocs()
			begun := processor(b)
			for b.Loop() {
				r := tar.NewReader(struct{ io.Reader }{bytes.NewReader(data)})
				for {
					_, err := r.Next()
					if err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
			report(b, data, members, begun)
		})
	}
}

func BenchmarkFind(b *testing.B) {
	for _, members := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			x, err := shard.Build(b.Context(), bytes.NewReader(large(b, members)))
			must(b, err)
			var names []string
			for name := range x.All() {
				names = append(names, strings.Clone(name))
			}
			i := 0
			for b.Loop() {
				if i += 7919; i >= len(names) { // not in the order they lie in
					i %= len(names)
				}
				if _, ok := x.Find(names[i]); !ok {
					b.Fatal(names[i])
				}
			}
		})
	}
}
