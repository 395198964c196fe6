package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// TestIndexIsAMap: an index of random files answers as a map of them does.
func TestIndexIsAMap(t *testing.T) {
	r := random(t)
	for range 50 {
		want := make(map[string]string) // by plain name
		var members []member
		var order []string // names as written; a later one replaces an earlier one
		for range r.IntN(300) {
			name := fmt.Sprintf("%0*d", 1+r.IntN(150), r.IntN(200))
			if r.IntN(3) == 0 {
				name = "./" + name
			}
			content := strings.Repeat(name, r.IntN(20))
			members = append(members, member{name: name, content: content})
			if r.IntN(10) == 0 {
				members = append(members, member{name: name + "/"})
				members[len(members)-1].header.Typeflag = shard.TypeDir
			}
			short := strings.TrimPrefix(name, "./")
			want[short] = content
			order = slices.DeleteFunc(order, func(s string) bool { return strings.TrimPrefix(s, "./") == short })
			order = append(order, name)
		}
		data := archive(t, members...)
		x, err := shard.Build(t.Context(), bytes.NewReader(data))
		must(t, err)
		if x.Len() != len(want) {
			t.Fatalf("%d members, should be %d", x.Len(), len(want))
		}
		for name, content := range want {
			for _, spelt := range []string{name, "./" + name, "././" + name} {
				m, ok := x.Find(spelt)
				if !ok || string(data[m.Offset:m.Offset+m.Size]) != content || m.CRC32 != crc32.ChecksumIEEE([]byte(content)) {
					t.Fatalf("%q: %v, %v", spelt, m, ok)
				}
			}
		}
		for _, name := range []string{"", "x", "./", "/1", "../1", strings.Repeat("0", 200)} {
			if m, ok := x.Find(name); ok {
				t.Fatalf("%q is there: %v", name, m)
			}
		}
		var names []string
		for name, m := range x.All() {
			names = append(names, name)
			if again, ok := x.Find(name); !ok || again != m {
				t.Fatalf("%q: %v and %v", name, m, again)
			}
		}
		if !slices.Equal(names, order) {
			t.Fatalf("the order is %q, should be %q", names, order)
		}
	}
}

func TestAllCanBeLeft(t *testing.T) {
	x, err := shard.Build(t.Context(), bytes.NewReader(archive(t, member{name: "a"}, member{name: "b"})))
	must(t, err)
	for name := range x.All() {
		if name != "a" {
			t.Error(name)
		}
		break
	}
}

// TestOnlyFilesAreMembers: of links, directories and sparse files there is nothing
// to be found.
func TestOnlyFilesAreMembers(t *testing.T) {
	var data []byte
	for _, kind := range []byte("0123456789SVZ\x00") {
		format := ustar
		if kind == 'S' {
			format = gnu
		}
		data = join(data, raw(kind, fmt.Sprintf("%c", max(kind, '!')), "00000000000", format))
	}
	data = join(data, pax('x', record("GNU.sparse.name", "holes")), raw('0', "file", "00000000001", ustar), padded("x"))
	x, err := shard.Build(t.Context(), bytes.NewReader(data))
	must(t, err)
	var names []string
	for name := range x.All() {
		names = append(names, name)
	}
	if got := strings.Join(names, ""); got != "07!" {
		t.Errorf("members are %q", got)
	}
}

// TestDamageBehindTheEnd: a reader that finds at its very end that the bytes it
// gave were wrong makes the index fail.
func TestDamageBehindTheEnd(t *testing.T) {
	data := join(archive(t, member{name: "a", content: "1"}), make([]byte, 1<<20))
	_, err := shard.Build(t.Context(), failing{bytes.NewReader(data), object.Errorf(object.Corrupt, "wrong sum")})
	if !object.Is(err, object.Corrupt) {
		t.Error(err)
	}
}

func TestBuildStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shard.Build(ctx, stuck{}); !errors.Is(err, context.Canceled) || !object.Is(err, object.Canceled) {
		t.Error(err)
	}
}
