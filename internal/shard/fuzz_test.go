package shard_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// mend makes headers of blocks by giving them a right checksum, so that a change
// anywhere is looked at. In content it does no harm.
func mend(data []byte, all bool) []byte {
	data = bytes.Clone(data)
	for b := data; len(b) >= 512; b = b[512:] {
		if string(b[257:262]) == "ustar" || all && b[0] != 0 {
			sum(b[:512])
		}
	}
	return data
}

// mutate changes data as the input says: overwrite, clear, repeat a block from
// elsewhere, flip, cut, put a block in. Inputs are small this way, and the fuzzer
// need not learn what a tar looks like.
func mutate(data, input []byte) []byte {
	data = bytes.Clone(data)
	for len(input) >= 4 && len(data) > 0 {
		at := int(binary.LittleEndian.Uint16(input)) % len(data)
		op, n := input[2], int(input[3])
		input = input[4:]
		piece := data[at:]
		block := at / 512 * 512
		from := n * 512 % len(data)
		switch op % 6 {
		case 0:
			n = min(n, len(input))
			copy(piece, input[:n])
			input = input[n:]
		case 1:
			clear(piece[:min(len(piece), n)])
		case 2:
			copy(data[block:], bytes.Clone(data[from:min(len(data), from+512)]))
		case 3:
			piece[0] ^= byte(n)
		case 4:
			data = data[:at]
		case 5:
			if len(data) < 1<<16 {
				data = slices.Insert(data, block, data[from:min(len(data), from+512)]...)
			}
		}
	}
	return data
}

// samples are archives to begin with.
func samples(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	name := strings.Repeat("directory/", 30) + "x"
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU} {
		h := tar.Header{Format: format}
		dir := tar.Header{Format: format, Typeflag: tar.TypeDir}
		soft := tar.Header{Format: format, Typeflag: tar.TypeSymlink, Linkname: "a"}
		members := []member{{"a", "content", h}, {"empty", "", h}, {"d/", "", dir}, {"l", "", soft}, {"./a", "again", h}}
		if format != tar.FormatUSTAR {
			members = append(members, member{name, "x", h}, member{"ü", "y", h})
		}
		all = append(all, archive(t, members...))
	}
	file := join(raw('0', "file", "00000000005", ustar), padded("hello"))
	star := raw('0', "file", "00000000005", ustar)
	copy(star[345:], strings.Repeat("p", 131)+"00000000000 00000000000 ")
	copy(star[508:], "tar\x00")
	return append(
		all,
		join(raw(0, "v7", "00000000005", ""), padded("hello"), raw(0, "d/", "0", "")),
		join(pax('g', record("comment", "c")), pax('x', record("path", "p")+record("size", "5")+record("mtime", "1.5")), file),
		join(raw('L', "x", "00000000004", gnu), padded("long"), raw('K', "x", "00000000004", gnu), padded("link"), file),
		join(raw('S', "sparse", "00000000005", gnu), padded("hello"), file),
		join(pax('x', record("GNU.sparse.major", "1")+record("GNU.sparse.minor", "0")+record("GNU.sparse.realsize", "5")), file),
		join(raw('0', "file", "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05", gnu), padded("hello")),
		join(sum(star), padded("hello"), file),
	)
}

// FuzzScan: whatever the archive, Scan and archive/tar agree about it, and Reader
// and Build agree with Scan. The input changes one of the samples, or is itself
// the archive.
func FuzzScan(f *testing.F) {
	bases := samples(f)
	for i := range bases {
		f.Add(uint8(i), uint8(i), []byte{})
	}
	f.Add(uint8(0), uint8(1), []byte("\x7c\x00\x00\x0c\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05"))
	f.Add(uint8(4), uint8(1), []byte("\x01\x02\x00\x0a12 size=00\n"))
	f.Add(uint8(255), uint8(0), []byte("not a tar"))
	f.Fuzz(func(t *testing.T, base, how uint8, input []byte) {
		data := input
		if base < 255 {
			data = mutate(bases[int(base)%len(bases)], input)
		}
		if how%3 > 0 {
			data = mend(data, how%3 == 2)
		}
		check(t, data)
	})
}

// TestChangedArchives does what FuzzScan does, with random changes.
func TestChangedArchives(t *testing.T) {
	r := random(t)
	bases := samples(t)
	for range 1000 {
		input := make([]byte, 4*(1+r.IntN(4)))
		for i := range input {
			input[i] = byte(r.Uint32())
		}
		check(t, mend(mutate(bases[r.IntN(len(bases))], input), r.IntN(2) == 0))
	}
}

// check fails unless all that read an archive agree about it.
func check(t *testing.T, data []byte) {
	t.Helper()
	compare(t, data)

	entries, err := scan(data)
	x, buildErr := shard.Build(t.Context(), bytes.NewReader(data))
	if (err == nil) != (buildErr == nil) {
		t.Fatalf("Scan: %v, Build: %v", err, buildErr)
	}
	if err == nil {
		for name, m := range x.All() {
			again, ok := x.Find(name)
			if !ok || again != m || crc32.ChecksumIEEE(data[m.Offset:m.Offset+m.Size]) != m.CRC32 {
				t.Fatalf("%q: %v, found as %v, %v", name, m, again, ok)
			}
		}
	}
	r := shard.NewReader(bytes.NewReader(data))
	for {
		for len(entries) > 0 && entries[0].kind == shard.TypeDir {
			entries = entries[1:]
		}
		file, readErr := r.Next()
		if readErr != nil {
			if len(entries) > 0 || (readErr == io.EOF) != (err == nil) {
				t.Fatalf("%v with %d entries left, Scan: %v", readErr, len(entries), err)
			}
			return
		}
		if file.Name != entries[0].name || file.Type != entries[0].kind {
			t.Fatalf("%v, should be %v", file, entries[0])
		}
		content, readErr := io.ReadAll(r)
		switch {
		case file.Refused != nil:
			if file.Key != "" || !object.Is(file.Refused, object.Invalid) || !errors.Is(readErr, file.Refused) || len(content) > 0 {
				t.Fatalf("%v, %d bytes, %v", file, len(content), readErr)
			}
		case object.ValidateKey(file.Key) != nil:
			t.Fatalf("the key %q", file.Key)
		case readErr == nil && string(content) != entries[0].content:
			t.Fatalf("%q has %d bytes, should be %d", file.Name, len(content), len(entries[0].content))
		case readErr != nil && err == nil:
			t.Fatal(readErr)
		}
		entries = entries[1:]
	}
}
