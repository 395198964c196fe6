package checksum_test

import (
	"bytes"
	"encoding"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock.dev/penstock/internal/checksum"
)

var crcs = []checksum.Algorithm{checksum.CRC32, checksum.CRC32C, checksum.CRC64NVME}

func sum(a checksum.Algorithm, data []byte) []byte {
	h := a.New()
	h.Write(data)
	return h.Sum(nil)
}

func number(sum []byte) uint64 {
	var n uint64
	for _, b := range sum {
		n = n<<8 | uint64(b)
	}
	return n
}

func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestKnownSums(t *testing.T) {
	for _, test := range []struct {
		algorithm checksum.Algorithm
		of, want  string
	}{
		{checksum.CRC32, "123456789", "cbf43926"},
		{checksum.CRC32C, "123456789", "e3069283"},
		{checksum.CRC64NVME, "123456789", "ae8b14860a799888"},
		{checksum.CRC64NVME, "", "0000000000000000"},
		// NVM Express Base Specification: 4 KiB of zeros, of ones, of a counter.
		{checksum.CRC64NVME, strings.Repeat("\x00", 4096), "6482d367eb22b64e"},
		{checksum.CRC64NVME, strings.Repeat("\xff", 4096), "c0ddba7302eca3ac"},
		{checksum.SHA1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{checksum.SHA256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	} {
		if got := hex.EncodeToString(sum(test.algorithm, []byte(test.of))); got != test.want {
			t.Errorf("%s of %d bytes: %s, want %s", test.algorithm, len(test.of), got, test.want)
		}
	}
}

func TestNVMEIsWhatTheStandardLibraryMakesOfThePolynomial(t *testing.T) {
	r := seeded(t)
	table := crc64.MakeTable(0x9a6c9329ac4bc9b5)
	for n := range 300 {
		data := random(r, n)
		cut := r.IntN(n + 1)
		h := checksum.CRC64NVME.New()
		h.Write(data[:cut])
		state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		h.Reset()
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
		h.Write(data[cut:])
		if got, want := number(h.Sum(nil)), crc64.Checksum(data, table); got != want {
			t.Fatalf("%d bytes in two pieces: %x, want %x", n, got, want)
		}
	}
}

func TestCombine(t *testing.T) {
	r := seeded(t)
	for range 300 {
		data := random(r, r.IntN(5000))
		cut := r.IntN(len(data) + 1)
		for _, a := range crcs {
			got := a.Combine(number(sum(a, data[:cut])), number(sum(a, data[cut:])), int64(len(data)-cut))
			if want := number(sum(a, data)); got != want {
				t.Fatalf("%s of %d+%d bytes: %x, want %x", a, cut, len(data)-cut, got, want)
			}
		}
	}
}

// Lengths that no test can hash are held against the law that the order of
// combining does not matter.
func TestCombineIsAssociative(t *testing.T) {
	r := seeded(t)
	for range 300 {
		m, n := r.Int64N(1<<62), r.Int64N(1<<62)
		for _, a := range crcs {
			mask := ^uint64(0) >> (64 - 8*a.Size())
			x, y, z := r.Uint64()&mask, r.Uint64()&mask, r.Uint64()&mask
			left := a.Combine(a.Combine(x, y, m), z, n)
			right := a.Combine(x, a.Combine(y, z, n), m+n)
			if left != right {
				t.Fatalf("%s over %d and %d bytes: %x and %x", a, m, n, left, right)
			}
		}
	}
}

func TestWhole(t *testing.T) {
	r := seeded(t)
	for _, a := range crcs {
		var all []byte
		var parts []checksum.Part
		for range r.IntN(20) {
			data := random(r, r.IntN(1000))
			all = append(all, data...)
			parts = append(parts, checksum.Part{Sum: sum(a, data), Size: int64(len(data))})
		}
		got, err := a.Whole(parts)
		if err != nil || !bytes.Equal(got, sum(a, all)) {
			t.Errorf("%s of %d parts: %x %v, want %x", a, len(parts), got, err, sum(a, all))
		}
	}
	if _, err := checksum.SHA256.Whole(nil); err == nil {
		t.Error("SHA256 of a whole from its parts")
	}
	for _, p := range []checksum.Part{{Sum: make([]byte, 8), Size: 1}, {Sum: make([]byte, 4), Size: -1}} {
		if _, err := checksum.CRC32.Whole([]checksum.Part{p}); err == nil {
			t.Errorf("CRC32 of %+v", p)
		}
	}
}

func TestComposite(t *testing.T) {
	for _, a := range checksum.Algorithms() {
		x, y := sum(a, []byte("one")), sum(a, []byte("two"))
		got, err := a.Composite([]checksum.Part{{Sum: x}, {Sum: y}})
		if a == checksum.CRC64NVME {
			if err == nil {
				t.Error("a composite CRC64NVME")
			}
			continue
		}
		if want := checksum.Encode(sum(a, append(x, y...))) + "-2"; err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", a, got, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, a := range checksum.Algorithms() {
		for _, name := range []string{a.String(), strings.ToLower(a.String())} {
			if got, ok := checksum.Parse(name); !ok || got != a {
				t.Errorf("%q is %s, %v", name, got, ok)
			}
		}
		for _, name := range []string{a.Header(), a.Key(), strings.ToUpper(a.Header())} {
			if got, ok := checksum.ParseHeader(name); !ok || got != a {
				t.Errorf("header %q is %s, %v", name, got, ok)
			}
		}
		if a.Key() != http.CanonicalHeaderKey(a.Header()) {
			t.Errorf("key %q of header %q", a.Key(), a.Header())
		}
		if a.Size() != a.New().Size() {
			t.Errorf("%s has %d bytes", a, a.Size())
		}
	}
	for _, name := range []string{"", "NONE", "MD5", "CRC64", "x-amz-checksum-mode", "x-amz-checksum-", "checksum-crc32"} {
		if a, ok := checksum.Parse(name); ok {
			t.Errorf("%q is %s", name, a)
		}
		if a, ok := checksum.ParseHeader(name); ok {
			t.Errorf("header %q is %s", name, a)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, a := range checksum.Algorithms() {
		want := sum(a, []byte("content"))
		text := checksum.Encode(want)
		if got, err := a.Decode(text); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x %v", a, got, err)
		}
		for _, bad := range []string{
			"", text[1:], text + "=", strings.TrimRight(text, "="), text + "\n", "\n" + text[1:], text + "-2",
			"!" + text[1:], checksum.Encode(want[1:]), checksum.Encode(append(want, 0)),
		} {
			if bad == text {
				continue
			}
			if got, err := a.Decode(bad); err == nil {
				t.Errorf("%s: %q is %x", a, bad, got)
			}
		}
	}
	if _, err := checksum.None.Decode(""); err == nil {
		t.Error("no checksum was decoded")
	}
}

func BenchmarkHash(b *testing.B) {
	for _, a := range checksum.Algorithms() {
		for _, size := range []int{4 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", a, size>>10), func(b *testing.B) {
				data := make([]byte, size)
				h := a.New()
				b.SetBytes(int64(size))
				for b.Loop() {
					h.Write(data)
				}
			})
		}
	}
	b.Run("hash-crc64/1024KiB", func(b *testing.B) {
		data := make([]byte, 1<<20)
		h := crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5))
		b.SetBytes(1 << 20)
		for b.Loop() {
			h.Write(data)
		}
	})
	b.Run("hash-crc64/4KiB", func(b *testing.B) {
		data := make([]byte, 4<<10)
		h := crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5))
		b.SetBytes(4 << 10)
		for b.Loop() {
			h.Write(data)
		}
	})
}

func BenchmarkCombine(b *testing.B) {
	for _, a := range crcs {
		b.Run(a.String(), func(b *testing.B) {
			var crc uint64
			for b.Loop() {
				crc = a.Combine(crc, crc32.Size, 5<<30-1)
			}
		})
	}
}
