package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"penstock.dev/penstock/internal/bench"
)

// loadView shows how a load goes on: one line that is redrawn each second on a
// terminal, a line every five seconds elsewhere.
type loadView struct {
	bar  *progress
	last time.Time
}

func newLoadView(out io.Writer) *loadView { return &loadView{bar: newProgress(out), last: time.Now()} }

// update draws, if it is time.
func (v *loadView) update(p bench.Progress) {
	if v.bar.terminal {
		fmt.Fprintf(v.bar.out, "\r\x1b[K%s", loadLine(p))
		v.bar.drawn = true
		return
	}
	if now := time.Now(); now.Sub(v.last) >= 5*time.Second {
		v.last = now
		fmt.Fprintln(v.bar.out, loadLine(p))
	}
}

func (v *loadView) clear() { v.bar.clear() }

// loadLine describes the state in words.
func loadLine(p bench.Progress) string {
	var b strings.Builder
	// As short as can be: a line that wraps cannot be redrawn.
	switch {
	case p.Targets > 1 && p.Phase == "measuring":
		b.WriteString(p.Target)
	case p.Targets > 1:
		b.WriteString(p.Phase + " " + p.Target)
	default:
		b.WriteString(p.Phase)
	}
	if p.Rounds > 1 && p.Phase != "filling" {
		fmt.Fprintf(&b, " %d/%d", p.Round, p.Rounds)
	}
	fmt.Fprintf(&b, "  %s objects/s  %s/s  p99 %s  %s errors", thousands(p.ObjectsPerSecond), formatSize(int64(p.BytesPerSecond)),
		formatLatency(p.P99), thousands(float64(p.Errors)))
	if p.Left >= 0 {
		fmt.Fprintf(&b, "  %s left", p.Left.Round(time.Second))
	}
	return b.String()
}

// loadTable is a column of names, one for each target and one for each ratio.
type loadTable struct {
	report bench.Report
	rows   [][]string
}

// printReport prints what was measured.
func printReport(out io.Writer, r bench.Report) error {
	header := []string{""}
	for _, target := range r.Targets {
		header = append(header, target.Name)
	}
	for _, ratio := range r.Ratios {
		header = append(header, "ratio to "+ratio.To)
	}
	t := &loadTable{report: r, rows: [][]string{header}}
	t.row("objects/s", func(x bench.Result) string { return thousands(x.ObjectsPerSecond) }, func(x bench.Ratio) float64 { return x.ObjectsPerSecond })
	t.row("bytes/s", func(x bench.Result) string { return formatSize(int64(x.BytesPerSecond)) }, nil)
	t.row("objects", func(x bench.Result) string { return thousands(float64(x.Objects)) }, nil)
	t.row("requests", func(x bench.Result) string { return thousands(float64(x.Requests)) }, nil)
	t.latencies("", func(x bench.Result) *bench.Latency { return &x.Latency })
	t.latencies("get ", func(x bench.Result) *bench.Latency { return x.Reads })
	t.latencies("put ", func(x bench.Result) *bench.Latency { return x.Writes })
	if r.Workload.Rate > 0 {
		t.row("late requests", func(x bench.Result) string { return thousands(float64(x.Late)) }, nil)
		t.row("unsent objects", func(x bench.Result) string { return thousands(float64(x.Unsent)) }, nil)
	}
	t.row("server CPU/object", func(x bench.Result) string { return perObject(x.ServerCPU) }, func(x bench.Ratio) float64 { return x.ServerCPU })
	t.row("server cores", func(x bench.Result) string { return cores(x.ServerCPU) }, nil)
	t.row("client CPU/object", func(x bench.Result) string { return perObject(x.ClientCPU) }, func(x bench.Ratio) float64 { return x.ClientCPU })
	t.row("errors", func(x bench.Result) string { return thousands(float64(x.Errors)) }, nil)
	_, err := fmt.Fprintf(out, "%s\n%s", describeLoad(r), t)
	return err
}

// row adds a row, unless no target has a value for it.
func (t *loadTable) row(name string, value func(bench.Result) string, ratio func(bench.Ratio) float64) {
	cells, empty := []string{name}, true
	for _, target := range t.report.Targets {
		text := value(target.Total)
		empty = empty && text == ""
		cells = append(cells, text)
	}
	for _, to := range t.report.Ratios {
		text := ""
		if ratio != nil && ratio(to) > 0 {
			text = strconv.FormatFloat(ratio(to), 'f', 2, 64)
		}
		cells = append(cells, text)
	}
	if !empty {
		t.rows = append(t.rows, cells)
	}
}

// String draws the table: names to the left, numbers to the right.
func (t *loadTable) String() string {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := fmt.Sprintf("%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", widths[i+1], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// latencies adds the percentiles of some requests.
func (t *loadTable) latencies(prefix string, of func(bench.Result) *bench.Latency) {
	for _, line := range []struct {
		name  string
		value func(*bench.Latency) time.Duration
		ratio func(bench.Ratio) float64
	}{
		{"p50", func(l *bench.Latency) time.Duration { return l.P50 }, func(r bench.Ratio) float64 { return r.P50 }},
		{"p90", func(l *bench.Latency) time.Duration { return l.P90 }, nil},
		{"p99", func(l *bench.Latency) time.Duration { return l.P99 }, func(r bench.Ratio) float64 { return r.P99 }},
		{"p99.9", func(l *bench.Latency) time.Duration { return l.P999 }, nil},
		{"max", func(l *bench.Latency) time.Duration { return l.Max }, nil},
	} {
		if prefix != "" {
			line.ratio = nil // it is of all requests
		}
		t.row(prefix+line.name, func(x bench.Result) string {
			latency := of(x)
			if latency == nil {
				return ""
			}
			return formatLatency(line.value(latency))
		}, line.ratio)
	}
}

// describeLoad says in one line what was measured.
func describeLoad(r bench.Report) string {
	w := r.Workload
	parts := []string{string(w.Op)}
	if w.Batch > 1 {
		parts[0] += " of " + strconv.Itoa(w.Batch)
	}
	if w.Op == bench.Mixed {
		parts[0] += fmt.Sprintf(" (%g%% put)", 100*w.Writes)
	}
	objects := fmt.Sprintf("%d keys of %s bytes", w.Keys, w.Sizes)
	if w.Existing != nil {
		objects = fmt.Sprintf("%d existing objects, %s on average", w.Keys, formatSize(int64(w.Sizes.Mean())))
	}
	parts = append(parts, objects, string(w.Pattern), fmt.Sprintf("%d workers", w.Workers))
	if w.Rate > 0 {
		parts = append(parts, fmt.Sprintf("open loop of %g objects/s", w.Rate))
	}
	if w.Verify {
		parts = append(parts, "verified")
	}
	if rounds := len(r.Targets[0].Rounds); rounds > 1 {
		parts = append(parts, fmt.Sprintf("%d rounds", rounds))
	}
	if r.Interrupted {
		parts = append(parts, "INTERRUPTED")
	}
	return strings.Join(parts, ", ")
}

// printLoadErrors says which errors there were, and shows the first few.
func printLoadErrors(out io.Writer, r bench.Report) {
	for _, t := range r.Targets {
		if t.Total.Errors == 0 {
			continue
		}
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(t.Total.ErrorKinds)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, t.Total.ErrorKinds[kind]))
		}
		fmt.Fprintf(out, "penstock: %s: %d objects failed: %s\n", t.Name, t.Total.Errors, strings.Join(kinds, ", "))
		for _, message := range t.Total.Messages {
			fmt.Fprintf(out, "  %s\n", quoted(message))
		}
	}
}

func perObject(cpu *bench.CPU) string {
	switch {
	case cpu == nil:
		return ""
	case cpu.Missing != "":
		return "not available"
	}
	return strconv.FormatFloat(cpu.PerObject, 'f', 1, 64) + "µs"
}

func cores(cpu *bench.CPU) string {
	if cpu == nil || cpu.Missing != "" {
		return ""
	}
	return strconv.FormatFloat(cpu.Cores, 'f', 2, 64)
}

// formatLatency writes a time with three digits.
func formatLatency(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e3, 'g', 3, 64) + "µs"
	case d < time.Second:
		return strconv.FormatFloat(float64(d)/1e6, 'g', 3, 64) + "ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + "s"
}

// thousands writes a whole number with commas.
func thousands(f float64) string {
	digits := strconv.FormatInt(int64(f+0.5), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
