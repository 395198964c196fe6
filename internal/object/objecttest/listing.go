package objecttest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/object"
)

func testListOrder(s *suite) {
	want := []string{"B", "a", "a!", "a/", "a/b", "a0", "aa", "b", "é", "世"}
	possible := s.possible(want)
	for _, i := range s.rand.Perm(len(possible)) {
		s.put(name(possible[i]), []byte(possible[i]), object.PutOptions{})
	}
	if !s.opts.Lacks.Buckets {
		s.put(object.Name{Bucket: Other, Key: "aaa"}, nil, object.PutOptions{})
	}
	for _, tt := range []struct {
		opts object.ListOptions
		want []string
	}{
		{object.ListOptions{}, want},
		{object.ListOptions{Limit: 100}, want},
		{object.ListOptions{Prefix: "a"}, want[1:7]},
		{object.ListOptions{Prefix: "a/"}, want[3:5]},
		{object.ListOptions{Prefix: "é"}, want[8:9]},
		{object.ListOptions{Prefix: "zz"}, nil},
		{object.ListOptions{After: "a"}, want[2:]},
		{object.ListOptions{After: "a/a"}, want[4:]},
		{object.ListOptions{After: "世"}, nil},
		{object.ListOptions{After: "A"}, want},
		{object.ListOptions{Prefix: "a", After: "a/b", Limit: 1}, want[5:6]},
		{object.ListOptions{Limit: 3}, possible[:3]},
		{object.ListOptions{Prefix: "b", After: "a"}, want[7:8]},
		{object.ListOptions{Prefix: "a", After: "b"}, nil},
	} {
		tt.want = slices.DeleteFunc(slices.Clone(tt.want), func(key string) bool { return !slices.Contains(possible, key) })
		if got := keys(s.list(Bucket, tt.opts)); !slices.Equal(got, tt.want) {
			s.Errorf("%+v lists %q, want %q", tt.opts, got, tt.want)
		}
	}
	for _, e := range s.list(Bucket, object.ListOptions{}) {
		info, err := s.Stat(s.Context(), e.Info.Name)
		if err != nil {
			s.Fatalf("stat of a listed object: %v", err)
		}
		s.same("the entry and stat", e.Info, info)
	}
}

func testListDelimiter(s *suite) {
	all := []string{"a", "a/", "a/1", "a/2/x", "b", "b/1", "b/2", "c::d", "c::e::f", "d/", "e"}
	possible, model := s.possible(all), NewMemory()
	for _, key := range possible {
		s.put(name(key), nil, object.PutOptions{})
		if _, err := model.Put(s.Context(), name(key), strings.NewReader(""), object.PutOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	for _, tt := range []struct {
		opts object.ListOptions
		want string // prefixes end in a star
	}{
		{object.ListOptions{Delimiter: "/"}, "a a/* b b/* c::d c::e::f d/* e"},
		{object.ListOptions{Delimiter: "/", Limit: 2}, "a a/*"},
		{object.ListOptions{Delimiter: "/", After: "a/"}, "b b/* c::d c::e::f d/* e"},
		{object.ListOptions{Delimiter: "/", After: "a"}, "a/* b b/* c::d c::e::f d/* e"},
		{object.ListOptions{Delimiter: "/", After: "b", Limit: 1}, "b/*"},
		{object.ListOptions{Delimiter: "/", After: "d/"}, "e"},
		{object.ListOptions{Delimiter: "/", After: "a/1"}, "a/* b b/* c::d c::e::f d/* e"}, // a/2/x was not seen
		{object.ListOptions{Delimiter: "/", After: "b/2"}, "c::d c::e::f d/* e"},
		{object.ListOptions{Delimiter: "/", Prefix: "a/"}, "a/ a/1 a/2/*"},
		{object.ListOptions{Delimiter: "/", Prefix: "a/", After: "a/1"}, "a/2/*"},
		{object.ListOptions{Delimiter: "/", Prefix: "a/", After: "a/2/"}, ""},
		{object.ListOptions{Delimiter: "/", Prefix: "a"}, "a a/*"},
		{object.ListOptions{Delimiter: "::"}, "a a/ a/1 a/2/x b b/1 b/2 c::* d/ e"},
		{object.ListOptions{Delimiter: "::", Prefix: "c::"}, "c::d c::e::*"},
		{object.ListOptions{Delimiter: "x"}, "a a/ a/1 a/2/x* b b/1 b/2 c::d c::e::f d/ e"},
		{object.ListOptions{Delimiter: "nowhere"}, "a a/ a/1 a/2/x b b/1 b/2 c::d c::e::f d/ e"},
	} {
		var got []string
		for _, e := range s.list(Bucket, tt.opts) {
			if e.Prefix != "" {
				got = append(got, e.Prefix+"*")
			} else {
				got = append(got, e.Info.Name.Key)
			}
		}
		if a, b := s.outline(s.list(Bucket, tt.opts)), s.outline(listAll(s, model, tt.opts)); a != b {
			s.Errorf("%+v lists\n%s\nwant\n%s", tt.opts, a, b)
		}
		if len(possible) == len(all) && strings.Join(got, " ") != tt.want {
			s.Errorf("%+v lists %q, want %q", tt.opts, got, tt.want)
		}
	}
}

// testListRandom compares listings of random keys with those of the model, page
// by page.
func testListRandom(s *suite) {
	model := NewMemory()
	letters := []string{"a", "b", "/", "//", "0", "\x00", "é", "\U0010ffff", "-"}
	word := func(n int) string {
		var b strings.Builder
		for range s.rand.IntN(n) {
			b.WriteString(letters[s.rand.IntN(len(letters))])
		}
		return b.String()
	}
	var taken []string
	for range 200 {
		if key := word(8); key != "" && s.fits(key, taken) {
			taken = append(taken, key)
			s.put(name(key), []byte(key), object.PutOptions{})
			if _, err := model.Put(context.Background(), name(key), strings.NewReader(key), object.PutOptions{}); err != nil {
				s.Fatal(err)
			}
		}
	}
	for range 150 {
		opts := object.ListOptions{Prefix: word(3), Limit: s.rand.IntN(20)}
		if s.rand.IntN(2) == 0 {
			opts.Delimiter = letters[s.rand.IntN(len(letters))]
		}
		if s.rand.IntN(2) == 0 {
			opts.After = word(5)
		}
		for page := 0; ; page++ {
			got, want := s.list(Bucket, opts), listAll(s, model, opts)
			if a, b := s.outline(got), s.outline(want); a != b {
				s.Fatalf("page %d of %+v lists\n%s\nwant\n%s", page, opts, a, b)
			}
			if opts.Limit == 0 || len(got) < opts.Limit {
				break
			}
			opts.After = got[len(got)-1].Mark()
		}
	}
}

func listAll(s *suite, m *Memory, opts object.ListOptions) []object.Entry {
	var entries []object.Entry
	for e, err := range m.List(s.Context(), Bucket, opts) {
		if err != nil {
			s.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// outline is what two holders must agree on.
func (s *suite) outline(entries []object.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		if s.opts.Lacks.Sums {
			e.Info.CRC32 = 0
		}
		fmt.Fprintf(&b, "%q %q %d %08x\n", e.Prefix, e.Info.Name.Key, e.Info.Size, e.Info.CRC32)
	}
	return b.String()
}

// testListStops leaves a listing in the middle, and cancels one.
func testListStops(s *suite) {
	for i := range 20 {
		s.put(name(fmt.Sprintf("%02d", i)), nil, object.PutOptions{})
	}
	seen := 0
	for _, err := range s.List(s.Context(), Bucket, object.ListOptions{}) {
		if err != nil {
			s.Fatal(err)
		}
		if seen++; seen == 5 {
			break
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	var last error
	for _, err := range s.List(ctx, Bucket, object.ListOptions{}) {
		last = err
	}
	s.wantKind("a canceled listing", last, object.Canceled)
	if s.opts.Lacks.Buckets {
		return
	}
	last = nil
	for _, err := range s.List(s.Context(), "../etc", object.ListOptions{}) {
		last = err
	}
	s.wantKind("a listing of an impossible bucket", last, object.Invalid)
}
