package dataset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"penstock.dev/penstock/internal/dataset"
)

// BenchmarkCreate packs 4000 files of 30 KiB that are warm; bench/dataset/run.sh
// compares it with tar.
func BenchmarkCreate(b *testing.B) {
	const files, size = 4000, 30 << 10
	tree := b.TempDir()
	for i := range files {
		folder := filepath.Join(tree, fmt.Sprint(i/500))
		must(b, os.MkdirAll(folder, 0o777))
		must(b, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%06d.jpg", i)), []byte(noise[i*100:i*100+size]), 0o666))
	}
	b.SetBytes(files * size)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		to := filepath.Join(b.TempDir(), fmt.Sprint(i))
		_, err := dataset.Create(b.Context(), dataset.Directory(to), dataset.Tree(tree), dataset.Options{Name: "set"})
		must(b, err)
		must(b, os.RemoveAll(to))
	}
}
