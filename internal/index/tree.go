package index

import (
	"bytes"
	"math"
	"slices"
	"sync/atomic"
)

// tree keeps the nodes of a memtable in order, roughly: a leaf holds the nodes of a
// range of keys in the order they came, and whoever walks over them sorts a copy.
// So an insert costs a search among the leaves, whose fences stay in the
// processor's cache, and the store of one word. A skip list, with its chain of
// misses, took more than twice as long for keys in random order (the figures are in
// docs/internals/index.md).
//
// The levels above the leaves are never changed but replaced when what hangs below
// splits. A leaf that was split is not touched again, so who still reads it sees
// all it had.
type tree struct {
	root atomic.Pointer[root]

	// The writer's last leaf, where it hangs and its range, so that keys that come
	// in order need no search.
	last     *leaf
	lastAt   position
	lastLow  []byte
	lastHigh []byte // nil: no bound
}

const (
	leafSize   = 64
	branchSize = 64
)

// leaf is up to leafSize nodes in the order they came. In the upper half of a
// node's word is the lead of its key, which nearly always decides the order without
// a look at the key.
type leaf struct {
	prefix []byte // what the keys had in common when the leaf was made
	count  atomic.Uint32
	nodes  [leafSize]atomic.Uint64
}

// branch is a list of leaves. The keys of the i-th are from fence i up to the next.
type branch struct {
	fences fences
	leaves []*leaf
}

// root is the list of branches, with the first fence of each.
type root struct {
	fences   fences
	branches []atomic.Pointer[branch]
}

type position struct{ branch, leaf int }

func (t *tree) init() {
	b := &branch{fences: newFences([][]byte{{}}), leaves: []*leaf{new(leaf)}}
	t.root.Store(newRoot([]*branch{b}))
}

// locate returns the leaf of a key, where it hangs and what its range is; a nil
// high is no bound.
func (r *root) locate(key []byte) (l *leaf, at position, low, high []byte) {
	at.branch = r.fences.find(key)
	b := r.branches[at.branch].Load()
	at.leaf = b.fences.find(key)
	switch {
	case at.leaf+1 < len(b.leaves):
		high = b.fences.keys[at.leaf+1]
	case at.branch+1 < len(r.branches):
		high = r.fences.keys[at.branch+1]
	}
	return b.leaves[at.leaf], at, b.fences.keys[at.leaf], high
}

// insert adds a node, whose key is new.
func (t *tree) insert(m *memtable, node uint32, key []byte) {
	if t.last == nil || bytes.Compare(key, t.lastLow) < 0 || t.lastHigh != nil && bytes.Compare(key, t.lastHigh) >= 0 {
		t.last, t.lastAt, t.lastLow, t.lastHigh = t.root.Load().locate(key)
	}
	if t.last.count.Load() == leafSize {
		m.taken += t.split(m, m.key(node))
		t.last, t.lastAt, t.lastLow, t.lastHigh = t.root.Load().locate(key)
	}
	t.last.add(node, key)
}

// add appends a node, for which there is room.
func (l *leaf) add(node uint32, key []byte) {
	n := l.count.Load()
	l.nodes[n].Store(l.word(node, key))
	l.count.Store(n + 1)
}

// word returns a node with the lead of its key: the four bytes that follow the
// prefix. A key without the prefix gets the lowest or the highest lead, and never a
// wrong place: keys with equal leads are compared in full.
func (l *leaf) word(node uint32, key []byte) uint64 {
	word := uint64(math.MaxUint64)
	switch {
	case bytes.HasPrefix(key, l.prefix):
		word = lead(key[len(l.prefix):])
	case bytes.Compare(key, l.prefix) < 0:
		word = 0
	}
	return word>>32<<32 | uint64(node)
}

// split replaces the writer's last leaf by two and returns how many bytes the tree
// has grown by. If key, which is to come, is after all of the leaf, the first keeps
// everything: keys that come in order leave full leaves behind.
func (t *tree) split(m *memtable, key []byte) int64 {
	var room [leafSize]uint64
	words := t.last.sorted(m, room[:0])
	half := len(words) / 2
	fence := m.key(uint32(words[half]))
	var left, right *leaf
	if last := m.key(uint32(words[len(words)-1])); bytes.Compare(last, key) < 0 {
		fence = key
		left = t.last.part(m, words)
		right = &leaf{prefix: key[:max(0, commonPrefix(last, key)-1)]} // a guess: it will share about as much with the next
	} else {
		left, right = t.last.part(m, words[:half]), t.last.part(m, words[half:])
	}
	at := t.lastAt
	old := t.root.Load().branches[at.branch].Load()
	b := &branch{
		fences: old.fences.insert(at.leaf+1, fence),
		leaves: slices.Insert(slices.Clip(old.leaves), at.leaf+1, right),
	}
	b.leaves[at.leaf] = left
	t.replace(at, b)
	return int64(8*leafSize + 64) // one leaf more, and its line in the branch
}

// part returns a leaf with some of the nodes of this one, sorted.
func (l *leaf) part(m *memtable, words []uint64) *leaf {
	p := &leaf{prefix: l.prefix}
	first, last := m.key(uint32(words[0])), m.key(uint32(words[len(words)-1]))
	common := commonPrefix(first, last)
	// A longer prefix makes better leads, but they cost a look at each key.
	better := common > len(l.prefix)+1 || common < len(l.prefix)
	if better {
		p.prefix = first[:common]
	}
	for i, w := range words {
		if better {
			w = p.word(uint32(w), m.key(uint32(w)))
		}
		p.nodes[i].Store(w)
	}
	p.count.Store(uint32(len(words)))
	return p
}

// replace puts a branch in the place of another, or two if it is too large.
func (t *tree) replace(at position, b *branch) {
	r := t.root.Load()
	n := len(b.leaves)
	if n <= branchSize {
		r.branches[at.branch].Store(b)
		return
	}
	cut := n / 2
	if at.leaf+2 == n { // in order again
		cut = n - 1
	}
	var branches []*branch
	for i := range r.branches {
		if i != at.branch {
			branches = append(branches, r.branches[i].Load())
			continue
		}
		branches = append(branches,
			&branch{fences: newFences(slices.Clip(b.fences.keys[:cut])), leaves: slices.Clip(b.leaves[:cut])},
			&branch{fences: newFences(b.fences.keys[cut:]), leaves: b.leaves[cut:]})
	}
	t.root.Store(newRoot(branches))
}

func newRoot(branches []*branch) *root {
	r := &root{branches: make([]atomic.Pointer[branch], len(branches))}
	keys := make([][]byte, len(branches))
	for i, b := range branches {
		keys[i] = b.fences.keys[0]
		r.branches[i].Store(b)
	}
	r.fences = newFences(keys)
	return r
}

// sorted appends the words of a leaf in the order of their keys to words[:0].
func (l *leaf) sorted(m *memtable, words []uint64) []uint64 {
	words = words[:0]
	for i := range l.count.Load() {
		words = append(words, l.nodes[i].Load())
	}
	slices.Sort(words)
	for i := 0; i < len(words); {
		same := i + 1
		for same < len(words) && words[same]>>32 == words[i]>>32 {
			same++
		}
		if same > i+1 {
			slices.SortFunc(words[i:same], func(a, b uint64) int {
				return bytes.Compare(m.key(uint32(a)), m.key(uint32(b)))
			})
		}
		i = same
	}
	return words
}
