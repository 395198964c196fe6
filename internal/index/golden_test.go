package index_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/index"
)

var update = flag.Bool("index.update", false, "write testdata anew; only together with a new format version")

// TestGolden reads an index written when the format was fixed, and writes the same
// entries again: byte by byte the same run. Who changes the format without a new
// version finds out here.
func TestGolden(t *testing.T) {
	const golden = "testdata/v1"
	memory := fault.NewMemory(1)
	x := open(t, memory)
	want := map[string]string{}
	var b index.Batch
	set := func(key, value string) {
		b.Set([]byte(key), []byte(value))
		want[key] = value
	}
	set("old", "there and gone")
	set("older", "there")
	x.Apply(&b)
	if err := x.Checkpoint(background, []byte("state 1")); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	b.Delete([]byte("old"))
	delete(want, "old")
	set("", "the empty key")
	set("empty", "")
	set("large", strings.Repeat("large ", 2000))
	for i := range 300 {
		set(fmt.Sprintf("oimagenet\x00train/n%08d/%d.JPEG\x00\x01", i/50, i*i), fmt.Sprintf("value %d", i))
	}
	x.Apply(&b)
	if err := x.Checkpoint(background, []byte("state 2")); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if *update {
		for _, name := range files(t, memory) {
			if err := os.WriteFile(filepath.Join(golden, name), read(t, memory, name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	old := fault.NewMemory(2)
	if err := old.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	var sums [][]byte
	entries, err := os.ReadDir(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(golden, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := old.Create(dir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		write(t, old, e.Name(), data)
		sums = append(sums, data)
	}
	for _, name := range files(t, memory) {
		data := read(t, memory, name)
		if name != "checkpoint" && !slices.ContainsFunc(sums, func(old []byte) bool { return bytes.Equal(old, data) }) {
			t.Errorf("run %s is not written as it was in %s", name, golden)
		}
	}
	x = open(t, old)
	defer x.Close()
	if string(x.State()) != "state 2" || x.Stats().Runs != 2 {
		t.Fatalf("state %q, %d runs", x.State(), x.Stats().Runs)
	}
	checkGet(t, x, want)
	checkScan(t, x, want, nil, nil)
	if err := x.Verify(background, func(file string, at int64, detail string) { t.Error(file, at, detail) }); err != nil {
		t.Fatal(err)
	}
}
