package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

func benchStore(b *testing.B, objects, size int) *store.Store {
	dir := b.TempDir()
	s, stop, err := running(store.Options{Disks: []store.Disk{{FS: disk.NewDir(dir), Name: dir}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := stop(); err != nil {
			b.Error(err)
		}
	})
	body := bytes.Repeat([]byte("x"), size)
	for i := range objects {
		if _, err := s.Put(context.Background(), benchName(i), bytes.NewReader(body), object.PutOptions{SizeHint: int64(size)}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func benchName(i int) object.Name {
	return object.Name{Bucket: "bench", Key: fmt.Sprintf("train/n%05d/image-%09d.jpg", i%1000, i)}
}

func BenchmarkGet4KiB(b *testing.B) {
	const objects = 20000
	s := benchStore(b, objects, 4<<10)
	r := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		reader, err := s.Open(context.Background(), benchName(r.IntN(objects)), object.Range{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := reader.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
		reader.Close()
	}
}

func BenchmarkPut4KiB(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := benchStore(b, 0, 0)
			body := bytes.Repeat([]byte("x"), 4<<10)
			var next atomic.Int64
			b.SetParallelism(writers)
			b.ReportAllocs()
			b.SetBytes(4 << 10)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Put(context.Background(), benchName(int(next.Add(1))), bytes.NewReader(body), object.PutOptions{SizeHint: 4 << 10}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// keepVersions makes each of the objects one with several versions.
func keepVersions(b *testing.B, s *store.Store, objects, versions int) {
	body := []byte("version")
	for i := range objects * versions {
		if _, err := s.Put(context.Background(), benchName(i%objects), bytes.NewReader(body), object.PutOptions{Keep: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetVersioned(b *testing.B) {
	const objects = 5000
	s := benchStore(b, objects, 4<<10)
	keepVersions(b, s, objects, 3)
	r := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		reader, err := s.Open(context.Background(), benchName(r.IntN(objects)), object.Range{})
		if err != nil {
			b.Fatal(err)
		}
		reader.Close()
	}
}

func BenchmarkListVersioned(b *testing.B) {
	s := benchStore(b, 5000, 16)
	keepVersions(b, s, 5000, 3)
	all := func(bucket string, o object.ListOptions) iter.Seq2[object.Entry, error] {
		return s.Versions(context.Background(), bucket, o, object.Version{})
	}
	newest := func(bucket string, o object.ListOptions) iter.Seq2[object.Entry, error] {
		return s.List(context.Background(), bucket, o)
	}
	b.Run("newest", func(b *testing.B) { listPages(b, newest) })
	b.Run("all", func(b *testing.B) { listPages(b, all) })
}

func listPages(b *testing.B, list func(string, object.ListOptions) iter.Seq2[object.Entry, error]) {
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range list("bench", object.ListOptions{After: "train/n00500", Limit: 1000}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkListPage(b *testing.B) {
	s := benchStore(b, 50000, 16)
	listPages(b, func(bucket string, o object.ListOptions) iter.Seq2[object.Entry, error] {
		return s.List(context.Background(), bucket, o)
	})
}
