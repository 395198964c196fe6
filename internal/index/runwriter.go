package index

import (
	"hash/crc32"
	"path"

	"penstock.dev/penstock/internal/disk"
)

const (
	writeSize = 256 << 10 // bytes gathered for one write
	syncEvery = 16 << 20  // so that the last sync of a large run is not a long one
)

// runWriter makes a run file from entries given in key order. After an error it
// is good only for abort.
type runWriter struct {
	fs     disk.FS
	dir    string
	name   string
	file   disk.File
	buf    []byte // what is not written yet
	offset int64  // where buf belongs
	synced int64

	builder   blockBuilder
	last      []byte // the last key of the block before
	separator []byte // of the block that is being built
	blockAt   int64  // where it will begin
	lines     []byte // the block index so far
	lastLine  []byte // its last separator
	filter    filter
	footer    footer
}

// createRun begins a run with at most the given number of entries. It reserves
// room for size bytes first, so that a disk without it is found before the work is
// done, not after.
func createRun(fsys disk.FS, dir, name string, entries, size int64) (*runWriter, error) {
	file, err := fsys.Create(path.Join(dir, name))
	if err != nil {
		return nil, diskError("creating", name, err)
	}
	w := &runWriter{fs: fsys, dir: dir, name: name, file: file, filter: newFilter(entries), blockAt: headerSize}
	if err := file.Allocate(size + int64(len(w.filter)) + headerSize + footerSize); err != nil {
		w.abort()
		return nil, diskError("reserving room for", name, err)
	}
	w.buf = appendHeader(make([]byte, 0, writeSize+2*blockTarget), runMagic)
	return w, nil
}

// add appends an entry, whose key is after all before.
func (w *runWriter) add(key, value []byte, deleted bool) error {
	switch {
	case w.builder.count > 0:
	case w.footer.blocks == 0:
		w.separator = append(w.separator[:0], key...)
	default:
		w.separator = separate(w.separator, w.last, key)
	}
	w.builder.add(key, value, deleted)
	w.filter.add(filterHash(key))
	w.footer.entries++
	if deleted {
		w.footer.deletes++
	}
	if len(w.builder.buf) < blockTarget {
		return nil
	}
	return w.endBlock()
}

func (w *runWriter) endBlock() error {
	data := w.builder.finish()
	w.lines = appendBlockIndex(w.lines, w.lastLine, w.separator, len(data), crc32.ChecksumIEEE(data))
	w.lastLine = append(w.lastLine[:0], w.separator...)
	w.last = append(w.last[:0], w.builder.last...)
	w.blockAt += int64(len(data))
	w.footer.blocks++
	w.buf = append(w.buf, data...)
	w.builder.reset()
	if len(w.buf) < writeSize {
		return nil
	}
	return w.flush()
}

func (w *runWriter) flush() error {
	if _, err := w.file.WriteAt(w.buf, w.offset); err != nil {
		return diskError("writing", w.name, err)
	}
	w.offset += int64(len(w.buf))
	w.buf = w.buf[:0]
	if w.offset-w.synced < syncEvery {
		return nil
	}
	w.synced = w.offset
	return diskError("syncing", w.name, w.file.Sync())
}

// finish writes what is left, syncs and closes the file. The caller still has to
// sync the directory.
func (w *runWriter) finish() (runRef, error) {
	if w.builder.count > 0 {
		if err := w.endBlock(); err != nil {
			return runRef{}, err
		}
	}
	w.footer.filterAt = uint64(w.blockAt)
	w.footer.indexAt = w.footer.filterAt + uint64(len(w.filter))
	w.footer.filterCRC = crc32.ChecksumIEEE(w.filter)
	w.footer.indexCRC = crc32.ChecksumIEEE(w.lines)
	w.buf = append(append(w.buf, w.filter...), w.lines...)
	var crc uint32
	w.buf, crc = w.footer.append(w.buf)
	if err := w.flush(); err != nil {
		return runRef{}, err
	}
	if err := w.file.Truncate(w.offset); err != nil { // less than was reserved
		return runRef{}, diskError("trimming", w.name, err)
	}
	if err := w.file.Sync(); err != nil {
		return runRef{}, diskError("syncing", w.name, err)
	}
	err := w.file.Close()
	w.file = nil
	return runRef{size: w.offset, entries: w.footer.entries, crc: crc}, diskError("closing", w.name, err)
}

// abort removes the file. If that fails too, the next Open removes it.
func (w *runWriter) abort() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
	w.fs.Remove(path.Join(w.dir, w.name))
}
