package cluster

import (
	"context"
	"time"

	"penstock.dev/penstock/internal/object"
)

// HoldOptions say how a lease is held.
type HoldOptions struct {
	TTL   time.Duration // how long the records outlive their holder's death; zero: 10 s
	Clock Clock         // nil: the wall clock
}

// Hold gets a lease and calls work with it. While work runs the lease is kept
// alive; when work returns it is revoked, and with it go its records. If the lease
// is lost, because it was revoked or because no renewal got through before its
// time was up by our own clock, the context given to work ends, and work must end
// what the lease allowed it to do.
//
// Hold returns what work does, except that a lost lease is Unavailable where work
// only returns the context's error. Its goroutine has ended when it returns.
func Hold(ctx context.Context, control Control, opts HoldOptions, work func(context.Context, Lease) error) error {
	k := keeper{control: control, clock: clockOr(opts.Clock)}
	if opts.TTL == 0 {
		opts.TTL = 10 * time.Second
	}
	asked := k.clock.Now() // before the grant: our count of the time ends first
	var err error
	if k.lease, err = control.Grant(ctx, opts.TTL); err != nil {
		return err
	}
	k.end = asked.Add(k.lease.TTL)

	held, release := context.WithCancelCause(ctx)
	defer release(nil) // also if work panics
	kept := make(chan error, 1)
	go func() {
		lost := k.keep(held)
		release(lost)
		kept <- lost
	}()
	err = work(held, k.lease)
	release(nil)
	lost := <-kept

	// Revoking is a courtesy to those who wait, so it has as long as the lease
	// would last without it, and its failure does no harm.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.lease.TTL)
	defer cancel()
	_ = control.Revoke(last, k.lease.ID)

	if lost != nil && object.Is(err, object.Canceled) {
		return lost
	}
	return err
}

// keeper renews one lease.
type keeper struct {
	control Control
	clock   Clock
	lease   Lease
	end     time.Time // until when we may count on it
}

// keep renews the lease until the context ends, which is no error, or the lease is
// lost.
func (k *keeper) keep(ctx context.Context) error {
	wait := k.lease.TTL / 3
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.clock.After(wait):
		}
		err := k.renew(ctx)
		left := k.end.Sub(k.clock.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			wait = k.lease.TTL / 3
		case object.Is(err, object.NotFound) || left <= 0:
			return object.Errorf(object.Unavailable, "lease %x is lost: %w", k.lease.ID, err)
		default:
			wait = min(left, k.lease.TTL/10)
		}
	}
}

// renew asks once, for as long as the lease has left.
func (k *keeper) renew(ctx context.Context) error {
	sent := k.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, k.end.Sub(sent))
	defer cancel()
	if err := k.control.KeepAlive(ctx, k.lease.ID); err != nil {
		return err
	}
	k.end = sent.Add(k.lease.TTL)
	return nil
}
