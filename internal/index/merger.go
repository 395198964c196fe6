package index

import "bytes"

// merger walks over several sources as one. Of entries with the same key it shows
// only that of the newest source, deletes included.
type merger struct {
	all     []mergeItem // newest source first
	heap    []*mergeItem
	last    []byte // the key shown last
	started bool
	failure error
}

type mergeItem struct {
	source source
	live   bool   // the source has an entry
	key    []byte // the entry's
	age    int
}

func newMerger(sources []source) *merger {
	m := &merger{all: make([]mergeItem, len(sources)), heap: make([]*mergeItem, 0, len(sources))}
	for i, s := range sources {
		m.all[i] = mergeItem{source: s, age: i}
	}
	return m
}

// next moves to the next key.
func (m *merger) next() bool {
	if m.failure != nil {
		return false
	}
	if !m.started {
		m.started = true
		return m.place(func(it *mergeItem) bool { return it.source.next() })
	}
	if len(m.heap) == 0 {
		return false
	}
	if len(m.heap) == 1 {
		return m.advance()
	}
	m.last = append(m.last[:0], m.heap[0].key...)
	for {
		if !m.advance() {
			return false
		}
		if !bytes.Equal(m.heap[0].key, m.last) {
			return true
		}
	}
}

// seek moves to the first key that is not before key. Going forward it touches
// only the sources that are behind.
func (m *merger) seek(key []byte) bool {
	forward := m.started && m.failure == nil && len(m.heap) > 0 && bytes.Compare(m.heap[0].key, key) < 0
	if !forward {
		m.started, m.failure = true, nil
		return m.place(func(it *mergeItem) bool { return it.source.seek(key) })
	}
	return m.place(func(it *mergeItem) bool {
		if it.live && bytes.Compare(it.key, key) < 0 {
			return it.source.seek(key)
		}
		return it.live
	})
}

// place moves every source and builds the heap anew.
func (m *merger) place(move func(*mergeItem) bool) bool {
	m.heap = m.heap[:0]
	for i := range m.all {
		it := &m.all[i]
		if it.live = move(it); !it.live {
			if m.failure = it.source.err(); m.failure != nil {
				return false
			}
			continue
		}
		it.key = it.source.key()
		m.heap = append(m.heap, it)
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.sift(i)
	}
	return len(m.heap) > 0
}

// advance moves the first source of the heap and restores the order.
func (m *merger) advance() bool {
	it := m.heap[0]
	if it.live = it.source.next(); it.live {
		it.key = it.source.key()
	} else {
		if m.failure = it.source.err(); m.failure != nil {
			return false
		}
		end := len(m.heap) - 1
		m.heap[0] = m.heap[end]
		m.heap = m.heap[:end]
	}
	m.sift(0)
	return len(m.heap) > 0
}

func (m *merger) sift(i int) {
	for {
		child := 2*i + 1
		if child >= len(m.heap) {
			return
		}
		if child+1 < len(m.heap) && m.heap[child+1].before(m.heap[child]) {
			child++
		}
		if !m.heap[child].before(m.heap[i]) {
			return
		}
		m.heap[i], m.heap[child] = m.heap[child], m.heap[i]
		i = child
	}
}

func (a *mergeItem) before(b *mergeItem) bool {
	c := bytes.Compare(a.key, b.key)
	return c < 0 || c == 0 && a.age < b.age
}

func (m *merger) key() []byte           { return m.heap[0].key }
func (m *merger) value() ([]byte, bool) { return m.heap[0].source.value() }

func (m *merger) close() {
	for i := range m.all {
		m.all[i].source.close()
	}
}
