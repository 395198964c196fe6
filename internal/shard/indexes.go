package shard

import (
	"container/list"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"penstock.dev/penstock/internal/object"
)

// Options bound what Indexes takes. The zero value is useful.
type Options struct {
	// Bytes of memory for indexes that are kept; zero means 256 MiB. A tar whose
	// index alone is larger is refused as Invalid: it would be read as a whole for
	// each of its members. While an index is made it takes up to three times as much.
	Bytes int64

	// Builds is how many tars are read at a time; zero means 4. Others wait.
	Builds int

	// Registry takes the metrics; nil means that none are kept.
	Registry prometheus.Registerer
}

// Validate reports as Invalid what makes no sense.
func (o Options) Validate() error {
	if o.Bytes < 0 || o.Builds < 0 {
		return object.Errorf(object.Invalid, "shard: Bytes %d and Builds %d must not be negative", o.Bytes, o.Builds)
	}
	return nil
}

// Indexes keeps the indexes of tars that are objects, those used last. It makes
// one when it is first asked for, once for all who ask.
type Indexes struct {
	limit   int64
	turns   chan struct{} // as many as tars may be read at a time
	group   sync.WaitGroup
	metrics *metrics

	mu     sync.Mutex
	closed bool
	bytes  int64
	used   *list.List                     // of *kept; the one used last in front
	kept   map[object.Name][]*kept        // versions of one name: hardly ever two
	builds map[identity]*shared           // going on, with somebody waiting
	cancel map[*shared]context.CancelFunc // all that are going on
}

type identity struct {
	name    object.Name
	version object.Version
}

// kept is an index, or the reason why there is none.
type kept struct {
	identity
	index *Index
	err   error
	bytes int64
	place *list.Element
}

// shared is a build that several may wait for.
type shared struct {
	waiting int // guarded by Indexes.mu
	done    chan struct{}
	index   *Index // these two: once done is closed
	err     error
}

// NewIndexes returns an empty cache of indexes.
func NewIndexes(opts Options) (*Indexes, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Bytes == 0 {
		opts.Bytes = 256 << 20
	}
	if opts.Builds == 0 {
		opts.Builds = 4
	}
	c := &Indexes{
		limit:  opts.Bytes,
		turns:  make(chan struct{}, opts.Builds),
		used:   list.New(),
		kept:   make(map[object.Name][]*kept),
		builds: make(map[identity]*shared),
		cancel: make(map[*shared]context.CancelFunc),
	}
	c.metrics = newMetrics(opts.Registry, c)
	return c, nil
}

var errClosed = &object.Error{Kind: object.Unavailable, Err: errors.New("the indexes of shards are closed")}

// Get returns the index of the tar that is this version of an object. If it is not
// kept, open is called, with a context of the build's own, for a reader of the
// whole object, which is read to its end and closed. Who asks for it meanwhile
// waits for the same build; it ends early only when all of them have gone.
//
// That the object is no tar is remembered like an index and answered as Invalid;
// other failures are not. Asking for a version drops older ones of the same name.
func (c *Indexes) Get(ctx context.Context, name object.Name, version object.Version, open func(context.Context) (io.ReadCloser, error)) (*Index, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id := identity{name, version}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	if k := c.find(id); k != nil {
		c.mu.Unlock()
		c.metrics.hits.Inc()
		return k.index, k.err
	}
	b := c.builds[id]
	if b == nil {
		b = c.start(ctx, id, open)
	}
	b.waiting++
	c.mu.Unlock()
	c.metrics.misses.Inc()

	select {
	case <-b.done:
		return b.index, b.err
	case <-ctx.Done():
		c.leave(id, b)
		return nil, ctx.Err()
	}
}

// find returns what is kept of this version, and drops older ones.
func (c *Indexes) find(id identity) *kept {
	var found *kept
	for i := len(c.kept[id.name]) - 1; i >= 0; i-- {
		k := c.kept[id.name][i]
		switch {
		case k.version == id.version:
			found = k
			c.used.MoveToFront(k.place)
		case id.version.After(k.version):
			c.drop(k)
		}
	}
	return found
}

func (c *Indexes) start(ctx context.Context, id identity, open func(context.Context) (io.ReadCloser, error)) *shared {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &shared{done: make(chan struct{})}
	c.builds[id] = b
	c.cancel[b] = cancel
	c.group.Go(func() {
		defer cancel()
		b.index, b.err = c.build(ctx, open)
		c.finish(id, b)
		close(b.done)
	})
	return b
}

func (c *Indexes) build(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (*Index, error) {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r, err := open(ctx)
	if err != nil {
		return nil, err
	}
	c.metrics.builds.Inc()
	defer r.Close() // it was read to its end: there is nothing left to go wrong
	return build(ctx, r, min(c.limit, maxIndex))
}

func (c *Indexes) finish(id identity, b *shared) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cancel, b)
	if c.builds[id] == b {
		delete(c.builds, id)
	}
	switch {
	case c.closed:
		b.index, b.err = nil, errClosed
	case b.err == nil:
		c.keep(&kept{identity: id, index: b.index, bytes: b.index.Bytes()})
	case errors.Is(b.err, errUnreadable):
		c.keep(&kept{identity: id, err: b.err, bytes: int64(len(b.err.Error()))})
	}
}

// overhead is about what the maps and lists take for one index.
const overhead = 256

func (c *Indexes) keep(k *kept) {
	for _, other := range c.kept[k.name] {
		if other.version == k.version { // of a build that was given up, and finished nevertheless
			return
		}
	}
	k.bytes += overhead + int64(len(k.name.Bucket)+len(k.name.Key))
	k.place = c.used.PushFront(k)
	c.kept[k.name] = append(c.kept[k.name], k)
	c.bytes += k.bytes
	for c.bytes > c.limit && c.used.Len() > 1 { // one alone is hardly over it: build has the same limit
		c.drop(c.used.Back().Value.(*kept))
	}
}

func (c *Indexes) drop(k *kept) {
	c.used.Remove(k.place)
	c.bytes -= k.bytes
	var rest []*kept
	for _, other := range c.kept[k.name] {
		if other != k {
			rest = append(rest, other)
		}
	}
	if c.kept[k.name] = rest; rest == nil {
		delete(c.kept, k.name)
	}
}

// leave is called by who waits no longer. The last one ends the build, and nobody
// joins it any more.
func (c *Indexes) leave(id identity, b *shared) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.waiting--; b.waiting > 0 {
		return
	}
	if cancel := c.cancel[b]; cancel != nil {
		cancel()
	}
	if c.builds[id] == b {
		delete(c.builds, id)
	}
}

// Close ends the builds that are going on, forgets all indexes and returns when
// nothing is running any more. Who waits, or asks later, gets Unavailable.
func (c *Indexes) Close() error {
	c.mu.Lock()
	c.closed = true
	for _, cancel := range c.cancel {
		cancel()
	}
	c.used.Init()
	clear(c.kept)
	c.bytes = 0
	c.mu.Unlock()
	c.group.Wait()
	return nil
}
