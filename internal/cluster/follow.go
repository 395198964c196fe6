package cluster

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
)

// Follow yields the records under a prefix as they are, and again after each
// change. A caller that falls behind misses states in between, never the last one.
// The iteration ends with an error, at the latest that of the context, unless the
// caller leaves it.
func Follow(ctx context.Context, control Control, prefix string) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		for {
			view, err := control.List(ctx, prefix)
			if err != nil {
				yield(View{}, err)
				return
			}
			if !yield(view, nil) {
				return
			}
			for change, err := range control.Watch(ctx, prefix, view.Revision) {
				if errors.Is(err, ErrCompacted) {
					break
				}
				if err != nil {
					yield(View{}, err)
					return
				}
				view = view.after(change)
				if !yield(view, nil) {
					return
				}
			}
		}
	}
}

// after returns the view with a change made.
func (v View) after(change Change) View {
	events := slices.Clone(change.Events)
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Key, b.Key) })
	records := make([]Record, 0, len(v.Records)+len(events))
	rest := v.Records
	for _, event := range events {
		i, found := slices.BinarySearchFunc(rest, event.Key, func(r Record, key string) int { return cmp.Compare(r.Key, key) })
		records = append(records, rest[:i]...)
		if rest = rest[i:]; found {
			rest = rest[1:]
		}
		if !event.Deleted {
			records = append(records, event.Record)
		}
	}
	return View{Revision: change.Revision, Records: append(records, rest...)}
}
