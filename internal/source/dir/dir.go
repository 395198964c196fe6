// Package dir is the source of file:/// URLs: a directory of this machine, usually the
// mount of NFS, Lustre or another file system that many machines share. A key is the
// path of a plain file below it.
//
// It is not a node's own disk (package disk), and trusts what it finds less: others write
// here while we read. Keys cannot leave the tree, and neither can symbolic links: all
// paths go through an os.Root. Links inside the tree are followed; a listing shows linked
// files and does not enter linked directories, which may lead in circles. Keys that
// cannot be paths are NotFound, and Invalid to write; a key cannot be held together with
// one below it. A type and metadata are not kept.
//
// A file is written beside its place under a name that nobody sees, synced, renamed, and
// its directory synced. Conditions are atomic among the users of one Source; that there be
// no object yet is atomic for everybody, where the file system has hard links.
//
// The ETag is made from size, time of change in nanoseconds and inode. Files that are
// replaced by rename are read as they were when opened; a file that is changed in its
// place while it is read is Stale at its end, as far as the file system's clock can tell.
// What WriteTo hands to the kernel for a socket may still be changed by such a writer
// until it is sent.
//
// Everything may be called concurrently, except one reader.
package dir

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

// Options of a directory. The zero value is good.
type Options struct {
	// Clock dates what is written; nil means time.Now.
	Clock func() time.Time

	// Window is how many names of one directory a listing holds in memory; a larger
	// directory is read several times. Zero means 65,536.
	Window int

	// Skipped, if not nil, is told what a listing passes over: what is no plain file,
	// links that lead outside, names that are no keys. It may be called concurrently.
	Skipped func(path string, why error)
}

// Source is an open directory.
type Source struct {
	root *os.Root
	opts Options
	seed maphash.Seed
	// locks make conditions atomic: a write holds the one its key falls on.
	locks [64]sync.Mutex
}

var _ source.Source = (*Source)(nil)

// Opener opens the directories that file:/// URLs name.
func Opener(opts Options) source.OpenFunc {
	return func(_ context.Context, u source.URL) (source.Source, error) {
		return New("/"+u.Path, opts)
	}
}

// New opens the directory at an absolute path, which must exist.
func New(path string, opts Options) (*Source, error) {
	if !filepath.IsAbs(path) {
		return nil, object.Errorf(object.Invalid, "the directory %s of a source is not an absolute path", path)
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Window <= 0 {
		opts.Window = 64 << 10
	}
	if opts.Skipped == nil {
		opts.Skipped = func(string, error) {}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, readError("the directory of a source", err)
	}
	return &Source{root: root, opts: opts, seed: maphash.MakeSeed()}, nil
}

// Close closes the directory.
func (s *Source) Close() error { return s.root.Close() }

// hidden is how the names of unfinished writes begin.
const hidden = ".penstock-put-"

// Possible reports whether a valid key can be held in a directory.
func Possible(key string) bool {
	if !source.PathKey(key) {
		return false
	}
	for component := range strings.SplitSeq(key, "/") {
		if len(component) > 255 || strings.HasPrefix(component, hidden) {
			return false
		}
	}
	return true
}

// check refuses keys, with the kind for those that are valid but impossible here.
func check(ctx context.Context, key string, kind object.Kind) error {
	if err := object.ValidateKey(key); err != nil {
		return err
	}
	if !Possible(key) {
		return object.Errorf(kind, "%q cannot be a path in a directory", key)
	}
	return ctx.Err()
}

func (s *Source) lock(key string) *sync.Mutex {
	return &s.locks[maphash.String(s.seed, key)%uint64(len(s.locks))]
}

func describe(name object.Name, st fs.FileInfo) object.Info {
	var inode uint64
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		inode = sys.Ino
	}
	return infoOf(name, st.Size(), st.ModTime(), inode)
}

func infoOf(name object.Name, size int64, modified time.Time, inode uint64) object.Info {
	etag := strconv.FormatInt(modified.UnixNano(), 16) + "-" + strconv.FormatInt(size, 16) + "-" + strconv.FormatUint(inode, 16)
	return object.Info{Name: name, Size: size, ETag: etag, Modified: modified}
}

// readError gives the failure of a system call the kind it has for who reads.
func readError(what string, err error) error {
	kind := object.Unavailable
	switch {
	case errors.Is(err, fs.ErrNotExist), is(err, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.ENXIO):
		kind = object.NotFound
	case errors.Is(err, fs.ErrPermission), is(err, syscall.EROFS, syscall.ELOOP), escapes(err):
		kind = object.Denied
	}
	return object.Errorf(kind, "%s: %w", what, err)
}

// writeError is readError for who writes: what is in the way makes a key impossible.
func writeError(what string, err error) error {
	if is(err, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY, syscall.EINVAL) {
		return object.Errorf(object.Invalid, "%s: %w", what, err)
	}
	var kind *object.Error
	if errors.As(err, &kind) {
		return err
	}
	return readError(what, err)
}

func is(err error, errnos ...syscall.Errno) bool {
	for _, errno := range errnos {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// escapes recognises os.Root's refusal, which is no exported error.
func escapes(err error) bool {
	var path *fs.PathError
	var errno syscall.Errno
	return errors.As(err, &path) && !errors.As(err, &errno) && strings.Contains(path.Err.Error(), "escapes")
}
