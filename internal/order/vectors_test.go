package order_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"

	"penstock.dev/penstock/internal/order"
)

// update is for new vectors only: one that changes breaks every run that resumes.
var update = flag.Bool("update", false, "write the vectors anew: only to add some; those that are there must not change")

const vectors = "../../testdata/vectors/order"

// specJSON is a spec as vectors write it. Python reads numbers above 2^53 exactly too.
type specJSON struct {
	Dataset uint64 `json:"dataset"`
	Samples uint64 `json:"samples"`
	Bytes   uint64 `json:"bytes"`
	Chunk   uint64 `json:"chunk"`
	Seed    uint64 `json:"seed"`
	Epoch   uint64 `json:"epoch"`
	Policy  string `json:"policy"`
}

func (s specJSON) order(t *testing.T) *order.Order {
	t.Helper()
	policy, err := order.ParsePolicy(s.Policy)
	if err != nil {
		t.Fatal(err)
	}
	return must(t, order.Spec{
		Dataset: s.Dataset, Samples: s.Samples, Bytes: s.Bytes, Chunk: s.Chunk,
		Seed: s.Seed, Epoch: s.Epoch, Policy: policy,
	})
}

// orderVector is an order and what is known of it: all of it, its checksum, or
// single positions.
type orderVector struct {
	Spec  specJSON    `json:"spec"`
	Width uint64      `json:"width"`
	Order []uint64    `json:"order,omitempty"` // all of it
	CRC32 uint32      `json:"crc32,omitempty"` // of all samples, 8 bytes each, the lowest first
	At    [][2]uint64 `json:"at,omitempty"`    // positions and their samples
	Stays [][3]uint64 `json:"stays,omitempty"` // all of them: chunk, first and last position
}

func smallVectors(t *testing.T) (all []orderVector) {
	var specs []specJSON
	const chunk = 7
	for _, samples := range []uint64{0, 1, 2, 3, chunk - 1, chunk, chunk + 1, 2*chunk - 1, 2 * chunk, 5*chunk + 3} {
		for _, policy := range []string{"none", "full", "window:250B", "window:1KB"} {
			specs = append(specs, specJSON{Samples: samples, Bytes: 40 * samples, Chunk: chunk, Seed: 7, Policy: policy})
		}
	}
	for _, policy := range []string{"full", "window:500B", "window:4000B"} {
		for _, seed := range []uint64{0, 1, 1 << 63, 1<<64 - 1} {
			specs = append(specs, specJSON{Samples: 50, Bytes: 5000, Chunk: 4, Seed: seed, Epoch: seed % 3, Policy: policy})
		}
		specs = append(
			specs,
			specJSON{Samples: 50, Bytes: 5000, Chunk: 4, Epoch: 1, Policy: policy},
			specJSON{Samples: 50, Bytes: 5000, Chunk: 4, Epoch: 1<<64 - 1, Policy: policy},
			specJSON{Dataset: 1, Samples: 50, Bytes: 5000, Chunk: 4, Policy: policy},
			specJSON{Dataset: 1<<64 - 1, Samples: 50, Bytes: 5000, Chunk: 4, Policy: policy},
			specJSON{Samples: 50, Bytes: 5000, Chunk: 1, Policy: policy},
			specJSON{Samples: 50, Bytes: 5000, Chunk: 49, Policy: policy},
			specJSON{Samples: 50, Bytes: 5000, Chunk: 1000, Policy: policy},
			specJSON{Samples: 50, Bytes: 0, Chunk: 4, Policy: policy},
		)
	}
	for _, spec := range specs {
		o := spec.order(t)
		v := orderVector{Spec: spec, Width: o.Width(), Order: whole(o)}
		for stay := range o.Stays(0, spec.Samples) {
			if spec.Policy != "full" { // which has one for each position
				v.Stays = append(v.Stays, [3]uint64{stay.Chunk, stay.First, stay.Last})
			}
		}
		all = append(all, v)
	}
	return all
}

func mediumVectors(t *testing.T) (all []orderVector) {
	for _, spec := range []specJSON{
		{Samples: 10_007, Chunk: 38, Policy: "full"},
		{Samples: 10_007, Bytes: 10_007 * 110_000, Chunk: 38, Policy: "window:128MiB"},
		{Samples: 10_000, Bytes: 10_000 * 1000, Chunk: 100, Policy: "window:505KB"}, // every lane has ten chunks
		{Samples: 10_000, Bytes: 10_000 * 1000, Chunk: 100, Policy: "window:6MB"},   // every lane has two
		{Samples: 9999, Bytes: 9999 * 1000, Chunk: 1, Policy: "window:777KB"},
		{Samples: 9999, Bytes: 9999 * 1000, Chunk: 1024, Policy: "window:2MB"},
		{Samples: 1_281_167, Bytes: 1_281_167 * 110_000, Chunk: 38, Seed: 1, Epoch: 2, Policy: "full"},
		{Samples: 1_281_167, Bytes: 1_281_167 * 110_000, Chunk: 38, Seed: 1, Epoch: 2, Policy: "window:2GiB"},
	} {
		o := spec.order(t)
		all = append(all, orderVector{Spec: spec, Width: o.Width(), CRC32: checksum(whole(o))})
	}
	return all
}

func checksum(samples []uint64) uint32 {
	all := make([]byte, 0, 8*len(samples))
	for _, sample := range samples {
		all = binary.LittleEndian.AppendUint64(all, sample)
	}
	return crc32.ChecksumIEEE(all)
}

func largeVectors(t *testing.T) (all []orderVector) {
	for _, samples := range []uint64{1_281_167, 1<<33 - 1, 1 << 33, 1<<33 + 1, 1e12, order.MaxSamples} {
		for _, spec := range []specJSON{
			{Samples: samples, Chunk: 4096, Seed: 11, Epoch: 3, Policy: "full"},
			{Samples: samples, Bytes: samples * 1000, Chunk: 4096, Seed: 11, Epoch: 3, Policy: "window:2GiB"},
			{Samples: samples, Bytes: samples * 1000, Chunk: 4097, Seed: 11, Epoch: 3, Policy: "window:1TiB"},
			{Samples: samples, Bytes: samples * 65_535, Chunk: 1, Seed: 11, Epoch: 3, Policy: "window:8388607TiB"}, // nearly 2^63 bytes
		} {
			o := spec.order(t)
			v := orderVector{Spec: spec, Width: o.Width()}
			for _, position := range []uint64{0, 1, 255, samples / 3, samples / 2, samples - samples/1000, samples - 2, samples - 1} {
				v.At = append(v.At, [2]uint64{position, o.At(position)})
			}
			all = append(all, v)
		}
	}
	return all
}

// policyVector is what a text means; without a canonical form it is wrong.
type policyVector struct {
	Text      string `json:"text"`
	Canonical string `json:"canonical,omitempty"`
}

var policyVectors = []policyVector{
	{"none", "none"},
	{"full", "full"},
	{"window:2GiB", "window:2GiB"},
	{"window:2048MiB", "window:2GiB"},
	{"window:1.5GiB", "window:1536MiB"},
	{"window:0.1KiB", "window:102B"},
	{"window:0.0015KB", "window:1B"},
	{"window:2GB", "window:1953125KiB"},
	{"window:64MB", "window:62500KiB"},
	{"window:3TB", "window:2929687500KiB"},
	{"window:1001B", "window:1001B"},
	{"window:4096", "window:4KiB"},
	{"window:007KB", "window:7000B"},
	{"window:0.000000000000000000001TiB", ""},
	{"window:9223372036854775807", "window:9223372036854775807B"},
	{"window:9223372036854775808", ""},
	{"window:8388608TiB", ""},
	{"window:8388607.999999999999TiB", "window:9223372036854775806B"},
	{"window:0", ""},
	{"window:0GiB", ""},
	{"window:0.5B", ""},
	{"window:1.0", ""},
	{"window:", ""},
	{"window", ""},
	{"window:GiB", ""},
	{"window:.5GiB", ""},
	{"window:5.GiB", ""},
	{"window:1.2.3GiB", ""},
	{"window:-1GiB", ""},
	{"window:+1GiB", ""},
	{"window:1e9", ""},
	{"window:1_000", ""},
	{"window: 2GiB", ""},
	{"window:2 GiB", ""},
	{"window:2GiB ", ""},
	{"window:2gib", ""},
	{"window:2G", ""},
	{"window:2GiBB", ""},
	{"window:٣GiB", ""},
	{"Window:2GiB", ""},
	{"window=2GiB", ""},
	{"windows:2GiB", ""},
	{"", ""},
	{"None", ""},
	{"FULL", ""},
	{" full", ""},
	{"true", ""},
}

// qualityVector is the quality of an order over pretended classes.
type qualityVector struct {
	Spec    specJSON `json:"spec"`
	Classes uint64   `json:"classes"`
	Batch   uint64   `json:"batch"`
	Limit   uint64   `json:"limit"`
	Batches uint64   `json:"batches"`
	Mean    float64  `json:"mean"`
	Worst   uint64   `json:"worst"`
	Full    float64  `json:"full"` // to a millionth: processors add differently
}

func qualityVectors(t *testing.T) (all []qualityVector) {
	for _, v := range []qualityVector{
		{Spec: specJSON{Samples: 5003, Bytes: 5003 * 1000, Chunk: 38, Policy: "none"}, Classes: 100, Batch: 64},
		{Spec: specJSON{Samples: 5003, Bytes: 5003 * 1000, Chunk: 38, Policy: "full"}, Classes: 100, Batch: 64},
		{Spec: specJSON{Samples: 5003, Bytes: 5003 * 1000, Chunk: 38, Policy: "window:500KB"}, Classes: 100, Batch: 64},
		{Spec: specJSON{Samples: 1 << 33, Bytes: 1 << 43, Chunk: 4096, Policy: "window:2GiB"}, Classes: 1000, Batch: 256, Limit: 10},
		{Spec: specJSON{Samples: 10, Bytes: 10, Chunk: 2, Policy: "full"}, Classes: 20, Batch: 64, Limit: 1},
		{Spec: specJSON{Samples: 0, Bytes: 0, Chunk: 2, Policy: "full"}, Classes: 20, Batch: 64},
	} {
		q := v.Spec.order(t).Quality(order.Ranges(v.Spec.Samples, v.Classes), v.Batch, v.Limit)
		v.Batches, v.Mean, v.Worst, v.Full = q.Batches, q.Mean, q.Worst, math.Round(q.Full*1e6)/1e6
		all = append(all, v)
	}
	return all
}

// partVectors are the steps of the algorithm, each by itself.
type partVectors struct {
	Mix     [][2]uint64 `json:"mix"`     // number, result
	Derive  [][3]uint64 `json:"derive"`  // key, word, result
	Side    [][2]uint64 `json:"side"`    // size, side
	Permute [][4]uint64 `json:"permute"` // size, key, number, result
}

func parts() (p partVectors) {
	for _, n := range []uint64{0, 1, 2, 1 << 32, 0x9e3779b97f4a7c15, 1<<64 - 1} {
		p.Mix = append(p.Mix, [2]uint64{n, order.Mix(n)})
		p.Derive = append(p.Derive, [3]uint64{n, 5, order.Derive(n, 5)}, [3]uint64{5, n, order.Derive(5, n)})
	}
	for _, size := range []uint64{1, 2, 4, 5, 16, 17, 36, 37, 38, 64, 65, 1000, 1_281_167, 1 << 32, 1<<33 - 1, 1 << 33, (1<<24-2)*(1<<24-2) + 1, 1<<48 - 1, 1 << 48} {
		p.Side = append(p.Side, [2]uint64{size, order.Side(size)})
		for _, n := range []uint64{0, size / 2, size - 1} {
			key := order.Mix(size + n)
			p.Permute = append(p.Permute, [4]uint64{size, key, n, order.Permute(size, key, n)})
		}
	}
	return p
}

// lines writes a list with one item in a line, so that a change can be seen.
func lines[T any](t *testing.T, items []T) []byte {
	t.Helper()
	var all bytes.Buffer
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		all.Write(line)
	}
	all.WriteString("\n]\n")
	return all.Bytes()
}

func TestVectors(t *testing.T) {
	for name, got := range map[string][]byte{
		"parts.json":    lines(t, []partVectors{parts()}),
		"small.json":    lines(t, smallVectors(t)),
		"medium.json":   lines(t, mediumVectors(t)),
		"large.json":    lines(t, largeVectors(t)),
		"policies.json": lines(t, policyVectors),
		"quality.json":  lines(t, qualityVectors(t)),
	} {
		path := filepath.Join(vectors, name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what is computed: an order that was published can never change", name)
		}
	}
}
