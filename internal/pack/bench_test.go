package pack_test

import (
	"fmt"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// cpu begins to measure processor time, because on a shared machine the wall
// clock says little. What it returns reports the time per operation.
func cpu(b *testing.B) func(n int) {
	start := processorTime(b)
	return func(n int) { b.ReportMetric(float64(processorTime(b)-start)/float64(n), "cpu-ns/op") }
}

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkAppend encodes and appends records one by one, without syncing.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			d := newDisk(b)
			o := options(1)
			o.Step = 0
			w := create(b, d, o)
			r := put("train/class-0042/sample-000123.jpg", 1)
			r.ContentType, r.ETag = "image/jpeg", "0123456789abcdef0123456789abcdef"
			n := pack.HeadLen(&r)
			buf := make([]byte, n+int64(size), n+int64(size)+pack.Block)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			stop := cpu(b)
			for b.Loop() {
				r.Version.Counter++
				n := pack.HeadLen(&r)
				if err := w.Append(pack.NewDraft(r, buf[:n+int64(size)])); err != nil {
					b.Fatal(err)
				}
				if w.End() < 256<<20 {
					continue
				}
				b.StopTimer()
				must(b, w.Discard())
				must(b, d.Remove(pack.FileName(o.ID)))
				o.ID++
				w = create(b, d, o)
				b.StartTimer()
			}
			stop(b.N)
			w.Discard()
		})
	}
}

// sealed makes a pack of n records of the given size.
func sealed(b *testing.B, n, size int) (*pack.File, []pack.Location, disk.File) {
	b.Helper()
	d := newDisk(b)
	o := options(1)
	o.Step = 0
	w := create(b, d, o)
	places := make([]pack.Location, n)
	for i := range n {
		r := put(fmt.Sprintf("train/class-%04d/sample-%08d.jpg", i%1000, i), uint64(i+1))
		r.ContentType, r.ETag = "image/jpeg", "0123456789abcdef0123456789abcdef"
		x := draft(r, make([]byte, size))
		must(b, w.Append(x))
		places[i] = x.Location
	}
	must(b, w.Seal())
	f, err := pack.Open(d, 1, secret)
	must(b, err)
	raw, err := d.Open(pack.FileName(1))
	must(b, err)
	b.Cleanup(func() { f.Close(); raw.Close() })
	return f, places, raw
}

// BenchmarkRead reads whole records from the page cache: the hot path of a small
// GET. Beside it stands the bare reading of the same bytes, which is the floor.
func BenchmarkRead(b *testing.B) {
	f, places, raw := sealed(b, 10_000, 4<<10)
	buf := make([]byte, 8<<10)
	b.Run("record", func(b *testing.B) {
		b.SetBytes(4 << 10)
		b.ReportAllocs()
		stop := cpu(b)
		for i := 0; b.Loop(); i++ {
			if _, _, err := f.Read(places[i*7919%len(places)], buf); err != nil {
				b.Fatal(err)
			}
		}
		stop(b.N)
	})
	b.Run("match", func(b *testing.B) {
		records := make([]*pack.Record, len(places))
		for i, l := range places {
			var err error
			if records[i], err = f.Head(l); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(4 << 10)
		b.ReportAllocs()
		stop := cpu(b)
		for i := 0; b.Loop(); i++ {
			n := i * 7919 % len(places)
			l, r := places[n], records[n]
			data := buf[:l.Head+l.Payload]
			if n, err := f.Raw().ReadAt(data, l.Offset); n < len(data) {
				b.Fatal(err)
			}
			if _, ok := pack.Match(data[:l.Head], data[l.Head:], r.Name, r.Version); !ok {
				b.Fatal("no match")
			}
		}
		stop(b.N)
	})
	b.Run("bare", func(b *testing.B) {
		b.SetBytes(4 << 10)
		b.ReportAllocs()
		stop := cpu(b)
		for i := 0; b.Loop(); i++ {
			l := places[i*7919%len(places)]
			if _, err := raw.ReadAt(buf[:l.Head+l.Payload], l.Offset); err != nil {
				b.Fatal(err)
			}
		}
		stop(b.N)
	})
}

// BenchmarkReadHead reads heads alone.
func BenchmarkReadHead(b *testing.B) {
	f, places, _ := sealed(b, 10_000, 4<<10)
	b.ReportAllocs()
	stop := cpu(b)
	for i := 0; b.Loop(); i++ {
		if _, err := f.Head(places[i*7919%len(places)]); err != nil {
			b.Fatal(err)
		}
	}
	stop(b.N)
}

// BenchmarkScan walks a pack of records of 1 KiB; ns/op is per record.
func BenchmarkScan(b *testing.B) {
	f, places, _ := sealed(b, 20_000, 1<<10)
	for _, payloads := range []bool{false, true} {
		b.Run(fmt.Sprintf("payloads=%t", payloads), func(b *testing.B) {
			b.ReportAllocs()
			stop, total := cpu(b), 0
			for total < b.N {
				n := 0
				_, err := f.Scan(pack.ScanOptions{Floor: places[len(places)-1].End(), Payloads: payloads}, func(*pack.Record, pack.Location) error {
					n++
					return nil
				})
				if err != nil || n != len(places) {
					b.Fatal(n, err)
				}
				total += n
			}
			stop(total)
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkDirectory reads the directory of a sealed pack; ns/op is per entry.
func BenchmarkDirectory(b *testing.B) {
	f, places, _ := sealed(b, 20_000, 1<<10)
	b.ReportAllocs()
	stop, total := cpu(b), 0
	for total < b.N {
		n := 0
		if _, err := f.Directory(func(object.Name, pack.Stub) error { n++; return nil }); err != nil || n != len(places) {
			b.Fatal(n, err)
		}
		total += n
	}
	stop(total)
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "entries/s")
}
