package manifest_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"penstock.dev/penstock/internal/manifest"
)

// TestOpenTakesLittle: the memory for a manifest does not grow with it, except for
// four bytes of checksum in 64 KiB.
func TestOpenTakesLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifest")
	must(t, writeLarge(path, 50_000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := manifest.Open(path)
	must(t, err)
	i, err := m.Find(string(largeKey(nil, 12_345)))
	must(t, err)
	_, err = m.Piece(i, 0)
	must(t, err)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<10 {
		t.Errorf("opening took %d bytes", took)
	}
}

// TestMappingsGo: a manifest that nobody refers to is unmapped, so that opening
// many, one after the other, never ends in an error.
func TestMappingsGo(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // mappings cannot be counted
	}
	path := small().file(t)
	most := 0.0
	for i := range 5000 {
		m, err := manifest.Open(path)
		must(t, err)
		_, err = m.Key(0)
		must(t, err)
		if i%500 == 499 {
			runtime.GC()
			most = max(most, float64(mappings(path)))
		}
	}
	if most > 1000 {
		t.Errorf("%v mappings at a time", most)
	}
}
