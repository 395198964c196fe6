package tree

import (
	"context"
	"iter"
	"strings"

	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
)

// Place is a directory of a bucket.
type Place struct {
	Bucket string
	Prefix string
}

// Copy copies all objects under one place to another, inside the node. Objects that
// are there with the same size and CRC-32 are left alone. A place cannot be copied
// into itself; what would be copied onto what is being copied fails.
func Copy(ctx context.Context, client *penstock.Client, to, from Place, opts Options) (Report, error) {
	to.Prefix, from.Prefix = Directory(to.Prefix), Directory(from.Prefix)
	for _, place := range []Place{to, from} {
		if err := checkPlace(place.Bucket, place.Prefix); err != nil {
			return Report{}, err
		}
	}
	if to.Bucket == from.Bucket && strings.HasPrefix(to.Prefix, from.Prefix) {
		return Report{}, object.Errorf(object.Invalid, "%s/%s lies in %s/%s and cannot be copied into it", to.Bucket, to.Prefix, from.Bucket, from.Prefix)
	}
	return act(ctx, client, opts, func(ctx context.Context, t *tally) error {
		c := &copier{tally: t, to: to, from: from, objects: make(chan penstock.Info, 256)}
		var group errgroup.Group
		for range orElse(opts.Requests, 16) {
			group.Go(func() error {
				for info := range c.objects {
					if ctx.Err() == nil {
						c.copy(ctx, info)
					}
				}
				return nil
			})
		}
		err := c.list(ctx)
		close(c.objects)
		group.Wait()
		return err
	}, countListing(from.Bucket, from.Prefix))
}

// copier copies one tree.
type copier struct {
	*tally
	to, from Place
	objects  chan penstock.Info
}

// target returns the name of an object's copy.
func (c *copier) target(name penstock.Name) penstock.Name {
	return penstock.Name{Bucket: c.to.Bucket, Key: c.to.Prefix + name.Key[len(c.from.Prefix):]}
}

// list goes through both places at once: their objects come in the same order.
func (c *copier) list(ctx context.Context) error {
	next, stop := iter.Pull2(c.all(ctx, c.to.Bucket, c.to.Prefix))
	defer stop()
	there, more, err := c.following(next)
	if err != nil {
		return err
	}
	found := false
	err = c.listing(ctx, c.from.Bucket, c.from.Prefix, func(info penstock.Info) error {
		found = true
		target := c.target(info.Name)
		if target.Bucket == c.from.Bucket && strings.HasPrefix(target.Key, c.from.Prefix) {
			c.fail(ctx, info.Name.String(), object.Errorf(object.Invalid, "its copy %s would lie among the objects that are being copied", target))
			return ctx.Err()
		}
		for more && there.Name.Key < target.Key {
			var err error
			if there, more, err = c.following(next); err != nil {
				return err
			}
		}
		if more && there.Name.Key == target.Key && there.Size == info.Size && there.CRC32 == info.CRC32 && !c.opts.Force {
			c.same(info.Size)
			return ctx.Err()
		}
		c.objects <- info
		return ctx.Err()
	})
	if err == nil && !found {
		err = object.Errorf(object.NotFound, "there is nothing under %s/%s", c.from.Bucket, c.from.Prefix)
	}
	return err
}

// following returns the next object that is at the target, if there is one. Where
// that cannot be known completely, more is copied than needs to be.
func (c *copier) following(next func() (penstock.Info, error, bool)) (info penstock.Info, more bool, err error) {
	for {
		info, err, ok := next()
		switch {
		case !ok:
			return penstock.Info{}, false, nil
		case err == error(penstock.ErrIncomplete):
		case err != nil:
			return penstock.Info{}, false, err
		default:
			return info, true, nil
		}
	}
}

func (c *copier) copy(ctx context.Context, info penstock.Info) {
	err := c.try(ctx, func() error {
		_, err := c.client.Copy(ctx, c.target(info.Name), info.Name, penstock.Condition{})
		return err
	})
	if err != nil {
		c.fail(ctx, info.Name.String(), err)
		return
	}
	c.done(info.Size)
}
