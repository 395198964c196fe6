package web

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

// list is a list file in memory: one key in each line, in any order, and behind it, each
// after a tab and if known, the size and the ETag as the server tells it.
type list struct {
	etag  string
	lines []line
}

type line struct {
	key  string
	size int64 // -1: not told
	etag string
}

func parseList(page []byte) ([]line, error) {
	var lines []line
	number := 0
	for text := range bytes.Lines(page) {
		number++
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		if len(text) == 0 {
			continue
		}
		key, rest, _ := strings.Cut(string(text), "\t")
		size, etag, _ := strings.Cut(rest, "\t")
		l := line{key: key, size: -1, etag: strings.Trim(etag, `"`)}
		if size != "" {
			n, err := strconv.ParseInt(size, 10, 64)
			if err != nil || n < 0 {
				return nil, object.Errorf(object.Invalid, "line %d has a size of %q", number, size)
			}
			l.size = n
		}
		if object.ValidateKey(key) != nil || !Possible(key) {
			return nil, object.Errorf(object.Invalid, "line %d has the key %q, which is none", number, key)
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(lines, func(a, b line) bool { return a.key == b.key }), nil
}

// load returns the list as it is now. It is read again only when its ETag changed.
func (s *Source) load(ctx context.Context) (*list, error) {
	info, err := s.Stat(ctx, object.Name{Key: s.list})
	if err != nil {
		return nil, err
	}
	if have := s.listed.Load(); have != nil && have.etag == info.ETag {
		return have, nil
	}
	page, header, err := s.fetch(ctx, s.list)
	if err != nil {
		return nil, err
	}
	etag, ok := version(header, int64(len(page)))
	if !ok {
		return nil, object.Errorf(object.Invalid, "the list file has neither ETag nor Last-Modified")
	}
	lines, err := parseList(page)
	if err != nil {
		return nil, object.Errorf(object.Invalid, "the list file %q: %w", s.list, err)
	}
	fresh := &list{etag: etag, lines: lines}
	s.listed.Store(fresh)
	return fresh, nil
}

func (s *Source) listFile(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		list, err := s.load(ctx)
		if err != nil {
			yield(object.Entry{}, err)
			return
		}
		cursor := source.NewCursor(opts)
		ahead := &ahead{s: s, n: len(list.lines), key: func(i int) string {
			if told(list.lines[i], cursor) {
				return ""
			}
			return list.lines[i].key
		}}
		for {
			// What was folded is jumped over.
			i, _ := slices.BinarySearchFunc(list.lines, cursor.From(), func(l line, from string) int { return strings.Compare(l.key, from) })
			if i == len(list.lines) || cursor.Done(list.lines[i].key) {
				return
			}
			info, err := object.Info{Size: list.lines[i].size, ETag: list.lines[i].etag}, error(nil)
			if !told(list.lines[i], cursor) {
				info, err = ahead.info(ctx, i)
			}
			if object.Is(err, object.NotFound) {
				cursor.Pass(list.lines[i].key)
				continue
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(object.Entry{}, err)
				return
			}
			info.Name = object.Name{Bucket: bucket, Key: list.lines[i].key}
			if !yield(cursor.Take(info), nil) {
				return
			}
		}
	}
}

// told reports whether the server need not be asked: the list says it all, or it is not
// needed. That an object is there which the list names is believed.
func told(l line, cursor *source.Cursor) bool {
	return (l.size >= 0 && l.etag != "") || cursor.Folds(l.key)
}
