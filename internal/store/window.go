package store

import (
	"context"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

const (
	windowItems = 1 << spanItemBits

	// A window is as small as pays its costs, so that its bytes are still in the
	// processor's own cache when they are sent; but as large as keeps drives busy, if
	// the one before had to wait for them.
	warmWindow = 256 << 10
	coldWindow = 2 << 20

	// largeItem is the size from which an item of a blob is not held in memory.
	largeItem = 1 << 20

	// gap is how many bytes between two spans are rather read than skipped.
	gap = 8 << 10

	// waiting is how many reads of a window wait for drives at the same time.
	waiting = 16
)

// window is a part of a batch that is read at once.
type window struct {
	store  *Store
	ctx    context.Context
	always bool

	items  []wanted
	hashes []uint64
	spans  []span
	cold   []run  // what the kernel does not have in memory
	warm   []byte // for the items' bytes, in the order they are yielded
	large  []byte // in its place, for a large window
	free   []byte // what of it is not in use yet
	room   int64  // how much there is in all
	heads  []byte // of the records of a run
	gap    []byte // what lies between spans, which nobody wants
	pieces [][]byte
	windowFiles
}

// wanted is one item on its way.
type wanted struct {
	ref   object.Ref  // with an exact name
	asked *object.Ref // as it was asked for, if that is another one
	place place
	head  int32  // bytes of the record's head that are read as well
	bytes []byte // where its content is read to; when it is done, what was asked for
	crc   uint32
	large object.Reader
	err   error
	done  bool
}

// span is where an item lies: the number of a file of the window, the offset in it,
// and the number of the item, in one word that sorts quickly.
type span uint64

const (
	spanItemBits   = 10
	spanOffsetBits = 44
)

func spanOf(file int, offset int64, item int) (span, bool) {
	ok := file < windowItems && offset < 1<<spanOffsetBits
	return span(file)<<(spanOffsetBits+spanItemBits) | span(offset)<<spanItemBits | span(item), ok
}

func (s span) file() int     { return int(s >> (spanOffsetBits + spanItemBits)) }
func (s span) offset() int64 { return int64(s >> spanItemBits & (1<<spanOffsetBits - 1)) }
func (s span) item() int     { return int(s & (1<<spanItemBits - 1)) }

// run is neighbours that are read in one go.
type run struct {
	file   disk.File
	spans  []span
	length int64
}

func (s *Store) window(ctx context.Context, always bool) *window {
	w, ok := s.windows.Get().(*window)
	if !ok {
		w = &window{
			store: s, warm: make([]byte, warmWindow), heads: make([]byte, maxNeighbours*pack.MatchHead), gap: make([]byte, gap),
			pieces: make([][]byte, 0, disk.MaxPieces), windowFiles: windowFiles{number: make(map[fileKey]int)},
		}
	}
	w.ctx, w.always = ctx, always
	return w
}

func (w *window) close() {
	w.letGo()
	clear(w.items)
	clear(w.cold)
	w.cold = w.cold[:0]
	w.ctx = nil
	w.store.windows.Put(w)
}

// gather looks up references until the window is full and returns how many. If not
// nil, asked are the same ones as they were asked for.
func (w *window) gather(refs, asked []object.Ref) int {
	w.letGo()
	w.items, w.spans = w.items[:0], w.spans[:0]
	w.free, w.room = w.warm, warmWindow
	if len(w.cold) > 0 {
		w.enlarge()
	}
	w.hashes = w.hashes[:0]
	var bytes int64
	for i, ref := range refs[:min(len(refs), windowItems)] {
		if i == len(w.hashes) {
			w.hash(refs[i:min(len(refs), i+64)])
		}
		it := wanted{ref: ref}
		if asked != nil {
			it.asked = &asked[i]
		}
		it.place, it.err = w.store.placeOf(ref.Name, w.hashes[i])
		size := it.size()
		if i == 0 && size > warmWindow {
			w.enlarge()
		}
		if bytes += size; bytes > w.room && i > 0 {
			break
		}
		if it.err == nil && size <= w.room {
			w.span(&it, size)
		}
		w.items = append(w.items, it)
	}
	return len(w.items)
}

// size returns how much memory of a window the item needs. Nothing that a reference
// says makes it more than a large window has.
func (it *wanted) size() int64 {
	length := it.ref.Range.Length
	switch {
	case it.err != nil:
		return 0
	case it.direct():
		return length
	case !it.place.extents:
		return it.place.payload
	case length > 0:
		return min(length, largeItem)
	}
	return largeItem
}

// direct reports whether the bytes can be read without anything else of the object,
// since it is known where they lie, and which they are. In a pack that needs the
// version, too: places are remembered by a hash of the name, so one may be of another
// object, and the checksum of a few bytes is easily guessed.
func (it *wanted) direct() bool {
	ref, p := &it.ref, &it.place
	if !ref.Checked || ref.Range.Offset < 0 || ref.Range.Length <= 0 || ref.Range.Length > coldWindow {
		return false
	}
	if p.extents {
		return ref.Of == (object.Version{}) || ref.Of == p.version
	}
	return ref.Of == p.version && ref.Range.Offset <= p.payload-ref.Range.Length
}

// enlarge makes the window a large one.
func (w *window) enlarge() {
	if w.large == nil {
		w.large = make([]byte, coldWindow)
	}
	w.free, w.room = w.large, coldWindow
}

// hash hashes the next names, and touches what is remembered of them all, so that
// the processor waits for many pieces of memory at once and not for one after the
// other.
func (w *window) hash(refs []object.Ref) {
	first := len(w.hashes)
	for i := range refs {
		w.hashes = append(w.hashes, hashName(refs[i].Name))
	}
	w.store.hot.touch(w.hashes[first:])
}

// span notes where the item's bytes are to be read from, and to. What is not noted
// is read alone.
func (w *window) span(it *wanted, size int64) {
	p := &it.place
	file, offset := -1, p.offset
	switch direct := it.direct(); {
	case direct && p.extents:
		file, offset = w.inBlob(w.store.drives[p.drive], it)
	case direct:
		file, offset = w.inPack(w.store.drives[p.drive], p.pack), offset+int64(p.head)+it.ref.Range.Offset
	case !p.extents && p.head == pack.MatchHead:
		file, it.head = w.inPack(w.store.drives[p.drive], p.pack), p.head
	}
	if s, ok := spanOf(file, offset, len(w.items)); ok && file >= 0 {
		it.bytes = w.take(size)
		w.spans = append(w.spans, s)
	}
}

// take returns memory for an item that is yielded from this window.
func (w *window) take(n int64) []byte {
	if n > int64(len(w.free)) {
		return make([]byte, n) // it has grown since it was looked up
	}
	b := w.free[:n]
	w.free = w.free[n:]
	return b
}

// read reads the spans: first those that the kernel has in memory, then, several at
// a time, those that drives must be waited for. What proves to be something else is
// left to be read alone.
func (w *window) read() {
	slices.Sort(w.spans)
	w.cold = w.cold[:0]
	for rest := w.spans; len(rest) > 0 && w.ctx.Err() == nil; {
		r := w.neighbours(rest)
		rest = rest[len(r.spans):]
		if !disk.ReadNow(r.file, w.pieces, r.spans[0].offset()) {
			w.cold = append(w.cold, r)
			continue
		}
		for i, s := range r.spans {
			it := &w.items[s.item()]
			it.check(w.head(i, it))
		}
	}
	w.readCold()
}

// maxNeighbours is as many as can be read with a piece of memory each for head,
// content and what lies before the next.
const maxNeighbours = disk.MaxPieces / 3

// neighbours returns the first spans that lie so close together that they are best
// read in one go, and sets pieces to where their bytes go.
func (w *window) neighbours(sorted []span) run {
	first := sorted[0]
	var length int64
	w.pieces = w.pieces[:0]
	n := 0
	for ; n < min(len(sorted), maxNeighbours); n++ {
		s := sorted[n]
		between := s.offset() - first.offset() - length
		if n > 0 {
			if s.file() != first.file() || between < 0 || between > gap {
				break
			}
			w.pieces = append(w.pieces, w.gap[:between])
		}
		it := &w.items[s.item()]
		w.pieces = append(w.pieces, w.head(n, it), it.bytes)
		length += between + int64(it.head) + int64(len(it.bytes))
	}
	return run{file: w.files[first.file()].File, spans: sorted[:n], length: length}
}

// head returns where the head of the n-th record of a run is read to.
func (w *window) head(n int, it *wanted) []byte {
	return w.heads[n*pack.MatchHead:][:it.head]
}

// readCold reads runs that drives must be waited for.
func (w *window) readCold() {
	var next atomic.Int32
	read := func() {
		for w.ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(w.cold) {
				return
			}
			w.readRun(&w.cold[i])
		}
	}
	var readers sync.WaitGroup
	for range min(len(w.cold), waiting) - 1 {
		readers.Go(read)
	}
	read()
	readers.Wait()
}

func (w *window) readRun(r *run) {
	buf := w.store.buffers.get(r.length)[:r.length]
	defer w.store.buffers.put(buf)
	first := r.spans[0].offset()
	if n, _ := r.file.ReadAt(buf, first); int64(n) < r.length {
		return
	}
	for _, s := range r.spans {
		it := &w.items[s.item()]
		record := buf[s.offset()-first:]
		copy(it.bytes, record[it.head:])
		it.check(record[:it.head])
	}
}

// check verifies what was read. Without a head only the checksum is known that was
// asked for; if the bytes have another one, readAlone finds out why.
func (it *wanted) check(head []byte) {
	if it.head == 0 {
		it.crc = it.ref.CRC32
		it.done = crc32.ChecksumIEEE(it.bytes) == it.crc
		return
	}
	crc, ok := pack.Match(head, it.bytes, it.ref.Name, it.place.version)
	if !ok || (it.ref.Of != (object.Version{}) && it.ref.Of != it.place.version) {
		return
	}
	it.done, it.crc = true, crc
	if it.ref.Range != (object.Range{}) {
		offset, length, err := it.ref.Range.Resolve(int64(len(it.bytes)))
		if err != nil {
			it.err = err
			return
		}
		it.bytes = it.bytes[offset : offset+length]
		it.crc = crc32.ChecksumIEEE(it.bytes)
	}
	if it.ref.Checked {
		it.err = it.ref.Check(int64(len(it.bytes)), it.crc)
	}
}
