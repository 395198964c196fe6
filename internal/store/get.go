package store

import (
	"context"
	"errors"
	"io"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// Stat describes an object; see object.Source.
func (s *Store) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	if err := name.ValidateStored(); err != nil {
		return object.Info{}, err
	}
	var info object.Info
	err := s.meant(name, func(name object.Name) error {
		return s.locate(ctx, name, func(d *drive, p *place) (err error) {
			rec := d.blobs.idle.record(spot{p.pack, p.offset})
			if rec == nil {
				rec, err = d.headAt(p)
			}
			if err == nil {
				if err = p.names(rec, name); err == nil {
					info = rec.Info()
				}
			}
			return err
		})
	})
	return info, err
}

// Open returns a reader of an object or a range of it; see object.Source.
func (s *Store) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	return s.open(ctx, name, r, false)
}

// OpenVerified is Open with every byte checked on its way, also where the kernel
// could move it alone.
func (s *Store) OpenVerified(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	return s.open(ctx, name, r, true)
}

func (s *Store) open(ctx context.Context, name object.Name, r object.Range, always bool) (reader object.Reader, err error) {
	if err := name.ValidateStored(); err != nil {
		return nil, err
	}
	err = s.meant(name, func(name object.Name) error {
		return s.locate(ctx, name, func(d *drive, p *place) error {
			if p.extents {
				reader, err = d.openBlobs(p, name, r, always)
			} else {
				reader, err = d.openInline(p, name, r)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return reader, nil
}

// errMoved says that a remembered place does not hold the record any more.
var errMoved = object.Errorf(object.Stale, "the record has moved")

// names checks that a record is the one the place was remembered for.
func (p *place) names(rec *pack.Record, name object.Name) error {
	if rec.Name != name || rec.Version != p.version || rec.Kind != pack.Object {
		return errMoved
	}
	return nil
}

// objectOf returns the newest object among what find returned.
func objectOf(name object.Name, all []entry) (*entry, error) {
	switch now := current(all); {
	case now == nil:
		return nil, notFound(name)
	case now.Kind == pack.Marker:
		return nil, deleted(name, now)
	default:
		return now, nil
	}
}

// locate calls read with the place of a name's newest record. If the place
// proves outdated, because compaction or another write was faster, it looks
// again.
func (s *Store) locate(ctx context.Context, name object.Name, read func(*drive, *place) error) error {
	hash := hashName(name)
	for attempt := 0; ; attempt++ {
		p, ok, seen := s.hot.get(hash)
		if !ok || attempt > 0 {
			all, err := s.find(name)
			if err != nil {
				return err
			}
			now, err := objectOf(name, all)
			if err != nil {
				return err
			}
			p = now.place(hash)
			s.hot.offer(p, seen)
		}
		d := s.drives[p.drive]
		err := d.readable()
		if err == nil {
			err = read(d, &p)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		moved := err == errMoved || object.Is(err, object.NotFound)
		if ok && attempt == 0 && (moved || object.Is(err, object.Corrupt)) {
			s.hot.drop(hash) // another name with this hash, or a pack that was compacted
			continue
		}
		if moved && attempt < 3 {
			continue
		}
		return s.readFailed(d, name, err)
	}
}

// readFailed turns what went wrong into what is said outside.
func (s *Store) readFailed(d *drive, name object.Name, err error) error {
	switch object.KindOf(err) {
	case object.NotFound, object.Stale, object.Corrupt:
		s.metrics.corrupt.Inc()
		s.log.Error("an object is damaged", "disk", d.name, "object", name.String(), "error", err)
		return object.Errorf(object.Corrupt, "%s is damaged: %w", name, err)
	case object.Invalid:
		if outside := (*object.RangeError)(nil); errors.As(err, &outside) {
			return err
		} // else a pack of a newer format
	}
	s.metrics.readErrors.Inc()
	return object.Errorf(object.Unavailable, "%s: %w", name, err)
}

// head reads the head of a record.
func (d *drive) head(e *entry) (*pack.Record, error) {
	f, err := d.files.acquire(e.pack)
	if err != nil {
		return nil, err
	}
	defer d.files.release(f)
	return f.Head(e.Location)
}

func (d *drive) headAt(p *place) (*pack.Record, error) {
	return d.head(&entry{pack: p.pack, Stub: pack.Stub{Location: p.location()}})
}

// openInline reads a whole record and gives out a piece of it.
func (d *drive) openInline(p *place, name object.Name, r object.Range) (object.Reader, error) {
	f, err := d.files.acquire(p.pack)
	if err != nil {
		return nil, err
	}
	defer d.files.release(f)
	pool := &d.store.buffers
	buf := pool.get(int64(p.head) + p.payload)
	rec, payload, err := f.Read(p.location(), buf)
	if err == nil {
		err = p.names(rec, name)
	}
	var offset, length int64
	if err == nil {
		offset, length, err = r.Resolve(rec.Size)
	}
	if err != nil {
		pool.put(buf)
		return nil, err
	}
	return &inlineReader{rec: rec, pool: pool, buf: buf, offset: offset, rest: payload[offset : offset+length], length: length}, nil
}

// inlineReader gives out bytes that were read and verified already.
type inlineReader struct {
	rec            *pack.Record
	pool           *buffers
	buf            []byte
	rest           []byte
	offset, length int64
}

func (r *inlineReader) Info() object.Info { return r.rec.Info() }

func (r *inlineReader) Bounds() (offset, length int64) { return r.offset, r.length }

func (r *inlineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *inlineReader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.rest)
	r.rest = r.rest[n:]
	return int64(n), err
}

func (r *inlineReader) Close() error {
	if r.buf != nil {
		r.pool.put(r.buf)
		r.buf, r.rest = nil, nil
	}
	return nil
}
