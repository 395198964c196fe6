package chaos

import (
	"context"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/testcluster"
)

// subject is a node under test, its clients and what they know.
type subject struct {
	tb     testing.TB
	random *rand.Rand
	node   *testcluster.Node
	args   []string
	env    []string
	client *penstock.Client
	ledger *ledger
	crew   *crew
}

// small makes everything that happens when something is full happen often.
var small = []string{"--pack-size", "2MiB"}

// newSubject starts a node on a data directory.
func newSubject(tb testing.TB, random *rand.Rand, data string, args ...string) *subject {
	tb.Helper()
	s := &subject{tb: tb, random: random, args: append(append([]string{}, small...), args...)}
	s.node = testcluster.Start(tb, testcluster.Options{Binary: binary(tb), Data: []string{data}, Dir: newDir(tb), Args: s.args})
	s.client = newClient(tb, s.node.Endpoint)
	s.ledger = newLedger("chaos")
	createBucket(tb, s.client, s.ledger.bucket, penstock.BucketOptions{})
	s.crew = newCrew(tb, random, s.client, s.ledger, 6, 25)
	return s
}

// start starts the node again. Sometimes it is killed a few times on the way.
func (s *subject) start() {
	s.tb.Helper()
	for s.random.IntN(4) == 0 {
		s.halfStart()
	}
	if err := s.node.Start(); err != nil {
		s.tb.Fatal(err)
	}
}

// halfStart starts the node and kills it before it is ready, most likely.
func (s *subject) halfStart() {
	s.tb.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--s3", "127.0.0.1:0"}, s.args...)
	for _, data := range s.node.Data() {
		args = append(args, "--data", data)
	}
	cmd := exec.Command(binary(s.tb), args...)
	cmd.Env = append(testcluster.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	time.Sleep(time.Duration(s.random.IntN(60)) * time.Millisecond)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// work lets the crew work, hits the node after a random time, and returns when
// both are at rest.
func (s *subject) work(longest time.Duration, hit func()) {
	s.tb.Helper()
	ctx, cancel := context.WithCancel(s.tb.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.crew.run(ctx, math.MaxInt)
	}()
	time.Sleep(time.Duration(s.random.Int64N(int64(longest))))
	hit()
	<-done
	s.client.Close() // its connections are dead
}

func dataDir(tb testing.TB) string { return filepath.Join(newDir(tb), "data") }
