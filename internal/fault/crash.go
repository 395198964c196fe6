package fault

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash cuts the power: m is dead, and the answer is the drive as found
// afterwards. All that was synced is there. Of the writes since, each is there, is
// not, or is torn at sectors of 512 bytes, in any order and independent of the
// file's length; where a sector was not written the file shows what it showed
// before, or zeros. Of the names changed since their directory was synced each
// change happened or did not, a rename as a whole.
func (m *Memory) Crash() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := m.image()
	m.dead = true
	return after
}

// Image is Crash without an end for m: the drive as a power cut now would leave
// it. Repeated calls show different outcomes of the same moment.
func (m *Memory) Image() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.image()
}

// KillProcess ends the process but not the machine: m is dead, its locks and files
// are closed, and the answer is the drive with all that was written, because the
// page cache survives. What was not synced still is not: a later Crash may lose it.
func (m *Memory) KillProcess() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := m.successor()
	after.root, after.log = m.root, m.log
	after.recount(after.root)
	m.dead, m.root, m.log = true, newDirectory(nil), nil
	return after
}

// successor returns an empty drive with the limits of m.
func (m *Memory) successor() *Memory {
	after := NewMemory(m.random.Uint64())
	after.capacity, after.maxFiles, after.readOnly = m.capacity, m.maxFiles, m.readOnly
	return after
}

// recount counts what is under n as used, and as closed.
func (m *Memory) recount(n *node) {
	n.handles = 0
	if n.file != nil {
		m.pages += n.file.charged
	}
	for _, child := range n.names {
		m.files++
		m.recount(child)
	}
}

func (m *Memory) image() *Memory {
	after := m.successor()
	after.root = copyTree(m.root, m.namesAfterCut(), m.random)
	after.recount(after.root)
	return after
}

// namesAfterCut decides about each change of a name that is not durable, and
// returns the names of the directories concerned.
func (m *Memory) namesAfterCut() map[*node]map[string]*node {
	names := map[*node]map[string]*node{}
	kept := make(map[*nameChange]bool, len(m.log))
	fate := newFate(m.random, len(m.log))
	for i, c := range m.log {
		if fate.of(i) == lost || !c.possible(kept) {
			continue
		}
		kept[c] = true
		for _, s := range c.slots {
			if names[s.dir] == nil {
				names[s.dir] = maps.Clone(s.dir.synced)
			}
			s.apply(names[s.dir])
		}
	}
	return names
}

// possible reports whether a change can have reached the drive given which earlier
// ones did. A new name in a new directory is not there without the directory: a
// rename into it would lose the file.
func (c *nameChange) possible(kept map[*nameChange]bool) bool {
	for _, before := range c.after {
		if !before.durable && !kept[before] {
			return false
		}
	}
	for _, s := range c.slots {
		if born := s.dir.born; s.to != nil && born != nil && !born.durable && !kept[born] {
			return false
		}
	}
	return true
}

// copyTree copies a directory as the power cut leaves it, in the order of the
// names, so that the seed alone decides.
func copyTree(dir *node, changed map[*node]map[string]*node, random *rand.Rand) *node {
	names, ok := changed[dir]
	if !ok {
		names = dir.synced
	}
	after := newDirectory(nil)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := names[name]
		if child.file != nil {
			child = &node{file: child.file.afterCut(random), linked: true}
		} else {
			child = copyTree(child, changed, random)
		}
		after.names[name] = child
	}
	after.synced = maps.Clone(after.names)
	return after
}
