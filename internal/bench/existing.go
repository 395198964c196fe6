package bench

import (
	"context"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
)

// Existing is objects that are there already, such as a tree of files that
// somebody has uploaded. A Workload that has them reads those, and makes up none.
type Existing struct {
	objects []existing // in the order of their keys
	sizes   Sizes
}

// existing is what a listing says about an object.
type existing struct {
	key  string
	size int64
	crc  uint32
}

// List returns the objects of a bucket whose keys begin with prefix. It fails if
// there are none, or if not all of them can be listed.
func List(ctx context.Context, client *penstock.Client, bucket, prefix string) (*Existing, error) {
	all := &Existing{sizes: Sizes{law: listed}}
	total := 0.0
	for entry, err := range client.List(ctx, bucket, penstock.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		o := existing{key: entry.Info.Name.Key, size: entry.Info.Size, crc: entry.Info.CRC32}
		if len(all.objects) == 0 {
			all.sizes.low = o.size
		}
		all.sizes.low, all.sizes.high = min(all.sizes.low, o.size), max(all.sizes.high, o.size)
		total += float64(o.size)
		all.objects = append(all.objects, o)
	}
	if len(all.objects) == 0 {
		return nil, object.Errorf(object.NotFound, "there is nothing under %s/%s", bucket, prefix)
	}
	all.sizes.mean = total / float64(len(all.objects))
	return all, nil
}

// Len returns how many there are.
func (e *Existing) Len() int64 { return int64(len(e.objects)) }

// check refuses loads that would change what is not ours.
func (e *Existing) check(op Op) error {
	if op != Get && op != Batch {
		return object.Errorf(object.Invalid, "existing objects are only read: they do not go with %s", op)
	}
	return nil
}

// content returns what is known about the bytes of an object.
func (e *Existing) content(index int64) Content {
	o := &e.objects[index]
	return Content{size: o.size, known: true, crc: o.crc}
}
