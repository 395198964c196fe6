package objecttest

import (
	"slices"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// AwkwardKeys are valid keys that break whoever takes a key for a path, a C
// string, a URL or a line of text.
var AwkwardKeys = []string{
	"a", "a/", "a/b", "a/b/", "a//b", "a/b/c", "a0", "a.", "A",
	".", "..", "../..", "../../etc/passwd", "./a", "a/../b", "a/..", "a/.", "..a", "...",
	"/", "//", "/a", "//a", "/etc/passwd", "a//", "///",
	" ", " a", "a ", "a b", "\t", "\n", "a\nb", "\r\n", "\x00", "a\x00b", "a\x00", "\x01\x1f\x7f",
	"%", "%%", "%2F", "a%2Fb", "%2e%2e/", "%00", "%25", "100%", "+", "a+b", "?", "a?b=c&d", "#", "a#b", "&", ";", ";a=b", "=",
	"\\", "a\\b", "..\\..", "C:", "\"", "'", "`", "$HOME", "*", "<>|:", "{bucket}", "~", "-rf", "--", "@", "!",
	"ü", "u\u0308", "世界", "🦆", "\u202e", "\ufeff", "\u2028", "\U0010ffff", "\ufffd",
	"PaxHeaders.0/a", "././@PaxHeader", "pax_global_header", ".penstock", "packs/1.tar", "CON", "aux.txt",
	strings.Repeat("k", 100), strings.Repeat("k", 101), strings.Repeat("d/", 128), strings.Repeat("k", 255), strings.Repeat("k", 256),
	strings.Repeat("/", object.MaxKey), strings.Repeat("x", object.MaxKey), strings.Repeat("é", object.MaxKey/2), strings.Repeat("\n", object.MaxKey),
}

func testAwkwardNames(s *suite) {
	all := s.possible(AwkwardKeys)
	for i, key := range all {
		s.put(name(key), content(uint64(i), 10+i), object.PutOptions{})
	}
	for i, key := range all {
		s.holds(name(key), content(uint64(i), 10+i))
	}
	want := slices.Sorted(slices.Values(all))
	if got := keys(s.list(Bucket, object.ListOptions{})); !slices.Equal(got, want) {
		s.Errorf("listed:\n%q\nwant:\n%q", got, want)
	}
	for i, key := range all { // deleting one leaves all others
		s.delete(name(key))
		s.missing(name(key))
		if i+1 < len(all) {
			s.holds(name(all[i+1]), content(uint64(i+1), 11+i))
		}
	}
	if got := keys(s.list(Bucket, object.ListOptions{})); len(got) != 0 {
		s.Errorf("after deleting all, %q are listed", got)
	}
}

func testInvalidNames(s *suite) {
	long := strings.Repeat("x", object.MaxKey+1)
	for _, n := range []object.Name{
		name(""), name(long), name("\xff"), name("a\xc3"), name("\xed\xa0\x80"),
		{Bucket: "", Key: "k"},
		{Bucket: "..", Key: "k"},
		{Bucket: "UPPER", Key: "k"},
		{Bucket: "a/b", Key: "k"},
		{Bucket: "127.0.0.1", Key: "k"},
		{Bucket: strings.Repeat("b", 64), Key: "k"},
		{Bucket: "\x00ab", Key: "k"},
	} {
		if n.Bucket != Bucket && s.opts.Lacks.Buckets {
			continue
		}
		_, err := s.Stat(s.Context(), n)
		s.wantKind("stat", err, object.Invalid)
		_, err = s.Open(s.Context(), n, object.Range{})
		s.wantKind("open", err, object.Invalid)
		_, err = s.Put(s.Context(), n, strings.NewReader("x"), object.PutOptions{})
		s.wantKind("put", err, object.Invalid)
		s.wantKind("delete", s.Delete(s.Context(), n, object.Condition{}), object.Invalid)
	}
	if entries := s.list(Bucket, object.ListOptions{}); len(entries) != 0 {
		s.Errorf("refused names are listed: %v", entries)
	}
}

func keys(entries []object.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Mark())
	}
	return all
}
