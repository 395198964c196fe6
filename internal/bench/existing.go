package bench

import (
	"context"
	"hash/crc32"
	"io"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
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

// List returns the objects of a bucket whose keys begin with prefix or, if they are
// tars and members are asked for, the files in them. It fails if there are none, or if
// not all of them can be listed.
func List(ctx context.Context, client *penstock.Client, bucket, prefix string, members bool) (*Existing, error) {
	all := &Existing{sizes: Sizes{law: listed}}
	for entry, err := range client.List(ctx, bucket, penstock.ListOptions{Prefix: prefix}) {
		if err == nil && members {
			err = all.addMembers(ctx, client, entry.Info.Name)
		}
		if err != nil {
			return nil, err
		}
		if !members {
			all.add(existing{key: entry.Info.Name.Key, size: entry.Info.Size, crc: entry.Info.CRC32})
		}
	}
	if len(all.objects) == 0 {
		return nil, object.Errorf(object.NotFound, "there is nothing under %s/%s", bucket, prefix)
	}
	return all, nil
}

func (e *Existing) add(o existing) {
	n := float64(len(e.objects))
	if n == 0 {
		e.sizes.low = o.size
	}
	e.sizes.low, e.sizes.high = min(e.sizes.low, o.size), max(e.sizes.high, o.size)
	e.sizes.mean += (float64(o.size) - e.sizes.mean) / (n + 1)
	e.objects = append(e.objects, o)
}

// addMembers reads a tar from end to end.
func (e *Existing) addMembers(ctx context.Context, client *penstock.Client, name penstock.Name) error {
	r, err := client.Open(ctx, name, penstock.Range{})
	if err != nil {
		return err
	}
	defer r.Close()
	for files := shard.NewReader(r); ; {
		f, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return object.Errorf(object.KindOf(err), "%s: %w", name, err)
		}
		if f.Refused != nil {
			continue
		}
		sum := crc32.NewIEEE()
		if _, err := io.Copy(sum, files); err != nil {
			return object.Errorf(object.KindOf(err), "%s: %w", name, err)
		}
		e.add(existing{key: name.Key + memberMark + f.Name, size: f.Size, crc: sum.Sum32()})
	}
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
