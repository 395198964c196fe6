package store

import "sync"

// checked remembers which blocks of which blobs have been verified since the
// start. Bounded: forgetting one costs a verification.
type checked struct {
	mu    sync.Mutex
	blobs map[uint64]*blobCheck
}

type blobCheck struct {
	all  bool
	bits []uint64
	left int64
}

const maxChecked = 1 << 16

func (c *checked) room() {
	for id := range c.blobs {
		if len(c.blobs) < maxChecked {
			return
		}
		delete(c.blobs, id)
	}
}

func (c *checked) whole(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room()
	c.blobs[id] = &blobCheck{all: true}
}

func (c *checked) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.blobs, id)
}

// mark notes that blocks first to last (exclusive) of total are right.
func (c *checked) mark(id uint64, first, last, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.blobs[id]
	if b == nil {
		c.room()
		b = &blobCheck{bits: make([]uint64, (total+63)/64), left: total}
		c.blobs[id] = b
	}
	for i := first; i < last && !b.all; i++ {
		if bit := uint64(1) << (i % 64); b.bits[i/64]&bit == 0 {
			b.bits[i/64] |= bit
			b.left--
		}
	}
	if b.left == 0 {
		b.all, b.bits = true, nil
	}
}

func (c *checked) covers(id uint64, first, last int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.blobs[id]
	if b == nil {
		return false
	}
	for i := first; i < last && !b.all; i++ {
		if b.bits[i/64]&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}
