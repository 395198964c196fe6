package object

import (
	"context"
	"io"
	"iter"
)

// Source gives out objects. All methods may be called concurrently.
type Source interface {
	// Stat returns what is known about an object, or NotFound. It answers
	// Unavailable, never NotFound, when the object may lie on something that
	// cannot be asked.
	Stat(ctx context.Context, name Name) (Info, error)

	// Open returns a reader of one state of the object: a later write or delete
	// does not disturb it. A range outside the object is a *RangeError. The
	// caller closes the reader.
	Open(ctx context.Context, name Name, r Range) (Reader, error)
}

// Reader gives the bytes of one range of one state of an object. WriteTo moves
// them without a copy through our memory where that is possible: from a file to
// a socket by sendfile. A reader that finds damage fails with Corrupt; it never
// gives a wrong byte as right. Not for concurrent use.
type Reader interface {
	io.ReadCloser
	io.WriterTo

	// Info describes the whole object, not the range.
	Info() Info

	// Bounds returns the range as resolved against the object's size.
	Bounds() (offset, length int64)
}

// Sink takes objects in. All methods may be called concurrently.
type Sink interface {
	// Put stores what r gives, up to its end, under name, and returns when it is
	// as durable as the sink promises; only then does anybody see it. If r fails
	// or the context ends, nothing is stored and nothing is left behind. Put does
	// not keep r.
	Put(ctx context.Context, name Name, r io.Reader, opts PutOptions) (Info, error)

	// Delete removes an object for good, or answers NotFound. It is as durable as
	// a Put.
	Delete(ctx context.Context, name Name, cond Condition) error
}

// Batcher gives out many objects at once. It is a power of its own, found by
// assertion.
type Batcher interface {
	// Batch yields one item for each reference, in their order. An error stands
	// where the item would be, and the next one follows. Whoever leaves the loop
	// early ends the batch.
	Batch(ctx context.Context, refs []Ref) iter.Seq2[Item, error]
}

// Item is what a Batch yields. Its bytes are verified, and belong to the Batcher:
// they are valid until an item after the next one that is Last is asked for. Bytes of
// items may lie one behind the other in memory.
type Item struct {
	Ref   Ref
	Bytes []byte
	CRC32 uint32 // of Bytes

	// Last says that the memory of this item and those before it is used again after
	// it.
	Last bool

	// Large, if not nil, gives the bytes in the place of Bytes, for an item that is
	// too large to be held in memory, and CRC32 is not set. The Batcher closes it.
	Large Reader
}

// Upload is one of many objects that are stored together.
type Upload struct {
	Key         string
	ContentType string
	Bytes       []byte
	CRC32       uint32 // what Bytes must have, if Checked
	Checked     bool
}

// Lister enumerates a bucket.
type Lister interface {
	// List yields entries in the byte order of their keys. An error ends the
	// listing, except ErrIncomplete, which may come first and once. What is
	// written while the listing goes on may or may not be seen.
	List(ctx context.Context, bucket string, opts ListOptions) iter.Seq2[Entry, error]
}

// PutOptions go with a Put. The zero value stores unconditionally.
type PutOptions struct {
	Condition
	ContentType string

	// Metadata is kept with the object. Lower-case keys are the user's own; what
	// begins with a capital belongs to a door, such as a header to be given back.
	Metadata map[string]string

	// Keep gives what is stored an ID of its own, so that it replaces nothing: other
	// versions of the object stay.
	Keep bool

	// Finish, if not nil, is called when the content was read to its end and before it
	// is stored, and may still refuse it.
	Finish func() (Finish, error)

	// Inherit says which of the source's Metadata a copy without its own takes over; nil
	// means all of it.
	Inherit func(key string) bool

	// Near, if not zero, has a large object put on the disk where one of that name
	// would be, so that it can become a part of that.
	Near Name

	// SizeHint is the number of bytes to expect, zero if unknown. It only helps
	// to choose a place; the reader's end decides.
	SizeHint int64

	// CRC32, if not nil, is what the content must have; otherwise Put fails with
	// Invalid and stores nothing.
	CRC32 *uint32
}

// MetadataOf returns the metadata of a copy of what has the given one.
func (o PutOptions) MetadataOf(source map[string]string) map[string]string {
	switch {
	case o.Metadata != nil:
		return o.Metadata
	case o.Inherit == nil:
		return source
	}
	some := make(map[string]string, len(source))
	for key, value := range source {
		if o.Inherit(key) {
			some[key] = value
		}
	}
	return some
}

// Finish is what is known of an object only when all of it was read.
type Finish struct {
	ETag     string            // empty: a native one
	Metadata map[string]string // added to what was given
}

// Condition makes a write depend on what is there, atomically.
type Condition struct {
	IfMatch     string // the current ETag, or "*" for any object; else Stale (NotFound if there is none)
	IfNoneMatch string // "*": there must be no object, else Exists; an ETag: the current one must differ, else Stale
}

// Check reports whether the condition holds for the current object, nil if there
// is none.
func (c Condition) Check(name Name, current *Info) error {
	if c.IfMatch != "" {
		switch {
		case current == nil:
			return Errorf(NotFound, "%s does not exist", name)
		case c.IfMatch != "*" && c.IfMatch != current.ETag:
			return Errorf(Stale, "%s has ETag %s, not %s", name, current.ETag, c.IfMatch)
		}
	}
	if c.IfNoneMatch != "" && current != nil {
		switch c.IfNoneMatch {
		case "*":
			return Errorf(Exists, "%s exists", name)
		case current.ETag:
			return Errorf(Stale, "%s has ETag %s already", name, current.ETag)
		}
	}
	return nil
}

// ListOptions narrow a listing. The zero value lists everything.
type ListOptions struct {
	Prefix string // only keys that begin with it

	// Delimiter folds keys that share everything up to its first occurrence after
	// Prefix into one entry. The cost of a listing is per entry returned, not per
	// key folded.
	Delimiter string

	// After is the last entry already seen: only what comes after it is listed.
	// If it is a folded prefix, all keys under it count as seen.
	After string

	// Limit ends the listing after so many entries; zero means no limit.
	Limit int
}

// Versioner lists all versions of objects, and not only the newest. It is a power of
// its own, found by assertion.
type Versioner interface {
	// Versions is List with every version of a key, the newest first, and the marks
	// of deletions. With an After, only versions of that key that are older than
	// afterID are listed, none if that is zero, and then what comes after the key.
	Versions(ctx context.Context, bucket string, opts ListOptions, afterID Version) iter.Seq2[Entry, error]
}

// Entry is one line of a listing: an object, or a common prefix of several.
type Entry struct {
	Prefix string // if not empty, this is a folded prefix and Info is zero
	Info   Info   // without ContentType and Metadata
}

// Mark is what to pass as After to go on behind this entry.
func (e Entry) Mark() string {
	if e.Prefix != "" {
		return e.Prefix
	}
	return e.Info.Name.Key
}
