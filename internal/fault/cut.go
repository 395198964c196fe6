package fault

import "math/rand/v2"

// outcome is what becomes of one unsynced change in a power cut.
type outcome uint8

const (
	kept outcome = iota
	lost
	torn
)

// fate decides about a sequence of unsynced changes. Besides mixing freely it
// often takes the plain cases, which random choices would hardly ever give: all
// are there, none is, the first few are.
type fate struct {
	random *rand.Rand
	mixed  bool
	cut    int // unless mixed: the first change that is not kept whole
}

func newFate(random *rand.Rand, changes int) fate {
	switch random.IntN(5) {
	case 0:
		return fate{random: random, cut: changes}
	case 1:
		return fate{random: random, cut: -1}
	case 2:
		return fate{random: random, cut: random.IntN(changes + 1)}
	}
	return fate{random: random, mixed: true}
}

func (f fate) of(i int) outcome {
	switch {
	case f.mixed:
		return outcome(f.random.IntN(3))
	case i < f.cut:
		return kept
	case i == f.cut:
		return torn
	}
	return lost
}

// afterCut returns what a power cut leaves of c. The content is what was synced,
// with the sectors of writes that reached the drive, each as it was in the page
// cache when it did: with all earlier writes to the same sector. The length is one
// the file had; a file that was cut shows nothing of what was behind.
func (c *content) afterCut(random *rand.Rand) *content {
	after := &content{pages: make(map[int64]*page, len(c.pages))}
	for index, pg := range c.pages {
		if pg.synced != nil {
			after.pages[index] = &page{data: pg.synced, synced: pg.synced}
		}
	}
	after.size, after.reserved = c.syncedSize, c.syncedReserved
	if len(c.changes) > 0 {
		replay := replay{from: c, to: after, cache: map[int64]*block{}, cut: -1}
		replay.run(random)
	}
	after.syncedSize, after.syncedReserved = after.size, after.reserved
	after.charged = after.count()
	return after
}

// replay repeats the unsynced changes of a file in the page cache and lets some
// of them reach the drive.
type replay struct {
	from, to *content
	cache    map[int64]*block // the pages changed so far
	private  map[int64]bool   // pages of to that may be changed in place
	cut      int64            // sectors from here were behind the end of a truncation that was lost; -1: none
}

func (r *replay) run(random *rand.Rand) {
	changes := r.from.changes
	fate := newFate(random, len(changes))
	lengths := fate.lengths(len(changes))
	if lengths > 0 {
		r.to.size, r.to.reserved = changes[lengths-1].size, changes[lengths-1].reserved
	}
	r.private = map[int64]bool{}
	for i, ch := range changes {
		switch {
		case ch.data != nil:
			r.write(ch, fate.of(i), random)
		case ch.size < ch.before:
			r.shrink(ch, i < lengths)
		}
	}
	if lengths > 0 && fate.tears(len(changes)) {
		r.tearLength(changes[lengths-1], random)
	}
	r.trim()
}

// lengths returns how many of the changes of length are kept.
func (f fate) lengths(changes int) int {
	if f.mixed {
		return f.random.IntN(changes + 1)
	}
	return min(max(0, f.cut+f.random.IntN(2)), changes)
}

// tears reports whether a kept change of length is to be kept in part only.
func (f fate) tears(changes int) bool {
	return (f.mixed || f.cut < changes) && f.random.IntN(4) == 0
}

// tearLength lets the length end inside the last write that lengthened the file,
// as when only its first pages were written back.
func (r *replay) tearLength(ch change, random *rand.Rand) {
	first, last := ch.before/sectorSize+1, (ch.size-1)/sectorSize
	if ch.data != nil && ch.size > ch.before && last >= first {
		r.to.size = (first + random.Int64N(last-first+1)) * sectorSize
	}
}

func (r *replay) cached(index int64) *block {
	b := r.cache[index]
	if b == nil {
		if pg := r.from.pages[index]; pg == nil {
			b = new(block)
		} else if pg.dirty {
			b = pg.base.clone()
		} else {
			b = pg.data.clone()
		}
		r.cache[index] = b
	}
	return b
}

func (r *replay) write(ch change, fate outcome, random *rand.Rand) {
	for n := 0; n < len(ch.data); {
		at := ch.offset + int64(n)
		n += copy(r.cached(at / pageSize)[at%pageSize:], ch.data[n:])
	}
	if fate == lost {
		return
	}
	last := (ch.offset + int64(len(ch.data)) - 1) / sectorSize
	for sector := ch.offset / sectorSize; sector <= last; sector++ {
		if r.cut >= 0 && sector >= r.cut {
			return
		}
		if fate == kept || random.IntN(2) == 0 {
			r.flush(sector)
		}
	}
}

// flush writes a sector of the page cache to the drive.
func (r *replay) flush(sector int64) {
	index, start := sector*sectorSize/pageSize, sector*sectorSize%pageSize
	copy(r.writable(index)[start:start+sectorSize], r.cached(index)[start:])
}

func (r *replay) writable(index int64) *block {
	pg := r.to.pages[index]
	if pg == nil {
		pg = &page{}
		r.to.pages[index] = pg
	}
	if !r.private[index] {
		r.private[index] = true
		pg.data = pg.data.clone()
		pg.synced = pg.data
	}
	return pg.data
}

// shrink repeats a truncation. If it was kept nothing behind the new end was; if
// it was lost nothing that was written there later can have been kept.
func (r *replay) shrink(ch change, kept bool) {
	for index := range r.from.pages {
		if index >= ch.size/pageSize {
			clear(r.cached(index)[max(0, ch.size-index*pageSize):])
		}
	}
	if !kept {
		if sector := ch.size / sectorSize; r.cut < 0 || sector < r.cut {
			r.cut = sector
		}
		return
	}
	r.clearFrom(ch.size)
	if r.to.size > ch.size && ch.size%sectorSize > 0 {
		r.flush(ch.size / sectorSize) // lengthened again: the zeros came with the rest of the sector
	}
}

// clearFrom zeroes the drive's pages from an offset on.
func (r *replay) clearFrom(offset int64) {
	for index, pg := range r.to.pages {
		switch {
		case index >= pagesFor(offset):
			delete(r.to.pages, index)
			delete(r.private, index)
		case index == offset/pageSize && pg.data != nil:
			clear(r.writable(index)[offset%pageSize:])
		}
	}
}

// trim drops what lies behind the end.
func (r *replay) trim() {
	r.clearFrom(r.to.size)
	r.to.reserved = min(r.to.reserved, pagesFor(r.to.size))
}
