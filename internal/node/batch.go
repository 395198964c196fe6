package node

import (
	"bytes"
	"context"
	"iter"

	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock/internal/object"
)

// Batch implements object.Batcher, for objects and for files inside of tars.
func (n *Node) Batch(ctx context.Context, refs []object.Ref) iter.Seq2[object.Item, error] {
	return func(yield func(object.Item, error) bool) {
		p := n.plan(ctx, refs)
		i := 0
		skip := func() bool { // over what the store is not asked for
			for ; i < len(refs) && p.skips(i); i++ {
				if !yield(object.Item{Ref: refs[i]}, p.errs[i]) {
					return false
				}
			}
			return true
		}
		if !skip() {
			return
		}
		for item, err := range p.read(ctx) {
			item.Ref = refs[i]
			if !yield(item, err) {
				return
			}
			if i++; !skip() {
				return
			}
		}
	}
}

// plan is a batch with its buckets and members looked up.
type plan struct {
	node   *Node
	refs   []object.Ref // what the store is asked for
	errs   []error      // why it is not asked for a reference; nil if it is asked for all
	empty  []bool       // files without a byte, which need no asking either
	always bool         // a bucket wants every byte verified
}

func (p *plan) skips(i int) bool { return p.errs != nil && (p.errs[i] != nil || p.empty[i]) }

func (p *plan) read(ctx context.Context) iter.Seq2[object.Item, error] {
	if p.always {
		return p.node.store.BatchVerified(ctx, p.refs)
	}
	return p.node.store.Batch(ctx, p.refs)
}

func (n *Node) plan(ctx context.Context, refs []object.Ref) *plan {
	p := &plan{node: n, refs: refs}
	last, err := "", error(nil)
	plain := true
	for i := range refs {
		if name := refs[i].Name.Bucket; name != last || i == 0 {
			var b *bucket
			if b, err = n.find(name); err == nil && b.Verify == VerifyAlways {
				p.always = true
			}
			last = name
		}
		plain = plain && err == nil && refs[i].Member == ""
	}
	if !plain {
		p.sift(ctx, refs)
	}
	return p
}

// maxHeldIndexes bounds the indexes of tars that one batch holds on to.
const maxHeldIndexes = 64 << 20

// sift finds out what the store is to be asked for where that is not just what was
// given.
func (p *plan) sift(ctx context.Context, refs []object.Ref) {
	p.refs = make([]object.Ref, 0, len(refs))
	p.errs, p.empty = make([]error, len(refs)), make([]bool, len(refs))
	archives := make(map[object.Name]*archive) // one look for each, however many files of it are asked for
	var held int64                             // bytes of their indexes
	for i, ref := range refs {
		if _, p.errs[i] = p.node.find(ref.Name.Bucket); p.errs[i] != nil {
			continue
		}
		if ref.Member != "" {
			a := archives[ref.Name]
			if a == nil {
				a = p.node.archive(ctx, ref.Name)
				if held += a.bytes(); held > maxHeldIndexes {
					clear(archives) // whoever keeps indexes may have let go of them
					held = a.bytes()
				}
				archives[ref.Name] = a
			}
			p.empty[i], p.errs[i] = a.locate(&ref)
		}
		if !p.skips(i) {
			p.refs = append(p.refs, ref)
		}
	}
}

// PutMany stores objects that lie in memory together, with one wait for all of
// them, and returns how each fared.
func (n *Node) PutMany(ctx context.Context, bucket string, objects []object.Upload) []error {
	b, err := n.enter(bucket)
	if err != nil {
		return same(err, len(objects))
	}
	defer b.live.gate.leave()
	if b.Versioning == VersioningEnabled {
		return n.putEach(ctx, b, objects)
	}
	if b.Quota == 0 {
		return n.store.PutMany(ctx, bucket, objects)
	}
	errs := make([]error, len(objects))
	var fit []object.Upload
	var numbers []int
	for i, o := range objects {
		claim, err := n.claim(ctx, b, object.Name{Bucket: bucket, Key: o.Key}, int64(len(o.Bytes)))
		if errs[i] = err; err == nil {
			defer claim.release()
			fit, numbers = append(fit, o), append(numbers, i)
		}
	}
	for i, err := range n.store.PutMany(ctx, bucket, fit) {
		errs[numbers[i]] = err
	}
	return errs
}

// putEach stores objects one by one, several at a time so that they share the waiting:
// each becomes a version.
func (n *Node) putEach(ctx context.Context, b *bucket, objects []object.Upload) []error {
	errs := make([]error, len(objects))
	var group errgroup.Group
	group.SetLimit(64)
	for i := range objects {
		group.Go(func() error {
			o := &objects[i]
			opts := object.PutOptions{ContentType: o.ContentType, SizeHint: int64(len(o.Bytes))}
			if o.Checked {
				opts.CRC32 = &o.CRC32
			}
			_, errs[i] = n.Put(ctx, object.Name{Bucket: b.Name, Key: o.Key}, bytes.NewReader(o.Bytes), opts)
			return nil
		})
	}
	group.Wait() //nolint:errcheck // each has its own
	return errs
}

func same(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
