package main

import (
	"fmt"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/bench"
)

// sizes is a flag's distribution of sizes.
type sizes bench.Sizes

// String, Set and Type make *sizes a pflag.Value.
func (s *sizes) String() string { return bench.Sizes(*s).String() }

// Set parses a distribution.
func (s *sizes) Set(text string) error {
	parsed, err := parseSizes(text)
	*s = sizes(parsed)
	return err
}

// Type is how help names the value.
func (s *sizes) Type() string { return "SIZES" }

func parseSizes(text string) (bench.Sizes, error) {
	law, arguments, found := strings.Cut(text, ":")
	if !found {
		size, err := parseSize(text)
		if err != nil {
			return bench.Sizes{}, err
		}
		return bench.Fixed(size)
	}
	switch law {
	case "uniform":
		low, high, _ := strings.Cut(arguments, "-")
		least, err := parseSize(low)
		if err != nil {
			return bench.Sizes{}, err
		}
		most, err := parseSize(high)
		if err != nil {
			return bench.Sizes{}, err
		}
		return bench.Uniform(least, most)
	case "lognormal":
		mean, sigma, _ := strings.Cut(arguments, ",")
		middle, err := parseSize(mean)
		if err != nil {
			return bench.Sizes{}, err
		}
		deviation, err := strconv.ParseFloat(sigma, 64)
		if err != nil {
			return bench.Sizes{}, fmt.Errorf("%q is no sigma: write lognormal:100KiB,1.0", sigma)
		}
		return bench.Lognormal(middle, deviation)
	}
	return bench.Sizes{}, fmt.Errorf("%q is no distribution of sizes: write 4KiB, uniform:1KiB-1MiB or lognormal:100KiB,1.0", text)
}
