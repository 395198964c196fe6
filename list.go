package penstock

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"penstock.dev/penstock/internal/object"
)

// pageSize is how many entries a listing asks for at once.
const pageSize = 1000

// pageJSON is one page of a listing.
type pageJSON struct {
	Entries    []objectJSON `json:"entries"`
	Prefixes   []string     `json:"prefixes"`
	Truncated  bool         `json:"truncated"`
	Next       string       `json:"next"`
	Incomplete bool         `json:"incomplete"`
}

// List yields the entries of a bucket in the byte order of their keys, page by
// page as they are asked for. An error ends the listing, except ErrIncomplete,
// which comes once if the node cannot ask one of its disks.
func (c *Client) List(ctx context.Context, bucket string, opts ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := object.ValidateBucket(bucket); err != nil {
			yield(Entry{}, err)
			return
		}
		told, left := false, opts.Limit
		for {
			page, err := c.page(ctx, bucket, opts, left)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if page.Incomplete && !told {
				told = true
				if !yield(Entry{}, ErrIncomplete) {
					return
				}
			}
			count := 0
			for entry, err := range page.all(bucket) {
				if err != nil {
					yield(Entry{}, c.errorf(Internal, "listing %s: unexpected answer: %w", bucket, err))
					return
				}
				if !yield(entry, nil) {
					return
				}
				count++
			}
			switch {
			case !page.Truncated || (opts.Limit > 0 && left <= count):
				return
			case page.Next <= opts.After:
				yield(Entry{}, c.errorf(Internal, "listing %s does not get on: after %q comes %q", bucket, opts.After, page.Next))
				return
			}
			opts.After, left = page.Next, left-count
		}
	}
}

// page asks for one page of at most left entries, if left is not zero.
func (c *Client) page(ctx context.Context, bucket string, opts ListOptions, left int) (*pageJSON, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if left > 0 {
		query.Set("limit", strconv.Itoa(min(left, pageSize)))
	}
	for name, value := range map[string]string{"prefix": opts.Prefix, "delimiter": opts.Delimiter, "after": opts.After} {
		if value != "" {
			query.Set(name, value)
		}
	}
	page := new(pageJSON)
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/objects/"+bucket, query), what: "bucket " + bucket, out: page})
	return page, err
}

// all merges the page's objects and prefixes, each of which are in order.
func (p *pageJSON) all(bucket string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		prefixes := p.Prefixes
		for _, o := range p.Entries {
			for len(prefixes) > 0 && prefixes[0] < o.Key {
				if !yield(Entry{Prefix: prefixes[0]}, nil) {
					return
				}
				prefixes = prefixes[1:]
			}
			info, err := o.info(bucket)
			if !yield(Entry{Info: info}, err) {
				return
			}
		}
		for _, prefix := range prefixes {
			if !yield(Entry{Prefix: prefix}, nil) {
				return
			}
		}
	}
}

var _ object.Lister = (*Client)(nil)
