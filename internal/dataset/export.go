package dataset

import (
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

// Export writes the samples of a version as files below a directory: KEY.FIELD for
// each field that is asked for, and for the columns, by number. Files that are there
// are replaced; each appears when it is whole. Nothing is written outside of the
// directory.
func (v *Version) Export(ctx context.Context, dir string, columns []int, o ReadOptions) (ReadReport, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return ReadReport{}, failed(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ReadReport{}, failed(err)
	}
	defer root.Close()
	s := newSweep(v, o)
	e := &exporter{sweep: s, root: root, folders: newFiles()}
	defer e.folders.close()
	err = s.run(ctx, func(ref Ref, data []byte) error {
		return e.write(ref.Sample, v.Fields()[ref.Field].Name, bytes.NewReader(data))
	}, func(ref Ref, r io.Reader) error {
		return e.write(ref.Sample, v.Fields()[ref.Field].Name, r)
	})
	if err == nil {
		err = e.columns(ctx, columns)
	}
	return s.report(), err
}

type exporter struct {
	*sweep
	root    *os.Root
	folders *files
	next    atomic.Int64
}

// columns writes columns as files.
func (e *exporter) columns(ctx context.Context, columns []int) error {
	if len(columns) == 0 {
		return nil
	}
	parallel(min(4*runtime.GOMAXPROCS(0), 16), e.Len(), 64, func(from, to int) {
		for sample := from; sample < to && ctx.Err() == nil; sample++ {
			for _, c := range columns {
				v, err := e.Value(sample, c)
				if err == nil && !v.Missing {
					column := e.Columns()[c]
					err = e.write(sample, column.Name, strings.NewReader(Text(column, v)))
				}
				if err != nil {
					e.problem(err)
				}
			}
		}
	})
	return ctx.Err()
}

// write makes a file. Keys come from a manifest, which may come from anybody.
func (e *exporter) write(sample int, field string, content io.Reader) error {
	key, err := e.Key(sample)
	if err != nil {
		return err
	}
	name := key + "." + field
	if !filepath.IsLocal(name) || path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return object.Errorf(object.Invalid, "sample %d: %q cannot be the path of a file", sample, name)
	}
	folder, err := e.folder(path.Dir(name))
	if err != nil {
		return failed(err)
	}
	defer folder.leave()
	// The file grows beside its place: many that are made in one folder by several
	// threads wait for each other.
	dir, temporary := int(folder.Fd()), ".penstock-export-"+strconv.FormatInt(e.next.Add(1), 10)
	fd, err := openAt(dir, temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW)
	if err != nil {
		return failed(err)
	}
	_, err = io.Copy(descriptor(fd), content)
	if closing := unix.Close(fd); err == nil {
		err = closing
	}
	if err == nil {
		err = unix.Renameat(dir, temporary, dir, path.Base(name))
	}
	if err != nil {
		_ = unix.Unlinkat(dir, temporary, 0)
		return failed(err)
	}
	return nil
}

// folder opens a folder, and makes it if there is none. os.Root lets no link lead out
// of the directory.
func (e *exporter) folder(name string) (*sharedFile, error) {
	return e.folders.get(name, func() (*os.File, error) {
		f, err := e.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if os.IsNotExist(err) {
			if err = e.root.MkdirAll(name, 0o777); err == nil {
				f, err = e.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
			}
		}
		return f, err
	})
}

// descriptor writes without what os.File does for files that can be waited for.
type descriptor int

// Write writes all of b.
func (d descriptor) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var wrote int
		err = localfile.Uninterrupted(func() (err error) { wrote, err = unix.Write(int(d), b[n:]); return err })
		n += max(wrote, 0)
	}
	return n, err
}
