package index

import "sync"

// bufferPool lends room for blocks.
type bufferPool struct{ pool sync.Pool }

type buffer struct{ bytes []byte }

const (
	bufferSize = blockTarget + 1<<10 // most blocks fit
	bufferKept = 128 << 10           // larger ones go back to the collector
)

func (p *bufferPool) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{bytes: make([]byte, bufferSize)}
}

func (p *bufferPool) put(b *buffer) {
	if cap(b.bytes) <= bufferKept {
		p.pool.Put(b)
	}
}
