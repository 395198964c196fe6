// Package clustertest is the conformance suite of package cluster: what every
// Control must do alike, be it alone or over etcd.
//
// The suite speaks only through the interface, and takes nothing for granted that
// etcd does not give: revisions may skip numbers, a lease may last longer than was
// asked, old changes may be forgotten. It waits for events, never for a while.
package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// Options adjust the suite to what the control costs. The zero value is good.
type Options struct {
	// TTL is a short lease; zero means one second.
	TTL time.Duration
	// Wait is how long anything may take before the suite gives up; zero means a
	// minute.
	Wait time.Duration
	// Rounds is how often each writer of a race writes; zero means 40.
	Rounds int
	// Seed of everything random; zero takes PENSTOCK_TEST_SEED from the
	// environment, or a new one. It is printed.
	Seed uint64
}

// Test is one test of the suite. The control it gets is empty; afterwards it is
// not used any more.
type Test struct {
	Name string
	Run  func(t *testing.T, control cluster.Control)
}

// Run puts a control through the suite. open returns a new one without records for
// each test, and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) cluster.Control, opts Options) {
	for _, test := range Tests(opts) {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			test.Run(t, open(t))
		})
	}
}

// Tests returns the tests one by one, for callers that wrap each of them, in a
// bubble of package testing/synctest say.
func Tests(opts Options) []Test {
	if opts.TTL == 0 {
		opts.TTL = time.Second
	}
	if opts.Wait == 0 {
		opts.Wait = time.Minute
	}
	if opts.Rounds == 0 {
		opts.Rounds = 40
	}
	var tests []Test
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"Records", testRecords},
		{"Buffers", testBuffers},
		{"Prefixes", testPrefixes},
		{"Conditions", testConditions},
		{"Transaction", testTransaction},
		{"NothingToDo", testNothingToDo},
		{"Limits", testLimits},
		{"Canceled", testCanceled},
		{"Counter", testCounter},
		{"OneWinner", testOneWinner},
		{"Transfers", testTransfers},
		{"Model", testModel},
		{"WatchPast", testWatchPast},
		{"WatchPrefix", testWatchPrefix},
		{"WatchLoad", testWatchLoad},
		{"WatchSlow", testWatchSlow},
		{"WatchEnds", testWatchEnds},
		{"Follow", testFollow},
		{"LeaseExpires", testLeaseExpires},
		{"LeaseKept", testLeaseKept},
		{"LeaseRevoked", testLeaseRevoked},
		{"LeaseLeft", testLeaseLeft},
		{"LeaseUnknown", testLeaseUnknown},
		{"Hold", testHold},
		{"HoldLost", testHoldLost},
		{"HoldRevoked", testHoldRevoked},
		{"Elect", testElect},
		{"ElectLost", testElectLost},
		{"ElectGivesUp", testElectGivesUp},
		{"Observe", testObserve},
	} {
		tests = append(tests, Test{Name: test.name, Run: func(t *testing.T, control cluster.Control) {
			test.run(newSuite(t, control, opts))
		}})
	}
	return tests
}

// suite is one test at work.
type suite struct {
	*testing.T
	cluster.Control
	Options
	ctx    context.Context // ends after Wait
	random *rand.Rand
}

func newSuite(t *testing.T, control cluster.Control, opts Options) *suite {
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
		if s := os.Getenv("PENSTOCK_TEST_SEED"); s != "" {
			seed, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			opts.Seed = seed
		}
	}
	t.Logf("PENSTOCK_TEST_SEED=%d", opts.Seed)
	ctx, cancel := context.WithTimeout(context.Background(), opts.Wait)
	t.Cleanup(cancel)
	return &suite{T: t, Control: control, Options: opts, ctx: ctx, random: rand.New(rand.NewPCG(opts.Seed, 1))}
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// wants fails the test unless err is of the kind.
func (s *suite) wants(kind object.Kind, err error) {
	s.Helper()
	if !object.Is(err, kind) {
		s.Fatalf("error %v, want one of kind %s", err, kind)
	}
}

// do does operations without conditions.
func (s *suite) do(ops ...cluster.Op) int64 {
	s.Helper()
	revision, err := s.Txn(s.ctx, cluster.Txn{Then: ops})
	s.must(err)
	return revision
}

func (s *suite) put(key, value string) int64 {
	s.Helper()
	return s.do(cluster.Put(key, []byte(value)))
}

func (s *suite) get(key string) cluster.Record {
	s.Helper()
	r, err := s.Get(s.ctx, key)
	s.must(err)
	return r
}

func (s *suite) list(prefix string) cluster.View {
	s.Helper()
	v, err := s.List(s.ctx, prefix)
	s.must(err)
	return v
}

func (s *suite) grant() cluster.Lease {
	s.Helper()
	lease, err := s.Grant(s.ctx, s.TTL)
	s.must(err)
	if lease.ID == 0 || lease.TTL < s.TTL {
		s.Fatalf("asked for a lease of %s, got %+v", s.TTL, lease)
	}
	return lease
}

// gone waits until there is no record under the prefix.
func (s *suite) gone(prefix string) {
	s.Helper()
	for view, err := range cluster.Follow(s.ctx, s, prefix) {
		s.must(err)
		if len(view.Records) == 0 {
			return
		}
	}
}

// show writes records as "key=value key=value".
func show(records []cluster.Record) string {
	out := ""
	for i, r := range records {
		if i > 0 {
			out += " "
		}
		out += fmt.Sprintf("%s=%s", r.Key, r.Value)
	}
	return out
}
