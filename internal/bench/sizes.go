package bench

import (
	"fmt"
	"math"

	"penstock.dev/penstock/internal/object"
)

// Sizes is a distribution of object sizes. The zero value is empty objects.
type Sizes struct {
	law       law
	low, high int64   // the bounds of all laws
	mean      float64 // of a lognormal that is not cut, or of those that are listed
	sigma     float64
}

type law int

const (
	fixed law = iota
	uniform
	lognormal
	listed // of objects that exist
)

// MaxSize is the largest object of a load.
const MaxSize = 1 << 30

// Fixed makes all objects the same size.
func Fixed(size int64) (Sizes, error) { return checked(Sizes{low: size, high: size}) }

// Uniform makes all sizes from low to high equally likely.
func Uniform(low, high int64) (Sizes, error) {
	return checked(Sizes{law: uniform, low: low, high: high})
}

// Lognormal gives many small and few large objects: sizes of the given mean whose
// logarithm is normal with the deviation sigma, cut at 64 times the mean.
func Lognormal(mean int64, sigma float64) (Sizes, error) {
	if !(sigma > 0 && sigma <= 3) {
		return Sizes{}, object.Errorf(object.Invalid, "the sigma %g of a lognormal is not above 0 and at most 3", sigma)
	}
	return checked(Sizes{law: lognormal, low: 1, high: min(64*mean, MaxSize), mean: float64(mean), sigma: sigma})
}

func checked(s Sizes) (Sizes, error) {
	if s.low < 0 || s.low > s.high || s.high > MaxSize {
		return Sizes{}, object.Errorf(object.Invalid, "sizes from %d to %d are not within 0 and %d", s.low, s.high, int64(MaxSize))
	}
	return s, nil
}

// Max returns the largest size there may be.
func (s Sizes) Max() int64 { return s.high }

// Mean returns the expected size.
func (s Sizes) Mean() float64 {
	switch s.law {
	case fixed, uniform:
		return float64(s.low+s.high) / 2
	case listed:
		return s.mean
	}
	// What lies beyond the cut counts as the cut.
	below := func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
	z := (math.Log(float64(s.high)) - s.mu()) / s.sigma
	return s.mean*below(z-s.sigma) + float64(s.high)*below(-z)
}

func (s Sizes) mu() float64 { return math.Log(s.mean) - s.sigma*s.sigma/2 }

// of returns the size that a random number draws.
func (s Sizes) of(random uint64) int64 {
	switch s.law {
	case uniform:
		return s.low + int64(unit(random)*float64(s.high-s.low+1))
	case lognormal:
		z := math.Sqrt2 * math.Erfinv(2*unit(random)-1)
		return min(max(int64(math.Exp(s.mu()+s.sigma*z)+0.5), s.low), s.high)
	}
	return s.low
}

// String writes the distribution as the command line does, in bytes.
func (s Sizes) String() string {
	switch s.law {
	case uniform:
		return fmt.Sprintf("uniform:%d-%d", s.low, s.high)
	case lognormal:
		return fmt.Sprintf("lognormal:%.0f,%g", s.mean, s.sigma)
	case listed:
		return fmt.Sprintf("listed:%d-%d,mean:%.0f", s.low, s.high, s.mean)
	}
	return fmt.Sprint(s.low)
}

// MarshalText is String, for reports.
func (s Sizes) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
