package objecttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync"

	"penstock.dev/penstock/internal/object"
)

func testConditions(s *suite) {
	if s.opts.Lacks.Conditions {
		return
	}
	n := name("conditional")
	try := func(cond object.Condition, data string) (object.Info, error) {
		return s.Put(s.Context(), n, bytes.NewReader([]byte(data)), object.PutOptions{Condition: cond})
	}
	_, err := try(object.Condition{IfMatch: "*"}, "x")
	s.wantKind("If-Match: * without an object", err, object.NotFound)
	_, err = try(object.Condition{IfMatch: "1-1"}, "x")
	s.wantKind("If-Match without an object", err, object.NotFound)
	s.missing(n)

	first, err := try(object.Condition{IfNoneMatch: "*"}, "first")
	if err != nil {
		s.Fatalf("If-None-Match: * without an object: %v", err)
	}
	_, err = try(object.Condition{IfNoneMatch: "*"}, "x")
	s.wantKind("If-None-Match: * with an object", err, object.Exists)
	_, err = try(object.Condition{IfNoneMatch: first.ETag}, "x")
	s.wantKind("If-None-Match with the current ETag", err, object.Stale)
	_, err = try(object.Condition{IfMatch: "other-etag"}, "x")
	s.wantKind("If-Match with another ETag", err, object.Stale)
	s.holds(n, []byte("first"))

	second, err := try(object.Condition{IfMatch: first.ETag}, "second")
	if err != nil {
		s.Fatalf("If-Match with the current ETag: %v", err)
	}
	_, err = try(object.Condition{IfMatch: first.ETag}, "x")
	s.wantKind("If-Match with the last ETag", err, object.Stale)
	if _, err = try(object.Condition{IfNoneMatch: first.ETag}, "third"); err != nil {
		s.Fatalf("If-None-Match with another ETag: %v", err)
	}
	fourth, err := try(object.Condition{IfMatch: "*"}, "fourth")
	if err != nil {
		s.Fatalf("If-Match: * with an object: %v", err)
	}
	s.wantKind("delete If-Match with an old ETag", s.Delete(s.Context(), n, object.Condition{IfMatch: second.ETag}), object.Stale)
	s.holds(n, []byte("fourth"))
	if err := s.Delete(s.Context(), n, object.Condition{IfMatch: fourth.ETag}); err != nil {
		s.Fatalf("delete If-Match with the current ETag: %v", err)
	}
	s.missing(n)
	s.wantKind("delete If-Match: * of nothing", s.Delete(s.Context(), n, object.Condition{IfMatch: "*"}), object.NotFound)
}

// testConditionRaces lets many try the same at once: exactly one may win.
func testConditionRaces(s *suite) {
	if s.opts.Lacks.Conditions {
		return
	}
	const rivals = 16
	for round := range 8 {
		n := name("race")
		first := s.race(rivals, object.Exists, func(i int) error {
			_, err := s.Put(s.Context(), n, bytes.NewReader([]byte{byte(i)}), object.PutOptions{Condition: object.Condition{IfNoneMatch: "*"}})
			return err
		})
		current := s.holds(n, []byte{byte(first)})
		second := s.race(rivals, object.Stale, func(i int) error {
			_, err := s.Put(s.Context(), n, bytes.NewReader([]byte{byte(i), 2}), object.PutOptions{Condition: object.Condition{IfMatch: current.ETag}})
			return err
		})
		s.holds(n, []byte{byte(second), 2})
		s.race(rivals, object.NotFound, func(int) error { return s.Delete(s.Context(), n, object.Condition{}) })
		s.missing(n)
		if s.Failed() {
			s.Fatalf("in round %d", round)
		}
	}
}

// race starts them all together and returns the number of the one that won; the
// others must fail with the given kind.
func (s *suite) race(rivals int, lose object.Kind, try func(i int) error) int {
	s.Helper()
	start := make(chan struct{})
	errs := make([]error, rivals)
	var wg sync.WaitGroup
	for i := range rivals {
		wg.Go(func() {
			<-start
			errs[i] = try(i)
		})
	}
	close(start)
	wg.Wait()
	winner, winners := 0, 0
	for i, err := range errs {
		if err == nil {
			winner, winners = i, winners+1
		} else {
			s.wantKind("a loser", err, lose)
		}
	}
	if winners != 1 {
		s.Errorf("%d of %d won, want exactly one", winners, rivals)
	}
	return winner
}

// testWriters lets writers overwrite a few keys while readers read them: each
// reader sees the whole of one write, and never an older one than it saw before.
func testWriters(s *suite) {
	const writers, writes, keyCount = 4, 25, 3
	keyOf := func(i int) object.Name { return name(string(rune('a' + i%keyCount))) }
	for i := range keyCount {
		s.put(keyOf(i), stamped(0, i), object.PutOptions{})
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range writes {
				if _, err := s.Put(ctx, keyOf(i+w), bytes.NewReader(stamped(uint32(w), i)), object.PutOptions{}); err != nil {
					s.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	for k := range keyCount {
		reading.Go(func() {
			var seen object.Version
			for ctx.Err() == nil {
				seen = s.readStamped(keyOf(k), seen)
			}
		})
	}
	writing.Wait()
	cancel()
	reading.Wait()
}

func (s *suite) readStamped(n object.Name, seen object.Version) object.Version {
	reader, err := s.Open(context.WithoutCancel(s.Context()), n, object.Range{})
	if err != nil {
		s.Errorf("a key that is only overwritten: %v", err)
		return seen
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		s.Errorf("read: %v", err)
		return seen
	}
	want := stamped(binary.BigEndian.Uint32(data), int(binary.BigEndian.Uint32(data[4:])))
	if !bytes.Equal(data, want) {
		s.Errorf("a read gives a mixture of writes")
	}
	version := reader.Info().Version
	if seen.After(version) {
		s.Errorf("version %v was seen after %v", version, seen)
	}
	return version
}

// stamped returns a content that says which write made it; some are small, some
// are large.
func stamped(writer uint32, i int) []byte {
	size := 100 + i
	if i%5 == 4 {
		size = 1<<20 + 100*i
	}
	data := content(uint64(writer)<<32|uint64(i), size)
	binary.BigEndian.PutUint32(data, writer)
	binary.BigEndian.PutUint32(data[4:], uint32(i))
	return data
}
