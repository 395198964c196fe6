package dataset

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"penstock.dev/penstock/internal/object"
)

const (
	// openFiles is how many shards, or folders, are kept open.
	openFiles = 128

	// Ranges that lie so close to one another are read at once, up to so many bytes:
	// the headers between them cost less than a system call.
	nearBytes = 8 << 10
	onceBytes = 4 << 20
)

// read reads ranges that follow one another in a shard together.
func (d *directory) read(ctx context.Context, ranges []stretch, each func(int, []byte, error) error) error {
	var buffer []byte
	for i := 0; i < len(ranges); {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := ranges[i]
		from, to, next := first.offset, first.offset+first.length, i+1
		for ; next < len(ranges); next++ {
			r := ranges[next]
			if r.shard != first.shard || r.offset < to || r.offset-to > nearBytes || r.offset+r.length-from > onceBytes {
				break
			}
			to = r.offset + r.length
		}
		if int64(cap(buffer)) < to-from {
			buffer = make([]byte, to-from)
		}
		n, failure := d.readAt(first.shard, buffer[:to-from], from)
		for ; i < next; i++ {
			r := ranges[i]
			data, err := buffer[r.offset-from:r.offset-from+r.length], error(nil)
			if r.offset-from+r.length > int64(n) {
				data, err = nil, failure
			}
			if err := each(i, data, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// open returns a shard, open.
func (d *directory) open(shard string) (*sharedFile, error) {
	return d.files.get(shard, func() (*os.File, error) {
		path, err := d.path(shard)
		if err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		return f, failed(err)
	})
}

// readAt says why it could not read everything.
func (d *directory) readAt(shard string, b []byte, offset int64) (int, error) {
	f, err := d.open(shard)
	if err != nil {
		return -1, err
	}
	defer f.leave()
	n, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = object.Errorf(object.Corrupt, "%s ends at %d", f.Name(), offset+int64(n))
	}
	return n, failed(err)
}

// files keeps some files open.
type files struct {
	mu   sync.Mutex
	kept map[string]*sharedFile
}

// sharedFile is closed when nobody uses it and it is no longer kept.
type sharedFile struct {
	*os.File
	of    *files
	users int
}

func newFiles() *files { return &files{kept: map[string]*sharedFile{}} }

// get returns the file of that name, which is opened if it is not.
func (c *files) get(name string, open func() (*os.File, error)) (*sharedFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.kept[name]
	if f == nil {
		file, err := open()
		if err != nil {
			return nil, err
		}
		for name, other := range c.kept { // any one: most are used many times in a row, and then never
			if len(c.kept) < openFiles {
				break
			}
			delete(c.kept, name)
			other.drop()
		}
		f = &sharedFile{File: file, of: c, users: 1}
		c.kept[name] = f
	}
	f.users++
	return f, nil
}

func (f *sharedFile) leave() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.drop()
}

func (f *sharedFile) drop() {
	if f.users--; f.users == 0 {
		f.Close()
	}
}

func (c *files) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.kept {
		delete(c.kept, name)
		f.drop()
	}
}
