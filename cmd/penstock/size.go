package main

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// size is a flag's number of bytes, written 64MiB.
type size int64

// units are the ones we read; formatSize writes the first five.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
}

// parseSize reads a whole number of bytes, or a decimal number with a unit.
func parseSize(text string) (int64, error) {
	wrong := fmt.Errorf("%q is not a size: write 4096, 64KiB, 64MiB, 1.5GiB, 2TiB, 64KB, 64MB or 2GB", text)
	number, unit := text, int64(1)
	for _, u := range units {
		// Two-letter units end in B too: the longest match is the right one.
		if cut, ok := strings.CutSuffix(text, u.name); ok && (u.name != "B" || !strings.ContainsAny(cut, "KMGTi")) {
			number, unit = cut, u.bytes
			break
		}
	}
	number = strings.TrimSuffix(number, " ")
	if number == "" || len(number) > 24 || strings.Trim(number, "0123456789.") != "" || strings.HasPrefix(number, ".") || strings.HasSuffix(number, ".") {
		return 0, wrong
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, wrong
	}
	value.Mul(value, new(big.Rat).SetInt64(unit))
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	if !whole.IsInt64() || (unit == 1 && !value.IsInt()) {
		return 0, wrong
	}
	return whole.Int64(), nil
}

// formatSize writes a number of bytes for people: exactly if it is a whole number
// of a unit, else with one decimal.
func formatSize(n int64) string {
	for _, u := range units[:5] {
		if n >= u.bytes {
			if n%u.bytes == 0 {
				return strconv.FormatInt(n/u.bytes, 10) + u.name
			}
			return strconv.FormatFloat(float64(n)/float64(u.bytes), 'f', 1, 64) + u.name
		}
	}
	return "0B"
}

// String, Set and Type make *size a pflag.Value.
func (s *size) String() string {
	if *s == 0 {
		return "0"
	}
	return formatSize(int64(*s))
}

// Set parses a size.
func (s *size) Set(text string) error {
	n, err := parseSize(text)
	*s = size(n)
	return err
}

// Type is how help names the value.
func (s *size) Type() string { return "SIZE" }
