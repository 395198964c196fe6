package index

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"path"

	"penstock.dev/penstock/internal/disk"
)

// run is one immutable sorted file. Its filter and block index are in memory, its
// blocks are read with pread and checked each time: a failing drive gives an
// error, where a mapping would kill the process.
type run struct {
	number uint64
	name   string // for errors
	size   int64
	crc    uint32 // of the footer
	footer footer
	filter filter
	index  blockIndex
	file   disk.File

	refs     int  // how many views hold it; guarded by Index.mu
	obsolete bool // a durable checkpoint no longer names it; guarded by Index.mu
}

// runRef is what the checkpoint remembers of a run.
type runRef struct {
	number  uint64
	size    int64
	entries uint64
	crc     uint32
}

func (r *run) ref() runRef {
	return runRef{number: r.number, size: r.size, entries: r.footer.entries, crc: r.crc}
}

// openRun opens the run that ref means, and nothing else: anything missing,
// shortened, swapped or changed in header, filter, index or footer is ErrDamaged.
// The blocks are checked when they are read.
func openRun(fsys disk.FS, dir string, ref runRef) (*run, error) {
	r := &run{number: ref.number, name: runName(ref.number), size: ref.size, crc: ref.crc}
	file, err := fsys.Open(path.Join(dir, r.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damagedf(r.name, 0, "the file is missing")
	}
	if err != nil {
		return nil, diskError("opening", r.name, err)
	}
	r.file = file
	if err := r.load(ref); err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

func (r *run) load(ref runRef) error {
	size, err := r.file.Size()
	if err != nil {
		return diskError("opening", r.name, err)
	}
	if size != ref.size || size < headerSize+footerSize {
		return damagedf(r.name, 0, "the file has %d bytes, not %d", size, ref.size)
	}
	tail, err := r.read(size-footerSize, footerSize, nil)
	if err != nil {
		return err
	}
	f, crc, wrong := parseFooter(tail, size)
	switch {
	case wrong != "":
		return damagedf(r.name, size-footerSize, "%s", wrong)
	case crc != ref.crc || f.entries != ref.entries:
		return damagedf(r.name, size-footerSize, "this is another run than the checkpoint names")
	}
	r.footer = f
	return r.loadTables()
}

// loadTables reads header, filter and block index.
func (r *run) loadTables() error {
	f := &r.footer
	header, err := r.read(0, headerSize, nil)
	if err != nil {
		return err
	}
	if wrong := checkHeader(header, runMagic); wrong != "" {
		return damagedf(r.name, 0, "%s", wrong)
	}
	bits, err := r.read(int64(f.filterAt), int(f.indexAt-f.filterAt), nil)
	if err != nil {
		return err
	}
	if crc32.ChecksumIEEE(bits) != f.filterCRC {
		return damagedf(r.name, int64(f.filterAt), "the filter does not verify")
	}
	lines, err := r.read(int64(f.indexAt), int(uint64(r.size)-footerSize-f.indexAt), nil)
	if err != nil {
		return err
	}
	if crc32.ChecksumIEEE(lines) != f.indexCRC {
		return damagedf(r.name, int64(f.indexAt), "the block index does not verify")
	}
	index, ok := parseBlockIndex(lines, int(f.blocks), headerSize, int64(f.filterAt))
	if !ok {
		return damagedf(r.name, int64(f.indexAt), "the block index makes no sense")
	}
	r.filter, r.index = bits, index
	return nil
}

// read reads n bytes, into buf if they fit.
func (r *run) read(offset int64, n int, buf []byte) ([]byte, error) {
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if got, err := r.file.ReadAt(buf, offset); err != nil && (got < n || err != io.EOF) {
		return nil, diskError("reading", r.name, err)
	}
	return buf, nil
}

// block reads a block, into buf if it fits, and checks it.
func (r *run) block(i int, buf []byte) ([]byte, error) {
	offset, length := r.index.extent(i)
	data, err := r.read(offset, int(length), buf)
	if err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(data) != r.index.blocks[i].crc {
		return nil, damagedf(r.name, offset, "the block does not verify")
	}
	return data, nil
}

// get looks up a key that the filter let pass. The value is appended to value[:0];
// scratch is room for a block.
func (r *run) get(key, value []byte, scratch *buffer) (_ []byte, found, deleted bool, err error) {
	i := r.index.find(key)
	if i < 0 {
		return nil, false, false, nil
	}
	data, err := r.block(i, scratch.bytes)
	if err != nil {
		return nil, false, false, err
	}
	scratch.bytes = data
	b, err := parseBlock(data)
	if err != nil {
		return nil, false, false, r.senseless(i, err)
	}
	e, found, err := b.get(key)
	switch {
	case err != nil:
		return nil, false, false, r.senseless(i, err)
	case !found || e.deleted:
		return nil, found, found, nil
	}
	return append(value[:0], b.entries[e.value:e.end]...), true, false, nil
}

// senseless says that a block verifies and still cannot be read.
func (r *run) senseless(i int, err error) error {
	offset, _ := r.index.extent(i)
	return damagedf(r.name, offset, "%v", err)
}
