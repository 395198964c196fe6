package manifest_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func seeds(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(vectors, "*.bin"))
	if must(f, err); len(files) == 0 {
		f.Fatal("no vectors")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(f, err)
		f.Add(data)
	}
	f.Add(small().bytes(f))
}

// FuzzParse: whatever the bytes are, there is an error or a manifest.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) { exercise(t, data) })
}

// FuzzSealed makes the checksums right first, so that what lies behind them is met.
func FuzzSealed(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = slices.Clone(data)
		seal(data)
		exercise(t, data)
	})
}

// FuzzSections writes anything over the sections of a good manifest.
func FuzzSections(f *testing.F) {
	good := small().bytes(f)
	head := int(little.Uint32(good[16:]))
	for at := 0; at < len(good)-head; at += 64 {
		f.Add(uint16(at), []byte{0xff, 0xff, 0xff, 0xff})
	}
	f.Fuzz(func(t *testing.T, at uint16, content []byte) {
		data := slices.Clone(good)
		copy(data[head+int(at)%(len(data)-head):], content)
		seal(data)
		exercise(t, data)
	})
}

// FuzzTable: any table that can be made comes out as it went in.
func FuzzTable(f *testing.F) {
	f.Add(uint64(1), uint16(10))
	f.Fuzz(func(t *testing.T, seed uint64, samples uint16) {
		tb := random(rand.New(rand.NewPCG(seed, 1)), int(samples%500))
		if err := exercise(t, tb.bytes(t)); err != nil {
			t.Fatal(err)
		}
	})
}
