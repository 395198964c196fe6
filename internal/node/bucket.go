package node

import (
	"context"
	"time"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// Bucket returns a bucket, or NotFound.
func (n *Node) Bucket(name string) (Bucket, error) {
	b, err := n.find(name)
	if b == nil {
		return Bucket{}, err
	}
	return b.Bucket, nil
}

// Buckets returns all buckets in the order of their names.
func (n *Node) Buckets() []Bucket {
	sorted := n.buckets.Load().sorted
	all := make([]Bucket, len(sorted))
	for i, b := range sorted {
		all[i] = b.Bucket
	}
	return all
}

// Usage returns the number and bytes of a bucket's objects.
func (n *Node) Usage(bucket string) Usage { return n.store.Usage(bucket) }

// CreateBucket makes a bucket of root's, or answers Exists.
func (n *Node) CreateBucket(ctx context.Context, name string, p Properties) (Bucket, error) {
	return n.CreateBucketAs(ctx, name, p, object.Access{})
}

// SetBucket changes properties of a bucket by a patch (see Properties.Merge).
func (n *Node) SetBucket(ctx context.Context, name string, patch []byte) (Bucket, error) {
	done, err := n.change(ctx)
	if err != nil {
		return Bucket{}, err
	}
	defer done()
	return n.update(ctx, name, nil, func(b *Bucket) (err error) {
		b.Properties, err = b.Merge(patch)
		return err
	})
}

// SetTags replaces the tags of a bucket.
func (n *Node) SetTags(ctx context.Context, name string, tags map[string]string) (Bucket, error) {
	done, err := n.change(ctx)
	if err != nil {
		return Bucket{}, err
	}
	defer done()
	return n.update(ctx, name, nil, func(b *Bucket) error {
		b.Tags = tags
		return nil
	})
}

// update writes a bucket's record anew, if the further conditions hold and nobody else
// does so at the same time. The caller has the right to change buckets.
func (n *Node) update(ctx context.Context, name string, also []cluster.Condition, change func(*Bucket) error) (Bucket, error) {
	r, b, err := n.read(ctx, name)
	if err != nil {
		return Bucket{}, err
	}
	if err := change(&b); err != nil {
		return Bucket{}, err
	}
	value, err := encodeBucket(b)
	if err != nil {
		return Bucket{}, err
	}
	_, err = n.control.Txn(ctx, cluster.Txn{If: append(also, cluster.IfUnchanged(r)), Then: []cluster.Op{cluster.Put(r.Key, value)}})
	if err != nil {
		return Bucket{}, overtaken(name, err)
	}
	return b, n.settle(ctx)
}

// overtaken says in words of ours that another node changed the bucket at the same
// time.
func overtaken(name string, err error) error {
	if object.Is(err, object.Stale) {
		return object.Errorf(object.Busy, "bucket %s was changed elsewhere at the same time; repeat it", name)
	}
	return err
}

// read returns a bucket's record as the cluster has it now.
func (n *Node) read(ctx context.Context, name string) (cluster.Record, Bucket, error) {
	if err := object.ValidateBucket(name); err != nil {
		return cluster.Record{}, Bucket{}, err
	}
	r, err := n.control.Get(ctx, bucketPrefix+name)
	if object.Is(err, object.NotFound) {
		return r, Bucket{}, object.Errorf(object.NotFound, "bucket %s does not exist", name)
	}
	if err != nil {
		return r, Bucket{}, err
	}
	b, err := decodeBucket(name, r.Value)
	return r, b, err
}

// change takes the right to change buckets and datasets. Changes are rare; doing one at a time
// leaves few cases to think of.
func (n *Node) change(ctx context.Context) (done func(), err error) {
	select {
	case n.changing <- struct{}{}:
		return func() { <-n.changing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// settle lets the caller of a change see it before it is told. The change is made
// already, so the caller's leaving must not leave the snapshot behind.
func (n *Node) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return n.refresh(ctx)
}

const settleTime = 10 * time.Second
