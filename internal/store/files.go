package store

import (
	"sync"

	"penstock.dev/penstock/internal/pack"
)

// packFiles keeps packs open for reading, up to a number, and lets those that
// were removed be read to the end by whoever has them open.
type packFiles struct {
	drive *drive
	mu    sync.Mutex
	open  map[uint64]*packFile
	tick  uint64
}

type packFile struct {
	*pack.File
	users int
	used  uint64 // tick of the last use
	gone  bool   // close with the last user
}

const maxOpenPacks = 256

// acquire returns an open pack. The caller releases it.
func (p *packFiles) acquire(id uint64) (*packFile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tick++
	if f := p.open[id]; f != nil {
		f.users++
		f.used = p.tick
		return f, nil
	}
	// Opening under the lock: rare, and two openings of one pack are avoided.
	file, err := pack.Open(p.drive.fs, id, p.drive.secret)
	if err != nil {
		return nil, err
	}
	if p.open == nil {
		p.open = make(map[uint64]*packFile)
	}
	if len(p.open) >= maxOpenPacks {
		p.evict()
	}
	f := &packFile{File: file, users: 1, used: p.tick}
	p.open[id] = f
	return f, nil
}

// evict closes the idle pack used longest ago. If none is idle, more are open
// for a while: as many as there are readers.
func (p *packFiles) evict() {
	var oldest uint64
	for id, f := range p.open {
		if f.users == 0 && (oldest == 0 || f.used < p.open[oldest].used) {
			oldest = id
		}
	}
	if oldest != 0 {
		p.open[oldest].Close() //nolint:errcheck // opened for reading
		delete(p.open, oldest)
	}
}

func (p *packFiles) release(f *packFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.users--
	if f.gone && f.users == 0 {
		f.Close() //nolint:errcheck // opened for reading
	}
}

// forget drops a pack that is removed or was replaced.
func (p *packFiles) forget(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.open[id]
	if f == nil {
		return
	}
	delete(p.open, id)
	f.gone = true
	if f.users == 0 {
		f.Close() //nolint:errcheck // opened for reading
	}
}

func (p *packFiles) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, f := range p.open {
		f.gone = true
		if f.users == 0 {
			f.Close() //nolint:errcheck // opened for reading
		}
		delete(p.open, id)
	}
}
