package node

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync/atomic"

	"penstock.dev/penstock/internal/object"
)

// Facts are what may change about an object that stays as it is otherwise. They lie
// beside the bucket, each in an object of its own that names the version it is about:
// facts of an object that was replaced since are nobody's.
type Facts struct {
	Tags map[string]string `json:"tags,omitempty"`
	ACL  string            `json:"acl,omitempty"` // a canned ACL of S3
}

const besideFacts = "facts"

// storedFacts are facts with what they are about.
type storedFacts struct {
	Version object.Version `json:"version"`
	Facts
}

// factsName is where the facts about one version of an object are.
func factsName(name object.Name) object.Name {
	id := name.ID
	if id == object.NullID {
		id = object.Version{}
	}
	return object.Name{Bucket: object.Beside(name.Bucket, besideFacts), Key: name.Key + "\x00" + FormatID(id)}
}

// factsState says whether a bucket has facts at all. Most have none, and every read
// asks: the store's count is behind a lock that writers hold.
type factsState struct{ atomic.Int32 }

const (
	factsUnknown = iota
	factsNone
	factsSome // or had: nobody looks again
)

// hasFacts reports whether facts may have been set in a bucket.
func (n *Node) hasFacts(b *bucket) bool {
	state := &b.live.facts
	switch state.Load() {
	case factsNone:
		return false
	case factsSome:
		return true
	}
	if n.store.Usage(object.Beside(b.Name, besideFacts)).Objects > 0 {
		state.Store(factsSome)
		return true
	}
	for _, d := range n.store.Disks() { // one that cannot be read may have some
		if d.State == "absent" || d.State == "failed" || d.State == "rebuilding" {
			return true
		}
	}
	return !state.CompareAndSwap(factsUnknown, factsNone) // SetFacts may have come between
}

// Facts returns the facts about an object as Stat described it, and whether they were
// ever set.
func (n *Node) Facts(ctx context.Context, info object.Info) (f Facts, ok bool, err error) {
	b, err := n.find(info.Name.Bucket)
	if err != nil || !n.hasFacts(b) {
		return f, false, err
	}
	stored, etag, err := n.readFacts(ctx, info.Name)
	return stored.Facts, err == nil && etag != "" && stored.Version == info.Version, err
}

// readFacts returns what is stored about a name, with the ETag it has now; none if there
// is nothing.
func (n *Node) readFacts(ctx context.Context, name object.Name) (stored storedFacts, etag string, err error) {
	r, err := n.store.Open(ctx, factsName(name), object.Range{})
	if object.Is(err, object.NotFound) {
		return stored, "", nil
	}
	if err != nil {
		return stored, "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	return stored, r.Info().ETag, err
}

// SetFacts changes the facts about an object as Stat described it. change gets what they
// are, and whether they were ever set, and returns what they shall be; an error of it
// leaves them as they were. It is called again if they were changed at the same time.
// NotFound says that the object is not there any more.
func (n *Node) SetFacts(ctx context.Context, info object.Info, change func(f Facts, set bool) (Facts, error)) error {
	b, err := n.enter(info.Name.Bucket)
	if err != nil {
		return err
	}
	defer b.live.gate.leave()
	b.live.facts.Store(factsSome)
	for {
		stored, etag, err := n.readFacts(ctx, info.Name)
		var opts object.PutOptions
		switch {
		case object.Is(err, object.Corrupt): // and written over
		case err != nil:
			return err
		case etag == "":
			opts.IfNoneMatch = "*"
		case stored.Version.After(info.Version):
			return object.Errorf(object.NotFound, "%s was replaced", info.Name)
		default:
			opts.IfMatch = etag
		}
		next := storedFacts{Version: info.Version}
		if err != nil || etag == "" || stored.Version != info.Version {
			next.Facts, err = change(Facts{}, false)
		} else {
			next.Facts, err = change(stored.Facts, true)
		}
		if err != nil {
			return err
		}
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		opts.SizeHint = int64(len(text))
		_, err = n.store.Put(ctx, factsName(info.Name), bytes.NewReader(text), opts)
		if !changedSince(err) {
			return err
		}
	}
}

// changedSince reports whether a write found its condition broken, so that it has to
// look again.
func changedSince(err error) bool {
	return object.Is(err, object.Stale) || object.Is(err, object.Exists) || object.Is(err, object.NotFound)
}

// dropFacts forgets the facts about an object that was removed. One that was written
// under its name since may have some already, which stay.
func (n *Node) dropFacts(ctx context.Context, name object.Name) error {
	b, err := n.find(name.Bucket)
	if err != nil || !n.hasFacts(b) {
		return nil // without a bucket they went with it
	}
	var cond object.Condition
	if name.ID == (object.Version{}) || name.ID == object.NullID { // others are never used again
		name.ID = object.NullID
		stored, etag, err := n.readFacts(ctx, name)
		if !object.Is(err, object.Corrupt) && (err != nil || etag == "") {
			return err
		}
		if now, err := n.store.Stat(ctx, name); err == nil && now.Version == stored.Version {
			return nil
		}
		cond.IfMatch = etag
	}
	if err := n.store.Delete(ctx, factsName(name), cond); !changedSince(err) {
		return err
	}
	return nil
}
