package objecttest

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
)

// sizes lie around the borders where the holders we have change their ways:
// tar blocks, checksum blocks, copy buffers, objects inside a pack or beside it.
var sizes = []int{
	0, 1, 511, 512, 513, 4096,
	64<<10 - 1, 64 << 10, 64<<10 + 1,
	512<<10 - 1, 512 << 10, 512<<10 + 1,
	1<<20 - 1, 1 << 20, 1<<20 + 1,
	3<<20 + 17,
}

func testMissing(s *suite) {
	s.missing(name("nothing"))
	s.wantKind("delete", s.Delete(s.Context(), name("nothing"), object.Condition{}), object.NotFound)
	if entries := s.list(Bucket, object.ListOptions{}); len(entries) != 0 {
		s.Errorf("an empty bucket lists %v", entries)
	}
	s.put(name("gone"), []byte("x"), object.PutOptions{})
	s.delete(name("gone"))
	s.missing(name("gone"))
	s.wantKind("second delete", s.Delete(s.Context(), name("gone"), object.Condition{}), object.NotFound)
}

func testSizes(s *suite) {
	for _, size := range sizes {
		data := content(uint64(size), size)
		key := "size/" + strconv.Itoa(size)
		for _, hint := range []int64{0, int64(size), int64(size) + 1000, 1} { // a hint may be wrong
			info := s.put(name(key), data, object.PutOptions{SizeHint: hint})
			s.same("put and stat", info, s.holds(name(key), data))
		}
	}
	for _, size := range sizes { // the later ones did not disturb the earlier ones
		s.holds(name("size/"+strconv.Itoa(size)), content(uint64(size), size))
	}
}

func testRanges(s *suite) {
	for _, size := range []int{0, 1, 513, 64 << 10, 64<<10 + 1, 512<<10 + 1, 1 << 20, 3<<20 + 17} {
		data := content(7, size)
		n := name("ranged")
		s.put(n, data, object.PutOptions{})
		for r := range s.ranges(int64(size)) {
			s.checkRange(n, data, r)
		}
	}
}

// ranges returns the edges, inside and outside, and some random ones.
func (s *suite) ranges(size int64) map[object.Range]bool {
	all := map[object.Range]bool{}
	at := []int64{0, 1, 511, 512, 64<<10 - 1, 64 << 10, 64<<10 + 1, size / 2, size - 1, size, size + 1, -1, -2, -size, -size - 1, -64 << 10}
	for _, offset := range at {
		for _, length := range []int64{1, 512, 64 << 10, -1} {
			all[object.Range{Offset: offset, Length: length}] = true
		}
		all[object.Range{Offset: offset, Length: []int64{0, size, size + 1, 1 << 62}[s.rand.IntN(4)]}] = true
	}
	for range 10 {
		all[object.Range{Offset: s.rand.Int64N(size + 1), Length: s.rand.Int64N(size + 1)}] = true
	}
	return all
}

func (s *suite) checkRange(n object.Name, data []byte, r object.Range) {
	s.Helper()
	offset, length, err := r.Resolve(int64(len(data)))
	if err != nil {
		reader, err := s.Open(s.Context(), n, r)
		s.wantKind("open of a range outside", err, object.Invalid)
		var outside *object.RangeError
		if !errors.As(err, &outside) || outside.Size != int64(len(data)) {
			s.Errorf("%+v of %d bytes: %v, want a RangeError with the size", r, len(data), err)
		}
		if err == nil {
			reader.Close()
		}
		return
	}
	got, info := s.get(n, r)
	if !bytes.Equal(got, data[offset:offset+length]) {
		s.Errorf("%+v of %d bytes gives %d wrong ones", r, len(data), len(got))
	}
	if info.Size != int64(len(data)) {
		s.Errorf("%+v: the info is of %d bytes, the object has %d", r, info.Size, len(data))
	}
}

func testOverwrite(s *suite) {
	n := name("overwritten")
	var last object.Info
	for i, size := range sizes {
		data := content(uint64(i), size)
		info := s.put(n, data, object.PutOptions{})
		if i > 0 && (!s.follows(info, last) || info.ETag == last.ETag) {
			s.Errorf("after %v (%s) came %v (%s)", last.Version, last.ETag, info.Version, info.ETag)
		}
		s.holds(n, data)
		last = info
	}
	s.delete(n)
	if again := s.put(n, nil, object.PutOptions{}); !s.follows(again, last) {
		s.Errorf("after a delete version %v follows %v", again.Version, last.Version)
	}
	if entries := s.list(Bucket, object.ListOptions{}); len(entries) != 1 {
		s.Errorf("one key, overwritten, is listed %d times", len(entries))
	}
}

func testMetadata(s *suite) {
	for _, opts := range []object.PutOptions{
		{},
		{ContentType: "image/jpeg"},
		{ContentType: "text/plain; charset=utf-8", Metadata: map[string]string{"a": "1", "label": "n01440764", "empty": ""}},
		{Metadata: map[string]string{"long": strings.Repeat("x", 4000), "unicode": "Grüße, 世界", "equals": "a=b;c=\"d\""}},
	} {
		for _, size := range []int{0, 100, 2 << 20} {
			s.Run("", func(t *testing.T) {
				sub := *s
				sub.T = t
				n := name("described")
				info := sub.put(n, content(1, size), opts)
				if !s.opts.Lacks.Metadata {
					sub.same("put and what was asked", info, withMeta(info, opts))
				}
				sub.same("stat and put", sub.holds(n, content(1, size)), info)
				for _, e := range sub.list(Bucket, object.ListOptions{Prefix: n.Key}) {
					sub.same("the listing and put", e.Info, withMeta(info, object.PutOptions{}))
				}
			})
		}
	}
}

func withMeta(info object.Info, opts object.PutOptions) object.Info {
	info.ContentType, info.Metadata = opts.ContentType, opts.Metadata
	return info
}

// testBuckets shows that the same key in two buckets is two objects.
func testBuckets(s *suite) {
	if s.opts.Lacks.Buckets {
		return
	}
	here, there := name("same"), object.Name{Bucket: Other, Key: "same"}
	s.put(here, []byte("here"), object.PutOptions{})
	s.missing(there)
	s.put(there, []byte("there, longer"), object.PutOptions{})
	s.holds(here, []byte("here"))
	s.delete(here)
	s.holds(there, []byte("there, longer"))
	if entries := s.list(Bucket, object.ListOptions{}); len(entries) != 0 {
		s.Errorf("the first bucket lists %v", entries)
	}
}
