package store

import (
	"context"
	"hash/maphash"
	"sync"

	"penstock.dev/penstock/internal/object"
)

// keyLocks gives each name in use a lock of its own, whichever of its versions is
// meant. Whoever holds it decides what the name's next record is: the check of a
// condition, the version and the place in the log follow each other without anybody
// between.
type keyLocks struct {
	seedOnce sync.Once
	seed     maphash.Seed
	shards   [64]lockShard
}

type keyLock struct {
	turn    chan struct{} // holds one token while free
	waiters int
}

type lockShard struct {
	sync.Mutex
	held map[object.Name]*keyLock
}

func (k *keyLocks) shard(name object.Name) *lockShard {
	k.seedOnce.Do(func() { k.seed = maphash.MakeSeed() })
	return &k.shards[maphash.Comparable(k.seed, name)%uint64(len(k.shards))]
}

// lock waits for the name's lock. The returned function gives it back.
func (k *keyLocks) lock(ctx context.Context, name object.Name) (unlock func(), err error) {
	if err := k.acquire(ctx, name, new(keyLock)); err != nil {
		return nil, err
	}
	return func() { k.release(name) }, nil
}

// acquire waits for the name's lock; fresh becomes that if there is none yet.
func (k *keyLocks) acquire(ctx context.Context, name object.Name, fresh *keyLock) error {
	name.ID = object.Version{}
	shard := k.shard(name)
	shard.Lock()
	if shard.held == nil {
		shard.held = make(map[object.Name]*keyLock)
	}
	l := shard.held[name]
	if l == nil {
		fresh.waiters = 1
		shard.held[name] = fresh
		shard.Unlock()
		return nil
	}
	if l.turn == nil {
		l.turn = make(chan struct{}, 1)
	}
	l.waiters++
	turn := l.turn
	shard.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	shard.Lock()
	defer shard.Unlock()
	l.waiters--
	// The token may have come at the same moment: pass it on.
	select {
	case <-turn:
		k.pass(shard.held, name, l)
	default:
	}
	return ctx.Err()
}

// release gives a lock back that the caller has acquired.
func (k *keyLocks) release(name object.Name) {
	name.ID = object.Version{}
	shard := k.shard(name)
	shard.Lock()
	defer shard.Unlock()
	l := shard.held[name]
	l.waiters--
	k.pass(shard.held, name, l)
}

// pass gives the lock to the next waiter, or forgets it. The shard is locked.
func (k *keyLocks) pass(held map[object.Name]*keyLock, name object.Name, l *keyLock) {
	if l.waiters == 0 {
		delete(held, name)
		return
	}
	l.turn <- struct{}{}
}

// lockTwo locks two names in a fixed order, so that no two callers wait for each
// other.
func (k *keyLocks) lockTwo(ctx context.Context, a, b object.Name) (unlock func(), err error) {
	if a.Bucket == b.Bucket && a.Key == b.Key {
		return k.lock(ctx, a)
	}
	if b.Bucket < a.Bucket || (b.Bucket == a.Bucket && b.Key < a.Key) {
		a, b = b, a
	}
	first, err := k.lock(ctx, a)
	if err != nil {
		return nil, err
	}
	second, err := k.lock(ctx, b)
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}
