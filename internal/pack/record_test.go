package pack_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

func extents(n int) []pack.Extent {
	all := make([]pack.Extent, n)
	for i := range all {
		all[i] = pack.Extent{Blob: math.MaxUint64 - uint64(i), Offset: math.MaxInt64 - int64(i), Length: math.MaxInt64}
	}
	return all
}

func with(r pack.Record, change func(*pack.Record)) pack.Record {
	change(&r)
	return r
}

func withID(r pack.Record) pack.Record {
	r.Name.ID = r.Version
	return r
}

// sampleRecords has one record for each thing that can be said of one.
func sampleRecords() []pack.Record {
	at := func(t time.Time) func(*pack.Record) { return func(r *pack.Record) { r.Modified = t } }
	tag := func(s string) func(*pack.Record) { return func(r *pack.Record) { r.ETag = s } }
	all := []pack.Record{
		put("plain", 1),
		remove("plain", 2),
		remove("../away", 3),
		with(put("marker", 3), func(r *pack.Record) { r.Kind = pack.Marker }),
		withID(put("version", 21)),
		withID(put("../version", 22)),
		withID(with(put("version", 23), func(r *pack.Record) { r.Kind = pack.Marker })),
		withID(remove("version", 24)),
		withID(with(put("version", 25), func(r *pack.Record) { r.Extents, r.Size = extents(2), 1 })),
		withID(put(strings.Repeat("v", 250)+"/version", 26)),
		with(put("last-id", 27), func(r *pack.Record) { r.Name.ID = object.Version{Map: math.MaxUint32, Counter: math.MaxUint64} }),
		with(put("beside", 28), func(r *pack.Record) { r.Name.Bucket = object.Beside(strings.Repeat("b", 63), "uploads") }),
		with(put("typed", 4), func(r *pack.Record) { r.ContentType = "image/jpeg" }),
		with(put("typed", 5), func(r *pack.Record) { r.ContentType = "text/x-unheard-of; charset=\"a=b\"\n\x00ü" }),
		with(put("md5", 6), tag("0123456789abcdef0123456789abcdef")),
		with(put("no-md5", 7), tag("0123456789ABCDEF0123456789abcdef")),
		with(put("no-md5", 8), tag("0123456789abcdef0123456789abcdef-12")),
		with(put("no-md5", 9), tag(strings.Repeat("=\n", 16))),
		with(put("old", 10), at(time.Date(1801, 2, 3, 4, 5, 6, 7, time.UTC))),
		with(put("epoch", 11), at(time.Unix(0, 0).UTC())),
		with(put("before", 12), at(time.Unix(0, -1).UTC())),
		with(put("future", 13), at(time.Date(2250, 1, 1, 0, 0, 0, 999999999, time.UTC))),
		with(put("first-version", 0), func(r *pack.Record) { r.Version = object.Version{} }),
		with(put("last-version", 0), func(r *pack.Record) { r.Version = object.Version{Map: math.MaxUint32, Counter: math.MaxUint64} }),
		with(put("hidden", 14), func(r *pack.Record) { r.Hidden = true }),
		with(remove("hidden", 15), func(r *pack.Record) { r.Hidden = true }),
		with(put("meta", 16), func(r *pack.Record) {
			r.Metadata = map[string]string{"a": "b", "": "", "k=&%+ ": "\x00\n\xff not UTF-8 \xc3", "ünï": strings.Repeat("x", 2048)}
		}),
		with(put("empty-meta", 17), func(r *pack.Record) { r.Metadata = map[string]string{} }),
		with(put("large", 18), func(r *pack.Record) {
			r.Extents, r.Size, r.CRC32 = extents(1), math.MaxInt64, 0xdeadbeef
		}),
		with(put("a/../large", 19), func(r *pack.Record) { r.Extents, r.Size = extents(10_000), 1 }),
		with(put("empty-large", 20), func(r *pack.Record) { r.Extents = []pack.Extent{{}} }),
	}
	return all
}

func TestRecords(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 70_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := newDisk(t)
			l := newLog(t, d, options(1))
			payload := bytes.Repeat([]byte{0xa5}, size)
			for _, r := range sampleRecords() {
				l.append(r, payload)
			}
			l.sync()
			l.checkWhole(t, open(t, contents(t, d, 1)))
			l.seal()
			data := contents(t, d, 1)
			l.checkWhole(t, open(t, data))
			checkMembers(t, data, len(l.records)+2)
			for _, w := range l.records {
				stub := w.Stub()
				if got, want := stub.Info(w.Name), w.Info(); got.Size != want.Size || got.ETag != want.ETag || !got.Modified.Equal(want.Modified) || got.CRC32 != want.CRC32 {
					t.Errorf("stub says %+v, record %+v", got, want)
				}
				if len(w.Extents) == 0 && w.Size != int64(size) {
					t.Errorf("%s: size %d", w.Name, w.Size)
				}
			}
		})
	}
}

// checkMembers reads a pack with archive/tar.
func checkMembers(t testing.TB, data []byte, want int) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(data))
	n := 0
	for {
		_, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("member %d: %v", n, err)
		}
		n++
	}
	if n != want {
		t.Fatalf("archive/tar sees %d members, not %d", n, want)
	}
}

// TestTimesOutOfRange says what becomes of times that nanoseconds cannot count.
func TestTimesOutOfRange(t *testing.T) {
	d := newDisk(t)
	l := newLog(t, d, options(1))
	for i, when := range []time.Time{{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Now()} {
		l.append(with(put("k", uint64(i+1)), func(r *pack.Record) { r.Modified = when }), nil)
	}
	l.sync()
	l.checkWhole(t, open(t, contents(t, d, 1)))
	if got := l.records[0].Modified.Year(); got != 1677 {
		t.Error(got)
	}
	if got := l.records[1].Modified.Year(); got != 2262 {
		t.Error(got)
	}
	l.seal()
}

// TestHeadLenIsKnownEarly: a buffer is laid out before size, checksum, version
// and MD5 are known.
func TestHeadLenIsKnownEarly(t *testing.T) {
	records := sampleRecords()
	for n := range 2 * pack.Block { // so that every length meets the edge of a block
		r := put(strings.Repeat("/", n/2+1), math.MaxUint64)
		r.Extents, r.Size = []pack.Extent{{Length: 1 << (n % 60)}}, math.MaxInt64
		records = append(records, r)
	}
	for _, r := range records {
		early := r
		early.Size, early.CRC32, early.Version = 0, 0, object.Version{}
		if len(early.ETag) == 32 && strings.Trim(early.ETag, "0123456789abcdef") == "" {
			early.ETag = ""
		}
		if pack.HeadLen(&early) != pack.HeadLen(&r) {
			t.Errorf("%s: %d bytes of head early, %d late", r.Name, pack.HeadLen(&early), pack.HeadLen(&r))
		}
	}
}

// TestUnreadableRecordsAreRefused: nothing is written that could not be read.
func TestUnreadableRecordsAreRefused(t *testing.T) {
	d := newDisk(t)
	l := newLog(t, d, options(1))
	for name, change := range map[string]func(*pack.Record){
		"kind":     func(r *pack.Record) { r.Kind = 77 },
		"bucket":   func(r *pack.Record) { r.Name.Bucket = "a/b" },
		"parent":   func(r *pack.Record) { r.Name.Bucket = ".." },
		"key":      func(r *pack.Record) { r.Name.Key = "" },
		"long key": func(r *pack.Record) { r.Name.Key = strings.Repeat("k", object.MaxKey+1) },
		"extents":  func(r *pack.Record) { r.Extents = extents(30_000) },
		"extent":   func(r *pack.Record) { r.Extents = []pack.Extent{{Offset: -1}} },
		"size":     func(r *pack.Record) { r.Extents, r.Size = extents(1), -1 },
		"metadata": func(r *pack.Record) { r.Metadata = map[string]string{"a": strings.Repeat("b", 1<<20)} },
	} {
		bad := draft(with(put("k", 2), change), nil)
		if err := l.w.Append(draft(put("good", 1), nil), bad); !object.Is(err, object.Invalid) || bad.Validate() == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.append(put("k", 3), []byte("fine"))
	l.sync()
	l.checkWhole(t, open(t, contents(t, d, 1)))
	l.seal()
}
