package web

import (
	"context"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/source"
)

// List implements object.Lister.
func (s *Source) List(ctx context.Context, bucket string, opts object.ListOptions) iter.Seq2[object.Entry, error] {
	if s.list != "" {
		return s.listFile(ctx, bucket, opts)
	}
	return source.Walk(ctx, tree{s}, bucket, opts)
}

// fetch reads a page that serves listings, as a whole.
func (s *Source) fetch(ctx context.Context, path string) ([]byte, http.Header, error) {
	a, err := s.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, nil, err
	}
	if a.StatusCode != http.StatusOK {
		defer a.drop()
		return nil, nil, s.refusal(path, a)
	}
	if a.ContentLength > s.opts.MaxIndex {
		a.drop()
		return nil, nil, tooLong(path)
	}
	body := source.NewBody(ctx, source.Whole{Length: a.ContentLength}, a.Body, source.BodyOptions{Idle: s.opts.IdleTimeout, Cancel: a.cancel})
	defer body.Close()
	page, err := io.ReadAll(io.LimitReader(body, s.opts.MaxIndex+1))
	if err == nil && int64(len(page)) > s.opts.MaxIndex {
		err = tooLong(path)
	}
	return page, a.Header, err
}

func tooLong(path string) error {
	return object.Errorf(object.Invalid, "the list at %q is longer than the bound", path)
}

// tree is the server as source.Walk sees it, by index pages.
type tree struct{ s *Source }

// Level implements source.Tree.
func (t tree) Level(ctx context.Context, dir string, want func(sort string) bool) (source.Level, error) {
	page, header, err := t.s.fetch(ctx, dir)
	if err != nil {
		return source.Level{}, err
	}
	children, err := parseIndex(page, header.Get("Content-Type"), t.s.base+escape(dir))
	if err != nil {
		return source.Level{}, object.Errorf(object.Corrupt, "the index page of %q: %w", dir, err)
	}
	children = slices.DeleteFunc(children, func(c source.Child) bool {
		return !want(c.Sort()) || !Possible(c.Name) || object.ValidateKey(dir+c.Name) != nil
	})
	slices.SortFunc(children, func(a, b source.Child) int { return strings.Compare(a.Sort(), b.Sort()) })
	children = slices.Compact(children)
	ahead := &ahead{s: t.s, n: len(children), key: func(i int) string {
		if children[i].Dir {
			return ""
		}
		return dir + children[i].Name
	}}
	return source.Level{Children: children, Info: ahead.info}, nil
}

// ahead asks about objects before a listing comes to them: one, then two, then four,
// up to Parallel at once. It waits for all of them, so that nothing outlives a call.
type ahead struct {
	s   *Source
	n   int
	key func(i int) string // empty: nothing is to be asked

	first   int // of those that were asked about
	infos   []object.Info
	errs    []error
	batches int
}

func (a *ahead) info(ctx context.Context, i int) (object.Info, error) {
	if i < a.first || i >= a.first+len(a.infos) {
		a.ask(ctx, i)
	}
	return a.infos[i-a.first], a.errs[i-a.first]
}

func (a *ahead) ask(ctx context.Context, first int) {
	n := min(1<<min(a.batches, 16), a.s.opts.Parallel, a.n-first)
	a.batches++
	a.first, a.infos, a.errs = first, make([]object.Info, n), make([]error, n)
	var group errgroup.Group
	for i := range n {
		if key := a.key(first + i); key != "" {
			group.Go(func() error {
				a.infos[i], a.errs[i] = a.s.Stat(ctx, object.Name{Key: key})
				return nil
			})
		}
	}
	group.Wait() //nolint:errcheck // each has its own
}
