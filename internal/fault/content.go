package fault

import (
	"io"
	"maps"
)

const (
	sectorSize = 512 // what a drive writes whole or not at all
	pageSize   = 4096
)

type block [pageSize]byte

// page is one page of a file in its three states. A nil block is all zeros. Only
// data of a dirty page is ever changed in place; all other blocks are shared.
type page struct {
	data   *block // what reads see
	base   *block // data at the last Sync: what the unsynced writes were made on
	synced *block // what the drive holds; other than base only after a failed Sync
	dirty  bool
}

// content is what a file holds: what reads see, what is durable, and the changes
// between the two. Pages never written are absent, whatever the size.
type content struct {
	pages          map[int64]*page
	dirty          []int64
	size           int64
	reserved       int64 // pages from the start that were preallocated
	syncedSize     int64
	syncedReserved int64
	charged        int64 // pages that count as used: reserved or holding data
	changes        []change
}

// change is a write, truncate or allocate since the last Sync.
type change struct {
	offset   int64
	data     []byte // nil: no write
	before   int64  // size before it
	size     int64  // size after it
	reserved int64  // after it
}

func newContent() *content { return &content{pages: map[int64]*page{}} }

func pagesFor(size int64) int64 { return (size + pageSize - 1) / pageSize }

func (b *block) clone() *block {
	if b == nil {
		return new(block)
	}
	c := *b
	return &c
}

func (c *content) readAt(p []byte, offset int64) (int, error) {
	if offset >= c.size {
		return 0, io.EOF
	}
	var err error
	if left := c.size - offset; int64(len(p)) > left {
		p, err = p[:left], io.EOF
	}
	for n := 0; n < len(p); {
		index, start := (offset+int64(n))/pageSize, (offset+int64(n))%pageSize
		piece := p[n:min(len(p), n+int(pageSize-start))]
		if pg := c.pages[index]; pg != nil && pg.data != nil {
			copy(piece, pg.data[start:])
		} else {
			clear(piece)
		}
		n += len(piece)
	}
	return len(p), err
}

// touch returns a page whose data may be changed.
func (c *content) touch(index int64) *page {
	pg := c.pages[index]
	if pg == nil {
		pg = &page{}
		c.pages[index] = pg
	}
	if !pg.dirty {
		pg.dirty = true
		pg.base = pg.data
		pg.data = pg.data.clone()
		c.dirty = append(c.dirty, index)
	} else if pg.data == nil {
		pg.data = new(block)
	}
	return pg
}

// room returns how many bytes of a write fit when so many pages are free.
func (c *content) room(offset, length, free int64) int64 {
	for index := max(c.reserved, offset/pageSize); index < pagesFor(offset+length); index++ {
		if c.holds(index) {
			continue
		}
		if free--; free < 0 {
			return max(0, index*pageSize-offset)
		}
	}
	return length
}

// reserveCost is the number of pages that preallocation up to size needs.
func (c *content) reserveCost(size int64) int64 {
	cost := max(0, pagesFor(size)-c.reserved)
	for index := range c.pages {
		if index >= c.reserved && index < pagesFor(size) && c.holds(index) {
			cost--
		}
	}
	return cost
}

func (c *content) holds(index int64) bool {
	pg := c.pages[index]
	return pg != nil && pg.data != nil
}

func (c *content) write(p []byte, offset int64) {
	for n := 0; n < len(p); {
		index, start := (offset+int64(n))/pageSize, (offset+int64(n))%pageSize
		if index >= c.reserved && !c.holds(index) {
			c.charged++
		}
		n += copy(c.touch(index).data[start:], p[n:])
	}
	before := c.size
	c.size = max(c.size, offset+int64(len(p)))
	c.changes = append(c.changes, change{offset, append([]byte{}, p...), before, c.size, c.reserved})
}

// truncate returns the change in charged pages.
func (c *content) truncate(size int64) int64 {
	before, charged := c.size, c.charged
	if size < before {
		for index := range c.pages {
			if index >= pagesFor(size) && c.holds(index) {
				c.touch(index).data = nil
			}
		}
		if rest := size % pageSize; rest > 0 && c.holds(size/pageSize) {
			clear(c.touch(size / pageSize).data[rest:])
		}
		c.reserved = min(c.reserved, pagesFor(size))
		c.charged = c.count()
	}
	c.size = size
	c.changes = append(c.changes, change{before: before, size: size, reserved: c.reserved})
	return c.charged - charged
}

// count returns the number of pages that are reserved or hold data.
func (c *content) count() int64 {
	n := c.reserved
	for index, pg := range c.pages {
		if index >= c.reserved && pg.data != nil {
			n++
		}
	}
	return n
}

// reserve preallocates up to size. The caller has seen that there is room.
func (c *content) reserve(size int64) {
	before := c.size
	c.size = max(c.size, size)
	c.reserved = max(c.reserved, pagesFor(size))
	c.charged = c.count()
	c.changes = append(c.changes, change{before: before, size: c.size, reserved: c.reserved})
}

// sync makes everything durable, except for pages that a failed Sync lost and
// nobody wrote again.
func (c *content) sync() {
	for _, index := range c.dirty {
		pg := c.pages[index]
		pg.dirty, pg.base, pg.synced = false, nil, pg.data
		if pg.data == nil {
			delete(c.pages, index)
		}
	}
	c.dirty, c.changes = nil, nil
	c.syncedSize, c.syncedReserved = c.size, c.reserved
}

// lose makes what is given durable in place of what was written since the last
// Sync, though reads still see the latter.
func (c *content) lose(left *content) {
	for index, pg := range c.pages {
		pg.dirty, pg.base, pg.synced = false, nil, nil
		if survivor := left.pages[index]; survivor != nil {
			pg.synced = survivor.data
		}
	}
	maps.DeleteFunc(c.pages, func(_ int64, pg *page) bool { return pg.data == nil && pg.synced == nil })
	c.dirty, c.changes = nil, nil
	c.syncedSize, c.syncedReserved = left.size, left.reserved
}
