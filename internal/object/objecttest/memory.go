package objecttest

import (
	"bytes"
	"context"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Memory holds objects in a map: the simplest thing with exactly the behaviour
// the interfaces ask for. Nothing in it is fast. It may be used concurrently.
type Memory struct {
	// Clock dates the writes; nil means time.Now. Not to be changed in use.
	Clock func() time.Time

	mu      sync.Mutex
	objects map[object.Name]stored
	counter uint64
}

type stored struct {
	info object.Info
	data []byte
}

// NewMemory returns an empty Memory. It holds objects of any bucket.
func NewMemory() *Memory { return &Memory{objects: map[object.Name]stored{}} }

func (m *Memory) find(ctx context.Context, name object.Name) (stored, error) {
	if err := name.Validate(); err != nil {
		return stored{}, err
	}
	if err := ctx.Err(); err != nil {
		return stored{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[name]
	if !ok {
		return stored{}, object.Errorf(object.NotFound, "%s does not exist", name)
	}
	return o, nil
}

// Stat implements object.Source.
func (m *Memory) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	o, err := m.find(ctx, name)
	return o.info, err
}

// Open implements object.Source.
func (m *Memory) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	o, err := m.find(ctx, name)
	if err != nil {
		return nil, err
	}
	offset, length, err := r.Resolve(o.info.Size)
	if err != nil {
		return nil, err
	}
	return &memoryReader{Reader: bytes.NewReader(o.data[offset : offset+length]), info: o.info, offset: offset, length: length}, nil
}

// OpenVerified is Open: nothing can rot here.
func (m *Memory) OpenVerified(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	return m.Open(ctx, name, r)
}

// Batch implements object.Batcher.
func (m *Memory) Batch(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error] {
	return func(yield func(object.Item, error) bool) {
		for _, ref := range refs {
			item := object.Item{Ref: ref}
			r, err := m.Open(ctx, ref.Name, ref.Range)
			if err == nil && ref.Of != (object.Version{}) && ref.Of != r.Info().Version {
				err = object.Errorf(object.Stale, "%s was replaced", ref.Name)
			}
			if err == nil {
				if item.Bytes, err = io.ReadAll(r); err == nil {
					item.CRC32 = crc32.ChecksumIEEE(item.Bytes)
					err = ref.Check(int64(len(item.Bytes)), item.CRC32)
				}
			}
			if err != nil {
				item = object.Item{Ref: ref}
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// BatchVerified is Batch.
func (m *Memory) BatchVerified(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error] {
	return m.Batch(ctx, refs)
}

// PutMany stores objects one after the other and returns how each fared.
func (m *Memory) PutMany(ctx context.Context, bucket string, objects []object.Upload) []error {
	errs := make([]error, len(objects))
	for i, o := range objects {
		opts := object.PutOptions{ContentType: o.ContentType}
		if o.Checked {
			opts.CRC32 = &o.CRC32
		}
		_, errs[i] = m.Put(ctx, object.Name{Bucket: bucket, Key: o.Key}, bytes.NewReader(o.Bytes), opts)
	}
	return errs
}

// Put implements object.Sink.
func (m *Memory) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if err := name.Validate(); err != nil {
		return object.Info{}, err
	}
	data, err := io.ReadAll(contextReader{ctx, r})
	if err != nil {
		return object.Info{}, err
	}
	crc := crc32.ChecksumIEEE(data)
	if opts.CRC32 != nil && *opts.CRC32 != crc {
		return object.Info{}, object.Errorf(object.Invalid, "the content of %s has CRC-32 %08x, not %08x", name, crc, *opts.CRC32)
	}
	info := object.Info{Name: name, Size: int64(len(data)), CRC32: crc, ContentType: opts.ContentType, Metadata: maps.Clone(opts.Metadata)}
	return m.commit(ctx, info, data, opts.Condition)
}

func (m *Memory) commit(ctx context.Context, info object.Info, data []byte, cond object.Condition) (object.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return object.Info{}, err
	}
	if err := cond.Check(info.Name, m.current(info.Name)); err != nil {
		return object.Info{}, err
	}
	m.counter++
	info.Version = object.Version{Map: 1, Counter: m.counter}
	info.ETag = object.NativeETag(info.Version, info.CRC32)
	info.Modified = m.now()
	m.objects[info.Name] = stored{info, data}
	return info, nil
}

func (m *Memory) current(name object.Name) *object.Info {
	if o, ok := m.objects[name]; ok {
		return &o.info
	}
	return nil
}

func (m *Memory) now() time.Time {
	if m.Clock != nil {
		return m.Clock()
	}
	return time.Now().Round(0)
}

// Copy gives the content of src the name dst too.
func (m *Memory) Copy(ctx context.Context, dst, src object.Name, opts object.PutOptions) (object.Info, error) {
	if err := dst.Validate(); err != nil {
		return object.Info{}, err
	}
	o, err := m.find(ctx, src)
	if err != nil {
		return object.Info{}, err
	}
	info := o.info
	info.Name = dst
	if opts.ContentType != "" {
		info.ContentType = opts.ContentType
	}
	info.Metadata = maps.Clone(opts.MetadataOf(info.Metadata))
	return m.commit(ctx, info, o.data, opts.Condition)
}

// Delete implements object.Sink.
func (m *Memory) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	if err := name.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	current := m.current(name)
	if err := cond.Check(name, current); err != nil {
		return err
	}
	if current == nil {
		return object.Errorf(object.NotFound, "%s does not exist", name)
	}
	delete(m.objects, name)
	return nil
}

// Empty reports whether the bucket holds nothing.
func (m *Memory) Empty(ctx context.Context, bucket string) (bool, error) {
	objects, _ := m.Count(bucket)
	return objects == 0, ctx.Err()
}

// Count returns how many objects the bucket has, and their bytes.
func (m *Memory) Count(bucket string) (objects, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, o := range m.objects {
		if name.Bucket == bucket {
			objects++
			bytes += o.info.Size
		}
	}
	return objects, bytes
}

// List implements object.Lister, over the state at its beginning.
func (m *Memory) List(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		if err := object.ValidateBucket(bucket); err != nil {
			yield(object.Entry{}, err)
			return
		}
		n, last := 0, ""
		for _, info := range m.snapshot(bucket) {
			if err := ctx.Err(); err != nil {
				yield(object.Entry{}, err)
				return
			}
			e, ok := fold(info, opts)
			if !ok || (e.Prefix != "" && e.Prefix == last) {
				continue
			}
			last = e.Prefix
			if n++; !yield(e, nil) || n == opts.Limit {
				return
			}
		}
	}
}

func (m *Memory) snapshot(bucket string) []object.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []object.Info
	for name, o := range m.objects {
		if name.Bucket == bucket {
			info := o.info
			info.ContentType, info.Metadata = "", nil
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b object.Info) int { return strings.Compare(a.Name.Key, b.Name.Key) })
	return infos
}

// fold returns the entry that an object has in a listing, or false if none.
func fold(info object.Info, opts object.ListOptions) (object.Entry, bool) {
	key := info.Name.Key
	rest, ok := strings.CutPrefix(key, opts.Prefix)
	if !ok || key <= opts.After {
		return object.Entry{}, false
	}
	if opts.Delimiter != "" {
		if i := strings.Index(rest, opts.Delimiter); i >= 0 {
			prefix := key[:len(opts.Prefix)+i+len(opts.Delimiter)]
			return object.Entry{Prefix: prefix}, prefix != opts.After
		}
	}
	return object.Entry{Info: info}, true
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

type memoryReader struct {
	*bytes.Reader
	info           object.Info
	offset, length int64
}

func (r *memoryReader) Info() object.Info              { return r.info }
func (r *memoryReader) Bounds() (offset, length int64) { return r.offset, r.length }
func (r *memoryReader) Close() error                   { return nil }
