package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// perRequest is how many references a request of a training job has.
const perRequest = 256

func benchRefs(members bool) []object.Ref {
	refs := make([]object.Ref, perRequest)
	for i := range refs {
		refs[i].Name.Key = fmt.Sprintf("train/n01440764/n01440764_%05d.jpg", i)
		if members {
			refs[i].Name.Key = fmt.Sprintf("train/shard-%06d.tar", i)
			refs[i].Member = fmt.Sprintf("n01440764/n01440764_%05d.jpg", i)
			refs[i].Range.Length = 65536
		}
	}
	return refs
}

// perRef begins to measure the time for each of a request's references or items,
// and returns what reports it. The processor's time means something on a busy
// machine as well.
func perRef(b *testing.B) (report func()) {
	begin := processorTime(b)
	b.ReportAllocs()
	return func() {
		each := float64(b.N) * perRequest
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each, "ns/ref")
		b.ReportMetric(float64(processorTime(b)-begin)/each, "cpu-ns/ref")
	}
}

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkAppendRefs(b *testing.B) {
	refs := benchRefs(false)
	var out []byte
	defer perRef(b)()
	for b.Loop() {
		var err error
		out, err = wire.AppendRefs(out[:0], "bucket", refs)
		must(b, err)
	}
}

func BenchmarkParseRefs(b *testing.B) {
	for name, members := range map[string]bool{"keys": false, "members": true} {
		data, err := wire.AppendRefs(nil, "bucket", benchRefs(members))
		must(b, err)
		b.Run(name, func(b *testing.B) {
			defer perRef(b)()
			for b.Loop() {
				_, err := wire.ParseRefs(data)
				must(b, err)
			}
		})
	}
}

func BenchmarkParseRefsJSON(b *testing.B) {
	for name, members := range map[string]bool{"keys": false, "members": true} {
		data := marshalRefs(b, "bucket", benchRefs(members))
		b.Run(name, func(b *testing.B) {
			defer perRef(b)()
			for b.Loop() {
				_, err := wire.ParseRefsJSON(data)
				must(b, err)
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			defer perRef(b)()
			for b.Loop() {
				var doc refsJSON
				must(b, json.Unmarshal(data, &doc))
			}
		})
	}
}

func BenchmarkSegment(b *testing.B) {
	sizes, statuses := make([]int64, perRequest), make([]wire.Status, perRequest)
	var s wire.Segment
	var out []byte
	defer perRef(b)()
	for b.Loop() {
		out = s.Begin(out[:0], sizes)
		out = s.End(out, statuses)
	}
}

func BenchmarkBatchReader(b *testing.B) {
	for _, size := range []int{0, 4 << 10, 16 << 10} {
		items := make([]item, perRequest)
		for i := range items {
			items[i].bytes = bytes.Repeat([]byte{byte(i)}, size)
		}
		data, _ := answer(items, []int{perRequest})
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			defer perRef(b)()
			b.SetBytes(int64(len(data)))
			from := bytes.NewReader(data)
			r := wire.NewBatchReader(from, perRequest, 64<<20)
			for b.Loop() {
				from.Reset(data)
				r.Reset(from, perRequest, 64<<20)
				for range items {
					if _, _, err := r.Next(); err != nil {
						b.Fatal(err)
					}
				}
				if _, _, err := r.Next(); err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkObjectsReader(b *testing.B) {
	uploads := make([]object.Upload, perRequest)
	for i := range uploads {
		uploads[i] = object.Upload{Key: fmt.Sprintf("train/%05d.jpg", i), Bytes: make([]byte, 4<<10)}
	}
	data := stream(b, uploads)
	defer perRef(b)()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		must(b, drain(wire.NewObjectsReader(bytes.NewReader(data))))
	}
}
