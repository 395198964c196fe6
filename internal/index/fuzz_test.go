package index

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
)

// sampleBlock returns a block of n entries.
func sampleBlock(n int) []byte {
	var b blockBuilder
	for i := range n {
		b.add(fmt.Appendf(nil, "obucket\x00train/%05d.jpg", i*3), fmt.Appendf(nil, "value %d", i), i%7 == 3)
	}
	return b.finish()
}

// FuzzBlock reads any bytes as a block: no panic, no endless loop. If they are a
// block with keys in order, all ways to read it agree.
func FuzzBlock(f *testing.F) {
	for _, n := range []int{1, 2, 16, 17, 100} {
		f.Add(sampleBlock(n), []byte("obucket\x00train/00030.jpg"))
	}
	f.Fuzz(func(t *testing.T, data, key []byte) {
		var c cursor
		if c.open(data) != nil {
			return
		}
		c.block.get(key) //nolint:errcheck // must only not panic
		c.seek(key)      //nolint:errcheck // must only not panic
		if c.open(data) != nil {
			t.Fatal("it opened before")
		}
		var keys, values [][]byte
		for {
			ok, err := c.step()
			if err != nil {
				return
			}
			if !ok {
				break
			}
			keys, values = append(keys, bytes.Clone(c.key)), append(values, bytes.Clone(c.value))
		}
		if len(keys) > 300 {
			return // comparing all with all would take too long
		}
		for i := 1; i < len(keys); i++ {
			if bytes.Compare(keys[i-1], keys[i]) >= 0 {
				return
			}
		}
		checkSections(t, &c, keys, values)
	})
}

// checkSections compares lookups with what a walk has seen, if the restarts are
// where the walk found them.
func checkSections(t *testing.T, c *cursor, keys, values [][]byte) {
	at := 0
	for i := range keys {
		if i%restartEvery == 0 && c.block.restart(i/restartEvery) != at {
			return
		}
		e, _ := c.block.entry(at)
		at = e.end
	}
	if at != len(c.block.entries) {
		return
	}
	for i, key := range keys {
		e, found, err := c.block.get(key)
		if err != nil || !found || !bytes.Equal(c.block.entries[e.value:e.end], values[i]) {
			t.Fatalf("get(%q): %v %v", key, found, err)
		}
		if ok, err := c.seek(key); !ok || err != nil || !bytes.Equal(c.key, key) {
			t.Fatalf("seek(%q): %q %v %v", key, c.key, ok, err)
		}
		behind := append(bytes.Clone(key), 0)
		there := slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, behind) })
		if _, found, err := c.block.get(behind); err != nil || found != there {
			t.Fatalf("get(%q): %v %v", behind, found, err)
		}
	}
}

// FuzzCheckpoint reads any bytes as a checkpoint; what it accepts it would write
// the same.
func FuzzCheckpoint(f *testing.F) {
	for n := range 3 {
		c := checkpoint{state: []byte("state"), runs: make([]runRef, n)}
		f.Add(c.append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, wrong := parseCheckpoint(data)
		if wrong == "" && !bytes.Equal(c.append(nil), data) {
			t.Fatal("another checkpoint")
		}
		// The checksum keeps the fuzzer out: give it the key.
		if len(data) >= 4 {
			fixed := little.AppendUint32(bytes.Clone(data[:len(data)-4]), crc32.ChecksumIEEE(data[:len(data)-4]))
			if c, wrong := parseCheckpoint(fixed); wrong == "" && !bytes.Equal(c.append(nil), fixed) {
				t.Fatal("another checkpoint")
			}
		}
	})
}

// FuzzTables reads any bytes as footer and block index.
func FuzzTables(f *testing.F) {
	var lines []byte
	last := []byte{}
	for i := range 5 {
		separator := fmt.Appendf(nil, "key %d", i)
		lines = appendBlockIndex(lines, last, separator, 100, 7)
		last = separator
	}
	foot := footer{entries: 5, filterAt: 516, indexAt: 580, blocks: 5}
	tail, _ := foot.append(nil)
	f.Add(lines, tail, 5, int64(516), []byte("key 3"))
	f.Fuzz(func(t *testing.T, lines, tail []byte, n int, end int64, key []byte) {
		parseFooter(tail, end)
		if len(tail) == footerSize {
			tail = little.AppendUint32(tail[:footerSize-4:footerSize-4], crc32.ChecksumIEEE(tail[:footerSize-4]))
			if got, _, wrong := parseFooter(tail, end); wrong == "" {
				if again, _ := got.append(nil); !bytes.Equal(again, tail) {
					t.Fatal("another footer")
				}
			}
		}
		x, ok := parseBlockIndex(lines, n, headerSize, end)
		if !ok {
			return
		}
		for i := range x.len() {
			if offset, length := x.extent(i); offset < headerSize || length <= 0 || offset+length > end {
				t.Fatalf("block %d: %d bytes at %d", i, length, offset)
			}
			if x.find(x.separator(i)) != i {
				t.Fatalf("block %d is not found", i)
			}
		}
		x.find(key)
	})
}
