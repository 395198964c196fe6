package source

import (
	"strings"

	"penstock.dev/penstock/internal/object"
)

// Cursor turns keys that come in byte order into the entries of a listing: it says which
// keys are still of interest, folds them, and counts. Not for concurrent use.
type Cursor struct {
	opts object.ListOptions
	from string // the first key that is of interest
	to   string // the first that is not any more; empty: none
	n    int
}

// NewCursor stands before the first key of a listing.
func NewCursor(opts object.ListOptions) *Cursor {
	c := &Cursor{opts: opts, from: opts.Prefix, to: After(opts.Prefix)}
	if opts.After != "" {
		next := opts.After + "\x00"
		if prefix, ok := c.folded(opts.After); ok && prefix == opts.After {
			next = After(opts.After)
		}
		c.from = max(c.from, next)
	}
	return c
}

// After returns the first string behind all that begin with prefix, or nothing if there
// is none.
func After(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

// Done reports whether neither this key nor one behind it will be listed.
func (c *Cursor) Done(key string) bool {
	return (c.opts.Limit > 0 && c.n >= c.opts.Limit) || (c.to != "" && key >= c.to)
}

// Passed reports whether a key is before those of interest.
func (c *Cursor) Passed(key string) bool { return key < c.from }

// PassedAll reports whether all keys that begin with prefix are before those of interest.
func (c *Cursor) PassedAll(prefix string) bool {
	after := After(prefix)
	return after != "" && after <= c.from
}

// From returns the first key that is of interest.
func (c *Cursor) From() string { return c.from }

// Take returns the entry for an object that was neither Passed nor is Done.
func (c *Cursor) Take(info object.Info) object.Entry {
	c.n++
	if prefix, ok := c.folded(info.Name.Key); ok {
		c.from = After(prefix)
		return object.Entry{Prefix: prefix}
	}
	c.from = info.Name.Key + "\x00"
	info.ContentType, info.Metadata = "", nil
	return object.Entry{Info: info}
}

// Pass goes on behind a key that turned out not to be there.
func (c *Cursor) Pass(key string) { c.from = max(c.from, key+"\x00") }

// Folds reports whether the key is seen only as a part of a prefix.
func (c *Cursor) Folds(key string) bool {
	_, ok := c.folded(key)
	return ok
}

func (c *Cursor) folded(key string) (prefix string, ok bool) {
	rest, ok := strings.CutPrefix(key, c.opts.Prefix)
	if !ok || c.opts.Delimiter == "" {
		return "", false
	}
	i := strings.Index(rest, c.opts.Delimiter)
	if i < 0 {
		return "", false
	}
	return key[:len(c.opts.Prefix)+i+len(c.opts.Delimiter)], true
}
