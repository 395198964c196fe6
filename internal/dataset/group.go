package dataset

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// shape is what all samples of a dataset have: fields, and columns.
type shape struct {
	fields  map[string]int // to their numbers
	columns map[string]int
	list    []manifest.Column
	classes map[string]int // of the folder, to their numbers

	has map[string]int // how many samples have each field or column
}

// fieldList returns the fields in the order of their numbers.
func (s *shape) fieldList() []manifest.Field {
	list := make([]manifest.Field, len(s.fields))
	for name, i := range s.fields {
		list[i].Name = name
	}
	return list
}

func newShape(opts *Options) *shape {
	s := &shape{fields: map[string]int{}, columns: map[string]int{}, list: opts.columns(), classes: map[string]int{}, has: map[string]int{}}
	for i, c := range s.list {
		s.columns[c.Name] = i
	}
	return s
}

// finish gives the fields and classes their numbers, by name, behind those that
// were there before.
func (s *shape) finish(samples int) error {
	for i := range s.list {
		c := &s.list[i]
		if s.has[c.Name] == 0 {
			return invalid("no sample has a %q that could be a column", c.Name)
		}
		c.Optional = c.Optional || s.has[c.Name] < samples
	}
	for _, name := range slices.Sorted(maps.Keys(s.has)) {
		if _, column := s.columns[name]; column {
			continue
		}
		if _, known := s.fields[name]; !known {
			s.fields[name] = len(s.fields)
		}
	}
	if n := len(s.fields); n > manifest.MaxFields {
		some := slices.Sorted(maps.Keys(s.fields))[:8]
		return invalid("there are %d different fields, and a sample can have %d: %s, ... A field is what is behind the first dot of a name",
			n, manifest.MaxFields, strings.Join(some, ", "))
	}
	return nil
}

// addClasses gives class names numbers, behind those that have one.
func (s *shape) addClasses(names map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, known := s.classes[name]; !known {
			s.classes[name] = len(s.classes)
		}
	}
}

// columnList returns the columns as a manifest wants them.
func (s *shape) columnList() []manifest.Column {
	list := slices.Clone(s.list)
	for i := range list {
		if list[i].Name == class && len(s.classes) > 0 {
			list[i].Classes = s.classList()
		}
	}
	return list
}

// classList returns the classes in the order of their numbers.
func (s *shape) classList() []string {
	list := make([]string, len(s.classes))
	for name, i := range s.classes {
		list[i] = name
	}
	return list
}

// group finds the samples of an origin: files that share a key. Files that cannot
// be part of one are named, and their samples left out.
func group(r *run, from Origin, folders []*folder, s *shape) *listing {
	l := &listing{}
	classes := map[string]bool{}
	for _, f := range folders {
		g := grouper{run: r, from: from, shape: s, folder: f, bad: make([]bool, len(f.ends)), fields: map[string]bool{}}
		var starts []int
		for i := 0; i < len(f.ends); {
			next := g.sample(i)
			if !g.bad[i] {
				starts = append(starts, i)
			}
			i = next
		}
		at := 0
		for i, start := range starts {
			if i > 0 {
				at += g.kept(starts[i-1], start)
			}
			l.samples = append(l.samples, uint32(l.files+at))
		}
		if r.opts.ClassFromFolder && len(starts) > 0 {
			classes[classOf(f.path)] = true
		}
		l.take(f, func(i int) bool { return g.bad[i] })
	}
	s.addClasses(classes)
	if l.files > 0 {
		l.samples = append(l.samples, uint32(l.files))
	}
	return l
}

// classOf is the first element of a path.
func classOf(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

// grouper goes through one folder.
type grouper struct {
	*run
	from   Origin
	shape  *shape
	folder *folder
	bad    []bool
	fields map[string]bool // of the current sample
}

func (g *grouper) kept(from, to int) (n int) {
	for _, bad := range g.bad[from:to] {
		if !bad {
			n++
		}
	}
	return n
}

// sample looks at the sample that begins at a file, and returns where it ends. If
// one of its files is bad, all are.
func (g *grouper) sample(start int) (end int) {
	clear(g.fields)
	first, good := "", true
	for end = start; end < len(g.folder.ends); end++ {
		name := g.folder.name(end)
		base, field, ok := cutName(name)
		if end == start {
			first = base
		} else if base != first || !ok {
			break
		}
		if size := g.folder.sizes[end]; size == unusable {
			good = false // and it was named
		} else if err := g.check(name, field, ok, size); err != nil {
			g.problem(g.from.local(g.folder.path+name), err)
			good = false
		}
		g.fields[field] = true
		if !ok {
			end++
			break
		}
	}
	for i := start; i < end; i++ {
		g.bad[i] = !good
	}
	if good {
		for field := range g.fields {
			g.shape.has[field]++
		}
		if g.opts.ClassFromFolder {
			g.shape.has[class]++
		}
	}
	return end
}

// check says why a file cannot be part of a sample.
func (g *grouper) check(name, field string, ok bool, size int64) error {
	path := g.folder.path + name
	switch key, err := shard.Key(path); {
	case !utf8.ValidString(path):
		return invalid("its name is not UTF-8")
	case len(path) > object.MaxKey:
		return invalid("its name has %d bytes, more than %d", len(path), object.MaxKey)
	case err != nil:
		return invalid("its name cannot stand in a tar: %w", err)
	case key != path || strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return invalid("its name holds characters that nobody can read")
	case !ok:
		return invalid("its name has no extension, which would be the field")
	case len(field) > manifest.MaxName || !plainField(field):
		return invalid("%q cannot be a field: 1 to %d letters, digits, dashes, underscores, and dots between them, can", field, manifest.MaxName)
	case g.fields[field]:
		return invalid("its sample has a field %q already: a duplicate", field)
	case size == 0 && !g.opts.AllowEmpty:
		return invalid("it is empty")
	case size > manifest.MaxSize:
		return invalid("it has %d bytes: a field of 4 GiB or more cannot be part of a sample", size)
	case g.opts.ClassFromFolder && g.folder.path == "":
		return invalid("it lies in no folder that could be its class")
	case g.opts.ClassFromFolder && len(classOf(g.folder.path)) > manifest.MaxClass:
		return invalid("the name of its folder is too long for a class")
	case g.opts.ClassFromFolder && field == class:
		return invalid("the class comes from the folder, and cannot be a file too")
	}
	if c, column := g.shape.columns[field]; column && size > maxColumn {
		return invalid("it has %d bytes, too many for the column %q", size, g.shape.list[c].Name)
	}
	return nil
}

// maxColumn is how long a file may be whose content becomes a column.
const maxColumn = manifest.MaxText

func plainField(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return !strings.HasPrefix(name, "__") && name[0] != '.' && name[len(name)-1] != '.'
}

// nothing says that there is nothing to make a dataset of.
func nothing(from Origin) error {
	return object.Errorf(object.NotFound, "there are no samples under %s", from)
}
