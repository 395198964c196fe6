package object_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
)

func TestDatasetNames(t *testing.T) {
	for _, name := range []string{"a", "0", "_x", "ImageNet-1k_v2.0", "a..b", "a-", strings.Repeat("d", object.MaxDataset)} {
		if err := object.ValidateDataset(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", ".a", "-a", "a/b", "a@1", "a b", "a\x00", "ä", "a%", strings.Repeat("d", object.MaxDataset+1)} {
		if err := object.ValidateDataset(name); !object.Is(err, object.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	good := []string{"abc/k", "a.b-c/k", "0ab/..", "abc//", "abc/\x00", "abc/" + strings.Repeat("k", object.MaxKey)}
	for _, s := range good {
		n, err := object.ParseName(s)
		if err != nil || n.String() != s {
			t.Errorf("%q: %v, %v", s, n, err)
		}
	}
	bad := []string{
		"", "abc", "abc/", "ab/k", "Abc/k", "a_c/k", "-ab/k", "ab-/k", ".ab/k", "a..b/k", "1.2.3.4/k",
		strings.Repeat("b", 64) + "/k", "abc/\xff", "abc/" + strings.Repeat("k", object.MaxKey+1),
	}
	for _, s := range bad {
		if n, err := object.ParseName(s); !object.Is(err, object.Invalid) {
			t.Errorf("%q: %v, %v", s, n, err)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	order := []object.Version{{}, {Map: 0, Counter: 1}, {Map: 1}, {Map: 1, Counter: 1 << 40}, {Map: 2}, {Map: 2, Counter: 3}}
	for i, v := range order {
		for j, w := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if v.Compare(w) != want || v.After(w) != (want > 0) {
				t.Errorf("%v and %v: %d", v, w, v.Compare(w))
			}
		}
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		offset, length, size int64
		from, n              int64 // n < 0: outside
	}{
		{0, 0, 0, 0, 0},
		{0, 0, 9, 0, 9},
		{3, 0, 9, 3, 6},
		{3, 4, 9, 3, 4},
		{3, 40, 9, 3, 6},
		{8, 1, 9, 8, 1},
		{-4, 0, 9, 5, 4},
		{-4, 2, 9, 5, 2},
		{-40, 0, 9, 0, 9},
		{9, 0, 9, 0, -1},
		{9, 1, 9, 0, -1},
		{0, 1, 0, 0, -1},
		{-1, 0, 0, 0, -1},
		{0, -1, 9, 0, -1},
	} {
		from, n, err := object.Range{Offset: c.offset, Length: c.length}.Resolve(c.size)
		if c.n < 0 {
			var outside *object.RangeError
			if !errors.As(err, &outside) || outside.Size != c.size || !object.Is(err, object.Invalid) {
				t.Errorf("%+v: %d, %d, %v", c, from, n, err)
			}
		} else if err != nil || from != c.from || n != c.n {
			t.Errorf("%+v: %d, %d, %v", c, from, n, err)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, k := range object.Kinds() {
		if object.ParseKind(k.String()) != k {
			t.Errorf("%v is parsed as %v", k, object.ParseKind(k.String()))
		}
		err := fmt.Errorf("around: %w", object.Errorf(k, "cause %w", context.Canceled))
		if object.KindOf(err) != k || !object.Is(err, k) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", k, err)
		}
	}
	if object.KindOf(context.DeadlineExceeded) != object.Canceled || object.KindOf(errors.New("x")) != object.Internal || object.Is(nil, object.Internal) {
		t.Error("errors of others have the wrong kind")
	}
}

func TestConditions(t *testing.T) {
	name := object.Name{Bucket: "abc", Key: "k"}
	now := &object.Info{ETag: "1-a"}
	for _, c := range []struct {
		cond    object.Condition
		current *object.Info
		want    object.Kind
		ok      bool
	}{
		{object.Condition{}, nil, 0, true},
		{object.Condition{}, now, 0, true},
		{object.Condition{IfMatch: "1-a"}, now, 0, true},
		{object.Condition{IfMatch: "*"}, now, 0, true},
		{object.Condition{IfMatch: "2-b"}, now, object.Stale, false},
		{object.Condition{IfMatch: "*"}, nil, object.NotFound, false},
		{object.Condition{IfNoneMatch: "*"}, nil, 0, true},
		{object.Condition{IfNoneMatch: "*"}, now, object.Exists, false},
		{object.Condition{IfNoneMatch: "1-a"}, now, object.Stale, false},
		{object.Condition{IfNoneMatch: "2-b"}, now, 0, true},
	} {
		if err := c.cond.Check(name, c.current); (err == nil) != c.ok || (err != nil && !object.Is(err, c.want)) {
			t.Errorf("%+v with %v: %v", c.cond, c.current, err)
		}
	}
}

func TestNativeETagHasADash(t *testing.T) {
	if tag := object.NativeETag(object.Version{Map: 1, Counter: 2}, 3); !strings.Contains(tag, "-") {
		t.Error(tag)
	}
	for _, v := range []object.Version{{Map: 1}, {Map: 1, Counter: 0xfff}, {Map: 0x12345678, Counter: 1 << 28}, {Map: 1, Counter: 1<<64 - 1}} {
		for _, crc := range []uint32{0, 1, 0xfffffff, 0xffffffff} {
			if got, want := object.NativeETag(v, crc), fmt.Sprintf("%x%08x-%08x", v.Map, v.Counter, crc); got != want {
				t.Errorf("ETag %s, want %s", got, want)
			}
		}
	}
}
