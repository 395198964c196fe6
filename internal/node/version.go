package node

import (
	"context"
	"iter"

	"penstock.dev/penstock/internal/object"
)

// What the property versioning of a bucket may be. Once it was set it cannot be
// unset: versions may be there.
const (
	VersioningEnabled   = "enabled"   // every write and delete makes a version of its own
	VersioningSuspended = "suspended" // those with an ID stay; what has none is written over
)

// Keeper is a Store that can keep versions of objects, and put objects together. It is
// a power of its own, found by assertion.
type Keeper interface {
	object.Versioner

	// Mark makes the newest version the mark of a deletion, with an ID of its own or
	// in the place of what has none.
	Mark(ctx context.Context, name object.Name, keep bool, cond object.Condition) (object.Info, error)
	// Compose stores what the parts hold, one after the other, without moving it;
	// Stale if one of them is not of the version asked for.
	Compose(ctx context.Context, dst object.Name, parts []object.Ref, opts object.PutOptions) (object.Info, error)
}

func (n *Node) keeper() (Keeper, error) {
	if k, ok := n.store.(Keeper); ok {
		return k, nil
	}
	return nil, object.Errorf(object.Invalid, "this node keeps no versions of objects")
}

// Removed is what a Remove has done.
type Removed struct {
	ID     object.Version // of the version that was removed, or of the mark that was made
	Marker bool           // it is the mark of a deletion
}

// Remove deletes what a name means to who uses versions. With an ID it removes that
// version for good. Without one, in a bucket that keeps versions, it leaves all of them
// and makes a mark of deletion the newest. What is not there is no error then.
func (n *Node) Remove(ctx context.Context, name object.Name, cond object.Condition) (Removed, error) {
	b, err := n.enter(name.Bucket)
	if err != nil {
		return Removed{}, err
	}
	defer b.live.gate.leave()
	if name.ID == (object.Version{}) && b.Versioning != "" {
		k, err := n.keeper()
		if err != nil {
			return Removed{}, err
		}
		info, err := k.Mark(ctx, name, b.Versioning == VersioningEnabled, cond)
		return Removed{ID: info.Name.ID, Marker: true}, err
	}
	removed := Removed{ID: name.ID}
	if name.ID != (object.Version{}) {
		removed.Marker = n.isMarker(ctx, name)
	}
	if err := n.store.Delete(ctx, name, cond); err != nil {
		return removed, err
	}
	return removed, n.dropFacts(ctx, name)
}

func (n *Node) isMarker(ctx context.Context, name object.Name) bool {
	_, err := n.store.Stat(ctx, name)
	return object.IsMarker(err)
}

// Versions lists all versions of a bucket's objects.
func (n *Node) Versions(ctx context.Context, bucket string, opts object.ListOptions, afterID object.Version) iter.Seq2[object.Entry, error] {
	k, err := n.keeper()
	if err == nil {
		_, err = n.find(bucket)
	}
	if err != nil {
		return func(yield func(object.Entry, error) bool) { yield(object.Entry{}, err) }
	}
	return k.Versions(ctx, bucket, opts, afterID)
}
