package shard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// tree makes a directory with all that tar programs write in special ways.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "in")
	write := func(name, content string) {
		name = filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(content), 0o644))
	}
	write("empty", "")
	write("one", "1")
	write("block", strings.Repeat("b", 512))
	write("blocks", strings.Repeat("b", 100_000))
	write("with\nnewline", "n")
	write("ünïcödé/日本語", "u")
	write(strings.Repeat("n", 99), "99")
	write(strings.Repeat("n", 100), "100")
	must(t, os.MkdirAll(filepath.Join(dir, "directory/empty"), 0o755))
	must(t, os.Symlink("one", filepath.Join(dir, "soft")))
	must(t, os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "two")))
	return dir
}

// long adds what only some formats can hold.
func long(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, strings.Repeat("d", 120), strings.Repeat("e", 120), strings.Repeat("f", 200))
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte("long"), 0o644))
	must(t, os.Symlink(strings.Repeat("l", 300), filepath.Join(dir, "soft and long")))
	f, err := os.Create(filepath.Join(dir, "holes"))
	must(t, err)
	_, err = f.WriteAt([]byte("end"), 4<<20)
	must(t, err)
	must(t, f.Close())
}

func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// TestRealArchives: what tar and python write is read as archive/tar reads it, and
// as it was on disk.
func TestRealArchives(t *testing.T) {
	python := `import tarfile, sys
with tarfile.open(sys.argv[2], "w", format=getattr(tarfile, sys.argv[1])) as t: t.add(".")`
	for _, c := range []struct {
		name    string
		long    bool
		program string
		args    []string
	}{
		{"v7", false, "tar", []string{"--format=v7", "-cf"}},
		{"ustar", false, "tar", []string{"--format=ustar", "-cf"}},
		{"gnu", true, "tar", []string{"--format=gnu", "-cf"}},
		{"oldgnu", true, "tar", []string{"--format=oldgnu", "-cf"}},
		{"pax", true, "tar", []string{"--format=pax", "-cf"}},
		{"posix with a global header", true, "tar", []string{"--format=posix", "--pax-option=globexthdr.name=g,comment=c", "-cf"}},
		{"gnu sparse", true, "tar", []string{"--format=gnu", "--sparse", "--hole-detection=raw", "-cf"}},
		{"pax sparse 0.0", true, "tar", []string{"--format=pax", "--sparse", "--sparse-version=0.0", "-cf"}},
		{"pax sparse 0.1", true, "tar", []string{"--format=pax", "--sparse", "--sparse-version=0.1", "-cf"}},
		{"pax sparse 1.0", true, "tar", []string{"--format=pax", "--sparse", "--sparse-version=1.0", "-cf"}},
		{"python ustar", false, "python3", []string{"-c", python, "USTAR_FORMAT"}},
		{"python gnu", true, "python3", []string{"-c", python, "GNU_FORMAT"}},
		{"python pax", true, "python3", []string{"-c", python, "PAX_FORMAT"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t)
			if c.name == "v7" { // it has room for 99 bytes
				must(t, os.Remove(filepath.Join(dir, strings.Repeat("n", 99))))
				must(t, os.Remove(filepath.Join(dir, strings.Repeat("n", 100))))
			}
			if c.long {
				long(t, dir)
			}
			out := filepath.Join(t.TempDir(), "out.tar")
			args := append(c.args, out)
			if c.program == "tar" {
				args = append(args, ".")
			}
			run(t, dir, c.program, args...)
			data, err := os.ReadFile(out)
			must(t, err)
			compare(t, data)

			x, err := shard.Build(t.Context(), bytes.NewReader(data))
			must(t, err)
			entries, err := scan(data)
			must(t, err)
			files, others := 0, 0
			for _, e := range entries {
				if e.kind != shard.TypeFile || e.sparse {
					others++
					continue
				}
				files++
				want, err := os.ReadFile(filepath.Join(dir, e.name))
				must(t, err)
				if e.content != string(want) {
					t.Errorf("%q has %d bytes, should be %d", e.name, len(e.content), len(want))
				}
				for _, name := range []string{e.name, strings.TrimPrefix(e.name, "./")} {
					if m, ok := x.Find(name); !ok || string(data[m.Offset:m.Offset+m.Size]) != string(want) {
						t.Errorf("the index says of %q: %v, %v", name, m, ok)
					}
				}
			}
			if files < 6 || others < 6 || x.Len() != files {
				t.Errorf("%d files, %d in the index, %d other entries", files, x.Len(), others)
			}
			sparse := false
			for _, e := range entries {
				sparse = sparse || e.sparse && strings.HasSuffix(e.name, "/holes")
			}
			if sparse != strings.Contains(c.name, "sparse") {
				t.Errorf("the file with holes is sparse: %v", sparse)
			}
		})
	}
}

// TestArchivesOfGo reads those that archive/tar is tested with.
func TestArchivesOfGo(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src/archive/tar/testdata/*.tar"))
	must(t, err)
	if len(files) == 0 {
		t.Skip("this installation of Go has no archive/tar/testdata")
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			must(t, err)
			compare(t, data)
		})
	}
}

// TestHostileArchives: each is refused with the offset of what is wrong, and what
// stands before it is given out.
func TestHostileArchives(t *testing.T) {
	good := join(raw('0', "good", "00000000005", ustar), padded("hello"))
	file := raw('0', "file", "00000000001", ustar)
	broken := func(at int, with string) []byte {
		b := raw('0', "file", "00000000001", ustar)
		copy(b[at:], with)
		return sum(b)
	}
	for _, c := range []struct {
		name   string
		data   []byte
		offset int
		says   string
	}{
		{"no tar at all", padded("PK\x03\x04 this is a zip"), 0, "checksum"},
		{"less than a block", []byte("hello"), 0, "ends inside a header"},
		{"a flipped bit", append([]byte{'F'}, file[1:]...), 0, "checksum"},
		{"cut in a header", file[:300], 0, "ends inside a header"},
		{"cut in content", join(file), 512, "before the end"},
		{"a size of more than there is", raw('0', "file", "77777777777", ustar), 512, "before the end"},
		{"the largest size", raw('0', "file", "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", gnu), 0, "size"},
		{"a size over 63 bits", raw('0', "file", "\x80\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", gnu), 0, "number"},
		{"a size over 64 bits", raw('0', "file", "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", gnu), 0, "number"},
		{"a negative size", raw('0', "file", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", gnu), 0, "size"},
		{"a size that is none", broken(124, "12x"), 0, "number"},
		{"a mode that is none", broken(100, "rw-r--r-"), 0, "number"},
		{"a time that is none", broken(136, "yesterday"), 0, "number"},
		{"a device that is none", broken(329, "8"), 0, "number"},
		{"a negative PAX size", join(pax('x', record("size", "-1")), file), 1024, "size"},
		{"a PAX size over 63 bits", join(pax('x', record("size", "9223372036854775808")), file), 1024, "number"},
		{"a PAX size that overflows the offset", join(pax('x', record("size", "9223372036854775807")), file), 1024, "size"},
		{"a PAX size of more than there is", join(pax('x', record("size", "999999")), file), 1536, "before the end"},
		{"a PAX time that is none", join(pax('x', record("mtime", "1.x")), file), 1024, "number"},
		{"a PAX path with NUL", join(pax('x', record("path", "a\x00b")), file), 512, "broken record"},
		{"a PAX record that is too long", join(pax('x', "99 path=x\n"), file), 512, "broken record"},
		{"a PAX record that is too short", join(pax('x', record("comment", "x")+"4 a\n"), file), 512 + 13, "broken record"},
		{"a PAX record without a key", join(pax('x', "5 =x\n"), file), 512, "broken record"},
		{"a PAX record without end", join(pax('x', "9 path=xx"), file), 512, "broken record"},
		{"a PAX record with a huge length", join(pax('x', "99999999999999999999 path=x\n"), file), 512, "broken record"},
		{"a huge PAX block", raw('x', "pax", "00004000001", ustar), 0, "extended header of 1048577"},
		{"a PAX block cut short", raw('x', "pax", "00000000010", ustar), 512, "before the end"},
		{"a huge long name", raw('L', "././@LongLink", "00004000001", gnu), 0, "extended header of 1048577"},
		{"a huge long link", raw('K', "././@LongLink", "00004000001", gnu), 0, "link name"},
		{"a negative long name", raw('L', "././@LongLink", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", gnu), 0, "size"},
		{"a name over the limit", join(pax('x', record("path", strings.Repeat("n", shard.MaxName+1))), file), 5120, "longer than 4096"},
		{"a global path", join(pax('g', record("path", "elsewhere")), file, padded("x")), 0, "differently"},
		{"a global size", join(pax('g', record("size", "3")), file, padded("x")), 0, "differently"},
		{"a global sparse map", join(pax('g', record("GNU.sparse.map", "0,1")), file, padded("x")), 0, "differently"},
		{"a global header inside a member", join(pax('x', record("path", "p")), pax('g', record("comment", "c")), file, padded("x")), 1024, "differently"},
		{"a block of zeros and more", join(make([]byte, 512), file, padded("x")), 512, "behind a block of zeros"},
		{"a sparse file in ustar", raw('S', "file", "00000000000", ustar), 0, "sparse"},
		{"a sparse map cut short", func() []byte {
			b := raw('S', "file", "00000000000", gnu)
			b[482] = 1
			return sum(b)
		}(), 512, "inside a sparse map"},
		{"an endless sparse map", func() []byte {
			b := raw('S', "file", "00000000000", gnu)
			b[482] = 1
			more := make([]byte, 512)
			more[504] = 1
			return join(sum(b), bytes.Repeat(more, 5000))
		}(), 0, "sparse map of more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := join(good, c.data)
			entries, err := scan(data)
			where := fmt.Sprintf("at offset %d: ", c.offset+len(good))
			if !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, should say %q and %q", err, where, c.says)
			}
			if len(entries) == 0 || entries[0].content != "hello" {
				t.Errorf("before it: %v", entries)
			}
			compare(t, data)
			if _, err := shard.Build(t.Context(), bytes.NewReader(data)); !object.Is(err, object.Invalid) {
				t.Errorf("the index: %v", err)
			}
		})
	}
}

// TestStrangeArchives are odd and good.
func TestStrangeArchives(t *testing.T) {
	content := padded("hello")
	file := join(raw('0', "file", "00000000005", ustar), content)
	longName := func(name string) []byte {
		return join(raw('L', "././@LongLink", fmt.Sprintf("%011o", len(name)), gnu), padded(name))
	}
	signed := raw('0', "f\xe9", "00000000005", "")
	copy(signed[148:], "        ")
	n := 0
	for _, c := range signed {
		n += int(int8(c))
	}
	copy(signed[148:], fmt.Sprintf("%06o\x00 ", n))
	prefix := raw('0', "file", "00000000005", ustar)
	copy(prefix[345:], strings.Repeat("p", 155))
	oldGo := raw('0', "file", "00000000005", gnu)
	copy(oldGo[345:], "a/prefix/of/go/before/1.8")
	star := raw('0', "file", "00000000005", ustar)
	copy(star[345:], strings.Repeat("p", 131)+"00000000000 00000000000 ")
	copy(star[508:], "tar\x00")
	long := strings.Repeat("n", shard.MaxName)
	for _, c := range []struct {
		name string
		data []byte
		want string // names
	}{
		{"nothing", nil, ""},
		{"one block of zeros", make([]byte, 512), ""},
		{"end without zeros", file, "file"},
		{"end with one block of zeros", join(file, make([]byte, 512)), "file"},
		{"end in the padding", file[:512+5], "file"},
		{"something behind the end", join(file, make([]byte, 1024), []byte("rubbish")), "file"},
		{"a header of nothing at the end", join(file, pax('x', record("path", "p"))), "file"},
		{"a size in base 256", join(raw('0', "file", "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05", gnu), content), "file"},
		{"a size with spaces", join(raw('0', "file", "     5 ", ustar), content), "file"},
		{"signed sums", join(signed, content), "f\xe9"},
		{"a prefix", join(sum(prefix), content), strings.Repeat("p", 155) + "/file"},
		{"a prefix of Go before 1.8", join(sum(oldGo), content), "a/prefix/of/go/before/1.8/file"},
		{"a prefix of star", join(sum(star), content), strings.Repeat("p", 131) + "/file"},
		{"a directory of V7", raw(0, "dir/", "00000000005", ""), "dir/"},
		{"a directory with a size", raw('5', "dir/", "00000000005", ustar), "dir/"},
		{"a link with a negative size", raw('1', "link", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", gnu), "link"},
		{"a PAX path", join(pax('x', record("path", "new")), file), "new"},
		{"two PAX headers", join(pax('x', record("path", "new")), pax('x', record("mtime", "1.5")), file), "file"},
		{"the last record counts", join(pax('x', record("path", "a")+record("size", "x")+record("size", "5")+record("path", "b")), file), "b"},
		{"an empty record is none", join(pax('x', record("path", "a")+record("path", "")), file), "file"},
		{"a PAX size", join(pax('x', record("size", "5")), raw('0', "file", "00000000000", ustar), content), "file"},
		{"a global comment", join(pax('g', record("comment", "c")+record("path", "")), file), "file"},
		{"a long name", join(longName("long\x00rubbish"), file), "long"},
		{"an empty long name", join(longName(""), file), "file"},
		{"a long name wins over PAX", join(longName("long"), pax('x', record("path", "new")), file), "long"},
		{"the longest name", join(longName(long), file), long},
		{"the longest PAX block", join(pax('x', record("comment", strings.Repeat("c", 1<<20-17))), file), "file"},
		{"an unknown type with content", join(raw('Z', "what", "00000000005", ustar), content, file), "what file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries, err := scan(c.data)
			must(t, err)
			var names []string
			for _, e := range entries {
				names = append(names, e.name)
				if e.kind == shard.TypeFile && e.content != "hello" {
					t.Errorf("%q has the content %q", e.name, e.content)
				}
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%.100q, should be %.100q", got, c.want)
			}
			compare(t, c.data)
		})
	}
}

// TestSmallReads: it does not matter in which pieces a stream comes.
func TestSmallReads(t *testing.T) {
	data := archive(t, member{name: "a", content: "1"}, member{name: strings.Repeat("long/", 50) + "b", content: strings.Repeat("2", 3000)}, member{name: "c"})
	want, err := scan(data)
	must(t, err)
	for name, r := range map[string]io.Reader{
		"bytes":           iotest.OneByteReader(bytes.NewReader(data)),
		"halves":          iotest.HalfReader(bytes.NewReader(data)),
		"end with data":   iotest.DataErrReader(bytes.NewReader(data)),
		"one end earlier": iotest.DataErrReader(iotest.OneByteReader(bytes.NewReader(data[:len(data)-1024]))),
	} {
		i := 0
		for e, err := range shard.Scan(r) {
			must(t, err)
			if e.Name != want[i].name || e.Size != want[i].size {
				t.Errorf("%s: entry %d is %v, should be %v", name, i, e, want[i])
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%s: %d entries, should be %d", name, i, len(want))
		}
	}
}

// TestReaderFails: what the stream fails with is passed on with its kind, and is
// not taken for a fault of the archive.
func TestReaderFails(t *testing.T) {
	data := archive(t, member{name: "a", content: "1"}, member{name: "b", content: "2"})
	for n := range len(data) {
		cause := object.Errorf(object.Unavailable, "the disk is gone")
		_, err := shard.Build(t.Context(), failing{bytes.NewReader(data[:n]), cause})
		if !errors.Is(err, cause) || !object.Is(err, object.Unavailable) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
	var last error
	for _, err := range shard.Scan(stuck{}) {
		last = err
	}
	if !errors.Is(last, io.ErrNoProgress) {
		t.Error(last)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
