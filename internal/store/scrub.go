package store

import (
	"context"
	"io"
	"strings"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// ScrubOptions configure a scrub.
type ScrubOptions struct {
	Progress func(ScrubProgress) // called now and then; may be nil
}

// ScrubProgress says how far a scrub is.
type ScrubProgress struct {
	Bytes      int64 `json:"bytes"`
	TotalBytes int64 `json:"total_bytes"`
	Records    int64 `json:"records"`
	Blobs      int64 `json:"blobs"`
}

// Finding is one thing a scrub found wrong.
type Finding struct {
	Disk   string `json:"disk"`
	Kind   string `json:"kind"` // record, pack, blob, index, orphan or disk
	Name   string `json:"name,omitempty"`
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Detail string `json:"detail"`
}

// ScrubReport sums up a scrub.
type ScrubReport struct {
	ScrubProgress
	Findings int64 `json:"findings"`
}

// Scrub reads everything on every disk and reports what is not as it was
// written: records and directories in packs, blocks of blobs, the index. Blobs
// that nothing names are removed; a damaged index is rebuilt. It runs beside
// other work and stops when the context ends.
func (s *Store) Scrub(ctx context.Context, o ScrubOptions, found func(Finding)) (ScrubReport, error) {
	c := &scrub{ctx: ctx, opts: o, found: found}
	for _, d := range s.drives {
		if err := d.readable(); err != nil {
			c.report(d, Finding{Kind: "disk", Detail: err.Error()})
			continue
		}
		c.out.TotalBytes += d.status().Used
	}
	for _, id := range s.absent {
		c.report(&drive{name: id}, Finding{Kind: "disk", Detail: "absent"})
	}
	for _, d := range s.drives {
		if d.readable() != nil {
			continue
		}
		if err := c.drive(d); err != nil {
			if ctx.Err() != nil {
				return c.out, ctx.Err()
			}
			c.report(d, Finding{Kind: "disk", Detail: err.Error()}) // the others are read all the same
		}
	}
	return c.out, nil
}

type scrub struct {
	ctx   context.Context
	opts  ScrubOptions
	found func(Finding)
	out   ScrubReport
	told  int64 // bytes at the last progress
}

func (c *scrub) report(d *drive, f Finding) {
	f.Disk = d.name
	c.out.Findings++
	c.found(f)
}

func (c *scrub) progress(bytes int64) {
	c.out.Bytes += bytes
	if c.opts.Progress != nil && c.out.Bytes-c.told >= 16<<20 {
		c.told = c.out.Bytes
		c.opts.Progress(c.out.ScrubProgress)
	}
}

func (c *scrub) drive(d *drive) error {
	err := d.idx().Verify(c.ctx, func(file string, offset int64, detail string) {
		c.report(d, Finding{Kind: "index", File: indexDir + "/" + file, Offset: offset, Detail: detail})
		d.indexFailed(object.Errorf(object.Corrupt, "%s: %s", file, detail))
	})
	if err != nil {
		return err
	}
	if err := d.readable(); err != nil { // perhaps its index is being rebuilt; the next scrub reads the rest
		return object.Errorf(object.Unavailable, "not all of it was read: %w", err)
	}
	if err := c.setAside(d); err != nil {
		return err
	}
	if err := c.packs(d); err != nil {
		return err
	}
	if err := c.objects(d); err != nil {
		return err
	}
	return d.sweepBlobs(c.ctx, func(id uint64) {
		c.report(d, Finding{Kind: "orphan", File: blobName(id), Detail: "no record names this blob; removed"})
	})
}

// setAside reports packs of which nothing could be read at a start.
func (c *scrub) setAside(d *drive) error {
	names, err := d.fs.ReadDir(pack.Dir)
	if err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, setAside) {
			c.report(d, Finding{Kind: "pack", File: pack.Dir + "/" + name, Detail: "damaged all over and set aside: older states of its objects may have come back"})
		}
	}
	return nil
}

// packs reads every record of every pack. Damage is reported by place; objects
// that lie there are found by name afterwards.
func (c *scrub) packs(d *drive) error {
	d.apply.Lock()
	known := make(map[uint64]packTally)
	for id, p := range d.tally.Packs {
		known[id] = *p
	}
	d.apply.Unlock()
	for id, p := range known {
		f, err := d.files.acquire(id)
		if object.Is(err, object.NotFound) {
			d.apply.Lock()
			now := d.tally.Packs[id]
			lost := now != nil && !now.Emptied && now.Dead < now.Total // else compaction was faster, or will see to it
			d.apply.Unlock()
			if lost {
				c.report(d, Finding{Kind: "pack", File: pack.FileName(id), Detail: "missing"})
			}
			continue
		}
		if err == nil {
			err = c.pack(d, f, p)
			d.files.release(f)
		}
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if err != nil { // the others are read all the same
			c.report(d, Finding{Kind: "pack", File: pack.FileName(id), Detail: err.Error()})
		}
	}
	return nil
}

func (c *scrub) pack(d *drive, f *packFile, p packTally) error {
	res, err := f.Scan(pack.ScanOptions{Limit: p.End, Floor: p.End, Payloads: true}, func(_ *pack.Record, l pack.Location) error {
		c.out.Records++
		c.progress(l.Len())
		return c.ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, span := range res.Damage {
		c.report(d, Finding{Kind: "pack", File: pack.FileName(f.ID()), Offset: span.Offset, Detail: "bytes here are not the ones that were written"})
	}
	if p.Damaged && len(res.Damage) == 0 {
		c.report(d, Finding{Kind: "pack", File: pack.FileName(f.ID()), Offset: p.End, Detail: "records are lost behind this place: older states of their objects may have come back"})
	}
	if p.Sealed {
		if _, err := f.Directory(func(object.Name, pack.Stub) error { return nil }); err != nil {
			c.report(d, Finding{Kind: "pack", File: pack.FileName(f.ID()), Detail: "directory: " + err.Error()})
		}
	}
	return nil
}

// objects reads what every entry of the index points at, blobs to the last byte.
func (c *scrub) objects(d *drive) error {
	it := d.idx().Scan([]byte{spaceObject}, []byte{spaceObject + 1})
	defer it.Close()
	for it.Next() {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		e, err := parseEntry(d, it.Value())
		name, _, ok := splitKey(it.Key())
		if err != nil || !ok {
			c.report(d, Finding{Kind: "index", Detail: "malformed entry"})
			continue
		}
		if e.Kind != pack.Object {
			continue
		}
		if err := c.object(d, name, &e); err != nil {
			return err
		}
	}
	return it.Err()
}

func (c *scrub) object(d *drive, name object.Name, e *entry) error {
	r, err := d.store.OpenVerified(c.ctx, inexact(name), object.Range{})
	if err == nil {
		if e.Extents {
			var n int64
			n, err = io.Copy(io.Discard, onlyReader{r})
			c.out.Blobs++
			c.progress(n)
		}
		r.Close() //nolint:errcheck // opened for reading
	}
	switch object.KindOf(err) {
	case object.NotFound: // deleted meanwhile
		return nil
	case object.Canceled:
		return err
	}
	if err != nil {
		kind := "record"
		if e.Extents {
			kind = "blob"
		}
		c.report(d, Finding{Kind: kind, Name: name.String(), File: pack.FileName(e.pack), Offset: e.Offset, Detail: err.Error()})
	}
	return nil
}

// onlyReader hides WriteTo.
type onlyReader struct{ io.Reader }
