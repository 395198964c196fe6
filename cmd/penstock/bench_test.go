package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/bench"
)

func TestParseSizes(t *testing.T) {
	for text, want := range map[string]string{
		"4KiB":                "4096",
		"0":                   "0",
		"uniform:1KiB-1MiB":   "uniform:1024-1048576",
		"lognormal:100KiB,1":  "lognormal:102400,1",
		"lognormal:1MiB,0.25": "lognormal:1048576,0.25",
	} {
		if got, err := parseSizes(text); err != nil || got.String() != want {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "many", "2GiB", "-1", "uniform:", "uniform:1KiB", "uniform:2KiB-1KiB", "uniform:0-2GiB", "uniform:-1-5",
		"lognormal:1KiB", "lognormal:1KiB,", "lognormal:1KiB,0", "lognormal:1KiB,NaN", "lognormal:1KiB,9", "lognormal:0,1", "pareto:1KiB,2",
	} {
		if got, err := parseSizes(text); err == nil {
			t.Errorf("%q was taken for %s", text, got)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]target{
		"redis:127.0.0.1:6379":                              {driver: "redis", where: "127.0.0.1:6379"},
		"redis:/run/redis.sock,pid=7,name=cache":            {driver: "redis", where: "/run/redis.sock", name: "cache"},
		"http:http://127.0.0.1:8080/,dir=/srv/www,pid=1":    {driver: "http", where: "http://127.0.0.1:8080/", dir: "/srv/www"},
		"files:/mnt/a,b,fsync":                              {driver: "files", where: "/mnt/a,b", fsync: true},
		"penstock:http://127.0.0.1:7400/photos,name=before": {driver: "penstock", where: "http://127.0.0.1:7400", bucket: "photos", name: "before"},
	} {
		got, err := parseTarget(text)
		if hasPID := strings.Contains(text, "pid="); hasPID != (len(got.pids) == 1) {
			t.Errorf("%q has the processes %d", text, got.pids)
		}
		got.pids = nil
		if err != nil || got.driver != want.driver || got.where != want.where || got.bucket != want.bucket ||
			got.dir != want.dir || got.fsync != want.fsync || got.name != want.name {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "redis", "redis:", "memcached:127.0.0.1:1", "penstock:photos"} {
		if got, err := parseTarget(text); err == nil {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}

func TestPrintReport(t *testing.T) {
	latency := bench.Latency{P50: 1500 * time.Nanosecond, P90: 12 * time.Millisecond, P99: 1234 * time.Millisecond, P999: 2 * time.Second, Max: 3 * time.Second}
	r := bench.Report{
		Workload: bench.Workload{Op: bench.Batch, Keys: 10, Batch: 256, Pattern: bench.Epoch, Workers: 8},
		Targets: []bench.TargetReport{
			{Name: "penstock", Total: bench.Result{ObjectsPerSecond: 1234567, Latency: latency, ServerCPU: &bench.CPU{PerObject: 12.34}}},
			{Name: "redis", Total: bench.Result{ObjectsPerSecond: 999, Latency: latency, Errors: 3, ErrorKinds: map[string]int64{"NotFound": 2, "Busy": 1}, Messages: []string{"gone"}}},
		},
		Ratios: []bench.Ratio{{To: "redis", ObjectsPerSecond: 0.5}},
	}
	var out bytes.Buffer
	if err := printReport(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"batch of 256, 10 keys of 0 bytes, epoch, 8 workers\n",
		"                    penstock  redis  ratio to redis\n",
		"objects/s          1,234,567    999            0.50\n",
		"p50                    1.5µs  1.5µs\n",
		"p99                    1.23s  1.23s\n",
		"server CPU/object     12.3µs\n",
		"errors                     0      3\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	out.Reset()
	printLoadErrors(&out, r)
	if want := "penstock: redis: 3 objects failed: Busy 1, NotFound 2\n  gone\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestLoadView(t *testing.T) {
	var out bytes.Buffer
	v := newLoadView(&out)
	p := bench.Progress{Target: "redis", Targets: 2, Phase: "measuring", Round: 1, Rounds: 3, ObjectsPerSecond: 1500, BytesPerSecond: 1 << 20, P99: time.Millisecond, Left: 4 * time.Second}
	v.update(p)
	if out.Len() != 0 {
		t.Errorf("the first second says %q", out.String())
	}
	v.last = v.last.Add(-6 * time.Second)
	v.update(p)
	v.update(p) // too soon
	v.clear()
	const want = "redis 1/3  1,500 objects/s  1MiB/s  p99 1ms  0 errors  4s left\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	v.bar.terminal = true
	v.update(p)
	v.clear()
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Kredis 1/3") || !strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
}
