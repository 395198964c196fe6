// Package sourcetest is the conformance suite of package source: the laws that a place
// must keep beyond those of package objecttest. It speaks to the source through its face,
// and to the place behind it through two functions of the test's own, because what others
// do there behind our back is what these laws are about.
package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/object/objecttest"
	"penstock.dev/penstock/internal/source"
)

// Place is a source and the way around it.
type Place struct {
	source.Source

	// Write replaces an object behind the source's back, so that all of it changes at
	// once, and Remove takes it away.
	Write  func(key string, data []byte) error
	Remove func(key string) error
}

// Options adjust the suite to the place.
type Options struct {
	ReadOnly bool                  // Put and Delete are Denied
	Possible func(key string) bool // nil: every valid key can be there
	Unlisted func(key string) bool // nil: every key that is there is listed
	Rewrites int                   // in the tests with many; zero means 200
}

// Run puts a source through the suite. open returns a new, empty one for each test.
func Run(t *testing.T, open func(t *testing.T) Place, opts Options) {
	if opts.Possible == nil {
		opts.Possible = func(string) bool { return true }
	}
	if opts.Unlisted == nil {
		opts.Unlisted = func(string) bool { return false }
	}
	if opts.Rewrites == 0 {
		opts.Rewrites = 200
	}
	for name, test := range map[string]func(*suite){
		"Infos": testInfos, "Versions": testVersions, "NeverMixed": testNeverMixed, "OddKeys": testOddKeys,
		"Canceled": testCanceled, "Abandoned": testAbandoned, "ReadOnly": testReadOnly, "Listing": testListing,
	} {
		t.Run(name, func(t *testing.T) { test(&suite{T: t, Place: open(t), opts: opts}) })
	}
}

type suite struct {
	*testing.T
	Place
	opts Options
}

func name(key string) object.Name { return object.Name{Bucket: objecttest.Bucket, Key: key} }

func (s *suite) write(key string, data []byte) {
	s.Helper()
	if err := s.Write(key, data); err != nil {
		s.Fatalf("write %q behind the source: %v", key, err)
	}
}

func (s *suite) stat(key string) object.Info {
	s.Helper()
	info, err := s.Stat(s.Context(), name(key))
	if err != nil {
		s.Fatalf("stat %q: %v", key, err)
	}
	return info
}

func (s *suite) wantKind(what string, err error, kind object.Kind) {
	s.Helper()
	if !object.Is(err, kind) {
		s.Errorf("%s: %v (%v), want %v", what, err, object.KindOf(err), kind)
	}
}

// read opens and reads; both may fail.
func read(r object.Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// testInfos shows what an Info of a source has and has not.
func testInfos(s *suite) {
	s.write("a/b", []byte("content"))
	info := s.stat("a/b")
	if info.Size != 7 || info.ETag == "" || info.CRC32 != 0 || info.Version != (object.Version{}) {
		s.Errorf("stat says %+v", info)
	}
	other := object.Name{Bucket: "any-other-bucket", Key: "a/b"}
	if got, err := s.Stat(s.Context(), other); err != nil || got.Name != other || got.ETag != info.ETag {
		s.Errorf("by another bucket: %+v, %v", got, err)
	}
	for range 3 {
		if again := s.stat("a/b"); again.ETag != info.ETag || !again.Modified.Equal(info.Modified) {
			s.Errorf("an object nobody touched: %+v, then %+v", info, again)
		}
	}
	r, err := s.Open(s.Context(), name("a/b"), object.Range{Offset: 2, Length: 3})
	if data, err := read(r, err); err != nil || string(data) != "nte" || r.Info().ETag != info.ETag || r.Info().Size != 7 {
		s.Errorf("a range: %q, %v, of %+v", data, err, r.Info())
	}
}

func testVersions(s *suite) {
	const key = "versioned"
	_, err := s.OpenVersion(s.Context(), name(key), object.Range{}, "some-etag")
	s.wantKind("a version of nothing", err, object.NotFound)
	s.write(key, []byte("first"))
	first := s.stat(key)
	_, err = s.OpenVersion(s.Context(), name(key), object.Range{}, "")
	s.wantKind("no version", err, object.Invalid)
	_, err = s.OpenVersion(s.Context(), name(key), object.Range{}, "no-such-etag")
	s.wantKind("a version that never was", err, object.Stale)
	for _, r := range []object.Range{{}, {Offset: 1}, {Offset: 1, Length: 2}, {Offset: -2}} {
		offset, length, _ := r.Resolve(5)
		data, err := read(s.OpenVersion(s.Context(), name(key), r, first.ETag))
		if err != nil || string(data) != "first"[offset:offset+length] {
			s.Errorf("%+v of the version that is there: %q, %v", r, data, err)
		}
	}
	_, err = s.OpenVersion(s.Context(), name(key), object.Range{Offset: 5}, first.ETag)
	var outside *object.RangeError
	if !errors.As(err, &outside) || outside.Size != 5 {
		s.Errorf("a range outside: %v", err)
	}
	s.write(key, []byte("other")) // as long as the first
	second := s.stat(key)
	if second.ETag == first.ETag {
		s.Fatalf("the ETag %s stays when the content changes", first.ETag)
	}
	for _, r := range []object.Range{{}, {Offset: 1, Length: 2}, {Offset: -2}} {
		_, err = read(s.OpenVersion(s.Context(), name(key), r, first.ETag))
		s.wantKind("the version before", err, object.Stale)
	}
	if err := s.Remove(key); err != nil {
		s.Fatal(err)
	}
	_, err = s.OpenVersion(s.Context(), name(key), object.Range{}, second.ETag)
	s.wantKind("a version that was removed", err, object.NotFound)
}

// testNeverMixed reads an object in pieces while it is replaced again and again: pieces
// of one ETag are of one state.
func testNeverMixed(s *suite) {
	const key, size, pieces = "replaced", 300 << 10, 3
	state := func(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%08d", n)), size/8) }
	s.write(key, state(0))
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var writing, reading sync.WaitGroup
	writing.Go(func() {
		for n := range s.opts.Rewrites {
			if err := s.Write(key, state(n+1)); err != nil {
				s.Errorf("write: %v", err)
			}
		}
		cancel()
	})
	var whole, stale int
	reading.Go(func() {
		for ctx.Err() == nil {
			switch err := s.pieces(key, size/pieces, pieces); {
			case err == nil:
				whole++
			case object.Is(err, object.Stale):
				stale++
			default:
				s.Errorf("read: %v", err)
			}
		}
	})
	writing.Wait()
	reading.Wait()
	if err := s.pieces(key, size/pieces, pieces); err != nil {
		s.Errorf("when all is quiet: %v", err)
	}
	s.Logf("%d whole, %d stale", whole, stale)
}

func (s *suite) pieces(key string, length int64, count int) error {
	ctx := context.WithoutCancel(s.Context())
	info, err := s.Stat(ctx, name(key))
	if err != nil {
		return err
	}
	var all []byte
	for i := range count {
		data, err := read(s.OpenVersion(ctx, name(key), object.Range{Offset: int64(i) * length, Length: length}, info.ETag))
		if err != nil {
			return err
		}
		all = append(all, data...)
	}
	if !bytes.Equal(all, bytes.Repeat(all[:8], len(all)/8)) {
		s.Errorf("pieces of one ETag are of several states")
	}
	return nil
}

func testOddKeys(s *suite) {
	for _, key := range objecttest.AwkwardKeys {
		if !s.opts.Possible(key) {
			_, err := s.Stat(s.Context(), name(key))
			s.wantKind(fmt.Sprintf("stat %q", key), err, object.NotFound)
			_, err = s.OpenVersion(s.Context(), name(key), object.Range{}, "etag")
			s.wantKind(fmt.Sprintf("open %q", key), err, object.NotFound)
			continue
		}
		data := []byte("this is " + key)
		s.write(key, data)
		info := s.stat(key)
		if got, err := read(s.OpenVersion(s.Context(), name(key), object.Range{}, info.ETag)); err != nil || !bytes.Equal(got, data) {
			s.Errorf("%q holds %q, %v", key, got, err)
		}
		if err := s.Remove(key); err != nil {
			s.Fatal(err)
		}
	}
}

func testCanceled(s *suite) {
	data := bytes.Repeat([]byte("x"), 4<<20)
	s.write("large", data)
	info := s.stat("large")
	ctx, cancel := context.WithCancel(s.Context())
	r, err := s.OpenVersion(ctx, name("large"), object.Range{}, info.ETag)
	if err != nil {
		s.Fatal(err)
	}
	defer r.Close()
	cancel()
	if got, err := io.ReadAll(r); err == nil {
		if !bytes.Equal(got, data) {
			s.Errorf("a reader whose caller left gives %d wrong bytes as right", len(got))
		}
	} else {
		s.wantKind("a reader whose caller left", err, object.Canceled)
	}
	_, err = s.Stat(ctx, name("large"))
	s.wantKind("stat", err, object.Canceled)
	_, err = s.Open(ctx, name("large"), object.Range{})
	s.wantKind("open", err, object.Canceled)
	_, err = s.OpenVersion(ctx, name("large"), object.Range{}, info.ETag)
	s.wantKind("open of a version", err, object.Canceled)
	for _, err = range s.List(ctx, objecttest.Bucket, object.ListOptions{}) {
	}
	s.wantKind("list", err, object.Canceled)
}

// testAbandoned leaves readers in the middle; the source goes on.
func testAbandoned(s *suite) {
	s.write("large", bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
	for i := range 50 {
		r, err := s.Open(s.Context(), name("large"), object.Range{Offset: int64(i)})
		if err != nil {
			s.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, i)); err != nil {
			s.Fatal(err)
		}
		if err := r.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	}
	if data, err := read(s.Open(s.Context(), name("large"), object.Range{Length: 16})); err != nil || string(data) != "0123456789abcdef" {
		s.Errorf("afterwards: %q, %v", data, err)
	}
}

func testReadOnly(s *suite) {
	if !s.opts.ReadOnly {
		return
	}
	_, err := s.Put(s.Context(), name("new"), bytes.NewReader(nil), object.PutOptions{})
	s.wantKind("put", err, object.Denied)
	s.wantKind("delete", s.Delete(s.Context(), name("new"), object.Condition{}), object.Denied)
}

// testListing shows that entries say what Stat says, that every prefix lists what the
// whole does, and that pages join without a gap.
func testListing(s *suite) {
	var keys []string
	for _, dir := range []string{"", "a/", "a-b/", "a0/", "a/b/", "z/y/x/", ".hidden/"} {
		for _, file := range []string{"1", "2-", "2.", "20", "+", "é", "with space"} {
			if key := dir + file; !s.opts.Unlisted(key) && s.opts.Possible(key) {
				keys = append(keys, key)
				s.write(key, []byte(key))
			}
		}
	}
	all := s.entries(object.ListOptions{})
	if len(all) != len(keys) {
		s.Fatalf("%d keys are listed, there are %d", len(all), len(keys))
	}
	for i, e := range all {
		if i > 0 && all[i-1].Info.Name.Key >= e.Info.Name.Key {
			s.Errorf("%q comes before %q", all[i-1].Info.Name.Key, e.Info.Name.Key)
		}
		if info := s.stat(e.Info.Name.Key); info.Size != e.Info.Size || info.ETag != e.Info.ETag || e.Info.Name != info.Name {
			s.Errorf("the entry %+v is stat's %+v", e.Info, info)
		}
	}
	for _, prefix := range []string{"a", "a/", "a/b", "a/b/", "a-", "z/y", "z/y/x/2", "nothing/", "a//", "../", "/", "."} {
		want := 0
		for _, key := range keys {
			if len(key) >= len(prefix) && key[:len(prefix)] == prefix {
				want++
			}
		}
		if got := len(s.entries(object.ListOptions{Prefix: prefix})); got != want {
			s.Errorf("%q lists %d, want %d", prefix, got, want)
		}
	}
	for _, delimiter := range []string{"", "/", "-", "b/"} {
		joined := s.entries(object.ListOptions{Delimiter: delimiter})
		var paged []object.Entry
		for after := ""; ; after = paged[len(paged)-1].Mark() {
			page := s.entries(object.ListOptions{Delimiter: delimiter, After: after, Limit: 4})
			if paged = append(paged, page...); len(page) < 4 {
				break
			}
		}
		if len(paged) != len(joined) {
			s.Errorf("with delimiter %q pages have %d entries, the whole %d", delimiter, len(paged), len(joined))
			continue
		}
		for i := range joined {
			if joined[i].Mark() != paged[i].Mark() {
				s.Errorf("with delimiter %q entry %d is %q in the whole, %q in pages", delimiter, i, joined[i].Mark(), paged[i].Mark())
			}
		}
	}
}

func (s *suite) entries(opts object.ListOptions) []object.Entry {
	s.Helper()
	var all []object.Entry
	for e, err := range s.List(s.Context(), objecttest.Bucket, opts) {
		if err != nil {
			s.Fatalf("list %+v: %v", opts, err)
		}
		all = append(all, e)
	}
	return all
}
