package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/node/nodetest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// spy is a listener whose connections tell how bytes reach them: copied through
// our memory (Write), or from a file by the kernel (ReadFrom with a file; net
// turns that into sendfile). It sits where net/http sees it, so it notices
// anything between a reader and the socket that hides one from the other.
type spy struct {
	net.Listener
	copied, byFile atomic.Int64
}

type spyConn struct {
	net.Conn
	inner io.ReaderFrom
	spy   *spy
}

func (s *spy) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	inner, ok := c.(io.ReaderFrom)
	if !ok {
		panic("the door's listener hides ReadFrom")
	}
	return &spyConn{Conn: c, inner: inner, spy: s}, nil
}

func (c *spyConn) Write(p []byte) (int, error) {
	c.spy.copied.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// ReadFrom counts what is to come before it comes: the client may have it all, and
// look at the count, before this returns.
func (c *spyConn) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		panic("net/http sends a file without an end")
	}
	counter, expected := &c.spy.copied, limited.N
	if _, ok := limited.R.(*os.File); ok {
		counter = &c.spy.byFile
	}
	counter.Add(expected)
	n, err := c.inner.ReadFrom(r)
	counter.Add(n - expected)
	return n, err
}

// check reads an object, or a range of it, and tells how it came.
func (s *spy) check(t *testing.T, d *door, want []byte, byFile bool, headers ...string) {
	t.Helper()
	s.copied.Store(0)
	s.byFile.Store(0)
	status := 200
	if len(headers) > 0 {
		status = 206
	}
	body, _ := d.want(t, status, "GET", "/v1/objects/bucket/blob", "", headers...)
	if !bytes.Equal([]byte(body), want) {
		t.Errorf("%v: %d wrong bytes", headers, len(body))
	}
	const slack = 4 << 10 // headers, and the first 512 bytes, which net/http reads itself
	copied, filed := s.copied.Load(), s.byFile.Load()
	if byFile && (copied > slack || filed < int64(len(want))-slack) {
		t.Errorf("%v: %d bytes went through our memory and %d by sendfile, of %d", headers, copied, filed, len(want))
	}
	if !byFile && (copied < int64(len(want)) || filed > 0) {
		t.Errorf("%v: %d bytes went through our memory and %d by sendfile, of %d that were to be checked", headers, copied, filed, len(want))
	}
}

// checkBatch is check for a batch of one object, twice.
func (s *spy) checkBatch(t *testing.T, d *door, want []byte, byFile bool) {
	t.Helper()
	s.copied.Store(0)
	s.byFile.Store(0)
	body, _ := d.want(t, 200, "POST", "/v1/batch", `{"bucket":"bucket","refs":[{"key":"blob"},{"key":"blob"}]}`)
	items, errs := itemsOf(t, body, 2)
	if errs[0] != nil || errs[1] != nil || items[0] != string(want) || items[1] != string(want) {
		t.Errorf("%v", errs)
	}
	if copied, filed := s.copied.Load(), s.byFile.Load(); byFile != (copied < 8<<10 && filed > 2*int64(len(want))-8<<10) {
		t.Errorf("in a batch %d bytes went through our memory and %d by sendfile", copied, filed)
	}
}

// TestSendfile proves that the kernel moves the bytes of blobs, whole or in part,
// through everything that lies between the store and the socket: node, exchange,
// net/http, the bound on connections.
func TestSendfile(t *testing.T) {
	s, err := store.Open(context.Background(), store.Options{Disks: []store.Disk{{FS: disk.NewDir(t.TempDir()), Name: "disk"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	listener := new(spy)
	d := open(t, config{store: s, listener: func(inner net.Listener) net.Listener {
		listener.Listener = inner
		return listener
	}})
	data := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	if _, err := d.node.Put(t.Context(), object.Name{Bucket: "bucket", Key: "blob"}, bytes.NewReader(data), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	d.want(t, 200, "GET", "/v1/objects/bucket/blob", "") // the first read after a start is checked
	listener.check(t, d, data, true)
	listener.check(t, d, data[1<<20:], true, "Range: bytes=1048576-")
	listener.check(t, d, data[12345:3<<20], true, "Range: bytes=12345-3145727")
	listener.check(t, d, data[len(data)-100000:], true, "Range: bytes=-100000")
	listener.checkBatch(t, d, data, true)
	if _, err := d.node.SetBucket(t.Context(), "bucket", []byte(`{"verify":"always"}`)); err != nil {
		t.Fatal(err)
	}
	listener.check(t, d, data, false)
	listener.checkBatch(t, d, data, false)
	listener.check(t, d, data[12345:3<<20], false, "Range: bytes=12345-3145727")
}

// filed is a store whose readers send from a file, in the simplest way.
type filed struct {
	*nodetest.Store
	path string
}

type fileReader struct {
	object.Reader
	*os.File
}

func (s filed) Open(ctx context.Context, name object.Name, r object.Range) (object.Reader, error) {
	reader, err := s.Store.Open(ctx, name, r)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, err
	}
	return fileReader{reader, f}, nil
}

func (r fileReader) Read(p []byte) (int, error) { return r.File.Read(p) }
func (r fileReader) Close() error               { return r.File.Close() }
func (r fileReader) WriteTo(w io.Writer) (int64, error) { // both forms in which a file reaches a writer
	n, err := io.CopyN(w, r.File, 1<<20)
	if err != nil {
		return n, err
	}
	m, err := io.Copy(w, r.File)
	return n + m, err
}

// TestFileTruncated sends from a file that is shorter than the object: the client
// must notice.
func TestFileTruncated(t *testing.T) {
	path := t.TempDir() + "/file"
	data := strings.Repeat("x", 3<<20)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, config{store: filed{nodetest.NewStore(), path}})
	d.put(t, "k", data)
	if body, _ := d.want(t, 200, "GET", "/v1/objects/bucket/k", ""); body != data {
		t.Errorf("%d bytes, and not the ones of the file", len(body))
	}
	if err := os.Truncate(path, 2<<20); err != nil {
		t.Fatal(err)
	}
	d.mustBreak(t, "k")
}
