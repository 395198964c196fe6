package shard_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

func TestKeys(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "./a/b": "a/b", "././a": "a", "a/./b": "a/./b", "a//b": "a//b", "..a/b..": "..a/b..", "...": "...",
		"a\nb": "a\nb", "日本": "日本", `a\..\b`: `a\..\b`, "./.hidden": ".hidden",
		strings.Repeat("k", object.MaxKey): strings.Repeat("k", object.MaxKey),
	} {
		if key, err := shard.Key(name); err != nil || key != want {
			t.Errorf("%q: %q, %v", name, key, err)
		}
	}
	for name, says := range map[string]string{
		"": "empty", ".": "empty", "./": "empty", "./.": "empty", "././": "empty",
		"/": "absolute", "/etc/passwd": "absolute", ".//etc/passwd": "absolute",
		"..": `".."`, "../a": `".."`, "a/..": `".."`, "a/../b": `".."`, "./../a": `".."`,
		"a\x00b": "NUL", "a\xff": "UTF-8", "a/": "directory",
		strings.Repeat("k", object.MaxKey+1): "longer",
	} {
		key, err := shard.Key(name)
		if key != "" || !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v", name, key, err)
		}
	}
}

// TestReader: good files come out with their content; between them stand those
// that are refused, and directories do not show.
func TestReader(t *testing.T) {
	large := strings.Repeat("large", 200_000)
	header := func(kind byte, name string) []byte { return raw(kind, name, "00000000000", ustar) }
	data := join(
		header('5', "./"),
		archive(t, member{name: "./a", content: "1"}, member{name: "large", content: large})[:512*2+512+(len(large)+511)/512*512],
		header('5', "../dir/"),
		header('1', "hard"), header('2', "soft"), header('3', "char"), header('4', "block"), header('6', "fifo"), header('V', "volume"),
		raw('S', "sparse", "00000000005", gnu), padded("hello"),
		pax('x', record("GNU.sparse.name", "holes")), raw('0', "x", "00000000005", ustar), padded("hello"),
		raw('0', "../up", "00000000005", ustar), padded("hello"),
		raw('0', "/abs", "00000000005", ustar), padded("hello"),
		raw('0', "\xff", "00000000005", ustar), padded("hello"),
		raw('7', "last", "00000000005", ustar), padded("hello"),
	)
	want := []struct{ name, key, content, refused string }{
		{"./a", "a", "1", ""},
		{"large", "large", large, ""},
		{"hard", "", "", "link"},
		{"soft", "", "", "link"},
		{"char", "", "", "device"},
		{"block", "", "", "device"},
		{"fifo", "", "", "FIFO"},
		{"volume", "", "", "unknown type 'V'"},
		{"sparse", "", "", "sparse"},
		{"holes", "", "", "sparse"},
		{"../up", "", "", `".."`},
		{"/abs", "", "", "absolute"},
		{"\xff", "", "", "UTF-8"},
		{"last", "last", "hello", ""},
	}
	for _, piece := range []int{0, 7, 100_000, 10 << 20} { // 0: content is left alone
		r := shard.NewReader(iotest.HalfReader(bytes.NewReader(data)))
		for _, w := range want {
			f, err := r.Next()
			must(t, err)
			if f.Name != w.name || f.Key != w.key || (f.Refused == nil) != (w.refused == "") {
				t.Fatalf("%+v, should be %.100q", f, w)
			}
			if f.Refused != nil && (!object.Is(f.Refused, object.Invalid) || !strings.Contains(f.Refused.Error(), w.refused)) {
				t.Errorf("%s: %v", w.name, f.Refused)
			}
			if piece == 0 {
				continue
			}
			var got bytes.Buffer
			_, err = io.CopyBuffer(struct{ io.Writer }{&got}, r, make([]byte, piece))
			if err != f.Refused || got.String() != w.content {
				t.Errorf("%s: %d bytes, should be %d: %v", w.name, got.Len(), len(w.content), err)
			}
		}
		for range 2 {
			if _, err := r.Next(); err != io.EOF {
				t.Error(err)
			}
		}
	}
}

// TestReaderCutShort: nobody takes a piece of a file for the whole.
func TestReaderCutShort(t *testing.T) {
	data := archive(t, member{name: "a", content: strings.Repeat("1", 300_000)})
	for _, n := range []int{513, 1000, 200_000, 512 + 299_999} {
		for _, piece := range []int{10, 100_000} {
			r := shard.NewReader(bytes.NewReader(data[:n]))
			_, err := r.Next()
			must(t, err)
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, piece))
			if !object.Is(err, object.Invalid) {
				t.Errorf("cut at %d: %v", n, err)
			}
			if _, again := r.Next(); again != err {
				t.Errorf("cut at %d: %v, then %v", n, err, again)
			}
			if _, again := r.Read(make([]byte, 1)); again != err {
				t.Errorf("cut at %d: %v, then %v", n, err, again)
			}
		}
	}
}
