package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"penstock.dev/penstock/internal/object"
)

// Files measures files in a directory: a read is open, read and close; a write is
// a new file and a rename. There is no server and no network, so it is a ceiling,
// not a rival.
type Files struct {
	Dir  string // must be there
	Sync bool   // a write is over when file and directory are synced

	// Prefix is what all keys begin with and paths do not, as it is between a
	// directory and the bucket that it was uploaded to.
	Prefix string

	conns atomic.Int64
}

// Connect checks that the directory is there.
func (d *Files) Connect(ctx context.Context) (Conn, error) {
	st, err := os.Stat(d.Dir)
	if err != nil {
		return nil, classify(ctx, err)
	}
	if !st.IsDir() {
		return nil, object.Errorf(object.Invalid, "%s is not a directory", d.Dir)
	}
	unfinished := filepath.Join(d.Dir, fmt.Sprintf(".penstock-bench-%d-%d", os.Getpid(), d.conns.Add(1)))
	return &filesConn{driver: d, buffer: make([]byte, 128<<10), unfinished: unfinished}, nil
}

// Close has nothing to do.
func (d *Files) Close() {}

type filesConn struct {
	driver     *Files
	buffer     []byte
	unfinished string // where a file is written before it gets its name
}

// path returns where a key lies. Keys that would lead elsewhere are refused.
func (c *filesConn) path(key string) (string, error) {
	path, found := strings.CutPrefix(key, c.driver.Prefix)
	if !found || !filepath.IsLocal(path) {
		return "", object.Errorf(object.Invalid, "the key %q is no path below a directory", key)
	}
	return filepath.Join(c.driver.Dir, path), nil
}

func (c *filesConn) Put(ctx context.Context, key string, content []byte) error {
	if ctx.Err() != nil {
		return classify(ctx, ctx.Err())
	}
	path, err := c.path(key)
	if err != nil {
		return err
	}
	if err := c.write(content); err != nil {
		os.Remove(c.unfinished)
		return classify(ctx, err)
	}
	err = os.Rename(c.unfinished, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.Rename(c.unfinished, path)
		}
	}
	if err == nil && c.driver.Sync {
		err = syncDir(filepath.Dir(path))
	}
	return classify(ctx, err)
}

// write writes the file that has no name yet.
func (c *filesConn) write(content []byte) error {
	f, err := os.OpenFile(c.unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && c.driver.Sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (c *filesConn) PutBatch(ctx context.Context, keys []string, contents [][]byte) error {
	for i, key := range keys {
		if err := c.Put(ctx, key, contents[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *filesConn) Get(ctx context.Context, key string, w io.Writer) error {
	if ctx.Err() != nil {
		return classify(ctx, ctx.Err())
	}
	path, err := c.path(key)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return classify(ctx, err)
	}
	_, err = io.CopyBuffer(w, onlyReader{f}, c.buffer)
	return classify(ctx, errors.Join(err, f.Close()))
}

// Batch reads each file straight into memory: what is the ceiling should not pay for
// a second copy.
func (c *filesConn) Batch(ctx context.Context, keys []string, item func(content []byte, err error)) error {
	for _, key := range keys {
		if ctx.Err() != nil {
			return classify(ctx, ctx.Err())
		}
		content, err := c.read(ctx, key)
		item(content, err)
	}
	return nil
}

// read returns the bytes of a file; they are valid until the next read.
func (c *filesConn) read(ctx context.Context, key string) ([]byte, error) {
	path, err := c.path(key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, classify(ctx, err)
	}
	n := 0
	for err == nil {
		if n == len(c.buffer) {
			c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
		}
		var got int
		got, err = f.Read(c.buffer[n:])
		n += got
	}
	if err == io.EOF {
		err = nil
	}
	return c.buffer[:n], classify(ctx, errors.Join(err, f.Close()))
}

func (c *filesConn) Close() error {
	if err := os.Remove(c.unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
