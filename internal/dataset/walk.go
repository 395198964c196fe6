package dataset

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

// Tree returns the origin that is the files below a directory, or a single file.
func Tree(dir string) Origin { return &tree{dir: dir} }

type tree struct {
	dir    string
	follow bool
	root   *os.File // open from list to close
	single string   // the one file, if dir is one
}

// String names the origin.
func (t *tree) String() string { return t.dir }

// where tells this tree from others: also from one that stood here before.
func (t *tree) where() string {
	host, _ := os.Hostname()
	path, _ := filepath.Abs(t.dir)
	var st unix.Stat_t
	_ = unix.Fstat(int(t.root.Fd()), &st) // zero is as good as another number
	return host + ":" + path + ":" + formatID(uint64(st.Dev), st.Ino)
}

func (t *tree) open(r *run) error {
	t.follow = r.opts.Follow
	root, err := os.Open(t.dir)
	if err != nil {
		return err
	}
	st, err := root.Stat()
	if err == nil && st.Mode().IsRegular() {
		root.Close()
		t.single = filepath.Base(t.dir)
		if root, err = os.Open(filepath.Dir(t.dir)); err != nil {
			return err
		}
	}
	t.root = root
	return err
}

func (t *tree) close() {
	if t.root != nil {
		t.root.Close()
	}
}

// local returns the path of a file as the user would write it.
func (t *tree) local(path string) string {
	if t.single != "" {
		return t.dir
	}
	return filepath.Join(t.dir, filepath.FromSlash(path))
}

// stats is how many files a worker looks at before it takes others.
const stats = 256

// look is some files of a folder that are looked at.
type look struct {
	in       *folder
	from, to int
}

// list reads the directories one after the other, each before those below it, and
// has their files looked at meanwhile.
func (t *tree) list(ctx context.Context, r *run) ([]*folder, error) {
	if t.single != "" {
		f := &folder{}
		f.add(t.single)
		t.room(f)
		t.look(r, look{f, 0, 1})
		return []*folder{f}, nil
	}
	looks := make(chan look, 64)
	var workers sync.WaitGroup
	for range r.workers() {
		workers.Go(func() {
			for l := range looks {
				if ctx.Err() == nil {
					t.look(r, l)
				}
			}
		})
	}
	var folders []*folder
	below := []string{""}
	err := error(nil)
	for len(below) > 0 && err == nil {
		path := below[len(below)-1]
		below = below[:len(below)-1]
		f, further, failed := t.folder(ctx, r, path)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
			continue
		case failed != nil && path == "":
			err = failed
			continue
		case failed != nil:
			r.problem(t.local(path), failed)
			continue
		}
		if len(f.ends) > 0 {
			folders = append(folders, f)
		}
		for from := 0; from < len(f.ends); from += stats {
			looks <- look{f, from, min(from+stats, len(f.ends))}
		}
		slices.Reverse(further) // the first one comes next
		below = append(below, further...)
	}
	close(looks)
	workers.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return folders, err
}

// folder reads a directory: its files, and the directories in it, in byte order.
func (t *tree) folder(ctx context.Context, r *run, path string) (f *folder, below []string, err error) {
	dir, err := t.openDir(path)
	if err != nil {
		return nil, nil, localfile.Reason(err)
	}
	defer dir.Close()
	f = &folder{path: path}
	for {
		entries, err := dir.ReadDir(4096)
		for _, entry := range entries {
			name := entry.Name()
			switch kind := entry.Type(); {
			case name[0] == '.':
				r.skip(t.local(path+name), object.Errorf(object.Invalid, "it is hidden"))
			case kind.IsDir() && r.own(path+name+"/"), !kind.IsDir() && r.own(path+name):
			case kind.IsDir():
				below = append(below, path+name+"/")
			case kind.IsRegular(), kind == fs.ModeSymlink && t.follow:
				f.add(name)
			default:
				r.skip(t.local(path+name), localfile.NotContent(kind))
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case len(f.names) > maxNames:
			return nil, nil, invalid("a directory with so many files cannot be read")
		case err == io.EOF:
			slices.Sort(below)
			f.sort()
			t.room(f)
			return f, below, nil
		case err != nil:
			return nil, nil, localfile.Reason(err)
		}
	}
}

func (t *tree) openDir(path string) (*os.File, error) {
	if path == "" {
		return os.OpenFile(t.dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	fd, err := openAt(int(t.root.Fd()), path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), t.local(path)), nil
}

// sort puts the names into byte order: then the files of a sample are neighbours,
// because they share everything up to a dot.
func (f *folder) sort() {
	start := uint32(0)
	names := make([][]byte, len(f.ends))
	for i, end := range f.ends {
		names[i] = f.names[start:end]
		start = end
	}
	slices.SortFunc(names, bytes.Compare)
	sorted := make([]byte, 0, len(f.names))
	for i, name := range names {
		sorted = append(sorted, name...)
		f.ends[i] = uint32(len(sorted))
	}
	f.names, f.ends = sorted, slices.Clip(f.ends)
}

func (t *tree) room(f *folder) {
	f.sizes, f.stamps = make([]int64, len(f.ends)), make([]int64, len(f.ends))
}

// look finds the sizes of files, and when they were changed: their content, or
// anything else about them, because that time cannot be set back.
func (t *tree) look(r *run, l look) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if t.follow {
		flags = 0
	}
	for i := l.from; i < l.to; i++ {
		path := l.in.path + l.in.name(i)
		var st unix.Stat_t
		err := localfile.Uninterrupted(func() error { return unix.Fstatat(int(t.root.Fd()), path, &st, flags) })
		switch {
		case err != nil:
			l.in.sizes[i] = unusable
			r.problem(t.local(path), err)
		case st.Mode&unix.S_IFMT != unix.S_IFREG: // a link to something else, or it was exchanged just now
			l.in.sizes[i] = unusable
			r.skip(t.local(path), object.Errorf(object.Invalid, "it is not a plain file"))
		default:
			l.in.sizes[i], l.in.stamps[i] = st.Size, st.Ctim.Nano()
		}
	}
	r.listed.Add(int64(l.to - l.from))
}

func openAt(dir int, path string, flags int) (fd int, err error) {
	err = localfile.Uninterrupted(func() error {
		fd, err = unix.Openat(dir, path, flags|unix.O_CLOEXEC, 0o666)
		return err
	})
	return fd, err
}
