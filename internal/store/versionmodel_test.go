package store_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// version is one version of a name, as the model knows it.
type version struct {
	null, marker bool
	n            int            // what it holds
	id           object.Version // zero: it has none, or the answer that told it was lost
	at           object.Version // that it was written under, likewise
}

func (v version) String() string {
	what := fmt.Sprint(v.n)
	if v.marker {
		what = "mark"
	}
	if v.null {
		return what + "(null)"
	}
	return fmt.Sprintf("%s(%s)", what, v.id)
}

// versions are those of one name, the newest first. The slice is not changed.
type versions []version

// with returns what they are after one more was written.
func (h versions) with(v version) versions {
	rest := h
	if v.null {
		rest = h.without(func(old version) bool { return old.null })
	}
	return append(versions{v}, rest...)
}

func (h versions) without(which func(version) bool) versions {
	return slices.DeleteFunc(slices.Clone(h), which)
}

// find returns what a name with this ID means, and the kind of error if that is none.
func (h versions) find(id object.Version) (v version, kind object.Kind) {
	i := 0
	if id != (object.Version{}) {
		i = slices.IndexFunc(h, func(v version) bool { return v.name(object.Name{}).ID == id })
	}
	switch {
	case i < 0 || i >= len(h):
		return version{}, object.NotFound
	case !h[i].marker:
		return h[i], object.Internal
	case id == (object.Version{}):
		return h[i], object.NotFound
	}
	return h[i], object.Invalid
}

// name returns the name by which a version is asked for.
func (v version) name(of object.Name) object.Name {
	of.ID = v.id
	if v.null {
		of.ID = object.NullID
	}
	return of
}

// keeper is a model of a store with versions: for each name what may be there.
// Several workers may use it, each for names of its own.
type keeper struct {
	mu       sync.Mutex
	possible map[object.Name][]versions
	contents map[int][]byte
	next     int
}

func newKeeper() *keeper {
	return &keeper{possible: make(map[object.Name][]versions), contents: map[int][]byte{}}
}

// fresh returns the number of a new content.
func (k *keeper) fresh() (n int, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	k.contents[k.next] = content(k.next)
	return k.next, k.contents[k.next]
}

// joined returns the number of a content that is put together from others.
func (k *keeper) joined(parts []version) (n int, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	for _, v := range parts {
		data = append(data, k.contents[v.n]...)
	}
	k.contents[k.next] = data
	return k.next, data
}

func (k *keeper) data(n int) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.contents[n]
}

func (k *keeper) states(name object.Name) []versions {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.possible[name]; len(p) > 0 {
		return slices.Clone(p)
	}
	return []versions{nil}
}

// only returns the one state that a name has.
func (k *keeper) only(name object.Name) versions { return k.states(name)[0] }

// note applies a change, and keeps what was possible before if it may have failed.
func (k *keeper) note(name object.Name, err error, change func(versions) versions) {
	before := k.states(name)
	var after []versions
	for _, h := range before {
		after = append(after, change(h))
	}
	if err != nil {
		after = append(before, after...)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.possible[name] = after
}

func (k *keeper) names() []object.Name {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Keys(k.possible), func(a, b object.Name) int { return strings.Compare(a.String(), b.String()) })
}

// check compares a store with the model and settles what was open.
func (k *keeper) check(t *testing.T, s *store.Store) {
	t.Helper()
	seen := make(map[object.Name]versions)
	for _, bucket := range []string{"bkt", parts} {
		for e, err := range s.Versions(ctx, bucket, object.ListOptions{}, object.Version{}) {
			must(t, err)
			name := object.Name{Bucket: bucket, Key: e.Info.Name.Key}
			v := version{id: e.Info.Name.ID, null: e.Info.Name.ID == object.Version{}, marker: e.Info.Marker, at: e.Info.Version}
			if e.Info.Newest != (len(seen[name]) == 0) {
				t.Fatalf("%s %v: newest %v, behind %v", name, v, e.Info.Newest, seen[name])
			}
			if !v.null && v.id != e.Info.Version {
				t.Fatalf("%s has ID %s and version %s", name, v.id, e.Info.Version)
			}
			seen[name] = append(seen[name], v)
		}
	}
	for name := range seen {
		if k.possible[name] == nil {
			t.Fatalf("%s was never written: %v", name, seen[name])
		}
	}
	for _, name := range k.names() {
		k.checkName(t, s, name, seen[name])
	}
	k.checkLists(t, s)
}

func (k *keeper) checkName(t *testing.T, s *store.Store, name object.Name, seen versions) {
	t.Helper()
	read := make([][]byte, len(seen))
	for i, v := range seen {
		if !v.marker {
			var err error
			if read[i], err = readName(s, v.name(name)); err != nil {
				t.Fatalf("%s %v: %v", name, v, err)
			}
		}
	}
	fits := func(h versions) bool {
		for i, got := range seen {
			if len(h) != len(seen) {
				return false
			}
			want := h[i]
			if want.null != got.null || want.marker != got.marker || (want.at != object.Version{} && want.at != got.at) {
				return false
			}
			if !got.marker && !bytes.Equal(read[i], k.data(want.n)) {
				return false
			}
		}
		return len(h) == len(seen)
	}
	states := k.states(name)
	i := slices.IndexFunc(states, fits)
	if i < 0 {
		t.Fatalf("%s has %v, not one of %v", name, seen, states)
	}
	now := slices.Clone(seen)
	for j := range now {
		now[j].n = states[i][j].n
	}
	k.mu.Lock()
	k.possible[name] = []versions{now}
	k.mu.Unlock()
	k.checkRead(t, s, name)
}

// checkRead asks for a name with and without IDs, in every way there is.
func (k *keeper) checkRead(t *testing.T, s *store.Store, name object.Name) {
	t.Helper()
	h := k.only(name)
	ids := []object.Version{{}, object.NullID, {Map: 1, Counter: 1 << 60}}
	for _, v := range h {
		ids = append(ids, v.id)
	}
	var refs []object.Ref
	for _, id := range ids {
		refs = append(refs, object.Ref{Name: object.Name{Bucket: name.Bucket, Key: name.Key, ID: id}})
	}
	i := 0
	for item, err := range s.Batch(ctx, refs) {
		want, kind := h.find(ids[i])
		if item.Ref != refs[i] {
			t.Fatalf("batch: asked for %+v, got %+v", refs[i], item.Ref)
		}
		data := item.Bytes
		if item.Large != nil {
			data, err = io.ReadAll(item.Large)
		}
		k.compare(t, "batch", refs[i].Name, want, kind, data, err)
		data, err = readName(s, refs[i].Name)
		k.compare(t, "read", refs[i].Name, want, kind, data, err)
		info, err := s.Stat(ctx, refs[i].Name)
		if kind == object.Internal && (err != nil || info.Size != int64(len(data)) || info.Name.ID != want.id) {
			t.Fatalf("stat of %s %s: %+v, %v", name, ids[i], info, err)
		}
		if kind != object.Internal {
			wantKind(t, "stat", err, kind)
		}
		i++
	}
	if i != len(refs) {
		t.Fatalf("batch gave %d of %d", i, len(refs))
	}
}

func (k *keeper) compare(t *testing.T, what string, name object.Name, want version, kind object.Kind, data []byte, err error) {
	t.Helper()
	switch {
	case kind != object.Internal:
		wantKind(t, fmt.Sprintf("%s of %s %s, which is %v", what, name, name.ID, want), err, kind)
	case err != nil || !bytes.Equal(data, k.data(want.n)):
		t.Fatalf("%s of %s %s: %d bytes, %v; want %v", what, name, name.ID, len(data), err, want)
	}
}

func readName(s *store.Store, name object.Name) ([]byte, error) {
	r, err := s.Open(ctx, name, object.Range{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// checkLists compares whole listings and the usage.
func (k *keeper) checkLists(t *testing.T, s *store.Store) {
	t.Helper()
	for _, bucket := range []string{"bkt", parts} {
		k.list(t, s, bucket, object.ListOptions{})
		var want store.Usage
		for _, name := range k.names() {
			for _, v := range k.only(name) {
				if name.Bucket == bucket && !v.marker {
					want.Objects++
					want.Bytes += int64(len(k.data(v.n)))
				}
			}
		}
		until(t, fmt.Sprintf("the usage of %s is %+v (it is %+v)", bucket, want, s.Usage(bucket)), func() bool { return s.Usage(bucket) == want })
	}
}

// list compares a listing of objects.
func (k *keeper) list(t *testing.T, s *store.Store, bucket string, o object.ListOptions) {
	t.Helper()
	var want, got []string
	for _, name := range k.listed(bucket, o) {
		if v, kind := k.only(name).find(object.Version{}); kind == object.Internal {
			want = appendEntry(want, o, name.Key, v.String())
		}
	}
	for e, err := range s.List(ctx, bucket, o) {
		must(t, err)
		got = append(got, k.line(t, e))
	}
	if o.Limit > 0 {
		want = want[:min(len(want), o.Limit)]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("list %+v: %q, not %q", o, got, want)
	}
}

// listVersions compares a listing of versions.
func (k *keeper) listVersions(t *testing.T, s *store.Store, bucket string, o object.ListOptions, afterID object.Version) {
	t.Helper()
	var want, got []string
	names := k.listed(bucket, o)
	if within := (object.Name{Bucket: bucket, Key: o.After}); afterID != (object.Version{}) && fold(o.After, o) != o.After && strings.HasPrefix(o.After, o.Prefix) {
		names = append([]object.Name{within}, names...)
	}
	for _, name := range names {
		h := k.only(name)
		if name.Key == o.After {
			h = h.behind(afterID)
		}
		for _, v := range h {
			line := v.String()
			if v == k.only(name)[0] {
				line += " newest"
			}
			want = appendEntry(want, o, name.Key, line)
		}
	}
	for e, err := range s.Versions(ctx, bucket, o, afterID) {
		must(t, err)
		line := k.line(t, e)
		if e.Info.Newest {
			line += " newest"
		}
		got = append(got, line)
	}
	if o.Limit > 0 {
		want = want[:min(len(want), o.Limit)]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("versions %+v behind %s:\n%q, not\n%q", o, afterID, got, want)
	}
}

// behind returns those that a listing shows which goes on behind an ID.
func (h versions) behind(id object.Version) versions {
	if id == object.NullID {
		null, _ := h.find(id)
		if id = null.at; id == (object.Version{}) {
			return h // it is gone, nobody knows where it was
		}
	}
	return h.without(func(v version) bool { return !id.After(v.at) })
}

// listed returns the names that a listing goes over.
func (k *keeper) listed(bucket string, o object.ListOptions) []object.Name {
	return slices.DeleteFunc(k.names(), func(name object.Name) bool {
		seen := o.After != "" && (name.Key <= o.After || fold(o.After, o) == o.After && strings.HasPrefix(name.Key, o.After))
		return name.Bucket != bucket || !strings.HasPrefix(name.Key, o.Prefix) || seen
	})
}

func fold(key string, o object.ListOptions) string {
	if rest, ok := strings.CutPrefix(key, o.Prefix); ok && o.Delimiter != "" {
		if before, _, ok := strings.Cut(rest, o.Delimiter); ok {
			return o.Prefix + before + o.Delimiter
		}
	}
	return ""
}

func appendEntry(lines []string, o object.ListOptions, key, line string) []string {
	prefix := fold(key, o)
	if prefix == "" {
		return append(lines, key+" "+line)
	}
	if len(lines) > 0 && lines[len(lines)-1] == prefix {
		return lines
	}
	return append(lines, prefix)
}

// line describes an entry of a listing as the model does.
func (k *keeper) line(t *testing.T, e object.Entry) string {
	t.Helper()
	if e.Prefix != "" {
		return e.Prefix
	}
	name := e.Info.Name
	name.ID = object.Version{}
	for _, v := range k.only(name) {
		if v.id == e.Info.Name.ID && v.null == (v.id == object.Version{}) {
			if !v.marker && e.Info.Size != int64(len(k.data(v.n))) || v.marker != e.Info.Marker {
				t.Fatalf("%s %v is listed as %+v", name, v, e.Info)
			}
			return name.Key + " " + v.String()
		}
	}
	return fmt.Sprintf("%s ?(%s)", name.Key, e.Info.Name.ID)
}
