package checksum

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
)

// Part is a piece of a whole: its checksum and its length in bytes.
type Part struct {
	Sum  []byte
	Size int64
}

// field is arithmetic on polynomials over GF(2) modulo that of a CRC, with their
// bits reversed: the top bit is x^0.
type field struct {
	polynomial uint64
	one        uint64     // x^0
	square     [67]uint64 // x^(2^i)
}

func newField(polynomial uint64, width int) *field {
	f := &field{polynomial: polynomial, one: 1 << (width - 1)}
	f.square[0] = f.one >> 1
	for i := 1; i < len(f.square); i++ {
		f.square[i] = f.multiply(f.square[i-1], f.square[i-1])
	}
	return f
}

func (f *field) multiply(a, b uint64) uint64 {
	var product uint64
	for m := f.one; a != 0; m >>= 1 {
		if a&m != 0 {
			product ^= b
			a ^= m
		}
		b = b>>1 ^ f.polynomial&-(b&1)
	}
	return product
}

// shift multiplies a by x^(8n): what n bytes of zeros do to a remainder.
func (f *field) shift(a uint64, n int64) uint64 {
	for i := 3; n > 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			a = f.multiply(f.square[i], a)
		}
	}
	return a
}

var fields = [...]func() *field{
	CRC32:     sync.OnceValue(func() *field { return newField(crc32.IEEE, 32) }),
	CRC32C:    sync.OnceValue(func() *field { return newField(crc32.Castagnoli, 32) }),
	CRC64NVME: sync.OnceValue(func() *field { return newField(nvmePolynomial, 64) }),
}

// Combine returns the CRC of some bytes followed by others, given the CRC of each
// and the length of those that follow. The length must not be negative, and the
// algorithm must be a CRC: else it panics.
func (a Algorithm) Combine(first, second uint64, lenSecond int64) uint64 {
	if !a.IsCRC() || lenSecond < 0 {
		panic(fmt.Sprintf("checksum: combining two %s over %d bytes", a, lenSecond))
	}
	// All three begin with ones and end inverted, and in this sum of two the
	// beginning and the inversion cancel out.
	return fields[a]().shift(first, lenSecond) ^ second
}

// Whole returns the checksum of parts one after the other, S3's FULL_OBJECT. It
// fails for an algorithm that is not a CRC, and for parts that cannot be.
func (a Algorithm) Whole(parts []Part) ([]byte, error) {
	if !a.IsCRC() {
		return nil, fmt.Errorf("there is no %s of a whole from those of its parts", a)
	}
	var crc uint64
	for i, p := range parts {
		if len(p.Sum) != a.Size() || p.Size < 0 {
			return nil, fmt.Errorf("part %d: %d bytes of %s for a length of %d", i+1, len(p.Sum), a, p.Size)
		}
		crc = a.Combine(crc, a.value(p.Sum), p.Size)
	}
	if a.Size() == 4 {
		return binary.BigEndian.AppendUint32(nil, uint32(crc)), nil
	}
	return binary.BigEndian.AppendUint64(nil, crc), nil
}

func (a Algorithm) value(sum []byte) uint64 {
	if a.Size() == 4 {
		return uint64(binary.BigEndian.Uint32(sum))
	}
	return binary.BigEndian.Uint64(sum)
}

// Composite returns the checksum of the parts' checksums, S3's COMPOSITE, in its
// text form: with the number of parts behind it. S3 has none for CRC64NVME.
func (a Algorithm) Composite(parts []Part) (string, error) {
	if a == None || a == CRC64NVME {
		return "", fmt.Errorf("there is no composite %s", a)
	}
	h := a.New()
	for i, p := range parts {
		if len(p.Sum) != a.Size() {
			return "", fmt.Errorf("part %d: %d bytes of %s", i+1, len(p.Sum), a)
		}
		h.Write(p.Sum)
	}
	return Encode(h.Sum(nil)) + "-" + strconv.Itoa(len(parts)), nil
}
