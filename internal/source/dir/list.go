package dir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

// List implements object.Lister.
func (s *Source) List(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		if err := ctx.Err(); err == nil && s.linked(opts.Prefix) {
			return
		}
		source.Walk(ctx, tree{s}, bucket, opts)(yield)
	}
}

// linked reports whether a prefix leads through a symbolic link, behind which nothing is
// listed.
func (s *Source) linked(prefix string) bool {
	if !Possible(strings.TrimSuffix(prefix[:strings.LastIndexByte(prefix, '/')+1], "/")) {
		return false
	}
	for i, c := range prefix {
		if c != '/' {
			continue
		}
		// What cannot be looked at, the walk will report.
		if st, err := s.root.Lstat(prefix[:i]); err == nil && !st.IsDir() {
			return true
		}
	}
	return false
}

// tree is a Source as source.Walk sees it.
type tree struct{ s *Source }

// chunk is how many names are taken from the kernel at once.
const chunk = 1024

// Level implements source.Tree. It holds at most twice the window.
func (t tree) Level(ctx context.Context, dir string, want func(sort string) bool) (source.Level, error) {
	name := strings.TrimSuffix(dir, "/")
	if name == "" {
		name = "."
	} else if !Possible(name) {
		return source.Level{}, object.Errorf(object.NotFound, "%q cannot be a directory", name)
	}
	f, err := t.s.root.Open(name)
	if err != nil {
		return source.Level{}, readError("source", err)
	}
	children, more, err := t.read(ctx, f, dir, want)
	if err != nil {
		f.Close()
		return source.Level{}, err
	}
	return source.Level{
		Children: children, More: more,
		Info:  func(_ context.Context, i int) (object.Info, error) { return t.info(f, dir, children[i].Name) },
		Close: func() { f.Close() },
	}, nil
}

// read returns the first children that are wanted, in order.
func (t tree) read(ctx context.Context, f *os.File, dir string, want func(sort string) bool) (children []source.Child, more bool, err error) {
	window := t.s.opts.Window
	trim := func() {
		slices.SortFunc(children, func(a, b source.Child) int { return strings.Compare(a.Sort(), b.Sort()) })
		if len(children) > window {
			clear(children[window:])
			children, more = children[:window], true
		}
	}
	for {
		entries, err := f.ReadDir(chunk)
		for _, e := range entries {
			child := source.Child{Name: e.Name(), Dir: e.IsDir()}
			if !want(child.Sort()) || strings.HasPrefix(child.Name, hidden) {
				continue
			}
			if why := refused(dir+child.Name, e); why != nil {
				t.s.opts.Skipped(dir+child.Name, why)
				continue
			}
			if children = append(children, child); len(children) >= 2*window {
				trim()
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		} else {
			err = readError("source", err)
		}
		if err != nil {
			return nil, false, err
		}
	}
	trim()
	return children, more, nil
}

// refused says why a name in a directory is none of a key.
func refused(key string, e fs.DirEntry) error {
	switch kind := e.Type(); {
	case !kind.IsRegular() && kind != fs.ModeDir && kind != fs.ModeSymlink:
		return localfile.NotContent(kind)
	case len(key) > object.MaxKey:
		return object.Errorf(object.Invalid, "its path is longer than a key")
	}
	return object.ValidateKey(key)
}

// info describes a file in an open directory. What is no plain file is NotFound.
func (t tree) info(f *os.File, dir, name string) (object.Info, error) {
	var st unix.Stat_t
	err := localfile.Uninterrupted(func() error { return unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	switch {
	case err != nil:
		return object.Info{}, readError("source", &fs.PathError{Op: "stat", Path: dir + name, Err: err})
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return t.behind(dir + name)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return object.Info{}, object.Errorf(object.NotFound, "%s is no plain file any more", dir+name)
	}
	return infoOf(object.Name{}, st.Size, time.Unix(st.Mtim.Unix()), st.Ino), nil
}

// behind describes what a symbolic link leads to, if that is a plain file of the tree.
func (t tree) behind(key string) (object.Info, error) {
	st, err := t.s.root.Stat(key)
	if err == nil && st.Mode().IsRegular() {
		return describe(object.Name{}, st), nil
	}
	if err == nil {
		err = localfile.NotContent(st.Mode())
	}
	t.s.opts.Skipped(key, err)
	return object.Info{}, object.Errorf(object.NotFound, "%s leads to no plain file of the tree", key)
}
