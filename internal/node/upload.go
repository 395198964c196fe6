package node

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock/internal/object"
)

// An upload brings an object in parts. It and its parts are objects that lie beside
// the bucket, so they are as durable as any: the upload is an empty one with the key of
// the object that is to be, whose version is its ID; a part is called after upload and
// number. Completing writes one record over the blobs of the parts, which is the moment
// at which the object is there; the parts go afterwards. An upload that is left
// unfinished goes after a time.
const (
	besideUploads = "uploads"
	besideParts   = "parts"
)

// MaxParts is the largest number of a part.
const MaxParts = 10000

// Upload is an object that is being brought in parts.
type Upload struct {
	Name object.Name // what it will be; without an ID
	ID   object.Version
	// Info is what was given at its beginning: ContentType and Metadata, which a
	// listing lacks, and Modified as the time.
	Info object.Info
}

// FormatID writes an ID in a fixed width.
func FormatID(id object.Version) string {
	var b [12]byte
	binary.BigEndian.PutUint32(b[:], id.Map)
	binary.BigEndian.PutUint64(b[4:], id.Counter)
	return hex.EncodeToString(b[:])
}

// ParseID is the inverse of FormatID.
func ParseID(s string) (id object.Version, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 12 || strings.ToLower(s) != s {
		return id, false
	}
	return object.Version{Map: binary.BigEndian.Uint32(b), Counter: binary.BigEndian.Uint64(b[4:])}, true
}

func uploadName(name object.Name, id object.Version) object.Name {
	return object.Name{Bucket: object.Beside(name.Bucket, besideUploads), Key: name.Key, ID: id}
}

func partName(bucket string, id object.Version, number int) object.Name {
	return object.Name{Bucket: object.Beside(bucket, besideParts), Key: fmt.Sprintf("%s/%05d", FormatID(id), number)}
}

// BeginUpload begins to bring an object in parts. What opts say of it is kept for its
// completion.
func (n *Node) BeginUpload(ctx context.Context, name object.Name, opts object.PutOptions) (Upload, error) {
	if err := name.Validate(); err != nil {
		return Upload{}, err
	}
	b, err := n.enter(name.Bucket)
	if err != nil {
		return Upload{}, err
	}
	defer b.live.gate.leave()
	info, err := n.store.Put(ctx, uploadName(name, object.Version{}), strings.NewReader(""), object.PutOptions{
		ContentType: opts.ContentType, Metadata: opts.Metadata, Keep: true,
	})
	return Upload{Name: name, ID: info.Name.ID, Info: info}, err
}

// Upload returns an upload that is under way, or NotFound.
func (n *Node) Upload(ctx context.Context, name object.Name, id object.Version) (Upload, error) {
	if _, err := n.find(name.Bucket); err != nil {
		return Upload{}, err
	}
	if id == (object.Version{}) || id == object.NullID {
		return Upload{}, object.Errorf(object.NotFound, "there is no such upload of %s", name)
	}
	info, err := n.store.Stat(ctx, uploadName(name, id))
	if object.Is(err, object.NotFound) {
		err = object.Errorf(object.NotFound, "there is no upload %s of %s", FormatID(id), name)
	}
	name.ID = object.Version{}
	return Upload{Name: name, ID: id, Info: info}, err
}

// Uploads lists the uploads of a bucket that are under way, by name and then by age,
// the newest first. An Entry's Info is that of the upload, with its ID in the name.
func (n *Node) Uploads(ctx context.Context, bucket string, opts object.ListOptions, afterID object.Version) iter.Seq2[object.Entry, error] {
	k, err := n.keeper()
	if err == nil {
		_, err = n.find(bucket)
	}
	return func(yield func(object.Entry, error) bool) {
		if err != nil {
			yield(object.Entry{}, err)
			return
		}
		for e, err := range k.Versions(ctx, object.Beside(bucket, besideUploads), opts, afterID) {
			if e.Prefix == "" {
				e.Info.Name.Bucket = bucket
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// PutPart stores a part of an upload, in place of one that has its number.
func (n *Node) PutPart(ctx context.Context, u Upload, number int, r io.Reader, opts object.PutOptions) (object.Info, error) {
	if number < 1 || number > MaxParts {
		return object.Info{}, object.Errorf(object.Invalid, "the number of a part is from 1 to %d, not %d", MaxParts, number)
	}
	b, err := n.enter(u.Name.Bucket)
	if err != nil {
		return object.Info{}, err
	}
	defer b.live.gate.leave()
	opts.Near = u.Name
	name := partName(u.Name.Bucket, u.ID, number)
	if b.Quota != 0 {
		claim, err := n.claim(ctx, b, name, opts.SizeHint)
		if err != nil {
			return object.Info{}, err
		}
		defer claim.release()
		r = claim.reader(r)
	}
	info, err := n.store.Put(ctx, name, r, opts)
	if err != nil {
		return info, err
	}
	// Whoever ends the upload removes the parts it finds. One that comes later must see
	// to itself.
	if _, gone := n.Upload(ctx, u.Name, u.ID); object.Is(gone, object.NotFound) {
		n.store.Delete(context.WithoutCancel(ctx), name, object.Condition{}) //nolint:errcheck // the cleaning finds it
		return object.Info{}, gone
	}
	return info, nil
}

// Parts lists the parts of an upload by number, from the one behind after. An Info's
// Key says which: see PartNumber.
func (n *Node) Parts(ctx context.Context, u Upload, after, limit int) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		first := partName(u.Name.Bucket, u.ID, after)
		opts := object.ListOptions{Prefix: FormatID(u.ID) + "/", After: first.Key, Limit: limit}
		for e, err := range n.store.List(ctx, first.Bucket, opts) {
			if !yield(e.Info, err) {
				return
			}
		}
	}
}

// Part describes one part of an upload, with its metadata, or answers NotFound.
func (n *Node) Part(ctx context.Context, u Upload, number int) (object.Info, error) {
	return n.store.Stat(ctx, partName(u.Name.Bucket, u.ID, number))
}

// PartNumber returns the number of a part.
func PartNumber(part object.Info) int {
	_, digits, _ := strings.Cut(part.Name.Key, "/")
	number, _ := strconv.Atoi(digits)
	return number
}

// CompleteUpload makes the object of the given parts, which is what Parts or Part said
// of them, and ends the upload. If one was replaced since, the answer is Stale; if the
// upload has ended, NotFound: of several who complete it at once, one does.
func (n *Node) CompleteUpload(ctx context.Context, u Upload, parts []object.Info, opts object.PutOptions) (object.Info, error) {
	k, err := n.keeper()
	if err != nil {
		return object.Info{}, err
	}
	b, err := n.enter(u.Name.Bucket)
	if err != nil {
		return object.Info{}, err
	}
	defer b.live.gate.leave()
	if err := n.endings.begin(ctx, u.ID); err != nil {
		return object.Info{}, err
	}
	defer n.endings.done(u.ID)
	if _, err := n.Upload(ctx, u.Name, u.ID); err != nil {
		return object.Info{}, err
	}
	opts.Keep = b.Versioning == VersioningEnabled
	info, err := k.Compose(ctx, u.Name, refs(parts), opts)
	if err != nil {
		return info, err
	}
	if err := n.endUpload(context.WithoutCancel(ctx), u); err != nil {
		n.log.Warn("parts of an upload that is complete could not be removed now", "object", u.Name.String(), "error", err)
	}
	return info, nil
}

func refs(parts []object.Info) []object.Ref {
	all := make([]object.Ref, len(parts))
	for i := range parts {
		all[i] = object.Ref{Name: parts[i].Name, Of: parts[i].Version}
	}
	return all
}

// AbortUpload ends an upload and removes its parts.
func (n *Node) AbortUpload(ctx context.Context, u Upload) error {
	b, err := n.enter(u.Name.Bucket)
	if err != nil {
		return err
	}
	defer b.live.gate.leave()
	if err := n.endings.begin(ctx, u.ID); err != nil {
		return err
	}
	defer n.endings.done(u.ID)
	return n.endUpload(ctx, u)
}

// endings are the uploads that somebody is ending: one at a time does. A client that
// was not answered in time completes again, and must not make a second version.
type endings struct {
	mu  sync.Mutex
	now map[object.Version]chan struct{} // closed when that has been done
}

// begin waits until nobody else is ending an upload.
func (e *endings) begin(ctx context.Context, id object.Version) error {
	for {
		e.mu.Lock()
		other := e.now[id]
		if other == nil {
			if e.now == nil {
				e.now = make(map[object.Version]chan struct{})
			}
			e.now[id] = make(chan struct{})
			e.mu.Unlock()
			return nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return object.Errorf(object.Canceled, "%w", ctx.Err())
		}
	}
}

func (e *endings) done(id object.Version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.now[id])
	delete(e.now, id)
}

// endUpload removes the upload first: a part that comes from now on finds it gone.
func (n *Node) endUpload(ctx context.Context, u Upload) error {
	err := n.store.Delete(ctx, uploadName(u.Name, u.ID), object.Condition{})
	if err != nil && !object.Is(err, object.NotFound) {
		return err
	}
	return n.deleteAll(ctx, object.Beside(u.Name.Bucket, besideParts), FormatID(u.ID)+"/")
}

// deleteAll deletes the objects under a prefix, many at a time, so that they share the
// syncing of the log.
func (n *Node) deleteAll(ctx context.Context, bucket, prefix string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	var listing error
	for e, err := range n.store.List(ctx, bucket, object.ListOptions{Prefix: prefix}) {
		if err != nil {
			listing = err
			break
		}
		group.Go(func() error {
			if err := n.store.Delete(ctx, e.Info.Name, object.Condition{}); !object.Is(err, object.NotFound) {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return listing
}

// cleanUploads looks for uploads that were left unfinished, now and then.
func (n *Node) cleanUploads(ctx context.Context) {
	every := min(time.Hour, n.uploadsExpire)
	for {
		if err := n.CleanUploads(ctx, n.clock().Add(-n.uploadsExpire)); err != nil && ctx.Err() == nil {
			n.log.Warn("unfinished uploads could not be looked through, and will be later", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// CleanUploads ends the uploads that were begun before a time, and removes parts whose
// upload is gone: a node that was killed leaves them.
func (n *Node) CleanUploads(ctx context.Context, before time.Time) error {
	for _, b := range n.Buckets() {
		for e, err := range n.Uploads(ctx, b.Name, object.ListOptions{}, object.Version{}) {
			if err != nil {
				return err
			}
			u := Upload{Name: object.Name{Bucket: b.Name, Key: e.Info.Name.Key}, ID: e.Info.Name.ID}
			if e.Info.Modified.After(before) {
				continue
			}
			if err := n.AbortUpload(ctx, u); err != nil {
				return err
			}
		}
		if err := n.cleanParts(ctx, b.Name); err != nil {
			return err
		}
	}
	return nil
}

// cleanParts removes parts that belong to no upload. It looks for the parts first: those
// of an upload come after its beginning, so one that is not found behind them has ended.
func (n *Node) cleanParts(ctx context.Context, bucket string) error {
	parts := object.Beside(bucket, besideParts)
	ended := make(map[string]bool)
	for e, err := range n.store.List(ctx, parts, object.ListOptions{Delimiter: "/"}) {
		if err != nil {
			return err
		}
		ended[e.Prefix] = true
	}
	if len(ended) == 0 {
		return nil
	}
	for e, err := range n.Uploads(ctx, bucket, object.ListOptions{}, object.Version{}) {
		if err != nil {
			return err
		}
		delete(ended, FormatID(e.Info.Name.ID)+"/")
	}
	for prefix := range ended {
		if err := n.deleteAll(ctx, parts, prefix); err != nil {
			return err
		}
	}
	return nil
}
