package order

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Policy says how much of a dataset the order mixes. The zero value is None.
type Policy struct {
	kind     kind
	resident uint64 // of a window: bytes
}

type kind uint8

const (
	none kind = iota
	full
	window
)

// None is the order in which the samples were written.
func None() Policy { return Policy{kind: none} }

// Full mixes all samples: any of them may be next.
func Full() Policy { return Policy{kind: full} }

// Window mixes as much as a consumer can that keeps about so many bytes of samples
// at a time. Sizes from 1 to 2^63-1 can be written; others are taken for the nearest.
func Window(resident uint64) Policy {
	return Policy{kind: window, resident: min(max(resident, 1), math.MaxInt64)}
}

// ParsePolicy reads none, full or window:SIZE, with a size as 64MiB, 1.5GiB or 2GB.
func ParsePolicy(text string) (Policy, error) {
	switch text {
	case "none":
		return None(), nil
	case "full":
		return Full(), nil
	}
	size, ok := strings.CutPrefix(text, "window:")
	if !ok {
		return Policy{}, invalid("%q is not a shuffle policy: write none, full or window:SIZE, as in window:2GiB", text)
	}
	resident, ok := parseSize(size)
	if !ok {
		return Policy{}, invalid("%q is not the size of a window: write window:SIZE with more than 0 and less than 2^63 bytes, as in window:64MiB, window:1.5GiB or window:2GB", size)
	}
	return Window(resident), nil
}

// String returns the policy as ParsePolicy reads it. Equal policies have equal
// strings, whichever way they were written: training state holds this one.
func (p Policy) String() string {
	switch p.kind {
	case full:
		return "full"
	case window:
		return "window:" + formatSize(p.resident)
	}
	return "none"
}

// units are the ones that sizes are written in, longer names before their ends.
var units = [...]struct {
	name  string
	bytes uint64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"B", 1},
}

// parseSize reads a whole number of bytes, or a decimal number with a unit, the way
// the command line does; fractions of a byte are cut off. It calculates exactly, so
// that Go and Python cannot differ in the last bit.
func parseSize(text string) (uint64, bool) {
	unit := uint64(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = number, u.bytes
			break
		}
	}
	whole, fraction, point := strings.Cut(text, ".")
	if len(text) > 24 || !digits(whole) || point && (!digits(fraction) || unit == 1) {
		return 0, false
	}
	number, _ := new(big.Int).SetString(whole+fraction, 10)
	number.Mul(number, new(big.Int).SetUint64(unit))
	ten := big.NewInt(10)
	number.Quo(number, ten.Exp(ten, big.NewInt(int64(len(fraction))), nil))
	if number.Sign() == 0 || number.Cmp(big.NewInt(math.MaxInt64)) > 0 {
		return 0, false
	}
	return number.Uint64(), true
}

func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// formatSize writes a size exactly, in the largest unit that allows it.
func formatSize(size uint64) string {
	for _, u := range units[:4] {
		if size%u.bytes == 0 {
			return strconv.FormatUint(size/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatUint(size, 10) + "B"
}

func invalid(format string, args ...any) error {
	return object.Errorf(object.Invalid, format, args...)
}
