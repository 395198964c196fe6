package source

import (
	"context"
	"iter"
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Tree is a place where keys are paths.
type Tree interface {
	// Level returns the children of a directory that are wanted, in byte order of
	// their sort names, or the first of them. The directory is empty or ends in a
	// slash. One that is not there is NotFound.
	Level(ctx context.Context, dir string, want func(sort string) bool) (Level, error)
}

// Level is what is in a directory, or a part of it.
type Level struct {
	Children []Child
	More     bool // there are wanted children behind these

	// Info describes a child that is no directory. NotFound passes over it.
	Info func(ctx context.Context, i int) (object.Info, error)
	// Close, if not nil, is called when the level is done with.
	Close func()
}

// Child is a name in a directory.
type Child struct {
	Name string
	Dir  bool
}

// Sort returns the name by which the child is ordered among its siblings. A directory
// stands where the keys below it do, and those have a slash behind its name: "a-b" is
// before "a/c", and that before "a0".
func (c Child) Sort() string {
	if c.Dir {
		return c.Name + "/"
	}
	return c.Name
}

// Walk lists a tree in byte order of its keys. It holds one Level for each directory on
// the way down, begins where the prefix leads, and enters no directory in which there is
// nothing to list.
func Walk(ctx context.Context, tree Tree, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		start := opts.Prefix[:strings.LastIndexByte(opts.Prefix, '/')+1]
		if err := ctx.Err(); err != nil {
			yield(object.Entry{}, err)
			return
		}
		if start != "" && !PathKey(strings.TrimSuffix(start, "/")) {
			return
		}
		w := &walk{tree: tree, bucket: bucket, cursor: NewCursor(opts), yield: yield}
		w.dir(ctx, start)
	}
}

type walk struct {
	tree   Tree
	bucket string
	cursor *Cursor
	yield  func(object.Entry, error) bool
}

// dir lists a directory and returns whether to go on.
func (w *walk) dir(ctx context.Context, dir string) bool {
	for last := ""; ; {
		level, err := w.tree.Level(ctx, dir, func(sort string) bool {
			return sort > last && !w.passed(dir+sort) && !w.cursor.Done(dir+sort)
		})
		if object.Is(err, object.NotFound) && dir != "" { // without its root there is no tree
			return true
		}
		if err != nil {
			w.yield(object.Entry{}, err)
			return false
		}
		on := w.level(ctx, dir, level)
		if level.Close != nil {
			level.Close()
		}
		if !on || !level.More || len(level.Children) == 0 {
			return on
		}
		last = level.Children[len(level.Children)-1].Sort()
	}
}

func (w *walk) passed(key string) bool {
	if strings.HasSuffix(key, "/") {
		return w.cursor.PassedAll(key)
	}
	return w.cursor.Passed(key)
}

func (w *walk) level(ctx context.Context, dir string, level Level) bool {
	for i, child := range level.Children {
		key := dir + child.Sort()
		switch {
		case w.cursor.Done(key):
			return false
		case w.passed(key):
			continue
		case child.Dir:
			if !w.dir(ctx, key) {
				return false
			}
			continue
		}
		info, err := level.Info(ctx, i)
		if object.Is(err, object.NotFound) {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			w.yield(object.Entry{}, err)
			return false
		}
		info.Name = object.Name{Bucket: w.bucket, Key: key}
		if !w.yield(w.cursor.Take(info), nil) {
			return false
		}
	}
	return true
}
