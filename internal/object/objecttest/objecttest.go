// Package objecttest is the conformance suite of package object: what a store, a
// cache, a source, a node and the public client all must do alike. Memory is the
// same behaviour as a map in memory, and the model for random tests.
//
// The suite speaks only through the interfaces. Powers that not everybody has
// (Copier, Verifier, Emptier) are found by assertion and tested where they are.
package objecttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"penstock.dev/penstock/internal/object"
)

// The buckets that the suite works in. A holder that wants its buckets made
// before use has made them when open returns, and they are empty.
const (
	Bucket = "conformance"
	Other  = "conformance-other"
)

// Holder is anything that takes objects in, gives them out and lists them.
type Holder interface {
	object.Source
	object.Sink
	object.Lister
}

// Copier copies an object without the bytes passing through the caller. If
// neither ContentType nor Metadata is given, those of the original are kept;
// otherwise both are as given.
type Copier interface {
	Copy(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error)
}

// Verifier opens an object so that every byte is checked as it is read.
type Verifier interface {
	OpenVerified(ctx context.Context, name object.Name, r object.Range) (object.Reader, error)
}

// Emptier says whether a bucket holds no object.
type Emptier interface {
	Empty(ctx context.Context, bucket string) (bool, error)
}

// Options adjust the suite to what the holder costs. The zero value is good.
type Options struct {
	// Steps is the number of random operations compared with the model; zero
	// means 400.
	Steps int
	// Seed of everything random; zero takes PENSTOCK_TEST_SEED from the
	// environment, or a new one. It is printed.
	Seed uint64
	// Lacks says what the holder cannot do; the zero value: it can do everything.
	Lacks Lacks
}

// Run puts a holder through the suite. open returns a new, empty one for each
// test, and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Holder, opts Options) {
	if opts.Steps == 0 {
		opts.Steps = 400
	}
	tests := []struct {
		name string
		test func(*suite)
	}{
		{"Missing", testMissing},
		{"Sizes", testSizes},
		{"Ranges", testRanges},
		{"Overwrite", testOverwrite},
		{"Metadata", testMetadata},
		{"Buckets", testBuckets},
		{"AwkwardNames", testAwkwardNames},
		{"ImpossibleNames", testImpossibleNames},
		{"InvalidNames", testInvalidNames},
		{"Conditions", testConditions},
		{"ConditionRaces", testConditionRaces},
		{"Writers", testWriters},
		{"ReaderSurvives", testReaderSurvives},
		{"FailingBody", testFailingBody},
		{"Canceled", testCanceled},
		{"WrongChecksum", testWrongChecksum},
		{"ListOrder", testListOrder},
		{"ListDelimiter", testListDelimiter},
		{"ListRandom", testListRandom},
		{"ListStops", testListStops},
		{"Copy", testCopy},
		{"Verified", testVerified},
		{"Empty", testEmpty},
		{"Model", testModel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seed := seedOf(opts)
			t.Logf("seed %d (PENSTOCK_TEST_SEED=%d repeats it)", seed, seed)
			tt.test(&suite{T: t, Holder: open(t), opts: opts, rand: rand.New(rand.NewPCG(seed, 0))})
		})
	}
}

func seedOf(opts Options) uint64 {
	if opts.Seed != 0 {
		return opts.Seed
	}
	if seed, err := strconv.ParseUint(os.Getenv("PENSTOCK_TEST_SEED"), 10, 64); err == nil {
		return seed
	}
	return rand.Uint64()
}

// suite is one test at work on one holder.
type suite struct {
	*testing.T
	Holder
	opts Options
	rand *rand.Rand
}

func name(key string) object.Name { return object.Name{Bucket: Bucket, Key: key} }

// content returns n bytes that depend on the seed, so that bytes which belong
// elsewhere are noticed.
func content(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

func (s *suite) put(n object.Name, data []byte, opts object.PutOptions) object.Info {
	s.Helper()
	info, err := s.Put(s.Context(), n, bytes.NewReader(data), opts)
	if err != nil {
		s.Fatalf("put %q (%d bytes): %v", n.Key, len(data), err)
	}
	if info.Name != n || info.Size != int64(len(data)) || info.CRC32 != s.sum(data) || info.ETag == "" || info.Modified.IsZero() {
		s.Fatalf("put %q (%d bytes, CRC %08x) answers %+v", n.Key, len(data), crc32.ChecksumIEEE(data), info)
	}
	return info
}

func (s *suite) delete(n object.Name) {
	s.Helper()
	if err := s.Delete(s.Context(), n, object.Condition{}); err != nil {
		s.Fatalf("delete %q: %v", n.Key, err)
	}
}

// get reads a range twice, by Read and by WriteTo, and returns the bytes if both
// agree with each other and with the bounds.
func (s *suite) get(n object.Name, r object.Range) ([]byte, object.Info) {
	s.Helper()
	byWrite, info := s.drain(n, r, func(reader object.Reader) ([]byte, error) {
		var buf bytes.Buffer
		written, err := reader.WriteTo(&buf)
		if err == nil && written != int64(buf.Len()) {
			s.Errorf("WriteTo of %q says %d bytes and wrote %d", n.Key, written, buf.Len())
		}
		return buf.Bytes(), err
	})
	byRead, _ := s.drain(n, r, func(reader object.Reader) ([]byte, error) { return io.ReadAll(reader) })
	if !bytes.Equal(byWrite, byRead) {
		s.Fatalf("%q %+v: WriteTo gives %d bytes, Read %d, and they differ", n.Key, r, len(byWrite), len(byRead))
	}
	return byWrite, info
}

func (s *suite) drain(n object.Name, r object.Range, read func(object.Reader) ([]byte, error)) ([]byte, object.Info) {
	s.Helper()
	reader, err := s.Open(s.Context(), n, r)
	if err != nil {
		s.Fatalf("open %q %+v: %v", n.Key, r, err)
	}
	defer reader.Close()
	data, err := read(reader)
	if err != nil {
		s.Fatalf("read %q %+v: %v", n.Key, r, err)
	}
	if _, length := reader.Bounds(); length != int64(len(data)) {
		s.Fatalf("%q %+v: bounds say %d bytes, there are %d", n.Key, r, length, len(data))
	}
	return data, reader.Info()
}

// holds checks that an object has this content everywhere it can be seen.
func (s *suite) holds(n object.Name, want []byte) object.Info {
	s.Helper()
	stat, err := s.Stat(s.Context(), n)
	if err != nil {
		s.Fatalf("stat %q: %v", n.Key, err)
	}
	data, info := s.get(n, object.Range{})
	if !bytes.Equal(data, want) {
		s.Fatalf("%q has %d bytes with CRC %08x, not the %d with %08x that were stored",
			n.Key, len(data), crc32.ChecksumIEEE(data), len(want), crc32.ChecksumIEEE(want))
	}
	s.same("open and stat", info, stat)
	return stat
}

func (s *suite) missing(n object.Name) {
	s.Helper()
	if _, err := s.Stat(s.Context(), n); !object.Is(err, object.NotFound) {
		s.Errorf("stat %q: %v, want NotFound", n.Key, err)
	}
	if reader, err := s.Open(s.Context(), n, object.Range{}); !object.Is(err, object.NotFound) {
		s.Errorf("open %q: %v, want NotFound", n.Key, err)
		if err == nil {
			reader.Close()
		}
	}
	for _, e := range s.list(n.Bucket, object.ListOptions{Prefix: n.Key}) {
		if e.Info.Name == n {
			s.Errorf("%q is listed, but should not exist", n.Key)
		}
	}
}

func (s *suite) same(what string, a, b object.Info) {
	s.Helper()
	if a.Name != b.Name || a.Size != b.Size || a.Version != b.Version || a.ETag != b.ETag || a.CRC32 != b.CRC32 ||
		!a.Modified.Equal(b.Modified) || a.ContentType != b.ContentType || !maps.Equal(a.Metadata, b.Metadata) {
		s.Errorf("%s differ:\n%+v\n%+v", what, a, b)
	}
}

func (s *suite) list(bucket string, opts object.ListOptions) []object.Entry {
	s.Helper()
	var entries []object.Entry
	for e, err := range s.List(s.Context(), bucket, opts) {
		if err != nil {
			s.Fatalf("list %s %+v: %v", bucket, opts, err)
		}
		entries = append(entries, e)
	}
	return entries
}

func (s *suite) wantKind(what string, err error, kind object.Kind) {
	s.Helper()
	if !object.Is(err, kind) {
		s.Errorf("%s: %v (%v), want %v", what, err, object.KindOf(err), kind)
	}
}

var errBody = errors.New("the body broke")
