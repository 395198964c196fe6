package bench

import (
	"sync"
	"time"

	"penstock.dev/penstock/internal/object"
)

// tally is what workers count.
type tally struct {
	requests int64 // answered, at least in part
	objects  int64 // that were right
	bytes    int64
	late     int64 // requests for which no worker was free when they were due
	unsent   int64 // objects that were due and never asked for
	errors   int64 // objects that failed
	kinds    map[string]int64
	first    error    // the first error
	samples  []string // the first few
	reads    histogram
	writes   histogram
}

// samples are kept up to this number and length each.
const (
	maxSamples = 5
	maxSample  = 300
)

// fail counts n objects that failed with err.
func (t *tally) fail(err error, n int64) {
	if n == 0 {
		return
	}
	if t.kinds == nil {
		t.kinds = map[string]int64{}
	}
	if t.first == nil {
		t.first = err
	}
	t.errors += n
	t.kinds[object.KindOf(err).String()] += n
	t.sample(err.Error())
}

func (t *tally) sample(text string) {
	if len(t.samples) < maxSamples {
		t.samples = append(t.samples, text[:min(len(text), maxSample)])
	}
}

// merge adds what another one has counted.
func (t *tally) merge(other *tally) {
	t.requests += other.requests
	t.objects += other.objects
	t.bytes += other.bytes
	t.late += other.late
	t.unsent += other.unsent
	t.errors += other.errors
	for kind, n := range other.kinds {
		if t.kinds == nil {
			t.kinds = map[string]int64{}
		}
		t.kinds[kind] += n
	}
	if t.first == nil {
		t.first = other.first
	}
	for _, text := range other.samples {
		t.sample(text)
	}
	t.reads.merge(&other.reads)
	t.writes.merge(&other.writes)
}

// all returns the times of reads and writes together.
func (t *tally) all() *histogram {
	both := t.reads
	both.merge(&t.writes)
	return &both
}

// recorder is a tally that is looked at while its worker goes on.
type recorder struct {
	mu    sync.Mutex
	total tally
}

// took is one request.
type took struct {
	time    time.Duration
	write   bool
	late    bool
	objects int64
	bytes   int64
	failed  []failure
}

// failure is an error and how many objects it cost.
type failure struct {
	err error
	n   int64
}

func (r *recorder) add(one *took) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.total
	t.objects += one.objects
	t.bytes += one.bytes
	if one.late {
		t.late++
	}
	for _, f := range one.failed {
		t.fail(f.err, f.n)
	}
	// A refusal is quick; counted among the times it would make an overloaded
	// server look fast.
	if one.objects == 0 {
		return
	}
	t.requests++
	if one.write {
		t.writes.add(one.time)
	} else {
		t.reads.add(one.time)
	}
}

func (r *recorder) addTo(sum *tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum.merge(&r.total)
}
