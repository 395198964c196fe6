package order_test

import (
	"testing"

	"penstock.dev/penstock/internal/order"
)

// cases are the one of the design, and one of very many small samples, whose window
// holds four million.
var cases = []struct {
	name string
	spec order.Spec
}{
	{"none", imagenet(order.None())},
	{"full", imagenet(order.Full())},
	{"window", imagenet(order.Window(2 << 30))},
	{"small", order.Spec{Samples: 1 << 33, Bytes: 1 << 43, Chunk: 4096, Seed: 1, Policy: order.Window(2 << 30)}},
}

// each runs a benchmark for all cases, with positions that jump about.
func each(b *testing.B, run func(b *testing.B, o *order.Order, n uint64)) {
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			o := must(b, c.spec)
			n := uint64(0)
			for b.Loop() {
				run(b, o, n%o.Len())
				n += 0x9e3779b97f4a7c15
			}
		})
	}
}

var sink uint64

func BenchmarkAt(b *testing.B) {
	each(b, func(b *testing.B, o *order.Order, n uint64) { sink += o.At(n) })
}

func BenchmarkPosition(b *testing.B) {
	each(b, func(b *testing.B, o *order.Order, n uint64) { sink += o.Position(n) })
}

// BenchmarkSeek is what resuming costs: a new order and its first sample.
func BenchmarkSeek(b *testing.B) {
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			n := uint64(0)
			for b.Loop() {
				c.spec.Epoch++
				sink += must(b, c.spec).At(n % c.spec.Samples)
				n += 0x9e3779b97f4a7c15
			}
		})
	}
}

// BenchmarkRead reads a batch of 256 from anywhere; per sample it is a 256th.
func BenchmarkRead(b *testing.B) {
	dst := make([]uint64, 256)
	each(b, func(b *testing.B, o *order.Order, n uint64) {
		o.Read(dst, n)
		sink += dst[0]
	})
}

// BenchmarkNext asks when a chunk is used again.
func BenchmarkNext(b *testing.B) {
	each(b, func(b *testing.B, o *order.Order, n uint64) {
		next, _ := o.Next(n%o.Chunks(), n)
		sink += next
	})
}

// BenchmarkStays is what a prefetcher does that resumes: in a window nearly each of
// the first thousand positions is in a stay of its own.
func BenchmarkStays(b *testing.B) {
	each(b, func(b *testing.B, o *order.Order, n uint64) {
		for stay := range o.Stays(n, n+1000) {
			sink += stay.Last
		}
	})
}
