package pack

import (
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// Resume goes on writing a pack that was found at start, at its end; whatever
// was behind it is cut off. The end is where a record of the pack ends, its head
// at least.
func Resume(fsys disk.FS, o Options, end int64) (*Writer, error) {
	w := newWriter(fsys, o)
	var err error
	if w.file, err = fsys.OpenWrite(w.name); err != nil {
		return nil, w.fail(err)
	}
	w.end, w.synced, w.allocated = end, end, end
	w.contents.partial = true
	if err := w.cut(); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// cut makes the file end where the log does, durably.
func (w *Writer) cut() error {
	size, err := w.file.Size()
	if err != nil {
		return w.fail(err)
	}
	if w.end < 2*Block || w.end%Block != 0 || w.end > size {
		return object.Errorf(object.Invalid, "pack %016x of %d bytes cannot go on at %d", w.opts.ID, size, w.end)
	}
	if err := w.file.Truncate(w.end); err != nil {
		return w.fail(err)
	}
	if err := w.file.Sync(); err != nil {
		return w.fail(err)
	}
	return nil
}

// Cut makes a pack that was given up end at end, durably: what stood behind is
// certainly gone.
func Cut(fsys disk.FS, id uint64, end int64) error {
	w, err := Resume(fsys, Options{ID: id}, end)
	if err != nil {
		return err
	}
	return w.file.Close()
}

// SyncFile makes everything durable that a pack holds, whoever wrote it.
func SyncFile(fsys disk.FS, id uint64) error {
	w := newWriter(fsys, Options{ID: id})
	file, err := fsys.OpenWrite(w.name)
	if err != nil {
		return w.fail(err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return w.fail(err)
	}
	return nil
}
