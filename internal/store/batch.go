package store

import (
	"cmp"
	"context"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// Batch implements object.Batcher. References are looked up, a window of them at a
// time; what lies in packs is read in the order of its place on the disk, and
// neighbours together. The memory of a batch is one window.
func (s *Store) Batch(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error] {
	return s.batch(ctx, refs, false)
}

// BatchVerified is Batch with every byte checked on its way, also those of large
// items.
func (s *Store) BatchVerified(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error] {
	return s.batch(ctx, refs, true)
}

func (s *Store) batch(ctx context.Context, refs []object.Ref, always bool) iter.Seq2[object.Item, error] {
	return func(yield func(object.Item, error) bool) {
		w := s.window(ctx, always)
		defer w.close()
		for len(refs) > 0 {
			n := w.gather(refs)
			w.read()
			for i := range w.items {
				if !w.yield(&w.items[i], yield) {
					return
				}
			}
			refs = refs[n:]
		}
	}
}

const (
	windowBytes = 2 << 20
	windowItems = 4096

	// largeItem is the size from which an item of a blob is not held in memory.
	largeItem = windowBytes / 2

	// gap is how many bytes between two records are rather read than skipped.
	gap = 8 << 10
)

// window is a part of a batch that is read at once.
type window struct {
	store  *Store
	ctx    context.Context
	always bool
	buf    []byte
	items  []wanted
	order  []*wanted // those inline in packs, by place
	slack  int64     // bytes of buf that no item needs
	free   []byte    // what of buf is not in use yet
}

// wanted is one item on its way.
type wanted struct {
	ref   object.Ref
	place place
	bytes []byte
	crc   uint32
	large object.Reader
	err   error
	done  bool
}

func (s *Store) window(ctx context.Context, always bool) *window {
	w, ok := s.windows.Get().(*window)
	if !ok {
		w = &window{store: s, buf: make([]byte, windowBytes)}
	}
	w.ctx, w.always = ctx, always
	return w
}

func (w *window) close() {
	clear(w.items)
	clear(w.order)
	w.ctx = nil
	w.store.windows.Put(w)
}

// gather looks up references until the window is full and returns how many.
func (w *window) gather(refs []object.Ref) int {
	w.items, w.order = w.items[:0], w.order[:0]
	w.items = slices.Grow(w.items, min(len(refs), windowItems)) // lest order points into another array
	var bytes int64
	for _, ref := range refs[:min(len(refs), windowItems)] {
		it := wanted{ref: ref}
		var size int64
		it.place, it.err = w.store.placeOf(ref.Name)
		switch {
		case it.err != nil:
		case !it.place.extents:
			size = int64(it.place.head) + it.place.payload
		case ref.Range.Length > 0:
			size = min(ref.Range.Length, largeItem)
		default:
			size = largeItem
		}
		if bytes+size > windowBytes && len(w.items) > 0 {
			break
		}
		bytes += size
		w.items = append(w.items, it)
		if last := &w.items[len(w.items)-1]; it.err == nil && !it.place.extents && size <= windowBytes && !ref.Checked {
			w.order = append(w.order, last)
		}
	}
	w.slack = max(0, windowBytes-bytes)
	return len(w.items)
}

// placeOf returns where a name's newest record lies.
func (s *Store) placeOf(name object.Name) (place, error) {
	if err := name.Validate(); err != nil {
		return place{}, err
	}
	hash := hashName(name)
	p, ok, seen := s.hot.get(hash)
	if ok {
		return p, nil
	}
	all, err := s.find(name)
	if err != nil {
		return place{}, err
	}
	now := current(all)
	if now == nil {
		return place{}, notFound(name)
	}
	p = now.place(hash)
	s.hot.offer(p, seen)
	return p, nil
}

// read fills in what lies in packs. What it cannot make sense of is left to be
// read one by one.
func (w *window) read() {
	slices.SortFunc(w.order, func(a, b *wanted) int {
		return cmp.Or(cmp.Compare(a.place.drive, b.place.drive), cmp.Compare(a.place.pack, b.place.pack), cmp.Compare(a.place.offset, b.place.offset))
	})
	w.free = w.buf
	for rest := w.order; len(rest) > 0 && w.ctx.Err() == nil; {
		n, length := w.neighbours(rest)
		w.readRun(rest[:n], w.take(length))
		rest = rest[n:]
	}
}

// take returns memory for an item that is yielded from this window.
func (w *window) take(n int64) []byte {
	if n > int64(len(w.free)) {
		return make([]byte, n) // it has grown since it was looked up
	}
	b := w.free[:n:n]
	w.free = w.free[n:]
	return b
}

// neighbours returns how many of the records lie so close together that they are
// best read in one go, and how many bytes that is. What lies between them takes up
// the slack.
func (w *window) neighbours(sorted []*wanted) (n int, length int64) {
	first := &sorted[0].place
	length = int64(first.head) + first.payload
	for n = 1; n < len(sorted); n++ {
		p := &sorted[n].place
		between := p.offset - first.offset - length
		if p.drive != first.drive || p.pack != first.pack || between < 0 || between > min(gap, w.slack) {
			break
		}
		w.slack -= between
		length += between + int64(p.head) + p.payload
	}
	return n, length
}

// readRun reads neighbours into buf.
func (w *window) readRun(run []*wanted, buf []byte) {
	first := &run[0].place
	d := w.store.drives[first.drive]
	if d.readable() != nil {
		return
	}
	f, err := d.files.acquire(first.pack)
	if err != nil {
		return
	}
	defer d.files.release(f)
	if f.ReadAt(buf, first.offset) != nil {
		return
	}
	for _, it := range run {
		p := &it.place
		from := p.offset - first.offset
		content, crc, ok := f.Match(buf[from:from+int64(p.head)+p.payload], p.location(), it.ref.Name, p.version)
		if ok && (it.ref.Of == (object.Version{}) || it.ref.Of == p.version) {
			it.settle(content, crc)
		}
	}
}

// settle takes the whole content and keeps what was asked for.
func (it *wanted) settle(content []byte, crc uint32) {
	it.done = true
	if it.ref.Range == (object.Range{}) {
		it.bytes, it.crc = content, crc
		return
	}
	offset, length, err := it.ref.Range.Resolve(int64(len(content)))
	if err != nil {
		it.err = err
		return
	}
	it.bytes = content[offset : offset+length]
	it.crc = crc32.ChecksumIEEE(it.bytes)
}

// yield gives an item out, and reads it first if that was not done yet.
func (w *window) yield(it *wanted, yield func(object.Item, error) bool) bool {
	if it.err == nil && !it.done {
		it.err = w.readAlone(it)
	}
	if it.large != nil {
		defer it.large.Close()
	}
	if it.err != nil {
		return yield(object.Item{Ref: it.ref}, it.err)
	}
	return yield(object.Item{Ref: it.ref, Bytes: it.bytes, CRC32: it.crc, Large: it.large}, nil)
}

// readAlone reads an item as a single read would: one in a blob, one that has
// moved, one that is damaged.
func (w *window) readAlone(it *wanted) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	r, err := w.store.open(w.ctx, it.ref.Name, it.ref.Range, w.always)
	if err != nil {
		return err
	}
	if of := it.ref.Of; of != (object.Version{}) && of != r.Info().Version {
		r.Close() //nolint:errcheck // opened for reading
		return object.Errorf(object.Stale, "%s was replaced meanwhile", it.ref.Name)
	}
	_, length := r.Bounds()
	blob, inBlob := r.(*blobReader)
	if inBlob && length > largeItem {
		it.large = blob
		return nil
	}
	defer r.Close()
	it.bytes = w.take(length)
	if inBlob && it.ref.Checked && blob.readPlain(it.bytes) && crc32.ChecksumIEEE(it.bytes) == it.ref.CRC32 {
		it.crc = it.ref.CRC32
		return nil
	}
	if _, err := io.ReadFull(onlyReader{r}, it.bytes); err != nil {
		return err
	}
	it.crc = crc32.ChecksumIEEE(it.bytes)
	return nil
}

var _ object.Batcher = (*Store)(nil)
