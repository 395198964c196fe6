package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// Directory returns the place that is a directory. It may not be there yet.
func Directory(dir string) Place { return &directory{dir: dir, files: newFiles()} }

type directory struct {
	dir   string
	files *files
}

// String names the place.
func (d *directory) String() string { return d.dir }

func (d *directory) close() { d.files.close() }

// removed ends the name of what is left of the manifest of a version that was
// removed, so that its number is not given out again.
const removed = ".removed"

// unfinished ends the name of a manifest that is not published yet.
const unfinished = ".new"

func (d *directory) versions(context.Context) (published []uint64, last uint64, err error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, failed(err)
	}
	for _, entry := range entries {
		name, gone := strings.CutSuffix(entry.Name(), removed)
		version, ok := parseVersion(name)
		if !ok {
			continue
		}
		last = max(last, version)
		if !gone {
			published = append(published, version)
		}
	}
	slices.Sort(published)
	return published, last, nil
}

func (d *directory) manifest(_ context.Context, version uint64) (*manifest.Manifest, error) {
	return manifest.Open(filepath.Join(d.dir, manifestName(version)))
}

// path returns where a shard lies. Names come from a manifest, which may come from
// anybody: a relative one must stay inside of the directory.
func (d *directory) path(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", object.Errorf(object.Corrupt, "a shard cannot be called %q", name)
	}
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	if !filepath.IsLocal(name) || path.Clean(name) != name {
		return "", object.Errorf(object.Corrupt, "the shard %q would lie outside of %s", name, d.dir)
	}
	return filepath.Join(d.dir, filepath.FromSlash(name)), nil
}

func (d *directory) size(_ context.Context, shard string) (int64, error) {
	f, err := d.open(shard)
	if err != nil {
		return 0, err
	}
	defer f.leave()
	st, err := f.Stat()
	if err != nil {
		return 0, failed(err)
	}
	return st.Size(), nil
}

func (d *directory) stream(_ context.Context, r stretch) (io.ReadCloser, error) {
	name, err := d.path(r.shard)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, failed(err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, r.offset, r.length), f}, nil
}

func (d *directory) note(_ context.Context, version uint64) (n note, err error) {
	data, err := os.ReadFile(filepath.Join(d.dir, filepath.FromSlash(notePath(version))))
	if err != nil || json.Unmarshal(data, &n) != nil {
		return note{}, nil // whoever made the version wrote none, or not to its end
	}
	return n, nil
}

// foreign finds files of a tree where they are: inside of the directory by a path
// that moves with it, elsewhere by an absolute one.
func (d *directory) foreign(from Origin, file string) string {
	t, ok := from.(*tree)
	if !ok {
		return ""
	}
	name, err := filepath.Abs(t.local(file))
	if err != nil {
		return ""
	}
	if top, err := filepath.Abs(d.dir); err == nil {
		if inside, err := filepath.Rel(top, name); err == nil && filepath.IsLocal(inside) {
			return filepath.ToSlash(inside)
		}
	}
	return name
}

// owned is for trees that the directory lies in, or that it is.
func (d *directory) owned(from Origin) func(path string) bool {
	t, ok := from.(*tree)
	if !ok || t.single != "" {
		return nil
	}
	top, err := filepath.Abs(t.dir)
	if err != nil {
		return nil
	}
	own, err := filepath.Abs(d.dir)
	if err != nil {
		return nil
	}
	inside, err := filepath.Rel(top, own)
	switch {
	case err != nil || !filepath.IsLocal(inside):
		return nil
	case inside == ".":
		return ownName
	}
	return func(path string) bool { return path == filepath.ToSlash(inside)+"/" }
}

// ownName reports whether something at the top of a dataset's directory was made by
// us: the folder or the manifest of a version.
func ownName(path string) bool {
	folder, isFolder := strings.CutSuffix(path, "/")
	if isFolder {
		_, ok := parseVersion(manifestPrefix + folder)
		return ok
	}
	_, ok := parseVersion(strings.TrimSuffix(strings.TrimSuffix(path, removed), unfinished))
	return ok
}

func (d *directory) withdraw(_ context.Context, version uint64) ([]string, error) {
	name := filepath.Join(d.dir, manifestName(version))
	gone, err := os.Create(name + removed)
	if err != nil {
		return nil, failed(err)
	}
	if err := gone.Close(); err != nil {
		return nil, failed(err)
	}
	if err := os.Remove(name); err != nil {
		return nil, failed(err)
	}
	return []string{notePath(version)}, failed(syncDir(d.dir))
}

func (d *directory) remove(_ context.Context, names []string) error {
	folders := map[string]bool{}
	for _, name := range names {
		file, err := d.path(name)
		if err != nil {
			return err
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(err)
		}
		folders[filepath.Dir(file)] = true
	}
	for folder := range folders {
		if filepath.Clean(folder) != filepath.Clean(d.dir) {
			_ = os.Remove(folder) // if it is empty
		}
	}
	return nil
}

// failed gives an error of the operating system its kind.
func failed(err error) error {
	if err == nil {
		return nil
	}
	var known *object.Error
	kind := object.Unavailable
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		kind = object.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = object.Denied
	}
	return object.Errorf(kind, "%w", err)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
