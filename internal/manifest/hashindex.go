package manifest

// hashIndex makes the index by hash out of the hashes of all keys. As many buckets
// as fit into the memory are filled at a time, in two passes over the hashes.
func hashIndex(sp *spool, hashes *stream, memory int64) ([]part, error) {
	samples := hashes.length / 4
	count := bucketCount(samples)
	ends, marks, which := sp.stream(), sp.stream(), sp.stream()
	ends.uint32(0)
	filled := uint32(0)
	step := max(1, memory/(8*perBucket)) // an entry takes 6 bytes, a bucket 4
	for first := int64(0); first < count; first += step {
		last := min(first+step, count)
		at := make([]uint32, last-first+1)
		err := eachHash(hashes, count, first, last, func(_ uint32, bucket int64, _ uint32) { at[bucket-first+1]++ })
		if err != nil {
			return nil, err
		}
		for b := 1; b < len(at); b++ {
			at[b] += at[b-1]
			ends.uint32(filled + at[b])
		}
		entries := at[len(at)-1]
		filled += entries
		printed, numbered := make([]byte, 2*int(entries)), make([]byte, 4*int(entries))
		err = eachHash(hashes, count, first, last, func(hash uint32, bucket int64, i uint32) {
			place := at[bucket-first]
			at[bucket-first]++
			little.PutUint16(printed[2*int(place):], uint16(hash))
			little.PutUint32(numbered[4*int(place):], i)
		})
		if err != nil {
			return nil, err
		}
		marks.append(printed)
		which.append(numbered)
	}
	return []part{ends.as(buckets, 0), marks.as(prints, 0), which.as(numbers, 0)}, sp.err
}

// eachHash calls visit for the samples whose bucket is one of those from first to,
// and without, last.
func eachHash(hashes *stream, count, first, last int64, visit func(hash uint32, bucket int64, i uint32)) error {
	r := hashes.reader()
	for i := range hashes.length / 4 {
		hash, err := r.uint32()
		if err != nil {
			return err
		}
		if b := bucketOf(hash, count); b >= first && b < last {
			visit(hash, b, uint32(i))
		}
	}
	return nil
}
