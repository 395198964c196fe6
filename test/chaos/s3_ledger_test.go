package chaos

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// What the S3 door was asked to keep, and what it said. Each bucket has one writer, so
// that nothing here needs a lock; a key of which something is unknown is left alone
// until the next check.

// version is one version of an object, or the mark of a deletion.
type version struct {
	id    string  // "null" for what has none; empty: it is not known yet
	parts []state // its content, one behind the other; nil for a mark of a deletion
	etag  string  // empty: it is not known
	tags  string  // a=1&b=2
	mark  string  // the metadata that goes with it
}

func (v version) String() string {
	if v.parts == nil {
		return "mark " + v.id
	}
	return fmt.Sprintf("%s %s (%s, tags %q)", v.mark, v.id, v.etag, v.tags)
}

func (v version) marker() bool { return v.parts == nil }

func (v version) bytes() []byte {
	var all [][]byte
	for _, part := range v.parts {
		all = append(all, part.bytes())
	}
	return bytes.Join(all, nil)
}

func hexMD5(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

// etagOfParts is the ETag of an object that came in parts.
func etagOfParts(etags []string) string {
	var all []byte
	for _, etag := range etags {
		sum, _ := hex.DecodeString(etag)
		all = append(all, sum...)
	}
	return fmt.Sprintf("%s-%d", hexMD5(all), len(etags))
}

// What the property of a bucket is called in S3, and what it is before it was ever set.
const (
	unversioned = ""
	enabled     = "Enabled"
	suspended   = "Suspended"
)

// versions are those of one key, the newest first.
type versions []version

func (l versions) newest() (version, bool) {
	if len(l) == 0 || l[0].marker() {
		return version{}, false
	}
	return l[0], true
}

// with is what they are after a write.
func (l versions) with(mode string, v version) versions {
	if mode == enabled {
		v.id = ""
		return append(versions{v}, l...)
	}
	v.id = "null"
	return append(versions{v}, l.without("null")...)
}

// deleted is what they are after a delete that names no version.
func (l versions) deleted(mode string) versions {
	if mode == unversioned {
		return l.without("null")
	}
	return l.with(mode, version{})
}

// without is what they are after a delete of a version.
func (l versions) without(id string) versions {
	return slices.DeleteFunc(slices.Clone(l), func(v version) bool { return v.id == id })
}

// tagged is what they are after the tags of a version were set.
func (l versions) tagged(id, tags string) versions {
	l = slices.Clone(l)
	for i := range l {
		if l[i].id == id {
			l[i].tags = tags
		}
	}
	return l
}

// named is what they are when the new one is known to have an ID.
func (l versions) named(id string) versions {
	l = slices.Clone(l)
	for i := range l {
		if l[i].id == "" {
			l[i].id = id
		}
	}
	return l
}

// keyLine is what is known about one key.
type keyLine struct {
	now     versions
	maybe   versions // what a request without an answer may have made of it
	open    bool     // there is such a request
	writes  int
	history []string
}

func (ln *keyLine) note(format string, args ...any) {
	if len(ln.history) > 24 {
		ln.history = slices.Delete(ln.history, 0, 1)
	}
	ln.history = append(ln.history, fmt.Sprintf(format, args...))
}

func (ln *keyLine) story() string {
	return fmt.Sprintf("acknowledged was %v, open: %v %v; it was:\n\t%s", ln.now, ln.open, ln.maybe, strings.Join(ln.history, "\n\t"))
}

// begin notes that a request is on its way that would make it so.
func (ln *keyLine) begin(what string, to versions) {
	ln.maybe, ln.open = to, true
	ln.note("%s asked", what)
}

// done notes that it was acknowledged.
func (ln *keyLine) done(what, id string) {
	ln.now, ln.maybe, ln.open = ln.maybe.named(id), nil, false
	ln.note("%s acknowledged %s", what, id)
}

// undone notes that it was refused.
func (ln *keyLine) undone(what string) {
	ln.maybe, ln.open = nil, false
	ln.note("%s refused", what)
}

// transfer is an upload in parts.
type transfer struct {
	key   string
	id    string // empty: its beginning was not acknowledged
	mark  string
	parts map[int]state
	etags map[int]string

	late    int    // number of a part without an answer; zero for none
	latePut state  // what that would be
	ending  string // "complete" or "abort" without an answer; empty for none
	asked   []int  // numbers of the parts that are to be the object
}

// content is what completing makes.
func (u *transfer) content(numbers []int) version {
	v := version{mark: u.mark}
	var etags []string
	for _, number := range numbers {
		v.parts = append(v.parts, u.parts[number])
		etags = append(etags, u.etags[number])
	}
	v.etag = etagOfParts(etags)
	return v
}
