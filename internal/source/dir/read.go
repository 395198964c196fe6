package dir

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"penstock.dev/penstock/internal/object"
)

// Stat implements object.Source.
func (s *Source) Stat(ctx context.Context, name object.Name) (object.Info, error) {
	if err := check(ctx, name.Key, object.NotFound); err != nil {
		return object.Info{}, err
	}
	st, err := s.root.Stat(name.Key)
	if err != nil {
		return object.Info{}, readError("source", err)
	}
	if !st.Mode().IsRegular() {
		return object.Info{}, object.Errorf(object.NotFound, "%s is not a plain file", name)
	}
	return describe(name, st), nil
}

// Open implements object.Source.
func (s *Source) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	return s.open(ctx, name, r, "")
}

// OpenVersion implements source.Source.
func (s *Source) OpenVersion(ctx context.Context, name object.Name, r object.Range, etag string) (object.Reader, error) {
	if etag == "" {
		return nil, object.Errorf(object.Invalid, "%s is asked for by no ETag", name)
	}
	return s.open(ctx, name, r, etag)
}

func (s *Source) open(ctx context.Context, name object.Name, r object.Range, etag string) (object.Reader, error) {
	if err := check(ctx, name.Key, object.NotFound); err != nil {
		return nil, err
	}
	// Without waiting: what lies there may be a pipe that nobody writes to.
	f, err := s.root.OpenFile(name.Key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, readError("source", err)
	}
	reader, err := newReader(f, name, r, etag)
	if err != nil {
		f.Close()
		return nil, err
	}
	return reader, nil
}

func newReader(f *os.File, name object.Name, r object.Range, etag string) (*reader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, readError("source", err)
	}
	if !st.Mode().IsRegular() {
		return nil, object.Errorf(object.NotFound, "%s is not a plain file", name)
	}
	info := describe(name, st)
	if etag != "" && etag != info.ETag {
		return nil, object.Errorf(object.Stale, "%s has ETag %s, not %s", name, info.ETag, etag)
	}
	offset, length, err := r.Resolve(info.Size)
	if err != nil {
		return nil, err
	}
	return &reader{f: f, info: info, offset: offset, length: length}, nil
}

// reader gives a range of an open file. The last bytes are given only when the file was
// looked at again and is what it was.
type reader struct {
	f              *os.File
	info           object.Info
	offset, length int64
	done           int64 // bytes given
}

// heldBack is how much WriteTo keeps until the file was looked at again, so that nobody
// gets the whole of a mixture.
const heldBack = 4 << 10

func (r *reader) Info() object.Info              { return r.info }
func (r *reader) Bounds() (offset, length int64) { return r.offset, r.length }
func (r *reader) Close() error                   { return r.f.Close() }

func (r *reader) Read(p []byte) (int, error) {
	left := r.length - r.done
	if left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), left)]
	n, err := r.f.ReadAt(p, r.offset+r.done)
	switch {
	case errors.Is(err, io.EOF) && n < len(p):
		return 0, r.changed()
	case err != nil && !errors.Is(err, io.EOF):
		return 0, readError("source", err)
	}
	if int64(n) == left {
		if err := r.unchanged(); err != nil {
			return 0, err
		}
	}
	r.done += int64(n)
	return n, nil
}

// WriteTo moves the bytes from file to socket or file inside the kernel, where that is
// possible.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	sent, err := r.send(w, r.length-r.done-heldBack)
	if err != nil || r.done == r.length {
		return sent, err
	}
	last := make([]byte, r.length-r.done)
	for read := 0; read < len(last); {
		n, err := r.Read(last[read:])
		if err != nil {
			return sent, err
		}
		read += n
	}
	n, err := w.Write(last)
	return sent + int64(n), err
}

// send moves n bytes, if there are as many.
func (r *reader) send(w io.Writer, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	if _, err := r.f.Seek(r.offset+r.done, io.SeekStart); err != nil {
		return 0, readError("source", err)
	}
	sent, err := io.CopyN(w, r.f, n)
	r.done += sent
	if errors.Is(err, io.EOF) {
		err = r.changed()
	}
	return sent, err
}

// unchanged looks at the file again. A file that was replaced or removed is still what it
// was; one that was written to is not.
func (r *reader) unchanged() error {
	st, err := r.f.Stat()
	if err != nil {
		return readError("source", err)
	}
	if describe(r.info.Name, st).ETag != r.info.ETag {
		return r.changed()
	}
	return nil
}

func (r *reader) changed() error {
	return object.Errorf(object.Stale, "%s was changed while it was read", r.info.Name)
}
