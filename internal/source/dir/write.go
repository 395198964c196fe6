package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"

	"penstock.dev/penstock/internal/object"
)

// Put implements object.Sink.
func (s *Source) Put(ctx context.Context, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if err := check(ctx, name.Key, object.Invalid); err != nil {
		return object.Info{}, err
	}
	if opts.Keep {
		return object.Info{}, object.Errorf(object.Invalid, "a directory keeps no versions")
	}
	f, temporary, made, err := s.create(path.Dir(name.Key))
	if err != nil {
		s.prune(made)
		return object.Info{}, writeError("source", err)
	}
	info, err := s.fill(ctx, f, temporary, name, r, opts)
	if closing := f.Close(); err == nil && closing != nil {
		err = writeError("source", closing)
	}
	if err == nil {
		err = s.commit(ctx, info, temporary, opts.Condition)
	}
	if err == nil {
		err = s.sync(append(made, path.Dir(name.Key)))
	} else {
		s.root.Remove(temporary) //nolint:errcheck // it may be gone already
		s.prune(made)
	}
	if err != nil {
		return object.Info{}, err
	}
	return info, nil
}

// create makes a file that nobody sees, and the directory it lies in if that is missing.
// It returns the directories that it made, the outermost first.
func (s *Source) create(dir string) (f *os.File, name string, made []string, err error) {
	for range 20 { // another one's delete may take an empty directory away again
		made, err = s.mkdirs(dir)
		if err != nil {
			return nil, "", made, err
		}
		name = path.Join(dir, hidden+rand.Text())
		f, err = s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return f, name, made, err
}

// mkdirs makes a directory and those above it, and returns which were not there.
func (s *Source) mkdirs(dir string) (made []string, err error) {
	if dir == "." {
		return nil, nil
	}
	err = s.root.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if made, err = s.mkdirs(path.Dir(dir)); err != nil {
			return made, err
		}
		err = s.root.Mkdir(dir, 0o777)
	}
	switch {
	case err == nil:
		return append(made, dir), nil
	case errors.Is(err, fs.ErrExist):
		return made, nil
	}
	return made, err
}

// prune removes directories that were made for nothing, the innermost first.
func (s *Source) prune(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		if s.root.Remove(made[i]) != nil {
			return
		}
	}
}

// fill writes the content and makes it durable under its temporary name.
func (s *Source) fill(ctx context.Context, f *os.File, temporary string, name object.Name, r io.Reader, opts object.PutOptions) (object.Info, error) {
	var w io.Writer = f
	crc := crc32.NewIEEE()
	if opts.CRC32 != nil {
		w = io.MultiWriter(f, crc)
	}
	body := &bodyReader{from: r, ended: ctx.Err}
	if _, err := io.Copy(w, body); err != nil {
		if body.err != nil {
			return object.Info{}, body.err
		}
		return object.Info{}, writeError("source", err)
	}
	if opts.CRC32 != nil && crc.Sum32() != *opts.CRC32 {
		return object.Info{}, object.Errorf(object.Invalid, "the content of %s has CRC-32 %08x, not %08x", name, crc.Sum32(), *opts.CRC32)
	}
	if opts.Finish != nil {
		if _, err := opts.Finish(); err != nil {
			return object.Info{}, err
		}
	}
	// The time is given, and not taken from the file system, whose clock may be too
	// coarse to tell two writes apart.
	now := s.opts.Clock()
	if err := s.root.Chtimes(temporary, now, now); err != nil {
		return object.Info{}, writeError("source", err)
	}
	if err := f.Sync(); err != nil {
		return object.Info{}, writeError("source", err)
	}
	st, err := f.Stat()
	if err != nil {
		return object.Info{}, writeError("source", err)
	}
	return describe(name, st), nil
}

// commit gives the file its name, if the condition holds.
func (s *Source) commit(ctx context.Context, info object.Info, temporary string, cond object.Condition) error {
	key := info.Name.Key
	lock := s.lock(key)
	lock.Lock()
	defer lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if cond != (object.Condition{}) {
		current, err := s.current(info.Name)
		if err != nil {
			return err
		}
		if err := cond.Check(info.Name, current); err != nil {
			return err
		}
	}
	if cond.IfNoneMatch == "*" {
		err := s.root.Link(temporary, key)
		if err == nil {
			s.root.Remove(temporary) //nolint:errcheck // the object is there; a second name for it is hidden
			return nil
		}
		if errors.Is(err, fs.ErrExist) {
			return object.Errorf(object.Exists, "%s exists", info.Name)
		}
	}
	if err := s.root.Rename(temporary, key); err != nil {
		return writeError("source", err)
	}
	return nil
}

// current returns what a condition is checked against, nil if there is no object.
func (s *Source) current(name object.Name) (*object.Info, error) {
	st, err := s.root.Stat(name.Key)
	if err != nil {
		if err = readError("source", err); object.Is(err, object.NotFound) {
			return nil, nil
		}
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil
	}
	info := describe(name, st)
	return &info, nil
}

// sync makes the names of these paths durable: each in the directory above it, and what
// was renamed into the last.
func (s *Source) sync(paths []string) error {
	for i, name := range paths {
		if i < len(paths)-1 {
			name = path.Dir(name)
		}
		if err := s.syncDir(name); err != nil {
			return writeError("source", err)
		}
	}
	return nil
}

func (s *Source) syncDir(name string) error {
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another one's delete took it away, and synced that
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Delete implements object.Sink. Directories that become empty by it go too, so that
// their names are free for objects.
func (s *Source) Delete(ctx context.Context, name object.Name, cond object.Condition) error {
	if err := check(ctx, name.Key, object.NotFound); err != nil {
		return err
	}
	lock := s.lock(name.Key)
	lock.Lock()
	defer lock.Unlock()
	current, err := s.current(name)
	if err != nil {
		return err
	}
	if err := cond.Check(name, current); err != nil {
		return err
	}
	if current == nil {
		return object.Errorf(object.NotFound, "%s does not exist", name)
	}
	if err := s.root.Remove(name.Key); err != nil {
		return readError("source", err)
	}
	dir := path.Dir(name.Key)
	for ; dir != "."; dir = path.Dir(dir) {
		if s.root.Remove(dir) != nil {
			break
		}
	}
	if err := s.syncDir(dir); err != nil {
		return writeError("source", err)
	}
	return nil
}

// bodyReader ends with the context, and tells its own errors from the file's.
type bodyReader struct {
	from  io.Reader
	ended func() error
	err   error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if b.err = b.ended(); b.err != nil {
		return 0, b.err
	}
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
