// Package store keeps objects on this node's disks. It implements the central
// interfaces of package object over one or several data directories.
//
// Way of a write: the bytes of a small object are read into a draft of its
// record; those of a large one go to a blob first. Under the lock of its key the
// condition is checked, the version given and the record appended to the log of
// one disk, together with those of other writers, and synced. Then, and only
// then, the index, the table of hot places and thereby everybody sees it.
//
// Way of a read: hot table or index say which record of which pack; the record
// is read and verified in one go; a blob goes from its file to the socket.
//
// Each disk is whole in itself: identity, log, blobs, index, roster. The index
// is a cache of the log and is rebuilt when it is lost. If several disks know a
// name, the newest version counts. The store does not know buckets as such, nor
// users, nor other nodes.
//
// All methods may be called concurrently. Run does the background work:
// checkpoints, compaction, sweeping, and bringing failed disks back.
package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// Disk is one data directory of a store.
type Disk struct {
	FS    disk.FS
	Name  string // for messages: usually its path
	Kind  string // for people: ssd, hdd
	Quota int64  // the most to use, in bytes; zero for all of it
}

// Options configure a store. Only Disks is needed.
type Options struct {
	Disks []Disk

	// Forget lists the identities of disks that will never come back. What only
	// they held is lost; without this it is answered as Unavailable.
	Forget []string

	// Relaxed acknowledges writes before they are durable. For caches.
	Relaxed bool

	Map      uint32           // number of the map to write under; zero means 1
	Clock    func() time.Time // nil means time.Now
	Logger   *slog.Logger     // nil means silence
	Registry prometheus.Registerer

	InlineMax   int64 // objects up to this size lie in their record; zero means 512 KiB
	PackSize    int64 // zero means 256 MiB, less on small disks
	IndexMem    int64 // size of an index's memory table; zero means 32 MiB
	HotPlaces   int   // number of places remembered; zero means 1 Mi
	WriteMemory int64 // for objects on their way to the log; zero means 256 MiB
	CompactRate int64 // bytes per second compaction may copy; zero means 256 MiB

	MaintainEvery time.Duration // how often disks are looked after without need; zero means 2 s
}

func (o *Options) setDefaults() error {
	if len(o.Disks) == 0 {
		return object.Errorf(object.Invalid, "a store needs at least one disk")
	}
	fill(&o.Map, 1)
	fill(&o.InlineMax, 512<<10)
	fill(&o.IndexMem, 32<<20)
	fill(&o.HotPlaces, 1<<20)
	fill(&o.WriteMemory, 256<<20)
	fill(&o.CompactRate, 256<<20)
	fill(&o.MaintainEvery, 2*time.Second)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Store is the objects on this node's disks.
type Store struct {
	opts      Options
	log       *slog.Logger
	drives    []*drive
	absent    []string // identities of disks that belong here but were not given
	roster    *roster
	keys      keyLocks
	hot       *hotTable
	versioned versionedBuckets
	epoch     atomic.Uint64 // how often a disk came back; what was found before is not to be built on
	memory    *semaphore.Weighted
	windows   sync.Pool // of batches
	buffers   buffers
	metrics   *metrics
	closing   sync.Once
}

// Open opens the disks, brings their indexes up to date with their logs, and
// returns the store. A disk that cannot be opened for a reason that others do
// not share (an input/output error) is isolated; one that is in use, unknown or
// of a newer format is refused.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Store{
		opts: o, log: o.Logger, hot: newHotTable(o.HotPlaces),
		memory: semaphore.NewWeighted(o.WriteMemory), metrics: newMetrics(o.Registry),
	}
	if err := s.openDrives(ctx); err != nil {
		for _, d := range s.drives {
			d.close()
		}
		return nil, err
	}
	s.metrics.watch(s)
	return s, nil
}

func (s *Store) openDrives(ctx context.Context) error {
	err := s.identifyDrives()
	if err != nil {
		return err
	}
	if s.roster, s.absent, err = openRoster(s.drives, s.opts.Forget); err != nil {
		return err
	}
	s.roster.standings()
	for _, id := range s.absent {
		s.log.Warn("a disk is absent: what it holds is unavailable until it is back or forgotten", "disk", id)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range s.drives {
		group.Go(func() error {
			err := d.recover(ctx)
			if object.Is(err, object.Unavailable) && len(s.drives) > 1 {
				d.fail(err)
				return nil
			}
			if err != nil {
				return object.Errorf(object.KindOf(err), "%s: %w", d.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	newest := uint64(0)
	for _, d := range s.drives {
		newest = max(newest, d.tally.Counter)
	}
	s.roster.atLeast(newest)
	if !s.complete() { // else the disks know themselves
		for _, bucket := range s.roster.facts.Versioned {
			s.versioned.add(map[string]int64{bucket: 1})
		}
	}
	s.roster.facts.Versioned = s.versioned.list()
	err = s.roster.raise()
	if disk.IsFull(err) && s.complete() && s.roster.goOn(newest) {
		s.log.Warn("there is no room for the roster: only deletes can help", "error", err)
		return nil
	}
	return err
}

// identifyDrives learns which disks there are. One that fails to tell is left out,
// and so absent, if there are others.
func (s *Store) identifyDrives() error {
	var failed error
	for _, o := range s.opts.Disks {
		d := newDrive(s, o)
		err := d.identify()
		if err == nil {
			err = s.distinct(d)
		}
		if err == nil {
			s.drives = append(s.drives, d)
			continue
		}
		d.close() //nolint:errcheck // the first error counts
		if errno := syscall.Errno(0); !errors.As(err, &errno) {
			return object.Errorf(object.KindOf(err), "%s: %w", o.Name, err)
		}
		s.log.Error("a disk cannot be opened and is left out", "disk", o.Name, "error", err)
		failed = object.Errorf(object.Unavailable, "%s: %w", o.Name, err)
	}
	if len(s.drives) == 0 {
		return failed
	}
	return nil
}

// distinct refuses a copy of a disk beside the disk.
func (s *Store) distinct(d *drive) error {
	for _, other := range s.drives {
		if other.id.ID == d.id.ID {
			return object.Errorf(object.Invalid, "this is a copy of %s: both are disk %s", other.name, d.id.ID)
		}
	}
	return nil
}

// Run does the background work until the context ends. A store without it works,
// but its garbage stays.
func (s *Store) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range s.drives {
		group.Go(func() error { return d.run(ctx) })
	}
	return group.Wait()
}

// Close writes a last checkpoint of every index and closes the disks. Run must
// have returned, and no other call may be under way.
func (s *Store) Close() error {
	var errs []error
	s.closing.Do(func() {
		if len(s.drives) > 1 { // so that a copy of a disk made until now does not pass for it
			s.roster.raise() //nolint:errcheck // one made since Open may then
		}
		for _, d := range s.drives {
			errs = append(errs, d.close())
		}
	})
	return errors.Join(errs...)
}

// complete reports whether every disk that may hold an object can be asked.
func (s *Store) complete() bool {
	if len(s.absent) > 0 {
		return false
	}
	for _, d := range s.drives {
		if d.readable() != nil {
			return false
		}
	}
	return true
}
