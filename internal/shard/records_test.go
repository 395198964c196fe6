package shard_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// tfRecord appends a record as TensorFlow writes it.
func tfRecord(b, data []byte) []byte {
	masked := func(data []byte) uint32 {
		crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		return (crc>>15 | crc<<17) + 0xa282ead8
	}
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = append(b, length...)
	b = binary.LittleEndian.AppendUint32(b, masked(length))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, masked(data))
}

func pieces(r *rand.Rand) (all [][]byte) {
	for range r.IntN(50) {
		size := r.IntN(2000)
		if r.IntN(20) == 0 {
			size = r.IntN(600_000)
		}
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		all = append(all, data)
	}
	return all
}

func checkRecords(t *testing.T, file []byte, records iter.Seq2[shard.Record, error], want [][]byte) {
	t.Helper()
	i := 0
	for record, err := range records {
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		if i >= len(want) {
			t.Fatalf("a record too many: %+v", record)
		}
		data := file[record.Offset : record.Offset+record.Size]
		if !bytes.Equal(data, want[i]) || record.CRC32 != crc32.ChecksumIEEE(data) {
			t.Errorf("record %d is wrong: %+v", i, record)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d records of %d", i, len(want))
	}
}

func TestRecordsAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		all := pieces(r)
		var prefixed, tf, flat []byte
		for _, data := range all {
			prefixed = append(binary.LittleEndian.AppendUint32(prefixed, uint32(len(data))), data...)
			tf = tfRecord(tf, data)
			flat = append(flat, data...)
		}
		for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader} {
			checkRecords(t, prefixed, shard.PrefixedRecords(wrap(bytes.NewReader(prefixed)), 4), all)
			checkRecords(t, tf, shard.TFRecords(wrap(bytes.NewReader(tf))), all)
			length := 1 + r.IntN(5000)
			var fixed [][]byte
			for from := 0; from < len(flat); from += length {
				fixed = append(fixed, flat[from:min(from+length, len(flat))])
			}
			checkRecords(t, flat, shard.Records(wrap(bytes.NewReader(flat)), int64(length)), fixed)
		}
	}
}

// TestBrokenRecordsAreRefused: whatever byte of a TFRecord is flipped, and wherever it
// is cut, an error says so.
func TestBrokenRecordsAreRefused(t *testing.T) {
	var file []byte
	for _, text := range []string{"one", "", "three and more"} {
		file = tfRecord(file, []byte(text))
	}
	read := func(file []byte) (n int, err error) {
		for _, err := range shard.TFRecords(bytes.NewReader(file)) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	for i := range file {
		broken := bytes.Clone(file)
		broken[i] ^= 4
		if n, err := read(broken); !object.Is(err, object.Invalid) {
			t.Errorf("byte %d flipped: %d records, %v", i, n, err)
		}
		whole := i == 0 || i == 19 || i == 35
		if n, err := read(file[:i]); object.Is(err, object.Invalid) == whole {
			t.Errorf("cut at %d: %d records, %v", i, n, err)
		}
	}
	for _, err := range shard.PrefixedRecords(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 1}), 4) {
		if !object.Is(err, object.Invalid) {
			t.Errorf("a huge length: %v", err)
		}
	}
	for _, err := range shard.TFRecords(iotest.ErrReader(io.ErrClosedPipe)) {
		if !errors.Is(err, io.ErrClosedPipe) || object.Is(err, object.Invalid) {
			t.Errorf("a reader that fails: %v", err)
		}
	}
}
