package tree

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

const (
	// sorted is how many names of a directory are put in order together: nearly all
	// directories as a whole, those with millions of names piece by piece.
	sorted = 1 << 16

	// chunkNames is how many of them are one piece of work.
	chunkNames = 256
)

// folder is an open directory whose files are being read. Files are opened by
// their name in it: that spares the kernel the way from the root for each of them.
type folder struct {
	file  *os.File
	fd    int
	path  string // from the root of the tree, with a slash at its end; empty: the root
	users atomic.Int32
}

// leave closes the folder behind its last user.
func (f *folder) leave() {
	if f.users.Add(-1) == 0 {
		f.file.Close()
	}
}

// chunk is some files of a folder. Whoever gets it leaves the folder.
type chunk struct {
	in    *folder
	names []string
}

// walker goes through a tree of files.
type walker struct {
	root   string
	follow bool
	chunk  func(chunk) error               // takes files; an error ends the walk
	fail   func(path string, err error)    // takes what cannot be read
	skip   func(path string, reason error) // takes what is neither file nor directory
}

// local returns the path of a file in the tree, as the user would write it.
func (w *walker) local(path string) string { return filepath.Join(w.root, filepath.FromSlash(path)) }

// walk goes through the tree, each directory before those below it.
func (w *walker) walk(ctx context.Context) error {
	root, err := os.OpenFile(w.root, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err // the whole of it
	}
	below, err := w.folder(ctx, root, "")
	if err != nil {
		return err
	}
	slices.Reverse(below) // the first one comes next
	for len(below) > 0 {
		path := below[len(below)-1]
		below = below[:len(below)-1]
		dir, err := os.OpenFile(w.local(path), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			w.fail(w.local(path), localfile.Reason(err))
			continue
		}
		further, err := w.folder(ctx, dir, path+"/")
		if err != nil {
			return err
		}
		slices.Reverse(further)
		below = append(below, further...)
	}
	return nil
}

// folder passes on the files of a directory and returns the directories in it.
func (w *walker) folder(ctx context.Context, dir *os.File, path string) (below []string, err error) {
	in := &folder{file: dir, fd: int(dir.Fd()), path: path}
	in.users.Store(1)
	defer in.leave()
	for {
		entries, err := dir.ReadDir(sorted)
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		names := make([]string, 0, min(len(entries), chunkNames))
		for i, entry := range entries {
			name := entry.Name()
			switch kind := entry.Type(); {
			case path == "" && name == temporaries && kind.IsDir():
				w.skip(w.local(name), object.Errorf(object.Invalid, "left by a `get -r` that was interrupted, or is running"))
			case kind.IsDir():
				below = append(below, path+name)
			case kind.IsRegular(), kind == fs.ModeSymlink && w.follow:
				names = append(names, name)
			default:
				w.skip(w.local(path+name), localfile.NotContent(kind))
			}
			if len(names) == chunkNames || (i == len(entries)-1 && len(names) > 0) {
				in.users.Add(1)
				if err := w.chunk(chunk{in, names}); err != nil {
					return nil, err
				}
				names = make([]string, 0, chunkNames)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == io.EOF:
			return below, nil
		case err != nil:
			w.fail(w.local(path), localfile.Reason(err))
			return below, nil
		}
	}
}

// mode returns the kind of file that the kernel says it is.
func mode(st *unix.Stat_t) fs.FileMode {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	}
	return fs.ModeDevice
}

// stat looks at a file of a folder.
func stat(fd int, name string, follow bool) (st unix.Stat_t, err error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	err = localfile.Uninterrupted(func() error { return unix.Fstatat(fd, name, &st, flags) })
	return st, err
}
