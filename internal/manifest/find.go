package manifest

import (
	"bytes"
	"hash/crc32"
	"iter"
	"runtime/debug"

	"penstock.dev/penstock/internal/object"
)

// The index by hash: samples lie in buckets by the upper bits of a hash of their
// key, and a fingerprint, the lower bits, tells nearly always which one of the
// bucket it is without looking at keys. So a lookup touches five places. In a
// prototype of 10 million samples it took 1.4 µs where a binary search over the order
// by key, which touches three places at each of 23 steps, took 5.3 µs, and one that
// begins with every 64th key, kept apart, 3.9 µs.
const (
	perBucket = 16 // on average
	crowded   = 64 // no honest keys fill a bucket so far: then the order by key is searched
)

func bucketCount(samples int64) int64 { return samples/perBucket + 1 }

// hashKey spreads the CRC-32 of a key, whose upper bits alone are less even.
func hashKey(key []byte) uint32 { return crc32.ChecksumIEEE(key) * 0x9e3779b1 }

func bucketOf(hash uint32, count int64) int64 { return int64(uint64(hash) * uint64(count) >> 32) }

// Find returns the number of the sample with that key, or NotFound.
func (m *Manifest) Find(key string) (i int, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	n, found, err := m.find([]byte(key))
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, object.Errorf(object.NotFound, "%s has no sample %q", m, key)
	}
	return int(n), nil
}

func (m *Manifest) find(key []byte) (i int64, found bool, err error) {
	hash := hashKey(key)
	from, to, err := m.bucket(bucketOf(hash, bucketCount(m.samples)))
	if err != nil {
		return 0, false, err
	}
	if to-from > crowded {
		return m.findByOrder(key)
	}
	if err := m.touch(&m.prints, 2*from, 2*to); err != nil {
		return 0, false, err
	}
	for at := from; at < to; at++ {
		if little.Uint16(m.prints.bytes[2*at:]) != uint16(hash) {
			continue
		}
		i, err := m.number(&m.numbers, at)
		if err != nil {
			return 0, false, err
		}
		if k, err := m.bytes(&m.keyEnds, &m.keys, i); err != nil || bytes.Equal(k, key) {
			return i, err == nil, err
		}
	}
	return 0, false, nil
}

// bucket returns which entries of the hash index are in bucket b.
func (m *Manifest) bucket(b int64) (from, to int64, err error) {
	first, err := m.uint32(&m.buckets, b)
	if err != nil {
		return 0, 0, err
	}
	end, err := m.uint32(&m.buckets, b+1)
	if err != nil {
		return 0, 0, err
	}
	if first > end || int64(end) > m.samples {
		return 0, 0, m.corrupt("bucket %d of its hash index reaches from %d to %d", b, first, end)
	}
	return int64(first), int64(end), nil
}

// number reads a sample's number.
func (m *Manifest) number(a *area, at int64) (int64, error) {
	i, err := m.uint32(a, at)
	if err == nil && int64(i) >= m.samples {
		err = m.corrupt("its %v speak of sample %d of %d", a.id, i, m.samples)
	}
	return int64(i), err
}

func (m *Manifest) findByOrder(key []byte) (i int64, found bool, err error) {
	rank, err := m.search(func(k []byte) bool { return bytes.Compare(k, key) >= 0 })
	if err != nil || rank == m.samples {
		return 0, false, err
	}
	if i, err = m.number(&m.byKey, rank); err != nil {
		return 0, false, err
	}
	k, err := m.bytes(&m.keyEnds, &m.keys, i)
	return i, err == nil && bytes.Equal(k, key), err
}

// search returns the first rank whose key is behind the border.
func (m *Manifest) search(behind func(key []byte) bool) (int64, error) {
	from, to := int64(0), m.samples
	for from < to {
		middle := (from + to) / 2
		i, err := m.number(&m.byKey, middle)
		if err != nil {
			return 0, err
		}
		k, err := m.bytes(&m.keyEnds, &m.keys, i)
		if err != nil {
			return 0, err
		}
		if behind(k) {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from, nil
}

// Rank returns how many keys come before key in byte order. The sample that has
// the key, or the next one, is Ranked of it.
func (m *Manifest) Rank(key string) (rank int, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	want := []byte(key)
	r, err := m.search(func(k []byte) bool { return bytes.Compare(k, want) >= 0 })
	return int(r), err
}

// Ranked returns the number of the sample whose key has the given rank.
func (m *Manifest) Ranked(rank int) (i int, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.checkSample(rank); err != nil {
		return 0, err
	}
	n, err := m.number(&m.byKey, int64(rank))
	return int(n), err
}

// Range returns the ranks of the keys that begin with prefix: from the first up to,
// and without, to.
func (m *Manifest) Range(prefix string) (from, to int, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	want := []byte(prefix)
	first, err := m.search(func(k []byte) bool { return bytes.Compare(k, want) >= 0 })
	if err != nil {
		return 0, 0, err
	}
	end, err := m.search(func(k []byte) bool { return bytes.Compare(k[:min(len(k), len(want))], want) > 0 })
	return int(first), int(max(first, end)), err
}

// Prefix yields the numbers of the samples whose keys begin with prefix, in the
// byte order of the keys. An error is the last thing it yields.
func (m *Manifest) Prefix(prefix string) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		from, to, err := m.Range(prefix)
		for rank := from; rank < to && err == nil; rank++ {
			var i int
			if i, err = m.Ranked(rank); err == nil && !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}
