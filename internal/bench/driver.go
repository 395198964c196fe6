package bench

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"

	"penstock.dev/penstock/internal/object"
)

// Driver speaks to one target. Its methods may be called concurrently.
type Driver interface {
	// Connect returns a connection for one worker, or says why the target cannot
	// be used. The caller closes it.
	Connect(ctx context.Context) (Conn, error)

	// Close lets go of what all connections share.
	Close()
}

// Conn does what one worker asks for, one request at a time. After an error it
// can be used again. Errors have a kind; those of the context are Canceled.
type Conn interface {
	// Put stores an object and returns when the target says that it is there. It
	// does not keep content.
	Put(ctx context.Context, key string, content []byte) error

	// PutBatch stores many objects in as few requests as the target allows. A
	// *penstock.PutBatchError says which ones it could not store; with any other
	// error all of them count as failed.
	PutBatch(ctx context.Context, keys []string, contents [][]byte) error

	// Get writes the bytes of an object to w.
	Get(ctx context.Context, key string, w io.Writer) error

	// Batch reads many objects in as few requests as the target allows, and calls
	// item for each, in the order of keys, with its bytes, which are valid until
	// item returns, or with the reason why it is not there. An error of Batch
	// itself means that the items that were not given will not come.
	Batch(ctx context.Context, keys []string, item func(content []byte, err error)) error

	Close() error
}

// classify gives an error of the system or the network a kind.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := object.KindOf(err)
	if _, network := errors.AsType[*net.OpError](err); network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		kind = object.Unavailable
	}
	switch {
	case ctx.Err() != nil:
		return object.Errorf(object.Canceled, "%w", context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist):
		kind = object.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = object.Denied
	}
	return object.Errorf(kind, "%w", err)
}

// onlyReader hides what else a reader can do, so that io.CopyBuffer uses the
// buffer it is given.
type onlyReader struct{ io.Reader }

// oneByOne is the Batch of a target that has none: its Gets, one after the other.
func oneByOne(ctx context.Context, c Conn, keys []string, buffer *collector, item func(content []byte, err error)) error {
	for _, key := range keys {
		if ctx.Err() != nil {
			return classify(ctx, ctx.Err())
		}
		buffer.data = buffer.data[:0]
		err := c.Get(ctx, key, buffer)
		item(buffer.data, err)
	}
	return nil
}

// collector keeps what is written to it.
type collector struct{ data []byte }

// Write appends.
func (c *collector) Write(p []byte) (int, error) {
	c.data = append(c.data, p...)
	return len(p), nil
}
