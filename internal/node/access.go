package node

import (
	"context"
	"maps"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
)

// CreateBucketAs makes a bucket with an owner, or answers Exists. It answers Denied
// if one of the further conditions does not hold: they say that the owner is still
// who he was.
func (n *Node) CreateBucketAs(ctx context.Context, name string, p Properties, access object.Access, also ...cluster.Condition) (Bucket, error) {
	if err := object.ValidateBucket(name); err != nil {
		return Bucket{}, err
	}
	if err := p.validate(); err != nil {
		return Bucket{}, err
	}
	if err := access.Validate(); err != nil {
		return Bucket{}, err
	}
	done, err := n.change(ctx)
	if err != nil {
		return Bucket{}, err
	}
	defer done()
	if access.Owner != "" {
		if err := n.mayOwn(ctx, name, access.Owner); err != nil {
			return Bucket{}, err
		}
	}
	b := Bucket{Name: name, Created: n.clock().UTC().Round(0), Properties: p, Access: access}
	value, err := encodeBucket(b)
	if err != nil {
		return Bucket{}, err
	}
	key := bucketPrefix + name
	_, err = n.control.Txn(ctx, cluster.Txn{If: append(also, cluster.IfAbsent(key)), Then: []cluster.Op{cluster.Put(key, value)}})
	if object.Is(err, object.Stale) {
		if _, err := n.control.Get(ctx, key); len(also) > 0 && object.Is(err, object.NotFound) {
			return Bucket{}, errUserChanged
		}
		return Bucket{}, object.Errorf(object.Exists, "bucket %s exists already", name)
	}
	if err != nil {
		return Bucket{}, err
	}
	return b, n.settle(ctx)
}

// maxOwned is how many buckets one user may own, so that nobody fills the control
// records.
const maxOwned = 1000

// mayOwn reports why a user cannot make one more bucket. He must not take the objects
// of a bucket whose record was lost, either: they would come back as his.
func (n *Node) mayOwn(ctx context.Context, name, owner string) error {
	buckets := n.buckets.Load()
	owned := 0
	for _, b := range buckets.sorted {
		if b.Access.Owner == owner {
			owned++
		}
	}
	if owned >= maxOwned {
		return object.Errorf(object.Denied, "user %s owns %d buckets already", owner, owned)
	}
	empty, err := n.store.Empty(ctx, name)
	if err == nil && !empty && buckets.byName[name] == nil {
		err = object.Errorf(object.Denied, "objects of an earlier bucket %s are there; only root can make it again", name)
	}
	return err
}

var errUserChanged = object.Errorf(object.Denied, "the user was changed or removed at the same time")

// SetAccess changes who may use a bucket. change gets what is, on which it may
// build, and returns what shall be; an error of it leaves all as it was. The further
// conditions must hold when the change is made, or the answer is Busy.
func (n *Node) SetAccess(ctx context.Context, name string, change func(object.Access) (object.Access, error), also ...cluster.Condition) (Bucket, error) {
	done, err := n.change(ctx)
	if err != nil {
		return Bucket{}, err
	}
	defer done()
	return n.setAccess(ctx, name, change, also)
}

func (n *Node) setAccess(ctx context.Context, name string, change func(object.Access) (object.Access, error), also []cluster.Condition) (Bucket, error) {
	return n.update(ctx, name, also, func(b *Bucket) (err error) {
		if b.Access, err = change(b.Access); err != nil {
			return err
		}
		return b.Access.Validate()
	})
}

// Forget prepares for a user to be no more: it takes his grants away. It answers
// Exists, and changes nothing, if he owns buckets.
func (n *Node) Forget(ctx context.Context, user string) error {
	done, err := n.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := n.refresh(ctx); err != nil {
		return err
	}
	var owned, granted []string
	for _, b := range n.Buckets() {
		if b.Problem != "" {
			return object.Errorf(object.Unavailable, "whether bucket %s belongs to user %s is not known: %s", b.Name, user, b.Problem)
		}
		if b.Access.Owner == user {
			owned = append(owned, b.Name)
		}
		if b.Access.Grants[user] != "" {
			granted = append(granted, b.Name)
		}
	}
	if len(owned) > 0 {
		return object.Errorf(object.Exists, "user %s owns buckets: %s; remove them first", user, some(owned))
	}
	for _, name := range granted {
		_, err := n.setAccess(ctx, name, func(a object.Access) (object.Access, error) {
			a.Grants = maps.Clone(a.Grants)
			delete(a.Grants, user)
			return a, nil
		}, nil)
		if err != nil && !object.Is(err, object.NotFound) {
			return err
		}
	}
	return nil
}

// some names the first few of many.
func some(names []string) string {
	const most = 10
	text := ""
	for i, name := range names {
		switch {
		case i == most:
			return text + " and others"
		case i > 0:
			text += ", "
		}
		text += name
	}
	return text
}
