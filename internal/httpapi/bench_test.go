package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// BenchmarkGet reads objects over loopback, from the door and from a bare handler
// that opens a file and sends it, side by side. The client does as little as it
// can, and allocates nothing, so allocations are the server's; the CPU time is
// that of both.
func BenchmarkGet(b *testing.B) {
	for _, size := range []int{4 << 10, 128 << 10, 1 << 20, 10 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		b.Run(fmt.Sprintf("size=%d/bare", size), func(b *testing.B) {
			benchmarkGet(b, serveBare(b, data), "/", size)
		})
		b.Run(fmt.Sprintf("size=%d/door", size), func(b *testing.B) {
			s, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: disk.NewDir(b.TempDir()), Name: "disk"}}})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			d := open(b, config{store: s})
			if _, err := d.node.Put(context.Background(), object.Name{Bucket: "bucket", Key: "k"}, bytes.NewReader(data), object.PutOptions{}); err != nil {
				b.Fatal(err)
			}
			d.want(b, 200, "GET", "/v1/objects/bucket/k", "")
			benchmarkGet(b, d.addr, "/v1/objects/bucket/k", size)
		})
	}
}

func serveBare(b *testing.B, data []byte) (addr string) {
	path := b.TempDir() + "/file"
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		io.CopyN(w, f, int64(len(data)))
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	b.Cleanup(func() {
		server.Close()
		<-done
	})
	return l.Addr().String()
}

func benchmarkGet(b *testing.B, addr, path string, size int) {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n")
	b.ReportAllocs()
	b.SetBytes(int64(size))
	b.SetParallelism(4)
	before := cpu()
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			panic(err)
		}
		defer c.Close()
		buf := make([]byte, size+4096)
		total := 0 // of an answer with its header, which is always as long
		for pb.Next() {
			if _, err := c.Write(request); err != nil {
				panic(err)
			}
			for n := 0; n == 0 || n < total; {
				m, err := c.Read(buf[n:])
				if err != nil {
					panic(err)
				}
				if n += m; total == 0 {
					if i := bytes.Index(buf[:n], []byte("\r\n\r\n")); i >= 0 {
						total = i + 4 + size
					}
				}
			}
		}
	})
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpu returns the CPU time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
