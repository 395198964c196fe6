package bench_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/bench"
	"penstock.dev/penstock/internal/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a target in memory that takes its time.
type memory struct {
	delay  func(n int) time.Duration // before the n-th request, from 0
	refuse string                    // the end of a key that cannot be stored

	mu       sync.Mutex
	objects  map[string][]byte
	asked    []string
	requests int
	open     int
}

func (m *memory) Connect(context.Context) (bench.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return memoryConn{m}, nil
}

func (m *memory) Close() {}

type memoryConn struct{ *memory }

func (m memoryConn) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	return nil
}

// request waits as long as this one is to take.
func (m memoryConn) request(ctx context.Context, keys ...string) error {
	m.mu.Lock()
	n := m.requests
	m.requests++
	m.asked = append(m.asked, keys...)
	m.mu.Unlock()
	if m.delay == nil {
		return nil
	}
	select {
	case <-time.After(m.delay(n)):
		return nil
	case <-ctx.Done():
		return object.Errorf(object.Canceled, "%w", context.Cause(ctx))
	}
}

func (m memoryConn) get(key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[key]
	if !ok {
		return nil, object.Errorf(object.NotFound, "%s does not exist", key)
	}
	return content, nil
}

func (m memoryConn) Put(ctx context.Context, key string, content []byte) error {
	return m.PutBatch(ctx, []string{key}, [][]byte{content})
}

func (m memoryConn) PutBatch(ctx context.Context, keys []string, contents [][]byte) error {
	if err := m.request(ctx, keys...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var failed *penstock.PutBatchError
	for i, key := range keys {
		if strings.HasSuffix(key, m.refuse) && m.refuse != "" {
			failed = &penstock.PutBatchError{Failed: map[string]error{key: object.Errorf(object.Busy, "%s is refused", key)}}
			continue
		}
		if m.objects == nil {
			m.objects = map[string][]byte{}
		}
		m.objects[key] = slices.Clone(contents[i])
	}
	if failed != nil {
		return failed
	}
	return nil
}

func (m memoryConn) Get(ctx context.Context, key string, w io.Writer) error {
	if err := m.request(ctx, key); err != nil {
		return err
	}
	content, err := m.get(key)
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}

func (m memoryConn) Batch(ctx context.Context, keys []string, item func([]byte, error)) error {
	if err := m.request(ctx, keys...); err != nil {
		return err
	}
	for _, key := range keys {
		item(m.get(key))
	}
	return nil
}

// always makes every request take the same time.
func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func run(t *testing.T, driver bench.Driver, work bench.Workload) bench.Result {
	t.Helper()
	report, err := bench.Run(t.Context(), bench.Options{Workload: work, Targets: []bench.Target{{Name: "it", Driver: driver}}})
	if err != nil {
		t.Fatal(err)
	}
	return report.Targets[0].Total
}

func near(got, want time.Duration) bool {
	return got >= want*99/100 && got <= want*101/100
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: always(10 * time.Millisecond)}
		r := run(t, m, bench.Workload{Op: bench.Put, Workers: 4, Duration: time.Second, Warmup: time.Second})
		// Requests that begin before the end are finished and counted.
		if r.Objects != 400 || r.Requests != 400 || r.Errors != 0 || r.Late != 0 {
			t.Errorf("%+v", r)
		}
		if !near(r.Latency.P50, 10*time.Millisecond) || r.Latency.Max != 10*time.Millisecond {
			t.Errorf("%+v", r.Latency)
		}
		if m.open != 0 {
			t.Errorf("%d connections were left open", m.open)
		}
	})
}

// TestOpenLoopCountsFromWhenRequestsAreDue has one worker that is held up for a
// second once: a closed loop would call that one slow request of a thousand.
func TestOpenLoopCountsFromWhenRequestsAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: func(n int) time.Duration {
			if n == 100 {
				return time.Second
			}
			return time.Millisecond
		}}
		r := run(t, m, bench.Workload{Op: bench.Put, Workers: 1, Rate: 100, Duration: 10 * time.Second})
		if r.Objects != 1000 || r.Errors != 0 || r.Unsent != 0 {
			t.Fatalf("%+v", r)
		}
		// Behind the one that took a second, 99 were due before it ended, and some
		// more until the worker had caught up: at 1 ms each, against 10 ms between
		// two of them.
		if r.Late < 99 || r.Late > 112 {
			t.Errorf("%d requests were late", r.Late)
		}
		if r.Latency.P50 > 2*time.Millisecond || r.Latency.P99 < 800*time.Millisecond || r.Latency.Max != time.Second {
			t.Errorf("%+v", r.Latency)
		}
	})
}

func TestOpenLoopThatIsTooFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: always(100 * time.Millisecond)}
		r := run(t, m, bench.Workload{Op: bench.Put, Workers: 2, Rate: 100, Duration: 10 * time.Second})
		// Two workers make 20 a second; 100 are due.
		if r.Objects != 200 || r.Unsent != 800 {
			t.Errorf("%d objects, %d unsent", r.Objects, r.Unsent)
		}
		if r.Late < 190 || r.Latency.Max < 7*time.Second {
			t.Errorf("%d late, %+v", r.Late, r.Latency)
		}
	})
}

func TestOpenLoopOfBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: always(time.Millisecond)}
		r := run(t, m, bench.Workload{Op: bench.PutBatch, Batch: 50, Workers: 2, Rate: 1000, Duration: 2 * time.Second})
		if r.Objects != 2000 || r.Requests != 40 || r.Late != 0 || r.Unsent != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestRequestsThatHangAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: always(time.Hour)}
		r := run(t, m, bench.Workload{Op: bench.Put, Workers: 3, Duration: time.Second, Grace: 5 * time.Second})
		if r.Objects != 0 || r.Errors != 3 || r.ErrorKinds["Canceled"] != 3 || r.Seconds > 7 {
			t.Errorf("%+v", r)
		}
	})
}

func TestEpochAsksForEachKeyOnce(t *testing.T) {
	for _, op := range []bench.Op{bench.Get, bench.Batch} {
		m := &memory{}
		work := bench.Workload{Op: op, Keys: 1003, Count: 1003, Batch: 64, Verify: true, Workers: 5}
		work.Sizes, _ = bench.Uniform(0, 5000)
		report, err := bench.Run(t.Context(), bench.Options{Workload: work, Fill: true, Rounds: 2, Targets: []bench.Target{{Name: "it", Driver: m}}})
		if err != nil || report.Errors() != 0 {
			t.Fatalf("%v, %+v", err, report.Targets)
		}
		asked := m.asked[1003:] // behind the filling
		for round := range 2 {
			once := slices.Clone(asked[round*1003 : (round+1)*1003])
			slices.Sort(once)
			if len(slices.Compact(once)) != 1003 {
				t.Errorf("%s: round %d asked for some keys twice", op, round)
			}
		}
		if n := report.Targets[0].Total.Objects; n != 2006 || len(report.Targets[0].Rounds) != 2 {
			t.Errorf("%s: %d objects", op, n)
		}
	}
}

func TestErrorsAreCountedByKind(t *testing.T) {
	m := &memory{}
	work := bench.Workload{Op: bench.Put, Keys: 100, Count: 100, Workers: 2}
	work.Sizes, _ = bench.Fixed(100)
	run(t, m, work)
	m.objects["00000007"][50] ^= 1
	delete(m.objects, "00000008")
	work.Op, work.Verify, work.Batch = bench.Batch, true, 10
	r := run(t, m, work)
	if r.Objects != 98 || r.Errors != 2 || r.ErrorKinds["Corrupt"] != 1 || r.ErrorKinds["NotFound"] != 1 || len(r.Messages) != 2 {
		t.Errorf("%+v", r)
	}
	if text := strings.Join(r.Messages, " "); !strings.Contains(text, "00000007: byte 50") {
		t.Errorf("the messages are %q", text)
	}
}

func TestPutBatchThatFailsInPart(t *testing.T) {
	m := &memory{refuse: "0000005"}
	work := bench.Workload{Op: bench.PutBatch, Keys: 100, Count: 100, Batch: 10, Workers: 2}
	work.Sizes, _ = bench.Fixed(100)
	r := run(t, m, work)
	if r.Objects != 99 || r.Bytes != 9900 || r.Requests != 10 || r.Errors != 1 || r.ErrorKinds["Busy"] != 1 {
		t.Errorf("%+v", r)
	}
}

func TestPutBatchHasNoKeyTwice(t *testing.T) {
	for _, pattern := range []bench.Pattern{bench.Epoch, bench.Random, bench.Sequential} {
		m := &memory{}
		r := run(t, m, bench.Workload{Op: bench.PutBatch, Pattern: pattern, Keys: 10, Count: 70, Batch: 7, Workers: 1})
		if r.Objects != 70 || r.Requests != 10 {
			t.Errorf("%s: %+v", pattern, r)
		}
		for request := range slices.Chunk(m.asked, 7) {
			if once := slices.Sorted(slices.Values(request)); len(slices.Compact(once)) != 7 {
				t.Errorf("%s: a request has %q", pattern, request)
			}
		}
	}
	// There are not so many keys.
	if r := run(t, &memory{}, bench.Workload{Op: bench.PutBatch, Keys: 3, Count: 9, Batch: 7}); r.Requests != 3 || r.Objects != 9 {
		t.Errorf("%+v", r)
	}
}

func TestMixed(t *testing.T) {
	m := &memory{}
	work := bench.Workload{Op: bench.Mixed, Writes: 0.3, Keys: 100, Count: 2000, Verify: true}
	work.Sizes, _ = bench.Fixed(64)
	report, err := bench.Run(t.Context(), bench.Options{Workload: work, Fill: true, Targets: []bench.Target{{Name: "it", Driver: m}}})
	if r := report.Targets[0].Total; err != nil || r.Objects != 2000 || r.Errors != 0 || r.Reads == nil || r.Writes == nil {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		m, n := &memory{delay: always(time.Second)}, &memory{}
		looks := 0
		report, err := bench.Run(ctx, bench.Options{
			Workload: bench.Workload{Op: bench.Put, Workers: 2, Duration: time.Hour},
			Targets:  []bench.Target{{Name: "a", Driver: m}, {Name: "b", Driver: n}},
			Watch:    func(bench.Progress) { looks++ },
		})
		if err != nil || !report.Interrupted {
			t.Fatalf("%v, %+v", err, report)
		}
		if r := report.Targets[0].Total; r.Objects != 6 || r.Errors != 0 || looks != 3 {
			t.Errorf("%+v; looked at %d times", r, looks)
		}
		if r := report.Targets[1]; len(r.Rounds) != 0 || r.Total.Objects != 0 {
			t.Errorf("%+v", r)
		}
		if m.open+n.open != 0 {
			t.Error("connections were left open")
		}
	})
}

func TestRatiosAreMediansOfRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &memory{delay: always(4 * time.Millisecond)}
		// The reference is disturbed in the first of three rounds.
		fast := &memory{delay: func(n int) time.Duration {
			if n < 10 {
				return time.Second
			}
			return time.Millisecond
		}}
		report, err := bench.Run(t.Context(), bench.Options{
			Workload: bench.Workload{Op: bench.Put, Workers: 1, Count: 10}, Rounds: 3,
			Targets: []bench.Target{{Name: "a", Driver: slow}, {Name: "b", Driver: fast}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r := report.Ratios[0]; r.To != "b" || r.ObjectsPerSecond < 0.24 || r.ObjectsPerSecond > 0.26 || r.P50 < 3.9 || r.P50 > 4.1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestRunFails(t *testing.T) {
	work := bench.Workload{Op: bench.Get, Count: 1}
	refused := errors.New("refused")
	for name, opts := range map[string]bench.Options{
		"nothing to measure": {Workload: work},
		"two of a name":      {Workload: work, Targets: []bench.Target{{Name: "a", Driver: &memory{}}, {Name: "a", Driver: &memory{}}}},
		"no connection":      {Workload: work, Targets: []bench.Target{{Name: "a", Driver: closed{refused}}}},
		"no filling":         {Workload: work, Fill: true, Targets: []bench.Target{{Name: "a", Driver: &memory{}, Filler: closed{refused}}}},
	} {
		if _, err := bench.Run(t.Context(), opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// closed cannot be connected to.
type closed struct{ err error }

func (c closed) Connect(context.Context) (bench.Conn, error) { return nil, c.err }
func (c closed) Close()                                      {}

func TestProcessorTime(t *testing.T) {
	if err := bench.CheckPID(os.Getpid()); err != nil {
		t.Skip(err)
	}
	if err := bench.CheckPID(1 << 30); err == nil || !strings.Contains(err.Error(), "no process") {
		t.Errorf("a process that is not there: %v", err)
	}
	work := bench.Workload{Op: bench.Put, Duration: 300 * time.Millisecond, Workers: 2}
	work.Sizes, _ = bench.Fixed(100 << 10)
	report, err := bench.Run(t.Context(), bench.Options{Workload: work, Targets: []bench.Target{{Name: "it", Driver: &memory{}, PIDs: []int{os.Getpid()}}}})
	if err != nil {
		t.Fatal(err)
	}
	// The client is the server here, and does nothing but work.
	r := report.Targets[0].Total
	if r.ClientCPU == nil || r.ServerCPU == nil || r.ClientCPU.Seconds <= 0 || r.ServerCPU.PerObject <= 0 {
		t.Errorf("client %+v, server %+v", r.ClientCPU, r.ServerCPU)
	}
}
