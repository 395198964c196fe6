package tree

import (
	"context"

	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock"
)

// Remove deletes all objects under a prefix; an empty one means the whole bucket.
// An object that is gone already does not fail.
func Remove(ctx context.Context, client *penstock.Client, bucket, prefix string, opts Options) (Report, error) {
	prefix = Directory(prefix)
	if err := checkPlace(bucket, prefix); err != nil {
		return Report{}, err
	}
	return act(ctx, client, opts, func(ctx context.Context, t *tally) error {
		objects := make(chan penstock.Info, 256)
		var group errgroup.Group
		for range orElse(opts.Requests, 16) {
			group.Go(func() error {
				for info := range objects {
					if ctx.Err() == nil {
						t.remove(ctx, info)
					}
				}
				return nil
			})
		}
		err := t.listing(ctx, bucket, prefix, func(info penstock.Info) error {
			objects <- info
			return ctx.Err()
		})
		close(objects)
		group.Wait()
		return err
	}, func(ctx context.Context, t *tally) error {
		// What is gone by now will not be listed.
		t.totalFiles.Add(t.files.Load())
		t.totalBytes.Add(t.bytes.Load())
		return countListing(bucket, prefix)(ctx, t)
	})
}

func (t *tally) remove(ctx context.Context, info penstock.Info) {
	err := t.try(ctx, func() error { return t.client.Delete(ctx, info.Name, penstock.Condition{}) })
	if err != nil && !penstock.Is(err, penstock.NotFound) {
		t.fail(ctx, info.Name.String(), err)
		return
	}
	t.done(info.Size)
}
