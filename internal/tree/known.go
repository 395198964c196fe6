package tree

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"penstock.dev/penstock"
)

// known is what a bucket has under a prefix, in 24 bytes for each object, so that
// many millions fit in memory. Keys are kept as a hash of 64 bits with a secret
// seed: among ten million objects the chance that any file is taken for another
// one is one in a hundred thousand, and then size and time would have to agree.
type known struct {
	seed    maphash.Seed
	objects []knownObject // in the order of their hash, once all are there
}

type knownObject struct {
	hash uint64
	size int64
	mark int64 // when it was written, in nanoseconds; its CRC-32 if those are compared
}

// load lists what is there. A listing that is incomplete is good enough: what is
// not known is sent.
func (k *known) load(ctx context.Context, t *tally, bucket, prefix string) error {
	k.seed = maphash.MakeSeed()
	err := t.listing(ctx, bucket, prefix, func(info penstock.Info) error {
		o := knownObject{hash: maphash.String(k.seed, info.Name.Key), size: info.Size, mark: info.Modified.UnixNano()}
		if t.opts.Checksum {
			o.mark = int64(info.CRC32)
		}
		k.objects = append(k.objects, o)
		return nil
	})
	if err != nil && err != error(penstock.ErrIncomplete) {
		return err
	}
	slices.SortFunc(k.objects, func(a, b knownObject) int { return cmp.Compare(a.hash, b.hash) })
	return nil
}

// find returns what is known of a key.
func (k *known) find(key string) (knownObject, bool) {
	if len(k.objects) == 0 {
		return knownObject{}, false
	}
	i, ok := slices.BinarySearchFunc(k.objects, maphash.String(k.seed, key), func(o knownObject, hash uint64) int { return cmp.Compare(o.hash, hash) })
	if !ok {
		return knownObject{}, false
	}
	return k.objects[i], true
}
