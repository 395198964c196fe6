package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// setting returns a number from the environment.
func setting(tb testing.TB, name string, otherwise int) int {
	tb.Helper()
	text := os.Getenv("PENSTOCK_CHAOS_" + name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatalf("PENSTOCK_CHAOS_%s=%q is not a number", name, text)
	}
	return n
}

// newRandom returns the source of all choices of a test. Which moment a kill hits
// depends on the machine; what is done, and how long before it, on the seed.
func newRandom(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := setting(tb, "SEED", int(rand.Uint32()))
	tb.Logf("PENSTOCK_CHAOS_SEED=%d", seed)
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

// child returns a source of its own for a goroutine.
func child(random *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), 1)) }
