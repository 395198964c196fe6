package checksum

import (
	"encoding/binary"
	"errors"
	"hash"
	"sync"
)

// nvmePolynomial is 0xad93d23594c93659 with its bits reversed.
const nvmePolynomial = 0x9a6c9329ac4bc9b5

// slices is how many bytes a step takes.
const slices = 16

// nvmeTables are the tables to take sixteen bytes at a time. hash/crc64 keeps such
// tables for its own two polynomials only: for any other it builds eight anew with
// each Write from 2 KiB on, and goes byte by byte below.
var nvmeTables = sync.OnceValue(func() *[slices][256]uint64 {
	t := new([slices][256]uint64)
	for i := range 256 {
		crc := uint64(i)
		for range 8 {
			crc = crc>>1 ^ nvmePolynomial&-(crc&1)
		}
		t[0][i] = crc
	}
	for i := range 256 {
		for k := 1; k < slices; k++ {
			crc := t[k-1][i]
			t[k][i] = t[0][byte(crc)] ^ crc>>8
		}
	}
	return t
})

// nvme is the hash of CRC64NVME. Its zero value is ready.
type nvme struct{ crc uint64 }

var _ hash.Hash64 = (*nvme)(nil)

func (n *nvme) Write(p []byte) (int, error) {
	n.crc = updateNVME(n.crc, p)
	return len(p), nil
}

func (n *nvme) Sum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, n.crc) }
func (n *nvme) Sum64() uint64       { return n.crc }
func (n *nvme) Reset()              { n.crc = 0 }
func (n *nvme) Size() int           { return 8 }
func (n *nvme) BlockSize() int      { return 1 }

// MarshalBinary returns the state of the hash, which goes on with UnmarshalBinary.
func (n *nvme) MarshalBinary() ([]byte, error) { return n.Sum(nil), nil }

// UnmarshalBinary sets the state of the hash to that MarshalBinary returned.
func (n *nvme) UnmarshalBinary(state []byte) error {
	if len(state) != 8 {
		return errors.New("not the state of a CRC64NVME")
	}
	n.crc = binary.BigEndian.Uint64(state)
	return nil
}

func updateNVME(crc uint64, p []byte) uint64 {
	t := nvmeTables()
	crc = ^crc
	for len(p) >= slices {
		// Only the first half waits for the step before it; the brackets keep the
		// exclusive-ors of that half a tree, the shortest way from step to step.
		b := binary.LittleEndian.Uint64(p[8:])
		a := binary.LittleEndian.Uint64(p) ^ crc
		tail := (t[7][byte(b)] ^ t[6][byte(b>>8)]) ^ (t[5][byte(b>>16)] ^ t[4][byte(b>>24)]) ^
			(t[3][byte(b>>32)] ^ t[2][byte(b>>40)]) ^ (t[1][byte(b>>48)] ^ t[0][b>>56])
		crc = ((t[15][byte(a)] ^ t[14][byte(a>>8)]) ^ (t[13][byte(a>>16)] ^ t[12][byte(a>>24)])) ^
			((t[11][byte(a>>32)] ^ t[10][byte(a>>40)]) ^ (t[9][byte(a>>48)] ^ t[8][a>>56])) ^ tail
		p = p[slices:]
	}
	for _, v := range p {
		crc = t[0][byte(crc)^v] ^ crc>>8
	}
	return ^crc
}
