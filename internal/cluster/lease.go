package cluster

import (
	"context"
	"sync"
	"time"

	"penstock.dev/penstock/internal/object"
)

const (
	maxLeases   = 1 << 16
	expiryRetry = time.Second
)

// leases are the leases that have not ended. Renewing one does not go through the
// owner, so that a slow disk ends no lease.
type leases struct {
	mu      sync.Mutex
	live    map[LeaseID]*liveLease
	last    LeaseID
	wake    time.Time     // when the owner looks for ended ones; zero: not at all
	earlier chan struct{} // holds a token if it must look before that
}

type liveLease struct {
	ttl    time.Duration
	end    time.Time
	ending bool // its time was up: only its records are left to delete
}

func newLeases(start uint64) *leases {
	return &leases{
		live:    map[LeaseID]*liveLease{},
		last:    LeaseID(start << 32),
		earlier: make(chan struct{}, 1),
	}
}

func (l *leases) grant(now time.Time, ttl time.Duration) (Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.live) >= maxLeases {
		return Lease{}, object.Errorf(object.Busy, "%d leases are live, and no more are possible", len(l.live))
	}
	l.last++
	l.live[l.last] = &liveLease{ttl: ttl, end: now.Add(ttl)}
	if l.wake.IsZero() || now.Add(ttl).Before(l.wake) {
		select {
		case l.earlier <- struct{}{}:
		default:
		}
	}
	return Lease{ID: l.last, TTL: ttl}, nil
}

func (l *leases) renew(now time.Time, id LeaseID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := l.live[id]
	if !lease.holds(now) {
		return errNoLease(id)
	}
	lease.end = now.Add(lease.ttl)
	return nil
}

func (l *leases) holds(now time.Time, id LeaseID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[id].holds(now)
}

func (l *liveLease) holds(now time.Time) bool { return l != nil && !l.ending && now.Before(l.end) }

// due returns the leases whose time is up. From now on none of them can be renewed;
// until they are removed they come up again.
func (l *leases) due(now time.Time) []LeaseID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []LeaseID
	for id, lease := range l.live {
		if !now.Before(lease.end) {
			lease.ending, lease.end = true, now.Add(expiryRetry)
			ids = append(ids, id)
		}
	}
	return ids
}

// next returns when to look for ended leases, zero if there is none.
func (l *leases) next() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake = time.Time{}
	for _, lease := range l.live {
		if l.wake.IsZero() || lease.end.Before(l.wake) {
			l.wake = lease.end
		}
	}
	return l.wake
}

func (l *leases) remove(ids map[LeaseID]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range ids {
		delete(l.live, id)
	}
}

func errNoLease(id LeaseID) error {
	return object.Errorf(object.NotFound, "there is no lease %x", id)
}

// Grant makes a lease. It lives in memory, as do its records: they end with the
// process. At most 65536 are live at a time; beyond that the answer is Busy.
func (a *Alone) Grant(ctx context.Context, ttl time.Duration) (Lease, error) {
	if err := a.usable(ctx); err != nil {
		return Lease{}, err
	}
	if ttl <= 0 {
		return Lease{}, object.Errorf(object.Invalid, "a lease of %s makes no sense", ttl)
	}
	return a.leases.grant(a.clock.Now(), ttl)
}

// KeepAlive lets a lease begin its time anew.
func (a *Alone) KeepAlive(ctx context.Context, id LeaseID) error {
	if err := a.usable(ctx); err != nil {
		return err
	}
	return a.leases.renew(a.clock.Now(), id)
}

// Revoke ends a lease and deletes its records.
func (a *Alone) Revoke(ctx context.Context, id LeaseID) error {
	_, err := a.submit(ctx, func(d *draft) (int64, error) {
		if !d.leaseHolds(id) {
			return 0, errNoLease(id)
		}
		err := d.end(id)
		return d.revision, err
	})
	return err
}

// expire ends the leases whose time is up. Those that cannot be ended now, because
// a snapshot is due and no disk takes it, come up again.
func (a *Alone) expire() {
	if ids := a.leases.due(a.clock.Now()); len(ids) > 0 {
		a.commit([]*request{newRequest(func(d *draft) (int64, error) { return 0, d.end(ids...) })})
	}
}

// expiry fires when the next lease ends; never if there is none.
func (a *Alone) expiry() <-chan time.Time {
	wake := a.leases.next()
	if wake.IsZero() {
		return nil
	}
	return a.clock.After(wake.Sub(a.clock.Now()))
}
