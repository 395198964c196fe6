package cluster

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
)

// What is remembered for watchers: so many changes, or so many bytes.
const (
	maxHistory      = 8192
	maxHistoryBytes = 16 << 20
	watchBatch      = 64 // changes a watcher takes at a time
)

// history is the latest changes. Watchers read it at their own pace and buffer
// next to nothing, so a slow one costs nothing: what it did not read in time is
// forgotten, and it is told so.
type history struct {
	mu      sync.RWMutex
	changes []Change
	bytes   int64
	floor   int64         // changes up to this revision are forgotten
	more    chan struct{} // closed when a change is added
}

func newHistory(revision int64) *history {
	return &history{floor: revision, more: make(chan struct{})}
}

// add appends changes and wakes the watchers.
func (h *history) add(changes []Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		h.changes = append(h.changes, c)
		h.bytes += changeSize(c)
	}
	for len(h.changes) > maxHistory || h.bytes > maxHistoryBytes {
		h.bytes -= changeSize(h.changes[0])
		h.floor = h.changes[0].Revision
		h.changes[0] = Change{} // append may keep the array for long
		h.changes = h.changes[1:]
	}
	close(h.more)
	h.more = make(chan struct{})
}

func changeSize(c Change) int64 {
	var size int64
	for i := range c.Events {
		size += recordSize(&c.Events[i].Record)
	}
	return size
}

// since returns some changes under prefix after a revision, the revision up to
// which those are all, and what to wait for if there were none.
func (h *history) since(after int64, prefix string) ([]Change, int64, <-chan struct{}, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if after < h.floor {
		return nil, 0, nil, ErrCompacted
	}
	i, _ := slices.BinarySearchFunc(h.changes, after+1, func(c Change, revision int64) int {
		return int(min(1, max(-1, c.Revision-revision)))
	})
	var found []Change
	for _, c := range h.changes[i:] {
		if len(found) == watchBatch {
			break
		}
		after = c.Revision
		if c = c.under(prefix); len(c.Events) > 0 {
			found = append(found, c)
		}
	}
	return found, after, h.more, nil
}

// under returns the part of a change that is about keys with the prefix.
func (c Change) under(prefix string) Change {
	other := func(e Event) bool { return !strings.HasPrefix(e.Key, prefix) }
	if slices.ContainsFunc(c.Events, other) {
		c.Events = slices.DeleteFunc(slices.Clone(c.Events), other)
	}
	return c
}

// Watch yields the changes under a prefix after a revision. The last 8192 changes
// since the start, or 16 MiB of them, can be asked for. A slow caller holds up
// nobody: when its next change is among those forgotten it gets ErrCompacted.
func (a *Alone) Watch(ctx context.Context, prefix string, after int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		next := after
		for {
			if err := a.usable(ctx); err != nil {
				yield(Change{}, err)
				return
			}
			changes, upTo, more, err := a.history.since(next, prefix)
			if err != nil {
				yield(Change{}, err)
				return
			}
			for _, change := range changes {
				if !yield(change, nil) {
					return
				}
			}
			if next = upTo; len(changes) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
			case <-a.closed:
			}
		}
	}
}
