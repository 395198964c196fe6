package index

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// The files of an index. docs/internals/index.md draws them.
const (
	checkpointName = "checkpoint"
	temporaryName  = "checkpoint.tmp"
	runSuffix      = ".run"

	runMagic        = "PenstRun"
	runEnd          = "PenstEnd"
	checkpointMagic = "PenstChk"
	formatVersion   = 1
	knownFeatures   = 0 // no bit has a meaning yet

	headerSize = 16 // magic(8) version(u32) features(u32)
	footerSize = 56
)

var little = binary.LittleEndian

func runName(number uint64) string { return fmt.Sprintf("%016x%s", number, runSuffix) }

// runNumber is the inverse of runName.
func runNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, runSuffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil && runName(n) == name
}

// ours reports whether we may have made a file of that name.
func ours(name string) bool {
	_, isRun := runNumber(name)
	return isRun || name == checkpointName || name == temporaryName
}

func appendHeader(buf []byte, magic string) []byte {
	buf = append(buf, magic...)
	buf = little.AppendUint32(buf, formatVersion)
	return little.AppendUint32(buf, knownFeatures)
}

// checkHeader says what is wrong with the header at the beginning of b, if
// anything is.
func checkHeader(b []byte, magic string) string {
	switch {
	case len(b) < headerSize:
		return "too short for a header"
	case string(b[:8]) != magic:
		return fmt.Sprintf("magic is %q", b[:8])
	case little.Uint32(b[8:]) != formatVersion:
		return fmt.Sprintf("format version %d is unknown", little.Uint32(b[8:]))
	case little.Uint32(b[12:])&^uint32(knownFeatures) != 0:
		return fmt.Sprintf("feature bits %#x are unknown", little.Uint32(b[12:]))
	}
	return ""
}

// footer is the end of a run. Its checksum, which the checkpoint repeats, stands
// for the whole run: it covers those of filter and index, and the index holds
// that of each block.
type footer struct {
	entries   uint64
	deletes   uint64 // of the entries, how many say that a key is gone
	filterAt  uint64 // where the blocks end
	indexAt   uint64 // where the filter ends; the index ends where the footer begins
	blocks    uint32
	filterCRC uint32
	indexCRC  uint32
}

// append appends the footer and returns its checksum.
func (f *footer) append(buf []byte) ([]byte, uint32) {
	start := len(buf)
	buf = little.AppendUint64(buf, f.entries)
	buf = little.AppendUint64(buf, f.deletes)
	buf = little.AppendUint64(buf, f.filterAt)
	buf = little.AppendUint64(buf, f.indexAt)
	buf = little.AppendUint32(buf, f.blocks)
	buf = little.AppendUint32(buf, f.filterCRC)
	buf = little.AppendUint32(buf, f.indexCRC)
	buf = append(buf, runEnd...)
	crc := crc32.ChecksumIEEE(buf[start:])
	return little.AppendUint32(buf, crc), crc
}

// parseFooter reads the footer of a run of the given size and says what is wrong
// with it, if anything is.
func parseFooter(b []byte, size int64) (f footer, crc uint32, wrong string) {
	if len(b) != footerSize {
		return f, 0, "no footer"
	}
	crc = little.Uint32(b[footerSize-4:])
	if crc32.ChecksumIEEE(b[:footerSize-4]) != crc || string(b[44:52]) != runEnd {
		return f, crc, "footer does not verify"
	}
	f = footer{
		entries:   little.Uint64(b),
		deletes:   little.Uint64(b[8:]),
		filterAt:  little.Uint64(b[16:]),
		indexAt:   little.Uint64(b[24:]),
		blocks:    little.Uint32(b[32:]),
		filterCRC: little.Uint32(b[36:]),
		indexCRC:  little.Uint32(b[40:]),
	}
	filterLen := f.indexAt - f.filterAt
	if f.filterAt < headerSize || f.indexAt < f.filterAt || f.indexAt > uint64(size-footerSize) ||
		filterLen == 0 || filterLen%filterLine != 0 || filterLen/filterLine > 1<<32-1 ||
		f.entries == 0 || f.deletes > f.entries {
		return f, crc, "footer makes no sense"
	}
	return f, crc, ""
}
