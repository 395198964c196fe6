package bench

import (
	"math"
	"math/bits"
	"time"
)

// histogram counts times in buckets that grow with the time: 64 to each doubling,
// so that a value read from it is wrong by less than 0.8 %. Its memory is fixed;
// times beyond an hour count as about an hour. Not for concurrent use.
type histogram struct {
	counts [buckets]uint32
	n      int64
	sum    float64
	max    time.Duration
}

const (
	bucketBits = 6
	topBit     = 42 // 2^42 ns are 73 minutes
	buckets    = (topBit - bucketBits + 1) << bucketBits
)

// bucket returns where a time is counted: below 64 ns each its own, then 64 to
// each doubling.
func bucket(d time.Duration) int {
	v := min(uint64(max(d, 0)), 1<<topBit-1)
	shift := max(0, bits.Len64(v)-bucketBits-1)
	return shift<<bucketBits + int(v>>shift)
}

// middle returns the time a bucket stands for.
func middle(bucket int) time.Duration {
	if bucket < 2<<bucketBits {
		return time.Duration(bucket)
	}
	shift := bucket>>bucketBits - 1
	low := uint64(bucket-shift<<bucketBits) << shift
	return time.Duration(low + 1<<shift/2)
}

// add counts one time.
func (h *histogram) add(d time.Duration) {
	if at := bucket(d); h.counts[at] < math.MaxUint32 {
		h.counts[at]++
	}
	h.n++
	h.sum += float64(d)
	h.max = max(h.max, d)
}

// merge adds what another one has counted.
func (h *histogram) merge(other *histogram) {
	if other.n == 0 {
		return
	}
	for i, n := range other.counts {
		h.counts[i] += min(n, math.MaxUint32-h.counts[i])
	}
	h.n += other.n
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// quantile returns the time that a share q of all does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	want := max(1, int64(math.Ceil(q*float64(h.n))))
	var seen int64
	for i, n := range h.counts {
		if seen += int64(n); seen >= want {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

func (h *histogram) mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n))
}
