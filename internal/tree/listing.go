package tree

import (
	"context"
	"errors"
	"iter"

	"penstock.dev/penstock"
)

// all yields the objects under a prefix, in order, and ErrIncomplete where not
// all can be listed. A node that goes away in the middle is waited for as by try,
// and the listing goes on behind the last object; one that is not there at the
// beginning is not.
func (t *tally) all(ctx context.Context, bucket, prefix string) iter.Seq2[penstock.Info, error] {
	return func(yield func(penstock.Info, error) bool) {
		opts := penstock.ListOptions{Prefix: prefix}
		for {
			got := false
			gone := error(nil)
			for entry, err := range t.client.List(ctx, bucket, opts) {
				if penstock.Is(err, penstock.Unavailable) && !errors.Is(err, penstock.ErrIncomplete) {
					gone = err
					break
				}
				if err == nil {
					got, opts.After = true, entry.Info.Name.Key
				}
				if !yield(entry.Info, err) {
					return
				}
			}
			if gone == nil {
				return
			}
			// Where nothing came since the last time, waiting does not help.
			if !got || !t.await(ctx) {
				yield(penstock.Info{}, gone)
				return
			}
		}
	}
}

// listing calls each for the objects under a prefix. A listing that is not complete
// is remembered and returned behind the last object.
func (t *tally) listing(ctx context.Context, bucket, prefix string, each func(penstock.Info) error) error {
	var incomplete error
	for info, err := range t.all(ctx, bucket, prefix) {
		switch {
		case errors.Is(err, penstock.ErrIncomplete):
			incomplete = err
			continue
		case err != nil:
			return err
		}
		if err := each(info); err != nil {
			return err
		}
	}
	return incomplete
}

// countListing counts the objects under a prefix, beside those that were removed
// before it began.
func countListing(bucket, prefix string) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		return t.listing(ctx, bucket, prefix, func(info penstock.Info) error {
			t.count(info.Size)
			return nil
		})
	}
}
