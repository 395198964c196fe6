package bench

import (
	"slices"
	"time"
)

// Report is what a Run has measured.
type Report struct {
	Workload    Workload       `json:"workload"`
	Interrupted bool           `json:"interrupted"` // it was ended before its time
	Targets     []TargetReport `json:"targets"`
	Ratios      []Ratio        `json:"ratios,omitempty"` // of the first target to each of the others
}

// Errors returns how many objects failed, in all targets.
func (r Report) Errors() int64 {
	n := int64(0)
	for _, t := range r.Targets {
		n += t.Total.Errors
	}
	return n
}

// TargetReport is what was measured of one target.
type TargetReport struct {
	Name   string   `json:"name"`
	Total  Result   `json:"total"` // all rounds together
	Rounds []Result `json:"rounds"`
}

// Result is one measurement, or several added up.
type Result struct {
	Seconds          float64  `json:"seconds"`
	Requests         int64    `json:"requests"`
	Objects          int64    `json:"objects"` // those that were right
	Bytes            int64    `json:"bytes"`
	ObjectsPerSecond float64  `json:"objects_per_second"`
	BytesPerSecond   float64  `json:"bytes_per_second"`
	Latency          Latency  `json:"latency"` // of requests, all operations together
	Reads            *Latency `json:"reads,omitempty"`
	Writes           *Latency `json:"writes,omitempty"`

	Late   int64 `json:"late,omitempty"`   // requests that were due before a worker was free
	Unsent int64 `json:"unsent,omitempty"` // objects that were due and never asked for

	Errors     int64            `json:"errors"` // objects
	ErrorKinds map[string]int64 `json:"error_kinds,omitempty"`
	Messages   []string         `json:"messages,omitempty"` // the first few errors

	ClientCPU *CPU `json:"client_cpu,omitempty"`
	ServerCPU *CPU `json:"server_cpu,omitempty"`

	tally   *tally
	elapsed time.Duration
}

// Latency is how long requests took that were answered, in nanoseconds.
type Latency struct {
	Mean time.Duration `json:"mean_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

func newLatency(h *histogram) Latency {
	return Latency{
		Mean: h.mean(), P50: h.quantile(0.5), P90: h.quantile(0.9), P99: h.quantile(0.99), P999: h.quantile(0.999), Max: h.max,
	}
}

func newResult(work Workload, t *tally, elapsed time.Duration) Result {
	r := Result{
		Seconds: elapsed.Seconds(), Requests: t.requests, Objects: t.objects, Bytes: t.bytes, Latency: newLatency(t.all()),
		Late: t.late, Unsent: t.unsent, Errors: t.errors, ErrorKinds: t.kinds, Messages: t.samples, tally: t, elapsed: elapsed,
	}
	if work.Op == Mixed {
		reads, writes := newLatency(&t.reads), newLatency(&t.writes)
		r.Reads, r.Writes = &reads, &writes
	}
	if r.Seconds > 0 {
		r.ObjectsPerSecond, r.BytesPerSecond = float64(r.Objects)/r.Seconds, float64(r.Bytes)/r.Seconds
	}
	return r
}

// settle puts processor time in relation to what was done.
func (r *Result) settle() {
	for _, cpu := range []*CPU{r.ClientCPU, r.ServerCPU} {
		if cpu == nil || cpu.Missing != "" {
			continue
		}
		if r.Objects > 0 {
			cpu.PerObject = cpu.Seconds * 1e6 / float64(r.Objects)
		}
		if r.Seconds > 0 {
			cpu.Cores = cpu.Seconds / r.Seconds
		}
	}
}

// merge adds up the rounds of a target.
func merge(work Workload, rounds []Result) Result {
	sum, elapsed := new(tally), time.Duration(0)
	var client, server *CPU
	for _, r := range rounds {
		sum.merge(r.tally)
		elapsed += r.elapsed
		client, server = addCPU(client, r.ClientCPU), addCPU(server, r.ServerCPU)
	}
	total := newResult(work, sum, elapsed)
	total.ClientCPU, total.ServerCPU = client, server
	total.settle()
	return total
}

// addCPU adds two times; if one is missing, so is their sum.
func addCPU(a, b *CPU) *CPU {
	switch {
	case b == nil:
		return a
	case a == nil:
		return &CPU{Seconds: b.Seconds, Missing: b.Missing}
	case a.Missing != "":
		return a
	}
	return &CPU{Seconds: a.Seconds + b.Seconds, Missing: b.Missing}
}

// Ratio compares the first target with another one: medians of the ratios of each
// round. What cannot be compared is 0.
type Ratio struct {
	To               string  `json:"to"`
	ObjectsPerSecond float64 `json:"objects_per_second"`
	ServerCPU        float64 `json:"server_cpu_per_object"`
	ClientCPU        float64 `json:"client_cpu_per_object"`
	P50              float64 `json:"p50"`
	P99              float64 `json:"p99"`
}

func ratio(first, other TargetReport) Ratio {
	median := func(value func(Result) float64) float64 {
		var all []float64
		for i := range min(len(first.Rounds), len(other.Rounds)) {
			if a, b := value(first.Rounds[i]), value(other.Rounds[i]); a > 0 && b > 0 {
				all = append(all, a/b)
			}
		}
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	perObject := func(cpu *CPU) float64 {
		if cpu == nil || cpu.Missing != "" {
			return 0
		}
		return cpu.PerObject
	}
	return Ratio{
		To:               other.Name,
		ObjectsPerSecond: median(func(r Result) float64 { return r.ObjectsPerSecond }),
		ServerCPU:        median(func(r Result) float64 { return perObject(r.ServerCPU) }),
		ClientCPU:        median(func(r Result) float64 { return perObject(r.ClientCPU) }),
		P50:              median(func(r Result) float64 { return float64(r.Latency.P50) }),
		P99:              median(func(r Result) float64 { return float64(r.Latency.P99) }),
	}
}
