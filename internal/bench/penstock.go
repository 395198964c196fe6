package bench

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
)

// Penstock measures a bucket of a node through the public client, over the native
// protocol. What the client repeats by itself shows as time, not as an error.
type Penstock struct {
	Client *penstock.Client
	Bucket string

	// Members says that keys are those of files inside of tars: see Existing.
	Members bool

	there atomic.Bool // the bucket was seen
}

// Connect checks, once, that there is a node and that it has the bucket.
func (d *Penstock) Connect(ctx context.Context) (Conn, error) {
	if !d.there.Load() {
		if _, err := d.Client.Bucket(ctx, d.Bucket); err != nil {
			return nil, err
		}
		d.there.Store(true)
	}
	return &penstockConn{client: d.Client, bucket: d.Bucket, members: d.Members}, nil
}

// Close drops idle connections.
func (d *Penstock) Close() { d.Client.Close() }

type penstockConn struct {
	client  *penstock.Client
	bucket  string
	members bool
	refs    []penstock.Ref
	uploads []penstock.Upload
}

func (c *penstockConn) name(key string) penstock.Name {
	return penstock.Name{Bucket: c.bucket, Key: key}
}

// memberMark stands between the key of a tar and the name of a file in it.
const memberMark = "?member="

func (c *penstockConn) split(key string) (object, member string) {
	if c.members {
		object, member, _ = strings.Cut(key, memberMark)
		return object, member
	}
	return key, ""
}

func (c *penstockConn) Put(ctx context.Context, key string, content []byte) error {
	_, err := c.client.Put(ctx, c.name(key), bytes.NewReader(content), penstock.PutOptions{})
	return err
}

func (c *penstockConn) Get(ctx context.Context, key string, w io.Writer) error {
	r, err := c.client.Open(ctx, c.name(key), penstock.Range{})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.WriteTo(w)
	return err
}

func (c *penstockConn) PutBatch(ctx context.Context, keys []string, contents [][]byte) error {
	c.uploads = c.uploads[:0]
	for i, key := range keys {
		c.uploads = append(c.uploads, penstock.Upload{Key: key, Bytes: contents[i]})
	}
	return c.client.PutBatch(ctx, c.bucket, c.uploads)
}

func (c *penstockConn) Batch(ctx context.Context, keys []string, item func(content []byte, err error)) error {
	c.refs = c.refs[:0]
	for _, key := range keys {
		object, member := c.split(key)
		c.refs = append(c.refs, penstock.Ref{Name: c.name(object), Member: member})
	}
	came := 0
	for got, err := range c.client.Batch(ctx, c.refs) {
		item(got.Bytes, err)
		came++
	}
	if came != len(keys) {
		return object.Errorf(object.Internal, "%d items came for %d references", came, len(keys))
	}
	return nil
}

func (c *penstockConn) Close() error { return nil }
