package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// item is what goes into an answer and should come out of it.
type item struct {
	bytes []byte // rubbish if err is set
	err   error
}

// answer writes items in segments of the given numbers of items. It also returns
// which item each byte belongs to, -1 for what is no item's.
func answer(items []item, segments []int) (data []byte, owner []int) {
	data = wire.AppendBatchHead(nil, len(items))
	var s wire.Segment
	done := 0
	mark := func(who int) {
		for len(owner) < len(data) {
			owner = append(owner, who)
		}
	}
	for _, n := range segments {
		var sizes []int64
		var statuses []wire.Status
		for _, it := range items[done : done+n] {
			sizes = append(sizes, int64(len(it.bytes)))
			statuses = append(statuses, wire.Status{Err: it.err, CRC32: crc32.ChecksumIEEE(it.bytes)})
		}
		data = s.Begin(data, sizes)
		mark(-1)
		for i, it := range items[done : done+n] {
			data = append(data, it.bytes...)
			mark(done + i)
		}
		data = s.End(data, statuses)
		done += n
	}
	data = wire.AppendBatchEnd(data)
	mark(-1)
	return data, owner
}

func randomItems(r *rand.Rand, count int) (items []item, segments []int) {
	for range count {
		var it item
		if r.IntN(4) > 0 {
			it.bytes = make([]byte, r.IntN(50))
			for i := range it.bytes {
				it.bytes[i] = byte(r.Uint32())
			}
		}
		if r.IntN(3) == 0 {
			kinds := object.Kinds()
			it.err = object.Errorf(kinds[r.IntN(len(kinds))], "%s", randomText(r, 30))
		}
		items = append(items, it)
	}
	for count > 0 {
		n := 1 + r.IntN(min(count, 7))
		segments = append(segments, n)
		count -= n
	}
	return items, segments
}

// same compares what Next returned with what went in.
func same(it item, data []byte, crc uint32, err error) error {
	switch {
	case it.err != nil:
		if !object.Is(err, object.KindOf(it.err)) || err.Error() != it.err.Error() {
			return fmt.Errorf("%v, want %v", err, it.err)
		}
	case err != nil:
		return err
	case !bytes.Equal(data, it.bytes) || crc != crc32.ChecksumIEEE(it.bytes):
		return fmt.Errorf("%q with checksum %08x, want %q", data, crc, it.bytes)
	}
	return nil
}

func TestItemsComeOutAsTheyWentIn(t *testing.T) {
	r := source(t)
	var b *wire.BatchReader
	for range 200 {
		items, segments := randomItems(r, r.IntN(40))
		data, _ := answer(items, segments)
		var from io.Reader = bytes.NewReader(data)
		if r.IntN(2) == 0 {
			from = iotest.DataErrReader(iotest.HalfReader(from))
		}
		if b == nil {
			b = wire.NewBatchReader(from, len(items), 7*50)
		} else {
			b.Reset(from, len(items), 7*50)
		}
		for i, it := range items {
			got, crc, err := b.Next()
			if err := same(it, got, crc, err); err != nil {
				t.Fatalf("item %d of %d, segments %v: %v", i, len(items), segments, err)
			}
		}
		for range 2 {
			if _, _, err := b.Next(); err != io.EOF || b.Broken() != nil {
				t.Fatal(err, b.Broken())
			}
		}
	}
}

// TestCutAnswer: the items of complete segments are good, the others are not there.
func TestCutAnswer(t *testing.T) {
	r := source(t)
	items, segments := randomItems(r, 20)
	data, _ := answer(items, segments)
	for cut := range data {
		b := wire.NewBatchReader(bytes.NewReader(data[:cut]), len(items), math.MaxInt64)
		whole := 0
		for ; b.Broken() == nil; whole++ {
			got, crc, err := b.Next()
			if err == io.EOF {
				t.Fatalf("cut at %d is taken for whole", cut)
			}
			if b.Broken() != nil {
				wantKind(t, err, object.Unavailable, "cut at %d", cut)
				break
			}
			if err := same(items[whole], got, crc, err); err != nil {
				t.Fatalf("cut at %d, item %d: %v", cut, whole, err)
			}
		}
		end, complete := 0, 0
		for i, n := range segments {
			if prefix, _ := answer(items[:end+n], segments[:i+1]); cut >= len(prefix)-8 {
				complete = end + n
			}
			end += n
		}
		if whole != complete {
			t.Fatalf("cut at %d: %d items, want %d", cut, whole, complete)
		}
		if _, _, err := b.Next(); err != b.Broken() {
			t.Fatal(err)
		}
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	r := source(t)
	items, segments := randomItems(r, 12)
	data, owner := answer(items, segments)
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		hit := owner[bit/8]
		b := wire.NewBatchReader(bytes.NewReader(data), len(items), 1<<20)
		for i, it := range items {
			got, crc, err := b.Next()
			if b.Broken() != nil {
				break
			}
			if i == hit && it.err == nil {
				wantKind(t, err, object.Corrupt, "bit %d", bit)
				continue
			}
			if err := same(it, got, crc, err); err != nil {
				t.Fatalf("bit %d, item %d: %v", bit, i, err)
			}
		}
		_, _, err := b.Next()
		if found := b.Broken() != nil; found != (hit < 0) || (err == io.EOF) == found {
			t.Fatalf("bit %d, of item %d: %v, broken: %v", bit, hit, err, b.Broken())
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
}

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("x", 512), strings.Repeat("x", 513), strings.Repeat("é", 400), "x" + strings.Repeat("漢", 400), strings.Repeat("\x80", 600), "a\xffb"} {
		data, _ := answer([]item{{err: errors.New(text)}}, []int{1})
		b := wire.NewBatchReader(bytes.NewReader(data), 1, 0)
		_, _, err := b.Next()
		wantKind(t, err, object.Internal, "%q", text)
		got := err.Error()
		if !utf8.ValidString(got) || len(got) > 512 || (utf8.ValidString(text) && text != "" && (!strings.HasPrefix(text, got) || len(got) < min(len(text), 509))) {
			t.Errorf("%q became %q", text, got)
		}
		if _, _, err := b.Next(); err != io.EOF {
			t.Error(err)
		}
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	one, _ := answer([]item{{bytes: []byte("one")}}, []int{1})
	two, _ := answer([]item{{bytes: []byte("one")}, {bytes: []byte("two")}}, []int{1, 1})
	early := slices.Concat(two[:16], one[16:])
	for what, c := range map[string]struct {
		data  []byte
		count int
		max   int64
		kind  object.Kind
	}{
		"more than asked for": {two, 1, 100, object.Corrupt},
		"less than asked for": {one, 2, 100, object.Corrupt},
		"negative count":      {one, -1, 100, object.Corrupt},
		"too early an end":    {early, 2, 100, object.Corrupt},
		"too large":           {one, 1, 2, object.Invalid},
		"negative size":       {(&wire.Segment{}).Begin(wire.AppendBatchHead(nil, 1), []int64{-1}), 1, 100, object.Invalid},
		"sum beyond all":      {(&wire.Segment{}).Begin(wire.AppendBatchHead(nil, 2), []int64{math.MaxInt64, 2}), 2, math.MaxInt64, object.Invalid},
		"something behind it": {append(slices.Clone(one), 0), 1, 100, object.Corrupt},
		"two answers":         {slices.Concat(one, one), 1, 100, object.Corrupt},
	} {
		b := wire.NewBatchReader(bytes.NewReader(c.data), c.count, c.max)
		var err error
		for err == nil {
			_, _, err = b.Next()
		}
		if wantKind(t, err, c.kind, "%s", what); b.Broken() != err {
			t.Errorf("%s: %v", what, b.Broken())
		}
	}
	b := wire.NewBatchReader(iotest.ErrReader(object.Errorf(object.Denied, "no")), 1, 1)
	_, _, err := b.Next()
	wantKind(t, err, object.Denied, "a cause with a kind")
}

// TestStatusOfALaterVersion: a kind that we do not know is an error all the same.
func TestStatusOfALaterVersion(t *testing.T) {
	data := (&wire.Segment{}).Begin(wire.AppendBatchHead(nil, 1), []int64{0})
	data = append(data, 11, 0, 0, 0, 0, 0, 0, 0, 3, 0, 'n', 'e', 'w')
	data = binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data[16:]))
	b := wire.NewBatchReader(bytes.NewReader(wire.AppendBatchEnd(data)), 1, 0)
	_, _, err := b.Next()
	if wantKind(t, err, object.Internal, "status 11"); err.Error() != "new" || b.Broken() != nil {
		t.Error(err, b.Broken())
	}
	if _, _, err := b.Next(); err != io.EOF {
		t.Error(err)
	}
}

// TestLyingSizes: memory is taken as bytes come.
func TestLyingSizes(t *testing.T) {
	liar := (&wire.Segment{}).Begin(wire.AppendBatchHead(nil, 1), []int64{1 << 40})
	liar = append(liar, "a few bytes"...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := wire.NewBatchReader(bytes.NewReader(liar), 1, math.MaxInt64).Next()
	runtime.ReadMemStats(&after)
	wantKind(t, err, object.Unavailable, "a TiB that does not come")
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("%d bytes of memory", took)
	}
}

func TestLargeItem(t *testing.T) {
	r := source(t)
	large := make([]byte, 5<<20+3)
	for i := range large {
		large[i] = byte(r.Uint32())
	}
	items := []item{{bytes: []byte("small")}, {bytes: large}, {bytes: large[:3<<20]}}
	data, _ := answer(items, []int{1, 1, 1})
	b := wire.NewBatchReader(iotest.HalfReader(bytes.NewReader(data)), len(items), int64(len(large)))
	for i, it := range items {
		got, crc, err := b.Next()
		if err := same(it, got, crc, err); err != nil {
			t.Fatal(i, len(got))
		}
	}
	if _, _, err := b.Next(); err != io.EOF {
		t.Fatal(err)
	}
}
