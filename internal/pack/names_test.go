package pack_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// decomposed is a key that bsdtar writes in another form of Unicode.
const decomposed = "e\u0301 is not \u00e9"

// ordinaryKeys are restored by plain tar under their own names.
func ordinaryKeys() []string {
	long := func(n int) string { return strings.Repeat("x", n) }
	keys := []string{
		"a", "dir/file.jpg", "with space/and 'quotes' \"too\"", "-dash", "--checkpoint=1", "a=b", "per%cent", "*?[]{}~#$!;&|",
		"back\\slash", ".hidden", "..two", "three...", "trailing ", " leading", "a.penstock/x", ".penstock/pack",
		"ünïcödé/日本語/🐢.png", decomposed, "\u202eright to left", "\u00a0space",
		long(255), "dir" + long(252) + "/" + long(255), long(250) + "/b/" + long(255) + "/c/" + long(255) + "/" + long(200),
		strings.Repeat("d/", 60) + "deep",
	}
	// Around the limits of ustar: bucket "bkt/" and 100 bytes of name, 155 of prefix.
	for _, n := range []int{95, 96, 97} {
		keys = append(keys, "n"+long(n-1))
	}
	for prefix := 150; prefix <= 153; prefix++ {
		for name := 99; name <= 101; name++ {
			keys = append(keys, strings.Repeat("p", prefix-1)+"/"+fmt.Sprintf("%d", prefix)+long(name-3))
		}
	}
	return append(keys, strings.Repeat("s", 97)+"/"+long(97), "1/"+long(98), "12/"+long(100), "123/"+long(101))
}

// awkwardKeys must never reach the file system under their own names.
func awkwardKeys() []string {
	return []string{
		"/", "//", "/absolute", "/etc/passwd", "..", ".", "../up", "../../../up", "a/../../b", "a/..", "a/.", "./a", "a//b", "a/", "dir/sub/",
		"new\nline", "tab\t", "bell\a", "nul\x00inside", "\x00", "\x1b[31mred", "del\x7f", "c1\u0085control", "c1\u009b31m", "\r",
		strings.Repeat("x", 256), "a/" + strings.Repeat("ü", 128), strings.Repeat("/", object.MaxKey), strings.Repeat("../", 341) + "x",
		strings.Repeat("k", object.MaxKey), strings.Repeat("\x00", object.MaxKey), strings.Repeat("%", object.MaxKey-1) + "\n",
	}
}

// namesLog writes one record for every key, each with its own content.
func namesLog(t testing.TB, l *log) {
	t.Helper()
	for i, key := range append(ordinaryKeys(), awkwardKeys()...) {
		if err := object.ValidateKey(key); err != nil {
			t.Fatal(err)
		}
		l.append(put(key, uint64(i+1)), []byte(fmt.Sprintf("content of %q", key)))
	}
	clash := put("clash", 900)
	clash.Hidden = true
	l.append(clash, []byte("hidden"))
	l.append(put("clash/below", 901), []byte("below"))
	l.append(remove("dir/file.jpg", 902), nil)
	l.append(remove("../up", 903), nil)
	l.append(with(put("a", 904), func(r *pack.Record) { r.Kind = pack.Marker }), nil)
	l.sync()
}

// restored returns the files plain tar must make of namesLog, ordinary ones only.
func (l *log) restored() map[string]string {
	files := map[string]string{"bkt/clash/below": "below"}
	for _, key := range ordinaryKeys() {
		files["bkt/"+key] = fmt.Sprintf("content of %q", key)
	}
	return files
}

func TestNames(t *testing.T) {
	d := newDisk(t)
	l := newLog(t, d, options(1))
	namesLog(t, l)
	l.checkWhole(t, open(t, contents(t, d, 1)))
	l.seal()
	data := contents(t, d, 1)
	l.checkWhole(t, open(t, data))

	plain, own := members(t, data)
	if want := l.restored(); !maps.Equal(plain, want) {
		for name := range plain {
			if want[name] != plain[name] {
				t.Errorf("%q is %q, not %q", name, plain[name], want[name])
			}
		}
		t.Errorf("archive/tar sees %d ordinary members, not %d", len(plain), len(want))
	}
	// Head, directory, the escaped and the hidden, two tombstones and a marker.
	if want := 1 + 1 + len(awkwardKeys()) + 1 + 2 + 1; len(own) != want {
		t.Errorf("archive/tar sees %d others, not %d", len(own), want)
	}
	for name := range own {
		if !strings.HasPrefix(name, ".penstock/") || strings.Contains(name, "..") || strings.Contains(name, "//") || len(name) > 255 {
			t.Errorf("%q is not safe", name)
		}
	}
}

// members reads a pack with archive/tar: what is under a bucket, and the rest.
func members(t testing.TB, data []byte) (plain, own map[string]string) {
	t.Helper()
	plain, own = map[string]string{}, map[string]string{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return plain, own
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		if h.Typeflag != tar.TypeReg {
			t.Errorf("%q is of type %c", h.Name, h.Typeflag)
		}
		to := plain
		if strings.HasPrefix(h.Name, ".penstock/") {
			to = own
		}
		if _, ok := to[h.Name]; ok {
			t.Errorf("%q is there twice", h.Name)
		}
		to[h.Name] = string(content)
	}
}
