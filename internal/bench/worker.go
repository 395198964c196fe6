package bench

import (
	"context"
	"errors"

	"penstock.dev/penstock"
)

// worker makes the requests of one connection. What it allocates it uses again.
type worker struct {
	work     *Workload
	conn     Conn
	check    checker
	keys     []string
	indexes  map[int64]bool // the keys of a PutBatch
	contents []Content
	bodies   [][]byte // what is to be stored, pieces of slab
	slab     []byte
	writes   bool
	took     took
}

func newWorker(work *Workload, conn Conn) *worker {
	w := &worker{work: work, conn: conn, indexes: map[int64]bool{}}
	w.check.verify = work.Verify
	return w
}

// prepare makes keys and bytes of a request, before its time is taken.
func (w *worker) prepare(t ticket) {
	w.keys, w.contents, w.bodies = w.keys[:0], w.contents[:0], w.bodies[:0]
	clear(w.indexes)
	total := int64(0)
	for i := range t.n {
		index := w.once(w.work.At(t.position + int64(i)))
		key := w.work.Key(index)
		content := w.work.content(index, key)
		w.keys, w.contents = append(w.keys, key), append(w.contents, content)
		total += content.Size()
	}
	w.writes = w.work.Op == Put || w.work.Op == PutBatch || (w.work.Op == Mixed && w.work.WritesAt(t.position))
	if !w.writes {
		return
	}
	if int64(cap(w.slab)) < total {
		w.slab = make([]byte, total)
	}
	free := w.slab[:total]
	for _, content := range w.contents {
		n := content.Read(free, 0)
		w.bodies = append(w.bodies, free[:n:n])
		free = free[n:]
	}
}

// once returns the key to store when index was drawn. A request must not store a
// key twice; where it would, at random or where one epoch meets the next, it
// stores the next key instead.
func (w *worker) once(index int64) int64 {
	if w.work.Op != PutBatch {
		return index
	}
	for w.indexes[index] {
		index = (index + 1) % w.work.Keys
	}
	w.indexes[index] = true
	return index
}

// do makes the prepared request. What it returns is valid until the next one.
func (w *worker) do(ctx context.Context) *took {
	w.took = took{write: w.writes, failed: w.took.failed[:0]}
	switch {
	case w.work.Op == PutBatch:
		w.stored(w.conn.PutBatch(ctx, w.keys, w.bodies))
	case w.writes:
		w.stored(w.conn.Put(ctx, w.keys[0], w.bodies[0]))
	case w.work.Op == Batch:
		w.batch(ctx)
	default:
		w.check.begin(w.keys[0], w.contents[0])
		err := w.conn.Get(ctx, w.keys[0], &w.check)
		w.received(err)
	}
	return &w.took
}

// stored counts a write.
func (w *worker) stored(err error) {
	some := new(penstock.PutBatchError)
	switch {
	case errors.As(err, &some):
		for _, err := range some.Failed {
			w.fail(err, 1)
		}
	case err != nil:
		w.fail(err, int64(len(w.keys)))
		return
	}
	for i, body := range w.bodies {
		if _, failed := some.Failed[w.keys[i]]; !failed {
			w.took.objects++
			w.took.bytes += int64(len(body))
		}
	}
}

// batch reads all prepared keys in one request.
func (w *worker) batch(ctx context.Context) {
	came := 0
	err := w.conn.Batch(ctx, w.keys, func(content []byte, err error) {
		if came >= len(w.keys) {
			return // more than was asked for: the driver will say so
		}
		w.check.begin(w.keys[came], w.contents[came])
		came++
		_, _ = w.check.Write(content) // never fails
		w.received(err)
	})
	if err != nil {
		w.fail(err, int64(len(w.keys)-came))
	}
}

// received counts the object the checker has got, or why there is none.
func (w *worker) received(err error) {
	n, wrong := w.check.end()
	if err == nil {
		err = wrong
	}
	if err != nil {
		w.fail(err, 1)
		return
	}
	w.took.objects++
	w.took.bytes += n
}

// fail notes an error and how many objects it cost.
func (w *worker) fail(err error, n int64) {
	if n > 0 {
		w.took.failed = append(w.took.failed, failure{err, n})
	}
}
