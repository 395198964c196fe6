package node

import (
	"context"
	"errors"
	"io"

	"penstock.dev/penstock/internal/object"
)

// ErrQuota is in the chain of the error about a write that a bucket's quota does not
// allow.
var ErrQuota = errors.New("does not fit")

// claim is the room one write takes up in a bucket with a quota, from before its
// first byte until the store counts it. What the write replaces counts in its
// favour, so that a full bucket can be overwritten in place.
//
// The sum can be a little too high, never too low, while writes end; only when an
// object is deleted while it is being overwritten may a bucket pass its quota, by
// the size of that object.
type claim struct {
	node   *Node
	bucket *bucket
	name   object.Name
	credit int64 // bytes that the write frees
	bytes  int64 // bytes claimed so far
	taken  int64 // what of them is in the bucket's sum
}

// claim takes room for a write of the given size, or of what comes if it is zero.
func (n *Node) claim(ctx context.Context, b *bucket, name object.Name, size int64) (*claim, error) {
	c := &claim{node: n, bucket: b, name: name}
	if b.Versioning != VersioningEnabled { // else nothing is replaced
		info, err := n.store.Stat(ctx, name)
		if err != nil && !object.Is(err, object.NotFound) {
			return nil, err
		}
		c.credit = info.Size
	}
	if err := c.grow(size); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// grow claims more, or answers Denied.
func (c *claim) grow(total int64) error {
	if total <= c.bytes {
		return nil
	}
	c.bytes = total
	more := max(0, total-c.credit) - c.taken
	c.taken += more
	claimed := c.bucket.live.claimed.Add(more)
	used := c.node.store.Usage(c.bucket.Name).Bytes + c.node.store.Usage(object.Beside(c.bucket.Name, besideParts)).Bytes
	if more > 0 && used+claimed > c.bucket.Quota {
		return object.Errorf(object.Denied, "%s %w: bucket %s has a quota of %d bytes and %d are in use",
			c.name, ErrQuota, c.bucket.Name, c.bucket.Quota, used+claimed-c.taken)
	}
	return nil
}

func (c *claim) release() { c.bucket.live.claimed.Add(-c.taken) }

// reader returns r with its bytes claimed as they pass, for those that come
// unannounced.
func (c *claim) reader(r io.Reader) io.Reader { return &claimReader{c, r, 0} }

type claimReader struct {
	claim *claim
	r     io.Reader
	read  int64
}

func (r *claimReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.read += int64(n)
	if denied := r.claim.grow(r.read); denied != nil {
		return 0, denied
	}
	return n, err
}
