package store

import (
	"context"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"penstock.dev/penstock/internal/object"
)

// Batch implements object.Batcher. References are looked up, a window of them at a
// time; their bytes are read in the order of their place on the disks, neighbours
// together, to where they lie in the order they were asked for. The memory of a
// batch is one window.
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
		rest, asked := s.exactRefs(refs)
		w := s.window(ctx, always)
		defer w.close()
		for len(rest) > 0 {
			n := w.gather(rest, asked)
			w.read()
			for i := range w.items {
				if !w.yield(&w.items[i], i == n-1, yield) {
					return
				}
			}
			rest = rest[n:]
			if asked != nil {
				asked = asked[n:]
			}
		}
	}
}

// exactRefs makes the names of references exact. If any name is changed by that, it
// returns copies, and the references as they were asked for.
func (s *Store) exactRefs(refs []object.Ref) (exact, asked []object.Ref) {
	exact = refs
	bucket, versioned := "", false
	for i := range refs {
		name := refs[i].Name
		if name.Bucket != bucket {
			bucket, versioned = name.Bucket, s.versioned.has(name.Bucket)
		}
		if !versioned && name.ID == (object.Version{}) {
			continue
		}
		if asked == nil {
			exact, asked = slices.Clone(refs), refs
		}
		var err error
		if name, err = s.exact(name); err != nil {
			name.ID = object.NullID // nothing has it: when it is read alone it fails as it should
		}
		exact[i].Name = name
	}
	return exact, asked
}

// placeOf returns where a name's newest record lies.
func (s *Store) placeOf(name object.Name, hash uint64) (place, error) {
	if err := name.ValidateStored(); err != nil {
		return place{}, err
	}
	p, ok, seen := s.hot.get(hash)
	if ok {
		return p, nil
	}
	all, err := s.find(name)
	if err != nil {
		return place{}, err
	}
	now, err := objectOf(name, all)
	if err != nil {
		return place{}, err
	}
	p = now.place(hash)
	s.hot.offer(p, seen)
	return p, nil
}

// yield gives an item out, and reads it first if that was not done yet.
func (w *window) yield(it *wanted, last bool, yield func(object.Item, error) bool) bool {
	if it.asked != nil {
		it.ref = *it.asked
		if !it.done && object.Is(it.err, object.NotFound) {
			it.err = nil // perhaps the version is gone, and another is now the newest
		}
	}
	if it.err == nil && !it.done {
		it.err = w.readAlone(it)
	}
	if it.large != nil {
		defer it.large.Close()
	}
	if it.err != nil {
		return yield(object.Item{Ref: it.ref, Last: last}, it.err)
	}
	return yield(object.Item{Ref: it.ref, Bytes: it.bytes, CRC32: it.crc, Large: it.large, Last: last}, nil)
}

// readAlone reads an item as a single read would: one in a blob, one that has
// moved, one that is damaged, one that is not what was asked for.
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
	if blob, ok := r.(*blobReader); ok && length > largeItem {
		it.bytes = nil
		it.large, err = checkLarge(blob, it.ref)
		return err
	}
	defer r.Close()
	if length != int64(len(it.bytes)) {
		it.bytes = w.take(length)
	}
	if _, err := io.ReadFull(onlyReader{r}, it.bytes); err != nil {
		return err
	}
	it.crc = crc32.ChecksumIEEE(it.bytes)
	return it.ref.Check(length, it.crc)
}

// checkLarge returns a reader for an item that is not held in memory. If only a part
// of the object is asked for, whether it has the right checksum is not known before
// its end.
func checkLarge(r *blobReader, ref object.Ref) (object.Reader, error) {
	info, crc := r.Info(), ref.CRC32
	whole := r.length == info.Size
	if whole {
		crc = info.CRC32
	}
	if err := ref.Check(r.length, crc); err != nil {
		r.Close() //nolint:errcheck // opened for reading
		return nil, err
	}
	if whole || !ref.Checked {
		return r, nil
	}
	return &summedReader{Reader: r, ref: ref, left: r.length}, nil
}

// summedReader keeps the end of bytes back that are not the ones asked for. It takes
// them verified, so that it is known who is wrong.
type summedReader struct {
	object.Reader
	ref  object.Ref
	crc  uint32
	left int64
}

func (r *summedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.crc = crc32.Update(r.crc, crc32.IEEETable, p[:n])
	r.left -= int64(n)
	if n > 0 && r.left == 0 {
		_, length := r.Bounds()
		if err := r.ref.Check(length, r.crc); err != nil {
			return 0, err
		}
	}
	return n, err
}

// WriteTo implements object.Reader.
func (r *summedReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, onlyReader{r})
}

var _ object.Batcher = (*Store)(nil)
