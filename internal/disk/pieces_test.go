package disk_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/disk"
)

// TestPieces writes and reads pieces of memory, more than the kernel takes at once,
// and compares with the file as it is.
func TestPieces(t *testing.T) {
	root := t.TempDir()
	f, err := disk.NewDir(root).Create("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := rand.New(rand.NewPCG(1, 2))
	want := bytes.Repeat([]byte{7}, 100)
	if _, err := f.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	var pieces [][]byte
	for range 5000 {
		p := make([]byte, r.IntN(300))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		pieces = append(pieces, p)
		want = append(want, p...)
	}
	if err := disk.WritePieces(f, pieces, 100); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "f"))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, want %d; %v", len(got), len(want), err)
	}
	for range 100 {
		at := r.IntN(len(want))
		var parts [][]byte
		end := at
		for range r.IntN(disk.MaxPieces) {
			n := min(r.IntN(1000), len(want)-end)
			parts = append(parts, make([]byte, n))
			end += n
		}
		if disk.ReadNow(f, parts, int64(at)) && !bytes.Equal(bytes.Join(parts, nil), want[at:end]) {
			t.Errorf("%d pieces at %d are wrong", len(parts), at)
		}
	}
	if disk.ReadNow(f, [][]byte{make([]byte, 10)}, int64(len(want)-5)) {
		t.Error("bytes behind the end were read")
	}
}

// TestReadNowWaitsForNothing asks for bytes that only the drive has.
func TestReadNowWaitsForNothing(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "f")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := disk.NewDir(root).Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	piece := [][]byte{make([]byte, 4096)}
	if !disk.ReadNow(file, piece, 512<<10) {
		t.Skip("this file system cannot read without waiting")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fsync(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if disk.ReadNow(file, piece, 512<<10) {
		t.Skip("this file system keeps its files in memory")
	}
	if _, err := file.ReadAt(piece[0], 512<<10); err != nil {
		t.Fatal(err)
	}
	if !disk.ReadNow(file, piece, 512<<10) {
		t.Error("what was just read is not at hand")
	}
}
