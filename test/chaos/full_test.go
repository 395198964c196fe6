package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock"
)

func TestFull(t *testing.T) {
	blobSize := func(*rand.Rand) int64 { return inlineMax + 64<<10 }
	smallSize := func(random *rand.Rand) int64 { return 1 + random.Int64N(64<<10) }
	tests := []struct {
		name   string
		volume func(testing.TB) *volume
		size   func(*rand.Rand) int64
	}{
		{"ext4", func(tb testing.TB) *volume { return newVolume(tb, "ext4", "160MiB") }, randomSize},
		{"xfs", func(tb testing.TB) *volume { return newVolume(tb, "xfs", "320MiB") }, randomSize},
		{"tmpfs", func(tb testing.TB) *volume { return newMemoryVolume(tb, "size=96m") }, smallSize},
		{"inodes", func(tb testing.TB) *volume { return newMemoryVolume(tb, "size=1g,nr_inodes=450") }, blobSize},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { fillAndFree(t, test.volume(t), test.size) })
	}
}

// fillAndFree fills a disk, frees half of it and goes on, all with one node; then
// it does so again with a node that has to start on the full disk.
func fillAndFree(t *testing.T, v *volume, size func(*rand.Rand) int64) {
	random := newRandom(t)
	s := newSubject(t, random, filepath.Join(v.dir, "data"))
	for round := range 4 {
		acked := s.fill(round, size)
		t.Logf("round %d: %d writes acknowledged until the disk was full", round, acked)
		if acked == 0 {
			t.Error("nothing could be written")
		}
		s.checkAll()
		if round == 2 {
			s.node.Kill()
			s.start()
			s.checkAll()
		}
		s.free(2)
		s.checkAll()
		s.waitWritable()
		if t.Failed() {
			t.FailNow()
		}
	}
	s.node.Kill()
	s.start()
	s.checkAll()
	s.checkSettled()
}

func (s *subject) checkAll() {
	s.tb.Helper()
	check(s.tb.Context(), s.tb, s.client, s.ledger, s.ledger.keys())
	checkListing(s.tb.Context(), s.tb, s.client, s.ledger)
}

// fill writes new keys until each of several writers was refused for want of
// space, and returns how many writes were acknowledged.
func (s *subject) fill(round int, size func(*rand.Rand) int64) int {
	s.tb.Helper()
	before := s.crew.acked.Load()
	var all sync.WaitGroup
	for i := range 4 {
		random := child(s.random)
		all.Go(func() {
			for n := 0; ; n++ {
				err := s.put(fmt.Sprintf("full/%d-%d-%d", round, i, n), size(random))
				if err == nil {
					s.crew.acked.Add(1)
					continue
				}
				if !penstock.Is(err, penstock.Unavailable) {
					s.tb.Errorf("a full disk answers %v: %v", penstock.KindOf(err), err)
				}
				return
			}
		})
	}
	all.Wait()
	return int(s.crew.acked.Load() - before)
}

func (s *subject) put(key string, size int64) error {
	ctx, cancel := context.WithTimeout(s.tb.Context(), time.Minute)
	defer cancel()
	to := s.ledger.next(key, size)
	s.ledger.begin(key, to)
	info, err := s.client.Put(ctx, s.ledger.name(key), bytes.NewReader(to.bytes()), penstock.PutOptions{Metadata: map[string]string{"mark": to.mark()}})
	if err != nil {
		return err
	}
	return s.ledger.done(key, to, info.ETag)
}

// free deletes every n-th object.
func (s *subject) free(n int) {
	s.tb.Helper()
	for i, key := range s.ledger.keys() {
		now, _, known := s.ledger.known(key)
		if i%n != 0 || !known || now == (state{}) {
			continue
		}
		if err := s.delete(key); err != nil {
			s.tb.Errorf("delete on a full disk: %v", err)
			return
		}
	}
}

func (s *subject) delete(key string) error {
	s.ledger.begin(key, state{})
	if err := s.client.Delete(s.tb.Context(), s.ledger.name(key), penstock.Condition{}); err != nil {
		return err
	}
	return s.ledger.done(key, state{}, "")
}

// waitWritable waits until what was deleted has given its space back.
func (s *subject) waitWritable() {
	s.tb.Helper()
	start := time.Now()
	for n := 0; ; n++ {
		err := s.put("again", 100<<10)
		switch {
		case err == nil:
			s.tb.Logf("writable again after %v", time.Since(start).Round(time.Millisecond))
			return
		case !penstock.Is(err, penstock.Unavailable) && !penstock.Is(err, penstock.Busy):
			s.tb.Fatalf("while space is being freed: %v", err)
		case time.Since(start) > time.Minute:
			s.tb.Fatalf("not writable a minute after half of all was deleted: %v", err)
		}
		time.Sleep(50 * time.Millisecond) // from outside there is no event for it
	}
}

// Somebody else uses up the space, to the last byte.
func TestFullOfOthers(t *testing.T) {
	random := newRandom(t)
	v := newVolume(t, "ext4", "160MiB")
	s := newSubject(t, random, filepath.Join(v.dir, "data"))
	for i := range 50 {
		if err := s.put(fmt.Sprint("before/", i), randomSize(random)); err != nil {
			t.Fatal(err)
		}
	}
	ballast := filepath.Join(v.dir, "ballast")
	fillFile(t, ballast)
	s.fill(0, randomSize)
	s.checkAll()
	for i := range 50 { // those that are refused must leave the object whole
		key := fmt.Sprint("before/", i)
		now, _, known := s.ledger.known(key)
		if !known || now == (state{}) {
			continue
		}
		if err := s.delete(key); err != nil && !penstock.Is(err, penstock.Unavailable) {
			t.Errorf("delete with no byte left: %v", err)
		}
	}
	s.checkAll()
	s.node.Kill()
	if err := s.node.Start(); err != nil {
		t.Errorf("the node does not start on a full disk: %v", err)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		s.start()
	} else {
		s.checkAll()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	s.waitWritable()
	s.checkAll()
	s.checkSettled()
}

// fillFile writes a file until there is no space left.
func fillFile(tb testing.TB, path string) {
	tb.Helper()
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 1; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			tb.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		tb.Fatal(err)
	}
}
