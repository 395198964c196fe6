// Package source is where data really lives: another store of objects, below a node,
// that is opened by a URL and spoken to through the same face as everything that holds
// objects. It holds what all such places share: the face, URLs and who may use which,
// the kinds of failure, the walk over trees, connections that go where they may.
//
// It is not a cache and retries nothing: who calls decides how often to repeat, by the
// kind of the error and RetryAfter. The places themselves are packages below: dir, web,
// s3 and others; sourcetest is the suite all of them must pass.
//
// Bytes flow from the place through a Reader to the caller, as they come; no package
// here keeps an object in memory. Everything may be called concurrently, except one
// Reader.
package source

import (
	"context"

	"penstock.dev/penstock/internal/object"
)

// Source is a place that holds objects. In names the bucket means nothing and is given
// back as it came; the key is below the source's own prefix.
//
// An Info has the Size, the ETag and the time of the object as the place tells them,
// ContentType and Metadata where the place keeps such. The ETag changes when the
// content does, and not otherwise. Version is zero, and CRC32 is zero and says nothing:
// no place of this kind sums bytes as we do.
//
// The kinds of its errors: NotFound; Denied for credentials that are missing, wrong or
// too weak, and for writes to a place that takes none; Stale; Invalid for what no
// repetition helps; Busy when the place asks for less (see RetryAfter); Unavailable when
// a repetition may help; Corrupt for a body that is not as long as was announced;
// Canceled.
type Source interface {
	object.Source
	object.Sink
	object.Lister

	// OpenVersion is Open of the state that has this ETag. It is Stale if the object
	// has another one now, and a reader on which the object changes fails with Stale
	// before its end, so that ranges of two states are never taken for one object.
	OpenVersion(ctx context.Context, name object.Name, r object.Range, etag string) (object.Reader, error)

	// Close gives connections and descriptors back, when all readers are closed.
	Close() error
}
