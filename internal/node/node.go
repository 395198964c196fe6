// Package node is the data path: given a name, serve it. Today a name is served
// from this node's own disks; peers and sources will be asked here, too.
//
// A node adds to its store what a store does not know: that buckets exist, how
// much they may hold, how their objects are read. It knows nothing of HTTP, of
// users, or of files.
//
// Way of a read: the bucket is looked up in an immutable snapshot, without a lock,
// and the store's own reader is handed on, so that a file can still reach a
// socket by sendfile. Way of a write: it passes the bucket's gate, which keeps a
// bucket from being deleted under it, and the quota, and goes to the store. Way of
// a bucket's change: a transaction in the control records, which Run follows, so
// that each node sees the changes of all. Datasets are control records, too; they
// are asked for seldom, and read from there each time.
//
// All methods may be called concurrently.
package node

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock/internal/cluster"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// Options configure a node. Store and Control are needed.
type Options struct {
	Name    string // what people call it
	Address string // where others reach it, host:port
	Store   Store
	Control cluster.Control
	Clock   func() time.Time // nil means time.Now
	Logger  *slog.Logger     // nil means silence

	// UploadsExpire is how long an upload in parts may stay unfinished; zero for a week.
	UploadsExpire time.Duration

	Registry prometheus.Registerer // of metrics; nil means none
}

// Node serves the objects of its buckets.
type Node struct {
	name    string
	address string
	store   Store
	control cluster.Control
	clock   func() time.Time
	log     *slog.Logger

	buckets   atomic.Pointer[snapshot]
	applying  sync.Mutex    // orders the replacing of buckets; readers do not take it
	changing  chan struct{} // holds one token: one change of a bucket or dataset at a time
	scrubbing atomic.Bool
	indexes   *shard.Indexes // of tars whose members were asked for

	uploadsExpire time.Duration
	endings       endings // of uploads
}

// Open reads the buckets and returns the node. It starts nothing; changes made
// through other nodes are seen while Run runs.
func Open(ctx context.Context, o Options) (*Node, error) {
	n := &Node{
		name: o.Name, address: o.Address, store: o.Store, control: o.Control, clock: o.Clock, log: o.Logger,
		changing: make(chan struct{}, 1), uploadsExpire: o.UploadsExpire,
	}
	if n.uploadsExpire == 0 {
		n.uploadsExpire = 7 * 24 * time.Hour
	}
	if n.clock == nil {
		n.clock = time.Now
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	n.buckets.Store(&snapshot{})
	if err := n.refresh(ctx); err != nil {
		return nil, err
	}
	var err error
	n.indexes, err = shard.NewIndexes(shard.Options{Registry: o.Registry})
	return n, err
}

// Run keeps the buckets fresh and removes uploads that were left unfinished, until the
// context ends, and returns nil then. What requests have begun in the background has
// ended, too.
func (n *Node) Run(ctx context.Context) error {
	defer n.indexes.Close() //nolint:errcheck // it only waits
	group, inner := errgroup.WithContext(ctx)
	// Not inner, which ends a moment after ctx: in between the control records may end,
	// too, and that would look like a failure.
	group.Go(func() error { return n.follow(ctx) })
	group.Go(func() error { n.cleanUploads(inner); return nil })
	return group.Wait()
}

func (n *Node) follow(ctx context.Context) error {
	for view, err := range cluster.Follow(ctx, n.control, bucketPrefix) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		n.apply(view)
	}
	return nil
}

// Name returns what people call the node.
func (n *Node) Name() string { return n.name }

// Stat implements object.Source.
func (n *Node) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	if _, err := n.find(name.Bucket); err != nil {
		return object.Info{}, err
	}
	return n.store.Stat(ctx, name)
}

// Open implements object.Source.
func (n *Node) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	b, err := n.find(name.Bucket)
	if err != nil {
		return nil, err
	}
	if b.Verify == VerifyAlways {
		return n.store.OpenVerified(ctx, name, r)
	}
	return n.store.Open(ctx, name, r)
}

// Put implements object.Sink. It answers Denied when the bucket's quota does not
// allow the object.
func (n *Node) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	b, err := n.enter(name.Bucket)
	if err != nil {
		return object.Info{}, err
	}
	defer b.live.gate.leave()
	name.ID = object.Version{}
	opts.Keep = b.Versioning == VersioningEnabled
	if b.Quota == 0 {
		return n.store.Put(ctx, name, r, opts)
	}
	claim, err := n.claim(ctx, b, name, opts.SizeHint)
	if err != nil {
		return object.Info{}, err
	}
	defer claim.release()
	return n.store.Put(ctx, name, claim.reader(r), opts)
}

// Copy gives the content of src the name dst as well. Empty ContentType and nil
// Metadata keep those of src. The copy has a life of its own.
func (n *Node) Copy(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error) {
	if _, err := n.find(src.Bucket); err != nil {
		return object.Info{}, err
	}
	b, err := n.enter(dst.Bucket)
	if err != nil {
		return object.Info{}, err
	}
	defer b.live.gate.leave()
	dst.ID = object.Version{}
	opts.Keep = b.Versioning == VersioningEnabled
	if b.Quota != 0 {
		info, err := n.store.Stat(ctx, src)
		if err != nil {
			return object.Info{}, err
		}
		claim, err := n.claim(ctx, b, dst, info.Size)
		if err != nil {
			return object.Info{}, err
		}
		defer claim.release()
	}
	return n.store.Copy(ctx, dst, src, opts)
}

// Delete implements object.Sink. In a bucket that keeps versions a mark of the deletion
// takes the object's place.
func (n *Node) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	b, err := n.find(name.Bucket)
	if err != nil {
		return err
	}
	if b.Versioning != "" && name.ID == (object.Version{}) {
		if _, err := n.store.Stat(ctx, name); err != nil {
			return err
		}
	}
	_, err = n.Remove(ctx, name, cond)
	return err
}

// List implements object.Lister.
func (n *Node) List(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	if _, err := n.find(bucket); err != nil {
		return func(yield func(object.Entry, error) bool) { yield(object.Entry{}, err) }
	}
	return n.store.List(ctx, bucket, opts)
}
