package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/object"
)

const (
	defaultPage = 1000
	maxPage     = 10000

	// maxPageKeys bounds the bytes of a page's keys, so that a page of the longest
	// keys does not take a hundred times the memory of a usual one. Such a page
	// ends early, which a client that looks at "truncated" does not notice.
	maxPageKeys = 2 << 20
)

// listObjects answers with one page of a bucket's listing.
func (a *API) listObjects(x *exchange) error {
	opts, err := parseList(x.R.URL.RawQuery, "prefix", "delimiter", "after", "limit")
	if err != nil {
		return err
	}
	limit := opts.Limit
	opts.Limit++ // one more, to learn whether there are more
	page := pageJSON{Bucket: x.name.Bucket, Prefix: opts.Prefix, Entries: []entryJSON{}, Prefixes: []string{}}
	n, bytes := 0, 0
	for e, err := range a.node.List(x.R.Context(), x.name.Bucket, opts) {
		if errors.Is(err, object.ErrIncomplete) {
			page.Incomplete = true
			continue
		}
		if err != nil {
			return err
		}
		if n == limit || bytes > maxPageKeys {
			page.Truncated = true
			break
		}
		n++
		page.Next = e.Mark()
		bytes += len(page.Next)
		if e.Prefix != "" {
			page.Prefixes = append(page.Prefixes, e.Prefix)
		} else {
			page.Entries = append(page.Entries, newEntryJSON(e.Info))
		}
	}
	if !page.Truncated {
		page.Next = ""
	}
	return x.respond(http.StatusOK, page)
}

// parseList reads those parameters of a listing that are known. Each may be given
// once; others are refused, since a misspelt prefix would list everything.
func parseList(query string, known ...string) (object.ListOptions, error) {
	opts := object.ListOptions{Limit: defaultPage}
	if query == "" {
		return opts, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return opts, object.Errorf(object.Invalid, "the parameters are badly written: %v", err)
	}
	for name, given := range values {
		if !slices.Contains(known, name) {
			return opts, object.Errorf(object.Invalid, "%.40q is not a parameter of this listing; there are %s", name, strings.Join(known, ", "))
		}
		if len(given) != 1 {
			return opts, object.Errorf(object.Invalid, "parameter %.40q is given %d times", name, len(given))
		}
		if err := setList(&opts, name, given[0]); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

func setList(opts *object.ListOptions, name, value string) error {
	if name == "limit" {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxPage || strings.HasPrefix(value, "+") {
			return object.Errorf(object.Invalid, "limit must be 1 to %d, not %.40q", maxPage, value)
		}
		opts.Limit = n
		return nil
	}
	field := map[string]*string{"prefix": &opts.Prefix, "delimiter": &opts.Delimiter, "after": &opts.After}[name]
	switch {
	case len(value) > object.MaxKey:
		return object.Errorf(object.Invalid, "%s of %d bytes is longer than any key can be", name, len(value))
	case !utf8.ValidString(value):
		return object.Errorf(object.Invalid, "%s %q is not UTF-8", name, value)
	}
	*field = value
	return nil
}
