package shard_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/shard"
)

var writtenNames = []string{
	"a.jpg", "cats/0001.jpg", strings.Repeat("n", 100), strings.Repeat("n", 101), strings.Repeat("d", 155) + "/" + strings.Repeat("n", 100),
	strings.Repeat("d", 156) + "/" + strings.Repeat("n", 100), strings.Repeat("d/", 99) + "x.jpg", strings.Repeat("d", 120) + "/", "größe/ü.jpg",
	strings.Repeat("ü", 500) + ".jpg", "sp ace/\ttab.jpg", "d/" + strings.Repeat("n", 120) + ".jpg", strings.Repeat("ab/", 60) + strings.Repeat("n", 90),
}

func writeTar(names []string) []byte {
	var b []byte
	for i, name := range names {
		content := bytes.Repeat([]byte{byte(i)}, i*700)
		before := len(b)
		b = shard.AppendHeader(b, name, int64(len(content)))
		if int64(len(b)-before) != shard.HeaderSize(name) {
			panic(name)
		}
		b = append(b, content...)
		b = append(b, make([]byte, shard.Padding(int64(len(content))))...)
	}
	return append(b, make([]byte, shard.EndSize)...)
}

// TestWrittenIsRead shows that others read what is written, and we ourselves.
func TestWrittenIsRead(t *testing.T) {
	data := writeTar(writtenNames)
	theirs := tar.NewReader(bytes.NewReader(data))
	i := 0
	for entry, err := range shard.Scan(bytes.NewReader(data)) {
		if err != nil {
			t.Fatal(err)
		}
		head, err := theirs.Next()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if head.Name != writtenNames[i] || entry.Name != writtenNames[i] || len(content) != i*700 || entry.Size != int64(i*700) {
			t.Errorf("%d: wrote %q; archive/tar reads %q with %d bytes, Scan %q with %d", i, writtenNames[i], head.Name, len(content), entry.Name, entry.Size)
		}
		if !bytes.Equal(content, data[entry.Offset:entry.Offset+entry.Size]) {
			t.Errorf("%q has other content", head.Name)
		}
		if head.ModTime.Unix() != 0 || head.Uid != 0 || head.Mode != 0o644 {
			t.Errorf("%q: %+v", head.Name, head)
		}
		i++
	}
	if _, err := theirs.Next(); err != io.EOF || i != len(writtenNames) {
		t.Errorf("%d of %d entries, then %v", i, len(writtenNames), err)
	}
}

// TestRealTarReadsIt asks GNU tar.
func TestRealTarReadsIt(t *testing.T) {
	names := []string{}
	for _, name := range writtenNames {
		if !strings.HasSuffix(name, "/") && !strings.Contains(name, "\t") {
			names = append(names, name)
		}
	}
	file := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(file, writeTar(names), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tar", "--quoting-style=literal", "-tf", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); strings.Join(got, "\n") != strings.Join(names, "\n") {
		t.Errorf("tar lists\n%s\nand not\n%s", out, strings.Join(names, "\n"))
	}
}

func BenchmarkAppendHeader(b *testing.B) {
	buffer := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buffer = shard.AppendHeader(buffer[:0], "train/n01440764/n01440764_10026.jpg", 110123)
	}
}
