package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock"
)

// worker writes keys of its own, and races others for some.
type worker struct {
	id     int
	keys   int
	random *rand.Rand
	client holder
	ledger *ledger
	races  *atomic.Int64
	size   func(*rand.Rand) int64
}

// holder is what holds objects: a client of a node, or a store in this process.
type holder interface {
	Open(ctx context.Context, name penstock.Name, r penstock.Range) (penstock.Reader, error)
	List(ctx context.Context, bucket string, opts penstock.ListOptions) iter.Seq2[penstock.Entry, error]
	Put(ctx context.Context, name penstock.Name, r io.Reader, opts penstock.PutOptions) (penstock.Info, error)
	Delete(ctx context.Context, name penstock.Name, cond penstock.Condition) error
	Copy(ctx context.Context, dst, src penstock.Name, cond penstock.Condition) (penstock.Info, error)
	PutBatch(ctx context.Context, bucket string, objects []penstock.Upload) error
}

// crew is several workers on one ledger.
type crew struct {
	tb      testing.TB
	workers []*worker
	acked   atomic.Int64
	refused atomic.Int64 // by a node that is alive

	stubborn bool // they go on after errors
}

func newCrew(tb testing.TB, random *rand.Rand, client holder, l *ledger, workers, keys int) *crew {
	c := &crew{tb: tb}
	var races atomic.Int64
	for i := range workers {
		c.workers = append(c.workers, &worker{id: i, keys: keys, random: child(random), client: client, ledger: l, races: &races, size: randomSize})
	}
	return c
}

// run lets each work for so many steps, or until it has met an error that leaves
// open what happened, or the context ends.
func (c *crew) run(ctx context.Context, steps int) {
	var all sync.WaitGroup
	for _, w := range c.workers {
		all.Go(func() {
			for range steps {
				if ctx.Err() != nil {
					return
				}
				refused, err := w.step(ctx)
				if wrong, ok := err.(*violation); ok {
					c.tb.Errorf("worker %d: %v", w.id, wrong)
					return
				}
				switch {
				case err != nil && !c.stubborn:
					return
				case err != nil:
				case refused:
					c.refused.Add(1)
				default:
					c.acked.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// violation is an answer that no node may give.
type violation struct{ message string }

func (v *violation) Error() string { return v.message }

func violationf(format string, args ...any) error {
	return &violation{fmt.Sprintf(format, args...)}
}

// step does one operation. It reports whether the node refused it because of a
// condition, as it should; another error leaves open what happened.
func (w *worker) step(ctx context.Context) (refused bool, err error) {
	key := fmt.Sprintf("w%d/%d", w.id, w.random.IntN(w.keys))
	now, etag, known := w.ledger.known(key)
	act := w.random.IntN(100)
	switch {
	case act < 12:
		return false, w.putBatch(ctx)
	case act < 45 || !known:
		return false, w.put(ctx, key, penstock.Condition{}, want{ok: true})
	case act < 52:
		return w.conditional(ctx, key, penstock.Condition{IfNoneMatch: "*"}, want{ok: now == (state{}), kind: penstock.Exists})
	case act < 59:
		return w.conditional(ctx, key, penstock.Condition{IfMatch: "*"}, want{ok: now != (state{}), kind: penstock.NotFound})
	case act < 64 && now != (state{}) && etag != "":
		return w.conditional(ctx, key, penstock.Condition{IfMatch: etag}, want{ok: true})
	case act < 67 && now != (state{}) && etag != "":
		return w.conditional(ctx, key, penstock.Condition{IfMatch: etag + "x"}, want{kind: penstock.Stale})
	case act < 82:
		return now == (state{}), w.delete(ctx, key, now)
	case act < 94:
		return w.copy(ctx, key)
	}
	return w.race(ctx)
}

// want is the answer the ledger lets expect.
type want struct {
	ok   bool
	kind penstock.Kind // of the refusal
}

// certain reports whether an error says that nothing was done.
func certain(err error) bool {
	for _, kind := range []penstock.Kind{penstock.NotFound, penstock.Exists, penstock.Stale, penstock.Invalid, penstock.Denied} {
		if penstock.Is(err, kind) {
			return true
		}
	}
	return false
}

// judge notes the answer to a request that would bring key to a state.
func (w *worker) judge(what, key string, to state, info penstock.Info, err error, want want) error {
	switch {
	case err == nil && !want.ok:
		return violationf("%s of %s succeeded and should have been refused as %v", what, key, want.kind)
	case err == nil && to != (state{}) && info.Size != to.Size:
		return violationf("%s of %s stored %d bytes, not %v", what, key, info.Size, to)
	case err == nil:
		if err := w.ledger.done(key, to, info.ETag); err != nil {
			return violationf("%v", err)
		}
		return nil
	case !certain(err):
		return err
	case want.ok || !penstock.Is(err, want.kind):
		return violationf("%s of %s: %v (%v)", what, key, err, penstock.KindOf(err))
	}
	w.ledger.undone(key, to)
	return nil
}

func (w *worker) put(ctx context.Context, key string, cond penstock.Condition, want want) error {
	to := w.ledger.next(key, w.size(w.random))
	w.ledger.begin(key, to)
	info, err := w.client.Put(ctx, w.ledger.name(key), bytes.NewReader(to.bytes()),
		penstock.PutOptions{Condition: cond, Metadata: map[string]string{"mark": to.mark()}})
	return w.judge("put", key, to, info, err, want)
}

// putBatch writes several of the worker's keys in one request: each is whole or
// absent afterwards, and those that did not fail are there.
func (w *worker) putBatch(ctx context.Context) error {
	var objects []penstock.Upload
	var states []state
	for _, i := range w.random.Perm(w.keys)[:1+w.random.IntN(min(w.keys, 20))] {
		key := fmt.Sprintf("w%d/%d", w.id, i)
		to := w.ledger.next(key, min(w.size(w.random), 4<<10-1))
		w.ledger.begin(key, to)
		objects = append(objects, penstock.Upload{Key: key, ContentType: to.mark(), Bytes: to.bytes()})
		states = append(states, to)
	}
	err := w.client.PutBatch(ctx, w.ledger.bucket, objects)
	var partly *penstock.PutBatchError
	if err != nil && !errors.As(err, &partly) {
		return err // any of them may be there
	}
	var open error
	for i, o := range objects {
		var failed error
		if partly != nil {
			failed = partly.Failed[o.Key]
		}
		if err := w.judge("put in a batch", o.Key, states[i], penstock.Info{Size: states[i].Size}, failed, want{ok: true}); err != nil {
			open = err
		}
	}
	return open
}

// markOf returns which write an object says it is of.
func markOf(info penstock.Info) string { return cmp.Or(info.Metadata["mark"], info.ContentType) }

func (w *worker) conditional(ctx context.Context, key string, cond penstock.Condition, want want) (bool, error) {
	return !want.ok, w.put(ctx, key, cond, want)
}

func (w *worker) delete(ctx context.Context, key string, now state) error {
	w.ledger.begin(key, state{})
	err := w.client.Delete(ctx, w.ledger.name(key), penstock.Condition{})
	return w.judge("delete", key, state{}, penstock.Info{}, err, want{ok: now != (state{}), kind: penstock.NotFound})
}

// copy copies one of the worker's keys to another.
func (w *worker) copy(ctx context.Context, from string) (bool, error) {
	key := fmt.Sprintf("w%d/%d", w.id, w.random.IntN(w.keys))
	to, _, known := w.ledger.known(from)
	if _, _, target := w.ledger.known(key); !known || !target || key == from {
		return true, nil
	}
	w.ledger.begin(key, to)
	info, err := w.client.Copy(ctx, w.ledger.name(key), w.ledger.name(from), penstock.Condition{})
	return to == (state{}), w.judge("copy from "+from, key, to, info, err, want{ok: to != (state{}), kind: penstock.NotFound})
}

// race tries to be the one who creates a key.
func (w *worker) race(ctx context.Context) (bool, error) {
	// All workers pass the same keys at about the same time.
	key := fmt.Sprintf("race/%d", w.races.Add(1)/int64(4))
	to := w.ledger.next(key, w.random.Int64N(2000))
	w.ledger.begin(key, to)
	info, err := w.client.Put(ctx, w.ledger.name(key), bytes.NewReader(to.bytes()),
		penstock.PutOptions{Condition: penstock.Condition{IfNoneMatch: "*"}, Metadata: map[string]string{"mark": to.mark()}})
	if err == nil {
		return false, w.judge("creation", key, to, info, nil, want{ok: true})
	}
	return true, w.judge("creation", key, to, info, err, want{kind: penstock.Exists})
}
