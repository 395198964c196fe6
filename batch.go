package penstock

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

type (
	// Ref names what a batch asks for: an object, a file inside an object that is a
	// tar, or a range of either. It may say which CRC-32 the bytes must have.
	Ref = object.Ref
	// Item is what a batch yields: its bytes are valid until the next one.
	Item = object.Item
	// Upload is one of many objects that are stored together.
	Upload = object.Upload
)

const (
	// batchRefs is how many references go into one request.
	batchRefs = 16384

	// maxBatchItem bounds the memory for one item; larger objects are for Open.
	maxBatchItem = 1 << 30

	// maxPooled is the largest PutBatch whose memory is used again.
	maxPooled = 8 << 20
)

// Batch reads many objects with one request, or a few if there are very many. It
// yields one item for each reference, in their order; an error stands where the
// item would be. All bytes are checked against the CRC-32 that comes with them, and
// against the one that the reference asks for, if it does: other bytes are Stale.
// If an answer breaks off, the rest is asked for again, as often as other requests
// are repeated; what still does not come fails with the same error. So does all of
// a request with a reference that makes no sense, such as one with an empty key.
func (c *Client) Batch(ctx context.Context, refs []Ref) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		reader := c.batches.Get().(*wire.BatchReader)
		defer c.batches.Put(reader)
		rest := refs
		for attempt := 0; len(rest) > 0; attempt++ {
			some := rest[:min(len(rest), batchRefs)]
			n, left, err := c.batch(ctx, reader, some, yield)
			if left {
				return
			}
			if n > 0 {
				attempt = 0
			}
			rest = rest[n:]
			if err == nil {
				continue
			}
			if again := Is(err, Unavailable) && attempt+1 < c.attempts && ctx.Err() == nil; again && c.pause(ctx, backoff(attempt)) == nil {
				continue
			}
			for _, ref := range rest {
				if !yield(Item{Ref: ref, Last: true}, err) {
					return
				}
			}
			return
		}
	}
}

// batch makes one request and yields what comes. It returns how many items that
// was, whether the loop was left, and why no more came.
func (c *Client) batch(ctx context.Context, reader *wire.BatchReader, refs []Ref, yield func(Item, error) bool) (n int, left bool, err error) {
	request, err := wire.AppendRefs(nil, refs[0].Name.Bucket, refs)
	if err != nil {
		return 0, false, err
	}
	resp, _, err := c.do(ctx, call{
		method: http.MethodPost, url: c.path("/v1/batch", nil), header: http.Header{"Content-Type": {wire.RefsType}},
		what: fmt.Sprintf("a batch of %d", len(refs)), body: newBody(ctx, bytes.NewReader(request), int64(len(request))),
	})
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	reader.Reset(resp.Body, len(refs), maxBatchItem)
	defer reader.Reset(nil, 0, 0)
	for {
		data, crc, err := reader.Next()
		switch {
		case err == io.EOF:
			return n, false, nil
		case reader.Broken() != nil:
			return n, false, c.errorf(object.KindOf(err), "%d of %d items have come: %w", n, len(refs), err)
		}
		if err == nil {
			err = refs[n].Check(int64(len(data)), crc)
		}
		if err != nil {
			data, crc = nil, 0
		}
		if !yield(Item{Ref: refs[n], Bytes: data, CRC32: crc, Last: true}, err) {
			return n, true, nil
		}
		n++
	}
}

// PutBatch stores objects with one request and returns when all of them are
// durable. It is for many small ones: they share the node's sync. If some could
// not be stored the error is a *PutBatchError, and the others are. The request is
// repeated like a Put: after an error that is none of those, any of the objects may
// be stored, each of them whole.
func (c *Client) PutBatch(ctx context.Context, bucket string, objects []Upload) error {
	if err := object.ValidateBucket(bucket); err != nil {
		return err
	}
	size := 64
	for i := range objects {
		size += 32 + len(objects[i].Key) + len(objects[i].ContentType) + len(objects[i].Bytes)
	}
	buffer := c.uploads.Get().(*[]byte)
	request := wire.AppendObjectsHead(slices.Grow((*buffer)[:0], size))
	defer func() {
		if cap(request) <= maxPooled { // else a single large request would be kept
			*buffer = request
		}
		c.uploads.Put(buffer) // the transport has stopped reading it
	}()
	var err error
	for i := range objects {
		if request, err = wire.AppendObject(request, &objects[i]); err != nil {
			return err
		}
	}
	request = wire.AppendObjectsEnd(request, len(objects))
	content := newBody(ctx, bytes.NewReader(request), int64(len(request)))
	content.unsummed = true // every object has a CRC-32 of its own
	var answer struct {
		Stored int
		Failed []struct{ Key, Kind, Message string }
	}
	_, _, err = c.do(ctx, call{
		method: http.MethodPost, url: c.path("/v1/put-batch", url.Values{"bucket": {bucket}}), header: http.Header{"Content-Type": {wire.ObjectsType}},
		what: fmt.Sprintf("%d objects", len(objects)), body: content, out: &answer,
	})
	if err != nil {
		return err
	}
	if answer.Stored+len(answer.Failed) != len(objects) {
		return c.errorf(Internal, "the node answers for %d objects of %d", answer.Stored+len(answer.Failed), len(objects))
	}
	if len(answer.Failed) == 0 {
		return nil
	}
	failed := &PutBatchError{Failed: make(map[string]error, len(answer.Failed))}
	for _, f := range answer.Failed {
		failed.Failed[f.Key] = object.Errorf(object.ParseKind(f.Kind), "%s", f.Message)
	}
	return failed
}

// PutBatchError says which objects of a PutBatch were not stored, and why.
type PutBatchError struct {
	Failed map[string]error // by key
}

func (e *PutBatchError) Error() string {
	for key, err := range e.Failed {
		if len(e.Failed) == 1 {
			return fmt.Sprintf("%s: %v", key, err)
		}
		return fmt.Sprintf("%d objects were not stored, among them %s: %v", len(e.Failed), key, err)
	}
	return "no object failed"
}

// Unwrap returns the errors of the single objects.
func (e *PutBatchError) Unwrap() []error {
	var all []error
	for _, err := range e.Failed {
		all = append(all, err)
	}
	return all
}
