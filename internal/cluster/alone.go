package cluster

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

const (
	maxBatch  = 256              // requests that share one write
	retryTime = 30 * time.Second // after which a disk that is behind is written without a transaction
)

// Disk is one of the disks that get a copy of the control records.
type Disk struct {
	Name string // for messages
	FS   disk.FS
}

// AloneOptions say where an Alone keeps its records. Only Disks must be given.
type AloneOptions struct {
	// Disks hold a copy each. The caller keeps other processes off them.
	Disks []Disk

	// AcceptLoss opens the records even if so many of their disks are missing or
	// damaged that newer records may be lost. It is for an operator to say.
	AcceptLoss bool

	Clock  Clock        // nil: the wall clock
	Rand   io.Reader    // for identities; nil: crypto/rand
	Logger *slog.Logger // for disks that fail or were repaired; nil: none
}

// Validate reports what cannot be opened.
func (o AloneOptions) Validate() error {
	if len(o.Disks) == 0 || len(o.Disks) > MaxDisks {
		return object.Errorf(object.Invalid, "control records on %d disks: 1 to %d are possible", len(o.Disks), MaxDisks)
	}
	return nil
}

// Alone is the Control of a node without others: records in memory, with a copy on
// each disk. A transaction is acknowledged, and seen by others, when two disks hold
// it durably, or the only one. So any one disk may be lost, at any time, and all
// that was acknowledged is still there. What fails on too many disks is
// Unavailable, and changes nothing now; but some disk may hold it, so that it can
// turn up at the next start, unless another transaction succeeds before.
//
// Every transaction writes all records, so it takes as long as the slowest disk
// needs for that. All that wait are written together. Leased records are not
// written: they end with the process, and changing them needs no disk.
type Alone struct {
	clock    Clock
	copies   *copies // Run's
	state    atomic.Pointer[state]
	history  *history
	leases   *leases
	requests chan *request
	running  atomic.Bool
	closed   chan struct{} // Run has ended
}

var _ Control = (*Alone)(nil)

// OpenAlone reads the copies on all disks and takes the newest good one; others
// that are missing, damaged or older are repaired. It fails if there are copies,
// but none is good (Corrupt or Unavailable); if a newer one may have been on disks
// that are missing (Unavailable); if one is of an unknown format or of another
// cluster (Invalid). Disks that cannot be written do not keep it from opening.
//
// The caller must call Run.
func OpenAlone(opts AloneOptions) (*Alone, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Rand == nil {
		opts.Rand = rand.Reader
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	copies, present, err := recoverCopies(opts.Disks, opts.AcceptLoss, opts.Rand, opts.Logger)
	if err != nil {
		return nil, err
	}
	// Writing the records as they were found repairs the other copies, and settles
	// what a write that was not acknowledged left behind. Disks tells if it fails,
	// and the next write tries again.
	_ = copies.save(present, present)
	a := &Alone{
		clock:    clockOr(opts.Clock),
		copies:   copies,
		history:  newHistory(present.revision),
		leases:   newLeases(copies.head.start),
		requests: make(chan *request),
		closed:   make(chan struct{}),
	}
	a.state.Store(present)
	return a, nil
}

// Disks says how the copy on each disk is, in the order they were given.
func (a *Alone) Disks() []DiskStatus { return a.copies.status() }

// usable fails when the context or Run has ended.
func (a *Alone) usable(ctx context.Context) error {
	select {
	case <-a.closed:
		return object.Errorf(object.Unavailable, "the control records are closed")
	default:
		return ctx.Err()
	}
}

// Get returns one record.
func (a *Alone) Get(ctx context.Context, key string) (Record, error) {
	if err := a.usable(ctx); err != nil {
		return Record{}, err
	}
	if r := a.state.Load().find(key); r != nil {
		return *r, nil
	}
	return Record{}, object.Errorf(object.NotFound, "there is no control record %q", key)
}

// List returns the records under a prefix.
func (a *Alone) List(ctx context.Context, prefix string) (View, error) {
	if err := a.usable(ctx); err != nil {
		return View{}, err
	}
	s := a.state.Load()
	return View{Revision: s.revision, Records: s.under(prefix)}, nil
}

// Txn hands a transaction to Run and waits for it. All records together may take
// MaxTotal bytes; what would exceed that is Unavailable, and does not happen.
func (a *Alone) Txn(ctx context.Context, txn Txn) (int64, error) {
	if err := txn.Validate(); err != nil {
		return 0, err
	}
	txn = txn.clone()
	return a.submit(ctx, func(d *draft) (int64, error) { return d.txn(txn) })
}

// Run does the transactions, and ends the leases whose time is up. It returns nil
// when the context ends, after the transactions it has begun; everything fails with
// Unavailable from then on. It may be called once.
func (a *Alone) Run(ctx context.Context) error {
	if a.running.Swap(true) {
		return object.Errorf(object.Internal, "the control records are run twice")
	}
	defer close(a.closed)
	expiry := a.expiry()
	var retry <-chan time.Time
	for {
		if retry == nil && a.copies.behind() {
			retry = a.clock.After(retryTime)
		}
		select {
		case <-ctx.Done():
			return nil
		case r := <-a.requests:
			a.commit(a.gather(r))
		case <-a.leases.earlier:
			expiry = a.expiry()
		case <-expiry:
			a.expire()
			expiry = a.expiry()
		case <-retry:
			retry = nil
			_ = a.copies.save(a.state.Load(), a.state.Load()) // Disks tells
		}
	}
}
