package chaos

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"penstock.dev/penstock"
)

// source is a directory that is uploaded.
type source struct {
	dir   string
	files map[string]state // by their path; the bytes follow from the state
	sums  map[string]uint32
}

// newSource makes a tree of n files: mostly small ones that travel together, some
// that travel alone.
func newSource(tb testing.TB, random *rand.Rand, n int) *source {
	tb.Helper()
	s := &source{dir: newDir(tb), files: make(map[string]state, n), sums: make(map[string]uint32, n)}
	for i := range n {
		path := fmt.Sprintf("%02d/%d/%05d.jpg", i%13, i%3, i)
		file := state{Of: path, Number: 1, Size: random.Int64N(16 << 10)}
		switch random.IntN(100) {
		case 0:
			file.Size = 256<<10 - 2 + random.Int64N(4) // where files begin to travel alone
		case 1:
			file.Size = 1 + random.Int64N(1<<20)
		case 2:
			file.Size = 0
		}
		data := file.bytes()
		s.files[path], s.sums[path] = file, crc32.ChecksumIEEE(data)
		name := filepath.Join(s.dir, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o666); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// stored returns how many of the files a node has under a prefix. Whatever else is
// there, and each object that is not the whole of its file, is an error.
func (s *source) stored(tb testing.TB, client *penstock.Client, bucket, prefix string) int {
	tb.Helper()
	n := 0
	for entry, err := range client.List(tb.Context(), bucket, penstock.ListOptions{Prefix: prefix}) {
		if err != nil {
			tb.Fatalf("listing: %v", err)
		}
		info := entry.Info
		path := info.Name.Key[len(prefix):]
		switch file, ok := s.files[path]; {
		case !ok:
			tb.Errorf("%s is listed and was never uploaded", info.Name)
		case info.Size != file.Size || info.CRC32 != s.sums[path]:
			tb.Errorf("%s has %d bytes with CRC-32 %08x, its file %d with %08x", info.Name, info.Size, info.CRC32, file.Size, s.sums[path])
		default:
			n++
		}
	}
	return n
}

// read reads all files from a node, in batches.
func (s *source) read(tb testing.TB, client *penstock.Client, bucket, prefix string) {
	tb.Helper()
	var refs []penstock.Ref
	for path := range s.files {
		refs = append(refs, penstock.Ref{Name: penstock.Name{Bucket: bucket, Key: prefix + path}})
	}
	for item, err := range client.Batch(tb.Context(), refs) {
		key := item.Ref.Name.Key
		if err != nil {
			tb.Errorf("%s: %v", key, err)
		} else if file := s.files[key[len(prefix):]]; !file.matches(item.Bytes) {
			tb.Errorf("%s: %d bytes are not those of %v", key, len(item.Bytes), file)
		}
	}
}

// same compares a directory with the source.
func (s *source) same(tb testing.TB, dir string) {
	tb.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path, _ := filepath.Rel(dir, name)
		data, err := os.ReadFile(name)
		if file, ok := s.files[path]; !ok || !bytes.Equal(data, file.bytes()) {
			tb.Errorf("%s came back with %d bytes that are not those of %v", path, len(data), file)
		}
		n++
		return err
	})
	if err != nil || n != len(s.files) {
		tb.Errorf("%d files came back, %d were uploaded; %v", n, len(s.files), err)
	}
}
