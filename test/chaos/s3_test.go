package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
	"penstock.dev/penstock/internal/testcluster"
)

// s3Subject is a node under test behind its S3 door.
type s3Subject struct {
	*subject
	s3      *testcluster.S3
	outage  outage
	workers []*s3Worker
	acked   atomic.Int64
	open    atomic.Int64 // requests without an answer that counts
}

// The root user's keys in these tests.
const (
	s3AccessKey = "chaos-access-key"
	s3SecretKey = "chaos-secret-key"
)

var s3Env = []string{"PENSTOCK_ACCESS_KEY=" + s3AccessKey, "PENSTOCK_SECRET_KEY=" + s3SecretKey}

// startS3 starts a node with an S3 door and returns it with a client of that.
func startS3(tb testing.TB, data []string, args ...string) (*testcluster.Node, *testcluster.S3) {
	tb.Helper()
	n := testcluster.Start(tb, testcluster.Options{
		Binary: binary(tb), Data: data, Dir: newDir(tb), S3: "127.0.0.1:0", Args: args, Env: s3Env,
	})
	client := &testcluster.S3{Endpoint: n.S3, AccessKey: s3AccessKey, SecretKey: s3SecretKey}
	client.HTTP.Transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	tb.Cleanup(client.HTTP.CloseIdleConnections)
	return n, client
}

func newS3Subject(tb testing.TB, random *rand.Rand, workers int, data ...string) *s3Subject {
	tb.Helper()
	s := &s3Subject{subject: &subject{tb: tb, random: random, args: small, env: s3Env}}
	s.node, s.s3 = startS3(tb, data, s.args...)
	s.client = newClient(tb, s.node.Endpoint)
	for i := range workers {
		w := &s3Worker{
			client: s.s3, random: child(random), outage: &s.outage, acked: &s.acked,
			bucket: fmt.Sprintf("chaos%d", i), lines: map[string]*keyLine{},
		}
		mustS3(tb, s.s3, 200, testcluster.S3Request{Method: "PUT", Bucket: w.bucket})
		if i%4 > 0 { // one begins without versions
			if err := w.version(tb.Context()); err != nil {
				tb.Fatal(err)
			}
		}
		s.workers = append(s.workers, w)
	}
	return s
}

// mustS3 sends a request that must be answered so.
func mustS3(tb testing.TB, client *testcluster.S3, status int, r testcluster.S3Request) *testcluster.S3Answer {
	tb.Helper()
	a, err := client.Do(tb.Context(), r)
	if err != nil {
		tb.Fatalf("%s %s/%s: %v", r.Method, r.Bucket, r.Key, err)
	}
	if a.Status != status {
		tb.Fatalf("%s %s/%.100q?%s: %s, not %d", r.Method, r.Bucket, r.Key, r.Query.Encode(), a, status)
	}
	return a
}

// work lets the workers work, hits the node after a random time, and returns when both
// are at rest. A worker goes on after requests without an answer as long as the node
// lives.
func (s *s3Subject) work(longest time.Duration, hit func()) {
	s.tb.Helper()
	ctx, cancel := context.WithCancel(s.tb.Context())
	defer cancel()
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() {
			for failed := 0; failed < 3 && ctx.Err() == nil; {
				err := w.step(ctx)
				if wrong, ok := err.(*violation); ok {
					s.tb.Errorf("%s: %v", w.bucket, wrong)
					return
				}
				if err != nil {
					failed++
					s.open.Add(1)
				}
			}
		})
	}
	time.Sleep(time.Duration(s.random.Int64N(int64(longest))))
	hit()
	cancel()
	all.Wait()
	s.s3.HTTP.CloseIdleConnections()
	s.client.Close()
}

// check checks all buckets, side by side.
func (s *s3Subject) check(share float64) {
	s.tb.Helper()
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() {
			if err := w.check(s.tb.Context(), share); err != nil {
				s.tb.Errorf("%s: %v", w.bucket, err)
			}
		})
	}
	all.Wait()
}

func TestS3Kill(t *testing.T) {
	t.Run("one disk", func(t *testing.T) { s3Kills(t, dataDir(t)) })
	t.Run("three disks", func(t *testing.T) { s3Kills(t, dataDir(t), dataDir(t), dataDir(t)) })
}

func s3Kills(t *testing.T, data ...string) {
	random := newRandom(t)
	s := newS3Subject(t, random, 5, data...)
	kills := setting(t, "S3_KILLS", 8)
	for i := range kills {
		s.work(700*time.Millisecond, s.node.Kill)
		s.start()
		share := 0.1
		if i%25 == 24 || i == kills-1 {
			share = 1
		}
		s.check(share)
		if t.Failed() {
			t.Fatalf("after kill %d", i+1)
		}
	}
	t.Logf("%d kills, %d requests acknowledged, %d open", kills, s.acked.Load(), s.open.Load())
	s.checkEmptied()
}

func TestS3PowerCut(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) { s3PowerCuts(t, kind, "data") })
	}
	t.Run("two disks", func(t *testing.T) { s3PowerCuts(t, "xfs", "data", "more") })
}

func s3PowerCuts(t *testing.T, kind string, dirs ...string) {
	random := newRandom(t)
	v := newVolume(t, kind, "1GiB")
	for i := range dirs {
		dirs[i] = filepath.Join(v.dir, dirs[i])
	}
	s := newS3Subject(t, random, 5, dirs...)
	cuts := setting(t, "S3_CUTS", 3)
	for i := range cuts {
		if random.IntN(4) == 0 {
			// What the node shows after a kill must outlast a power cut right after it.
			s.work(300*time.Millisecond, s.node.Kill)
			s.start()
			s.check(0)
		}
		s.work(800*time.Millisecond, func() {
			if err := s.outage.freeze(v.cut); err != nil {
				t.Errorf("cut: %v", err)
			}
			// For a moment the node lives on without its disk.
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
			s.node.Kill()
		})
		s.outage.thaw()
		v.unmount()
		v.mount()
		s.start()
		share := 0.3
		if i%10 == 9 || i == cuts-1 {
			share = 1
		}
		s.check(share)
		if t.Failed() {
			t.Fatalf("after cut %d", i+1)
		}
	}
	t.Logf("%d cuts, %d requests acknowledged, %d open", cuts, s.acked.Load(), s.open.Load())
	s.checkEmptied()
}

// checkEmptied wants a scrub that finds nothing, deletes everything, and wants nothing
// to be left: no part of an upload that ended, no blob, no bucket that cannot go.
func (s *s3Subject) checkEmptied() {
	s.tb.Helper()
	ctx := s.tb.Context()
	for _, f := range s.scrub() {
		s.tb.Errorf("scrub found %+v", f)
	}
	for _, w := range s.workers {
		for _, u := range slices.Clone(w.uploads) {
			if err := w.abandon(ctx, u); err != nil {
				s.tb.Error(err)
			}
		}
		for key, ln := range w.lines {
			for _, v := range slices.Clone(ln.now) {
				mustS3(s.tb, w.client, 204, testcluster.S3Request{Method: "DELETE", Bucket: w.bucket, Key: key, Query: url.Values{"versionId": {v.id}}})
				ln.now = ln.now.without(v.id)
			}
		}
		if err := w.check(ctx, 1); err != nil {
			s.tb.Errorf("emptied: %s: %v", w.bucket, err)
		}
	}
	if err := s.node.Stop(); err != nil {
		s.tb.Error(err)
	}
	s.clean()
	s.start()
	for _, w := range s.workers {
		mustS3(s.tb, w.client, 204, testcluster.S3Request{Method: "DELETE", Bucket: w.bucket})
	}
	time.Sleep(settleTime)
	for _, f := range s.scrub() {
		s.tb.Errorf("scrub of nothing found %+v", f)
	}
	var left usage
	for _, dir := range s.node.Data() {
		disk := measure(s.tb, dir)
		left.blobs, left.bytes, left.temporary = left.blobs+disk.blobs, left.bytes+disk.bytes, append(left.temporary, disk.temporary...)
	}
	if left.blobs > 0 || len(left.temporary) > 0 || left.bytes > slack {
		s.tb.Errorf("of nothing are left %d blobs, %d MiB and %v", left.blobs, left.bytes>>20, left.temporary)
	}
	s.tb.Logf("emptied: %d MiB are left, %d blobs", left.bytes>>20, left.blobs)
}

// clean does what a node does now and then: it removes what a kill has left of uploads
// that were ended. All were, so nothing may be there afterwards.
func (s *s3Subject) clean() {
	s.tb.Helper()
	var disks []store.Disk
	var copies []cluster.Disk
	for _, dir := range s.node.Data() {
		fs := disk.NewDir(dir)
		disks = append(disks, store.Disk{FS: fs, Name: dir})
		copies = append(copies, cluster.Disk{FS: fs, Name: dir})
	}
	if len(copies) == 1 {
		copies = append(copies, cluster.Disk{FS: disk.Sub(copies[0].FS, "control.copy"), Name: "copy"})
	}
	kept, err := store.Open(s.tb.Context(), store.Options{Disks: disks, PackSize: 2 << 20})
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.tb.Context())
	var all sync.WaitGroup
	defer func() {
		cancel()
		all.Wait()
		if err := kept.Close(); err != nil {
			s.tb.Error(err)
		}
	}()
	all.Go(func() {
		if err := kept.Run(ctx); err != nil {
			s.tb.Error(err)
		}
	})
	control, err := cluster.OpenAlone(cluster.AloneOptions{Disks: copies})
	if err != nil {
		s.tb.Fatal(err)
	}
	all.Go(func() {
		if err := control.Run(ctx); err != nil {
			s.tb.Error(err)
		}
	})
	n, err := node.Open(ctx, node.Options{Name: "chaos", Store: kept, Control: control})
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := n.CleanUploads(ctx, time.Now().Add(-time.Hour)); err != nil {
		s.tb.Error(err)
	}
	var facts int64 // those that a kill kept from going with their object
	for _, b := range n.Buckets() {
		for _, bucket := range []string{b.Name, object.Beside(b.Name, "uploads"), object.Beside(b.Name, "parts")} {
			for e, err := range kept.Versions(ctx, bucket, object.ListOptions{}, object.Version{}) {
				s.tb.Errorf("after cleaning there is %v, %v", e.Info.Name, err)
			}
		}
		facts += kept.Usage(object.Beside(b.Name, "facts")).Objects
	}
	s.tb.Logf("%d facts about nothing are left", facts)
}
