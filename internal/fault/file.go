package fault

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// handle is an open file of a Memory.
type handle struct {
	m        *Memory
	node     *node
	name     string
	writable bool
	closed   bool
}

func (m *Memory) handle(n *node, name string, writable bool) *handle {
	n.handles++
	return &handle{m: m, node: n, name: name, writable: writable}
}

// enter is Memory.enter for a file.
func (h *handle) enter(op string, changes bool) error {
	if err := h.m.enter(op, h.name, changes); err != nil {
		return err
	}
	var err error
	switch {
	case h.closed:
		err = fs.ErrClosed
	case changes && !h.writable && op == "truncate":
		err = unix.EINVAL // Linux says so
	case changes && !h.writable:
		err = unix.EBADF
	default:
		return nil
	}
	h.m.mu.Unlock()
	return h.error(op, err)
}

func (h *handle) error(op string, err error) error {
	return &fs.PathError{Op: op, Path: h.name, Err: err}
}

func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	if err := h.enter("read", false); err != nil {
		return 0, err
	}
	defer h.m.mu.Unlock()
	if offset < 0 {
		return 0, h.error("read", unix.EINVAL)
	}
	return h.node.file.readAt(p, offset)
}

// WriteAt writes what there is room for, to the page, and then fails.
func (h *handle) WriteAt(p []byte, offset int64) (int, error) {
	if err := h.enter("write", true); err != nil {
		return 0, err
	}
	defer h.m.mu.Unlock()
	if offset < 0 {
		return 0, h.error("write", unix.EINVAL)
	}
	var err error
	file := h.node.file
	if room := file.room(offset, int64(len(p)), h.m.freePages()); room < int64(len(p)) {
		p, err = p[:room], h.error("write", unix.ENOSPC)
	}
	if len(p) > 0 {
		charged := file.charged
		file.write(p, offset)
		h.m.pages += file.charged - charged
	}
	return len(p), err
}

func (h *handle) Truncate(size int64) error {
	if err := h.enter("truncate", true); err != nil {
		return err
	}
	defer h.m.mu.Unlock()
	if size < 0 {
		return h.error("truncate", unix.EINVAL)
	}
	h.m.pages += h.node.file.truncate(size)
	return nil
}

func (h *handle) Allocate(size int64) error {
	if err := h.enter("allocate", true); err != nil {
		return err
	}
	defer h.m.mu.Unlock()
	file := h.node.file
	switch {
	case size <= 0:
		return h.error("allocate", unix.EINVAL)
	case file.reserveCost(size) > h.m.freePages():
		return h.error("allocate", unix.ENOSPC)
	}
	charged := file.charged
	file.reserve(size)
	h.m.pages += file.charged - charged
	return nil
}

func (h *handle) Sync() error {
	if err := h.enter("sync", false); err != nil {
		return err
	}
	defer h.m.mu.Unlock()
	if h.m.readOnly && len(h.node.file.changes) > 0 {
		return h.error("sync", unix.EROFS)
	}
	h.node.file.sync()
	return nil
}

// failSync leaves the file as a Sync that failed does.
func (h *handle) failSync() {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if !h.m.dead && !h.closed {
		h.node.file.lose(h.node.file.afterCut(h.m.random))
	}
}

func (h *handle) Size() (int64, error) {
	if err := h.enter("size", false); err != nil {
		return 0, err
	}
	defer h.m.mu.Unlock()
	return h.node.file.size, nil
}

func (h *handle) Close() error {
	if err := h.enter("close", false); err != nil {
		return err
	}
	defer h.m.mu.Unlock()
	h.closed = true
	h.node.handles--
	h.m.release(h.node)
	return nil
}
