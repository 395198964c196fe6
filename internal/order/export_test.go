package order

// The parts of the algorithm, for their vectors: who writes it in another language
// begins with these.
var (
	Mix    = mix
	Derive = derive
)

// Permute returns where v goes under the key, among the numbers below size.
func Permute(size, key, v uint64) uint64 { return permutationOf(size).at(key, v) }

// Side returns the base of the two digits.
func Side(size uint64) uint64 { return permutationOf(size).side }
