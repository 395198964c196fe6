package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/disk"
)

// damage is one thing done to a file behind the node's back.
type damage struct {
	file   string // below the data directory
	act    string
	offset int64
	length int64
	other  int64 // of swap and stray: where the other piece is
}

func (d damage) String() string {
	return fmt.Sprintf("%s %s at %d, %d bytes, %d", d.act, d.file, d.offset, d.length, d.other)
}

// The ways drives have been seen to damage a file.
var acts = []string{"flip", "flip", "flip", "garbage", "zero", "swap", "stray", "cut", "tear"}

// newDamage chooses what to do to the first bytes of a file.
func newDamage(random *rand.Rand, file string, limit int64) damage {
	d := damage{file: file, act: acts[random.IntN(len(acts))], offset: random.Int64N(limit), length: 1, other: random.Int64N(limit)}
	switch d.act {
	case "garbage", "zero", "swap", "stray", "tear":
		d.offset = d.offset / 512 * 512
		d.other = d.other / 512 * 512
		d.length = min(512<<random.IntN(4), limit-d.offset, limit-d.other)
	}
	return d
}

// apply does it, and reports whether the file is now another.
func (d damage) apply(random *rand.Rand, fsys disk.FS) (bool, error) {
	before, err := readFile(fsys, d.file)
	if err != nil {
		return false, err
	}
	if d.offset >= int64(len(before)) { // an earlier cut took it
		return false, nil
	}
	after := slices.Clone(before)
	piece := clip(after, d.offset, d.length)
	switch d.act {
	case "flip":
		piece[0] ^= 1 << random.IntN(8)
	case "garbage":
		for i := range piece {
			piece[i] = byte(random.Uint32())
		}
	case "zero":
		clear(piece)
	case "swap":
		copy(clip(after, d.other, d.length), piece)
		copy(clip(after, d.offset, d.length), clip(before, d.other, d.length))
	case "stray": // a write that went to the wrong place
		copy(piece, clip(before, d.other, d.length))
	case "cut":
		after = after[:d.offset]
	case "tear": // the second half of a write that never came
		clear(piece[len(piece)/2:])
	}
	if bytes.Equal(after, before) {
		return false, nil
	}
	return true, writeFile(fsys, d.file, after)
}

func readFile(fsys disk.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err == io.EOF {
		err = nil // it may shrink meanwhile
	}
	return data[:n], err
}

func writeFile(fsys disk.FS, name string, data []byte) error {
	f, err := fsys.OpenWrite(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Sync()
}

// inflict does damage to files, to each up to its limit,
// and returns what made a difference.
func inflict(tb testing.TB, random *rand.Rand, fsys disk.FS, limits map[string]int64, c rotCase) []damage {
	tb.Helper()
	files := slices.DeleteFunc(filesIn(tb, fsys, c.prefixes...), func(file string) bool { return limits[file] == 0 })
	grown := sizes(tb, fsys)
	var damages []damage
	for range min(c.atOnce, c.atOnce*len(files)) { // none if there is no file
		file := files[random.IntN(len(files))]
		d := newDamage(random, file, limits[file])
		if c.kill && d.act == "cut" && strings.HasPrefix(file, "packs/") && grown[file] > limits[file] {
			continue // the end of the log: so it looks after a crash that tore the last write
		}
		changed, err := d.apply(random, fsys)
		if err != nil {
			tb.Fatal(err)
		}
		if changed {
			damages = append(damages, d)
		}
	}
	return damages
}

func clip(data []byte, offset, length int64) []byte {
	size := int64(len(data))
	return data[min(offset, size):min(offset+length, size)]
}

// filesIn returns the files of a data directory whose path begins with one of the
// prefixes, in order.
func filesIn(tb testing.TB, fsys disk.FS, prefixes ...string) []string {
	tb.Helper()
	var files []string
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fsys.ReadDir(dir)
		if err != nil { // a file
			if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(dir, prefix) }) {
				files = append(files, dir)
			}
			return
		}
		slices.Sort(names)
		for _, name := range names {
			walk(path.Join(dir, name))
		}
	}
	walk(".")
	return files
}

// copyDir copies a data directory.
func copyDir(tb testing.TB, from, to string) {
	tb.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		tb.Fatal(err)
	}
}

// sizes returns how many bytes of each file are in use: zeros at its end are not.
// The files may be in use by somebody who removes some.
func sizes(tb testing.TB, fsys disk.FS) map[string]int64 {
	tb.Helper()
	sizes := map[string]int64{}
	for _, file := range filesIn(tb, fsys, "") {
		data, err := readFile(fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		sizes[file] = int64(len(bytes.TrimRight(data, "\x00")))
		if !strings.HasPrefix(file, "packs/") {
			sizes[file] = int64(len(data))
		}
	}
	return sizes
}
