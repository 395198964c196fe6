package dataset

import (
	"context"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// Version is a published version that can be read. Its methods may be called
// concurrently.
type Version struct {
	*manifest.Manifest
	place Place
}

// Open opens a version; number 0 is the newest.
func Open(ctx context.Context, place Place, number uint64) (*Version, error) {
	if number == 0 {
		published, _, err := place.versions(ctx)
		if err != nil {
			return nil, err
		}
		if len(published) == 0 {
			return nil, object.Errorf(object.NotFound, "there is no dataset in %s", place)
		}
		number = published[len(published)-1]
	}
	m, err := place.manifest(ctx, number)
	if err != nil {
		return nil, err
	}
	return &Version{Manifest: m, place: place}, nil
}

// Close gives back what reading took.
func (v *Version) Close() { v.place.close() }

// Place returns where the version lies.
func (v *Version) Place() Place { return v.place }

// Versions returns the numbers of the versions in a place, rising.
func Versions(ctx context.Context, place Place) ([]uint64, error) {
	published, _, err := place.versions(ctx)
	return published, err
}

// Ref is one field of one sample, by their numbers.
type Ref struct{ Sample, Field int }

// SampleError says what is wrong with a field of a sample, and where it lies.
type SampleError struct {
	Sample int
	Key    string
	Field  string
	Shard  string
	Offset int64
	Err    error
}

// Error names the sample and its place.
func (e *SampleError) Error() string {
	return fmt.Sprintf("sample %d, %q, field %s: in shard %s at offset %d: %v", e.Sample, e.Key, e.Field, e.Shard, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *SampleError) Unwrap() error { return e.Err }

// located is a reference and where it lies.
type located struct {
	ref Ref
	at  stretch
}

func (v *Version) locate(ref Ref) (located, error) {
	p, err := v.Piece(ref.Sample, ref.Field)
	if err != nil {
		return located{}, err
	}
	l := located{ref: ref}
	if p.Absent {
		return l, object.Errorf(object.NotFound, "sample %d has no field %s", ref.Sample, v.Fields()[ref.Field].Name)
	}
	s, err := v.Shard(int(p.Shard))
	if err != nil {
		return l, err
	}
	l.at = stretch{s.Name, p.Offset, p.Size, p.CRC32, p.Checked}
	return l, nil
}

// blame makes an error one of a sample.
func (v *Version) blame(l located, err error) error {
	key, _ := v.Key(l.ref.Sample) // without it the number says which
	return &SampleError{l.ref.Sample, key, v.Fields()[l.ref.Field].Name, l.at.shard, l.at.offset, err}
}

func (l located) check(crc uint32) error {
	if l.at.checked && crc != l.at.crc {
		return object.Errorf(object.Corrupt, "the checksum of %d bytes is %08x and should be %08x", l.at.length, crc, l.at.crc)
	}
	return nil
}

// Read calls each for every reference, in their order, with its bytes or what is
// wrong with it, until each returns an error. Bytes are checked, and valid until
// each returns. Together they should fit into memory a few times.
func (v *Version) Read(ctx context.Context, refs []Ref, each func(i int, data []byte, err error) error) error {
	places := make([]located, len(refs))
	spans := make([]stretch, 0, len(refs))
	failures := make([]error, len(refs))
	for i, ref := range refs {
		if places[i], failures[i] = v.locate(ref); failures[i] == nil {
			spans = append(spans, places[i].at)
		}
	}
	next := 0
	bad := func() error { // those before the next one that is read
		for ; next < len(refs) && failures[next] != nil; next++ {
			if err := each(next, nil, failures[next]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := bad(); err != nil {
		return err
	}
	return v.place.read(ctx, spans, func(_ int, data []byte, err error) error {
		l := places[next]
		if err == nil {
			err = l.check(crc32.ChecksumIEEE(data))
		}
		if err != nil {
			data, err = nil, v.blame(l, err)
		}
		if err := each(next, data, err); err != nil {
			return err
		}
		next++
		return bad()
	})
}

// Stream gives the bytes of one field, and fails instead of ending if they are not
// the right ones. The caller closes it.
func (v *Version) Stream(ctx context.Context, ref Ref) (io.ReadCloser, error) {
	l, err := v.locate(ref)
	if err != nil {
		return nil, err
	}
	r, err := v.place.stream(ctx, l.at)
	if err != nil {
		return nil, v.blame(l, err)
	}
	return &checked{ReadCloser: r, version: v, of: l, sum: crc32.NewIEEE(), left: l.at.length}, nil
}

type checked struct {
	io.ReadCloser
	version *Version
	of      located
	sum     hash.Hash32
	left    int64
}

// Read checks at the end.
func (c *checked) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.sum.Write(b[:n])
	c.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && c.left > 0:
		err = object.Errorf(object.Corrupt, "the shard ends too early")
	case err == io.EOF:
		if err = c.of.check(c.sum.Sum32()); err == nil {
			return n, io.EOF
		}
	}
	return n, c.version.blame(c.of, err)
}

// Bytes returns how many bytes there are in all fields of all samples.
func (v *Version) Bytes(ctx context.Context) (total int64, err error) {
	for i := range v.Len() {
		if i&0xfff == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		for f := range v.Fields() {
			p, err := v.Piece(i, f)
			if err != nil {
				return 0, err
			}
			total += p.Size
		}
	}
	return total, nil
}
