package tree

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/object"
)

const (
	readers = 4 // goroutines that open and read small files

	// A batch is as large as what the node commits together.
	batchBytes = 4 << 20
	batchFiles = 2000
)

// Put stores the files below dir as objects of a bucket: a file's key is the prefix
// and its path from dir, with slashes.
//
// A file is left alone if there is an object of its name and size that was written
// after the file was: that takes the clocks of both machines for equal, and a file
// that changes while it is on its way, keeping its size, may be missed.
// Options.Checksum is right always. Empty directories leave no trace.
func Put(ctx context.Context, client *penstock.Client, dir, bucket, prefix string, opts Options) (Report, error) {
	prefix = Directory(prefix)
	if err := checkPlace(bucket, prefix); err != nil {
		return Report{}, err
	}
	return act(ctx, client, opts, func(ctx context.Context, t *tally) error {
		p := &putter{tally: t, bucket: bucket, prefix: prefix}
		p.files = walker{root: dir, follow: opts.Follow, fail: func(path string, err error) { t.fail(ctx, path, err) }, skip: t.skip}
		return p.run(ctx)
	}, countFiles(dir, opts.Follow))
}

// countFiles counts the files of a tree.
func countFiles(dir string, follow bool) func(context.Context, *tally) error {
	return func(ctx context.Context, t *tally) error {
		w := walker{root: dir, follow: follow, fail: func(string, error) {}, skip: func(string, error) {}}
		w.chunk = func(c chunk) error {
			defer c.in.leave()
			for _, name := range c.names {
				if st, err := stat(c.in.fd, name, follow); err == nil {
					t.count(st.Size)
				}
			}
			return ctx.Err()
		}
		return w.walk(ctx)
	}
}

// putter stores one tree. The walk hands chunks of names to the readers; they fill
// batches with small files, which the senders send, and pass the large ones on,
// open.
type putter struct {
	*tally
	files          walker
	bucket, prefix string
	known          known

	chunks  chan chunk
	batches chan *batch
	free    chan *batch
	large   chan largeFile
}

// batch is the content of many small files, one behind the other.
type batch struct {
	objects []penstock.Upload
	buf     []byte
}

// largeFile is an open file that travels alone.
type largeFile struct {
	file  *os.File
	key   string
	size  int64
	known *knownObject // to be compared with
}

func (p *putter) run(ctx context.Context) error {
	if p.opts.Force {
		if _, err := p.client.Bucket(ctx, p.bucket); err != nil {
			return err
		}
	} else if err := p.known.load(ctx, p.tally, p.bucket, p.prefix); err != nil {
		return err
	}
	requests := orElse(p.opts.Requests, 4)
	p.chunks, p.large = make(chan chunk, 2*readers), make(chan largeFile)
	p.batches, p.free = make(chan *batch), make(chan *batch, readers+requests)
	for range cap(p.free) {
		p.free <- new(batch)
	}
	// Behind the walk every stage empties the channel before it, also when the run is
	// being stopped: then nobody waits for ever, and every file is closed.
	var group errgroup.Group
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() { p.read(ctx) })
	}
	for range requests {
		group.Go(func() error { p.sendBatches(ctx); return nil })
		group.Go(func() error { p.sendLarge(ctx); return nil })
	}
	p.files.chunk = func(c chunk) error {
		p.chunks <- c
		return ctx.Err()
	}
	err := p.files.walk(ctx)
	close(p.chunks)
	reading.Wait()
	close(p.batches)
	close(p.large)
	group.Wait()
	return err
}

// read reads small files into batches.
func (p *putter) read(ctx context.Context) {
	b := <-p.free
	for c := range p.chunks {
		for _, name := range c.names {
			if ctx.Err() != nil {
				break
			}
			b = p.file(ctx, c.in, name, b)
		}
		c.in.leave()
	}
	if len(b.objects) > 0 {
		p.batches <- b
	}
}

// file looks at one file, and reads it into the batch if it has to be sent. It
// returns the batch to go on with.
func (p *putter) file(ctx context.Context, in *folder, name string, b *batch) *batch {
	key := p.prefix + in.path + name
	path := key[len(p.prefix):]
	if err := object.ValidateKey(key); err != nil {
		p.failFile(ctx, path, err)
		return b
	}
	there, isThere := p.known.find(key)
	if isThere && !p.opts.Checksum {
		st, err := stat(in.fd, name, p.opts.Follow)
		if err != nil {
			p.failFile(ctx, path, err)
			return b
		}
		if mode(&st).IsRegular() && st.Size == there.size && st.Mtim.Nano() <= there.mark {
			p.same(st.Size)
			return b
		}
		isThere = false // it has changed
	}
	fd, st, err := p.open(in, name)
	switch {
	case err != nil:
		p.failFile(ctx, path, err)
		return b
	case !mode(&st).IsRegular():
		unix.Close(fd)
		p.skip(p.files.local(path), localfile.NotContent(mode(&st)))
		return b
	case st.Size > smallFile:
		l := largeFile{file: os.NewFile(uintptr(fd), p.files.local(path)), key: key, size: st.Size}
		if isThere && there.size == st.Size {
			known := there
			l.known = &known
		}
		p.large <- l
		return b
	}
	defer unix.Close(fd)
	if len(b.objects) == batchFiles || len(b.buf)+int(st.Size) > batchBytes {
		p.batches <- b
		b = <-p.free
	}
	if b.buf == nil {
		b.buf = make([]byte, 0, batchBytes+1) // and one byte to see that a file has grown
	}
	start := len(b.buf)
	n, err := readAll(fd, b.buf[start:start+int(st.Size)+1], int(st.Size))
	if err != nil {
		p.failFile(ctx, path, err)
		return b
	}
	content := b.buf[start : start+n : start+n]
	if isThere && int64(n) == there.size && int64(crc32.ChecksumIEEE(content)) == there.mark {
		p.same(int64(n))
		return b
	}
	b.buf = b.buf[:start+n]
	b.objects = append(b.objects, penstock.Upload{Key: key, ContentType: p.opts.ContentType, Bytes: content})
	return b
}

// open opens a file of a folder and looks at what it has opened. A pipe does not
// make it wait.
func (p *putter) open(in *folder, name string) (fd int, st unix.Stat_t, err error) {
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if p.opts.Follow {
		flags &^= unix.O_NOFOLLOW
	}
	err = localfile.Uninterrupted(func() error { fd, err = unix.Openat(in.fd, name, flags, 0); return err })
	if err != nil {
		return -1, st, err
	}
	if err := localfile.Uninterrupted(func() error { return unix.Fstat(fd, &st) }); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

var errGrown = errors.New("the file grew while it was read")

// readAll reads a file of the given size into p, which has room for one byte more.
// When the size is reached the file has ended: the kernel gives less than is asked
// for only there, and one call is spared.
func readAll(fd int, p []byte, size int) (n int, err error) {
	for n < size || size == 0 {
		var got int
		err := localfile.Uninterrupted(func() (err error) { got, err = unix.Read(fd, p[n:]); return err })
		if err != nil {
			return 0, err
		}
		if got == 0 {
			break // also where it has become shorter
		}
		if n += got; n > size {
			return 0, errGrown
		}
	}
	return n, nil
}

// failFile names a file of the tree that was not stored.
func (p *putter) failFile(ctx context.Context, path string, err error) {
	p.fail(ctx, p.files.local(path), err)
}

// sendBatches sends small files.
func (p *putter) sendBatches(ctx context.Context) {
	for b := range p.batches {
		if ctx.Err() == nil {
			p.sendBatch(ctx, b)
		}
		clear(b.objects)
		b.objects, b.buf = b.objects[:0], b.buf[:0]
		p.free <- b
	}
}

func (p *putter) sendBatch(ctx context.Context, b *batch) {
	err := p.try(ctx, func() error { return p.client.PutBatch(ctx, p.bucket, b.objects) })
	some, partly := errors.AsType[*penstock.PutBatchError](err)
	for i := range b.objects {
		o := &b.objects[i]
		why := err
		if partly {
			why = some.Failed[o.Key]
		}
		if why != nil {
			p.failFile(ctx, o.Key[len(p.prefix):], why)
			continue
		}
		p.done(int64(len(o.Bytes)))
	}
}

// sendLarge sends large files.
func (p *putter) sendLarge(ctx context.Context) {
	var buffer []byte
	for l := range p.large {
		if ctx.Err() == nil {
			if buffer == nil {
				buffer = make([]byte, smallFile)
			}
			if err := p.putLarge(ctx, l, buffer); err != nil {
				p.failFile(ctx, l.key[len(p.prefix):], err)
			}
		}
		l.file.Close()
	}
}

func (p *putter) putLarge(ctx context.Context, l largeFile, buffer []byte) error {
	crc, err := checksum(ctx, l.file, buffer)
	if err != nil {
		return err
	}
	if l.known != nil && int64(crc) == l.known.mark {
		p.same(l.size)
		return nil
	}
	sent := &watched{file: l.file, tally: p.tally}
	defer sent.forget()
	var info penstock.Info
	err = p.try(ctx, func() error {
		if _, err := sent.Seek(0, io.SeekStart); err != nil {
			return err
		}
		var err error
		info, err = p.client.Put(ctx, penstock.Name{Bucket: p.bucket, Key: l.key}, sent, penstock.PutOptions{ContentType: p.opts.ContentType, CRC32: &crc})
		return err
	})
	if err != nil {
		return err
	}
	sent.forget()
	p.done(info.Size)
	return nil
}

// checksum reads a file to its end.
func checksum(ctx context.Context, r io.Reader, buffer []byte) (uint32, error) {
	sum := uint32(0)
	for {
		n, err := r.Read(buffer)
		sum = crc32.Update(sum, crc32.IEEETable, buffer[:n])
		switch {
		case err == io.EOF:
			return sum, nil
		case err != nil:
			return 0, localfile.Reason(err)
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		}
	}
}

// watched counts what is sent of a large file, and forgets it where the file is
// sent again.
type watched struct {
	file  *os.File
	tally *tally
	moved int64
}

// Read counts.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.file.Read(b)
	w.moved += int64(n)
	w.tally.moving.Add(int64(n))
	return n, err
}

// Seek begins anew.
func (w *watched) Seek(offset int64, whence int) (int64, error) {
	w.forget()
	return w.file.Seek(offset, whence)
}

func (w *watched) forget() {
	w.tally.moving.Add(-w.moved)
	w.moved = 0
}
