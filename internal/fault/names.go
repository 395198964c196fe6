package fault

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// node is a file or a directory.
type node struct {
	file    *content // nil: a directory
	handles int      // open ones
	linked  bool     // there is a name for it

	// Of a directory:
	names  map[string]*node       // as they are now
	synced map[string]*node       // as of the last SyncDir
	last   map[string]*nameChange // the newest change of each name that is not durable
	born   *nameChange            // its mkdir, unless that was durable from the start
}

func newDirectory(born *nameChange) *node {
	return &node{
		linked: true, born: born,
		names: map[string]*node{}, synced: map[string]*node{}, last: map[string]*nameChange{},
	}
}

// nameChange is one create, rename, remove or mkdir: it changes one name or two,
// together or not at all.
type nameChange struct {
	slots   []slot
	after   []*nameChange // what must be durable before it: earlier changes of the same names
	durable bool
}

type slot struct {
	dir  *node
	name string
	to   *node // nil: no such name
}

// split returns the elements of a name; none for the root.
func split(name string) ([]string, error) {
	name = path.Clean(name)
	switch {
	case name == ".":
		return nil, nil
	case path.IsAbs(name), name == "..", strings.HasPrefix(name, "../"):
		return nil, unix.EINVAL
	}
	return strings.Split(name, "/"), nil
}

// find returns the directory that holds name, the last element of name, and what
// it names: nil if there is no such file.
func (m *Memory) find(name string) (*node, string, *node, error) {
	elements, err := split(name)
	if err != nil {
		return nil, "", nil, err
	}
	if len(elements) == 0 {
		return nil, "", m.root, nil
	}
	dir := m.root
	for _, element := range elements[:len(elements)-1] {
		next := dir.names[element]
		switch {
		case next == nil:
			return nil, "", nil, unix.ENOENT
		case next.file != nil:
			return nil, "", nil, unix.ENOTDIR
		}
		dir = next
	}
	base := elements[len(elements)-1]
	return dir, base, dir.names[base], nil
}

func (m *Memory) directory(name string) (*node, error) {
	_, _, n, err := m.find(name)
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, unix.ENOENT
	case n.file != nil:
		return nil, unix.ENOTDIR
	}
	return n, nil
}

// change makes a change that is not durable yet.
func (m *Memory) change(c *nameChange) {
	for _, s := range c.slots {
		if before := s.dir.last[s.name]; before != nil {
			c.after = append(c.after, before)
		}
		s.dir.last[s.name] = c
		if s.to == nil {
			delete(s.dir.names, s.name)
		} else {
			s.dir.names[s.name] = s.to
		}
	}
	m.log = append(m.log, c)
}

func (m *Memory) roomForName() error {
	if m.maxFiles > 0 && m.files >= m.maxFiles {
		return unix.ENOSPC
	}
	return nil
}

func (m *Memory) create(name string) (*node, error) {
	dir, base, n, err := m.find(name)
	if err == nil && n != nil {
		err = unix.EEXIST
	}
	if err == nil {
		err = m.roomForName()
	}
	if err != nil {
		return nil, err
	}
	n = &node{file: newContent(), linked: true}
	m.change(&nameChange{slots: []slot{{dir, base, n}}})
	m.files++
	return n, nil
}

func (m *Memory) rename(oldname, newname string) error {
	olddir, oldbase, n, err := m.find(oldname)
	if err != nil {
		return err
	}
	newdir, newbase, target, err := m.find(newname)
	switch {
	case err != nil:
		return err
	case n == nil:
		return unix.ENOENT
	case n.file == nil:
		return errors.New("renaming a directory is not modelled")
	case target != nil && target.file == nil:
		return unix.EISDIR
	case target == n:
		return nil
	}
	m.change(&nameChange{slots: []slot{{olddir, oldbase, nil}, {newdir, newbase, n}}})
	if target != nil {
		target.linked = false
		m.release(target)
	}
	return nil
}

func (m *Memory) remove(name string) error {
	dir, base, n, err := m.find(name)
	switch {
	case err != nil:
		return err
	case n == nil:
		return unix.ENOENT
	case n == m.root:
		return unix.EBUSY
	case n.file == nil && len(n.names) > 0:
		return unix.ENOTEMPTY
	}
	c := &nameChange{slots: []slot{{dir, base, nil}}}
	if n.file == nil {
		// Else what was moved out of it could go down with it.
		for _, earlier := range m.log {
			if earlier.touches(n) {
				c.after = append(c.after, earlier)
			}
		}
	}
	m.change(c)
	n.linked = false
	m.release(n)
	return nil
}

// release gives back the space of a file that has neither name nor handle.
func (m *Memory) release(n *node) {
	if n.linked || n.handles > 0 {
		return
	}
	m.files--
	if n.file != nil {
		m.pages -= n.file.charged
	}
}

func (m *Memory) mkdirAll(name string) error {
	elements, err := split(name)
	if err != nil {
		return err
	}
	dir := m.root
	for _, element := range elements {
		next := dir.names[element]
		switch {
		case next != nil && next.file != nil:
			return unix.ENOTDIR
		case next == nil && m.readOnly:
			return unix.EROFS
		case next == nil:
			if err := m.roomForName(); err != nil {
				return err
			}
			born := &nameChange{}
			next = newDirectory(born)
			born.slots = []slot{{dir, element, next}}
			m.change(born)
			m.files++
		}
		dir = next
	}
	return nil
}

func (c *nameChange) touches(dir *node) bool {
	return slices.ContainsFunc(c.slots, func(s slot) bool { return s.dir == dir })
}

// pending reports whether the directory has names that are not durable.
func (n *node) pending(log []*nameChange) bool {
	return slices.ContainsFunc(log, func(c *nameChange) bool { return c.touches(n) })
}

// syncDir makes the changes of a directory durable, and what must come before.
func (m *Memory) syncDir(dir *node) {
	for _, c := range m.log {
		if c.touches(dir) {
			c.harden()
		}
	}
	m.log = slices.DeleteFunc(m.log, func(c *nameChange) bool {
		if !c.durable {
			return false
		}
		for _, s := range c.slots {
			s.apply(s.dir.synced)
			if s.dir.last[s.name] == c {
				delete(s.dir.last, s.name)
			}
		}
		return true
	})
}

func (c *nameChange) harden() {
	if c.durable {
		return
	}
	c.durable = true
	for _, before := range c.after {
		before.harden()
	}
	c.after = nil
}

func (s slot) apply(names map[string]*node) {
	if s.to == nil {
		delete(names, s.name)
	} else {
		names[s.name] = s.to
	}
}
