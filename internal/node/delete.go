package node

import (
	"context"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// DeleteBucket deletes a bucket that is empty, and that no dataset is said to lie in;
// otherwise it answers Exists. While a write to it is under way it answers Busy. See
// gate for why that is enough to leave nothing behind.
func (n *Node) DeleteBucket(ctx context.Context, name string) error {
	done, err := n.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := n.refresh(ctx); err != nil {
		return err
	}
	b, err := n.find(name)
	if err != nil {
		return err
	}
	if err := n.mustBeEmpty(ctx, name); err != nil {
		return err
	}
	if err := n.mustHoldNone(ctx, name); err != nil {
		return err // nor is one published meanwhile, by this node
	}
	isShut, before := b.live.gate.shut()
	if !isShut {
		return object.Errorf(object.Busy, "a write to bucket %s is going on", name)
	}
	if err := n.mustBeEmpty(ctx, name); err != nil {
		if !before {
			b.live.gate.reopen() // no transaction of ours is on its way
		}
		return err
	}
	if err := n.emptyBeside(ctx, name); err != nil {
		if !before {
			b.live.gate.reopen()
		}
		return err
	}
	_, err = n.control.Txn(ctx, cluster.Txn{
		If: []cluster.Condition{cluster.IfUnchanged(b.record)}, Then: []cluster.Op{cluster.Delete(b.record.Key)},
	})
	if err != nil {
		err = n.undelete(ctx, b, err)
	}
	if err != nil {
		return err
	}
	return n.settle(ctx)
}

// emptyBeside removes what lies beside a bucket that is about to go: uploads that were
// not finished, facts about objects that are gone.
func (n *Node) emptyBeside(ctx context.Context, name string) error {
	k, err := n.keeper()
	if err != nil {
		return nil
	}
	for _, what := range []string{besideUploads, besideParts, besideFacts} {
		for e, err := range k.Versions(ctx, object.Beside(name, what), object.ListOptions{}, object.Version{}) {
			if err == nil {
				err = n.store.Delete(ctx, e.Info.Name, object.Condition{})
			}
			if err != nil && !object.Is(err, object.NotFound) {
				return err
			}
		}
	}
	return nil
}

func (n *Node) mustBeEmpty(ctx context.Context, name string) error {
	empty, err := n.store.Empty(ctx, name)
	if err != nil {
		return err
	}
	if !empty {
		return object.Errorf(object.Exists, "bucket %s is not empty", name)
	}
	return nil
}

// undelete follows a delete that failed with cause, whose outcome may be unknown:
// it may even happen later. Writing the record again as it was settles that, for
// the delete is one of the old record only. It returns nil if the bucket is gone.
// If nothing can be learned the gate stays shut, and the next delete tries again.
func (n *Node) undelete(ctx context.Context, b *bucket, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if !object.Is(cause, object.Stale) {
		_, err := n.control.Txn(ctx, cluster.Txn{
			If: []cluster.Condition{cluster.IfUnchanged(b.record)}, Then: []cluster.Op{cluster.Put(b.record.Key, b.record.Value)},
		})
		if err != nil && !object.Is(err, object.Stale) {
			return object.Errorf(object.Unavailable, "whether bucket %s was deleted is not known (%w); repeat it", b.Name, cause)
		}
	}
	now, err := n.control.Get(ctx, b.record.Key)
	switch {
	case object.Is(err, object.NotFound):
		return nil
	case err == nil && now.Created == b.record.Created:
		b.live.gate.reopen()
	}
	return overtaken(b.Name, cause)
}
