package cluster

import "context"

// request is a change that waits for the owner. It may be tried twice, each time
// on a new draft.
type request struct {
	try      func(*draft) (int64, error)
	revision int64
	err      error
	done     chan struct{}
}

func newRequest(try func(*draft) (int64, error)) *request {
	return &request{try: try, done: make(chan struct{})}
}

// submit hands a request to the owner and waits until it is done. There is no queue
// but the callers themselves: one that leaves before its turn leaves nothing behind.
func (a *Alone) submit(ctx context.Context, try func(*draft) (int64, error)) (int64, error) {
	if err := a.usable(ctx); err != nil {
		return 0, err
	}
	r := newRequest(try)
	select {
	case a.requests <- r:
	case <-a.closed:
		return 0, a.usable(ctx)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case <-r.done:
		return r.revision, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// gather returns the request and others that wait now.
func (a *Alone) gather(r *request) []*request {
	batch := []*request{r}
	for len(batch) < maxBatch {
		select {
		case r := <-a.requests:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// commit does a batch of requests: draft, write, show, answer.
func (a *Alone) commit(batch []*request) {
	present := a.state.Load()
	d := a.draft(present, batch, nil)
	next := d.state()
	if d.durable {
		if err := a.copies.save(present, next); err != nil {
			// Some may have looked at what was not written; and some need not be.
			d = a.draft(present, batch, err)
			next = d.state()
		}
	}
	a.state.Store(next) // before the history: who saw a change must find it
	if len(d.changes) > 0 {
		a.history.add(d.changes)
	}
	a.leases.remove(d.ended)
	for _, r := range batch {
		close(r.done)
	}
}

// draft tries all requests on the present state. If refused is not nil nothing can
// be written for that reason.
func (a *Alone) draft(present *state, batch []*request, refused error) *draft {
	now := a.clock.Now()
	d := &draft{
		base:       present,
		leaseLives: func(id LeaseID) bool { return a.leases.holds(now, id) },
		saved:      a.copies.saved,
		refused:    refused,
		revision:   present.revision,
		size:       present.size,
		changed:    map[string]*Record{},
		ended:      map[LeaseID]bool{},
	}
	for _, r := range batch {
		r.revision, r.err = r.try(d)
	}
	return d
}
