package dataset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/dataset"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// TestColumns: files become values, and stay members of the shards.
func TestColumns(t *testing.T) {
	for _, records := range []bool{false, true} {
		m := newMaker(t)
		tree := content{
			"a.jpg": "a", "a.age": " 42\n", "a.score": "1.5e3", "a.caption": "a cat\n", "a.kind": "cat\n",
			"b.jpg": "b", "b.age": "-7", "b.score": "0.25", "b.caption": "größer", "b.kind": "dog",
			"c.jpg": "c", "c.score": "3", "c.caption": "c", "c.kind": "cat",
		}
		tree.write(t, m.tree)
		opts := dataset.Options{Records: records, Columns: []manifest.Column{
			{Name: "age", Type: manifest.Int}, {Name: "score", Type: manifest.Float}, {Name: "caption", Type: manifest.Text}, {Name: "kind", Type: manifest.Class},
		}}
		m.mustCreate(opts)
		v := m.open(1)
		if len(v.Fields()) != 1 || !v.Columns()[0].Optional || v.Columns()[1].Optional {
			t.Errorf("%v %v", v.Fields(), v.Columns())
		}
		got := map[string]string{}
		for i := range v.Len() {
			s, err := v.Sample(i)
			must(t, err)
			for c, value := range s.Values {
				got[s.Key] += "|" + dataset.Text(v.Columns()[c], value)
			}
		}
		if got["a"] != "|42|1500|a cat\n|cat" || got["b"] != "|-7|0.25|größer|dog" || got["c"] != "||3|c|cat" {
			t.Errorf("%q", got)
		}
		if classes, err := v.Classes(3); err != nil || !slices.Equal(classes, []string{"cat", "dog"}) {
			t.Errorf("%q, %v", classes, err)
		}
		if !records {
			if listed := m.listTars(1); len(listed) != len(tree) {
				t.Errorf("the shards hold %v", listed)
			}
		}
		// A value that has changed is a sample that has; others stay.
		content{"a.age": "43", "b.kind": "dog"}.write(t, m.tree)
		if report := m.mustCreate(opts); report.Changed != 1 || report.Kept != 2 {
			t.Errorf("%+v", report)
		}
		v = m.open(2)
		i, err := v.Find("a")
		must(t, err)
		if value, err := v.Value(i, 0); err != nil || value.Int != 43 {
			t.Errorf("%+v, %v", value, err)
		}
		// Other columns need a repack.
		opts.Columns = opts.Columns[1:]
		if _, err := m.create(opts); !object.Is(err, object.Invalid) || !strings.Contains(err.Error(), "--repack") {
			t.Errorf("%v", err)
		}
		opts.Repack = true
		m.mustCreate(opts)
		// What is no value is named.
		content{"b.score": "high"}.write(t, m.tree)
		if _, err := m.create(opts); !object.Is(err, object.Invalid) || len(m.problems) != 1 || m.problems[0] != `b.score: column "score": "high" is not a number` {
			t.Errorf("%v %q", err, m.problems)
		}
		opts.Skip = true
		if report := m.mustCreate(opts); report.Samples != 2 {
			t.Errorf("%+v", report)
		}
	}
	m := newMaker(t)
	content{"a.jpg": "x"}.write(t, m.tree)
	if _, err := m.create(dataset.Options{Columns: []manifest.Column{{Name: "cls", Type: manifest.Int}}}); !object.Is(err, object.Invalid) {
		t.Errorf("a column that nobody has: %v", err)
	}
}

// TestClassFromFolder: WebDataset finds the number of the class in the shard, and the
// numbers stay when classes are added.
func TestClassFromFolder(t *testing.T) {
	m := newMaker(t)
	tree := content{}
	for _, folder := range []string{"dogs/", "cats/", "cats/young/"} {
		for i := range 3 {
			tree[fmt.Sprintf("%s%d.jpg", folder, i)] = folder
		}
	}
	tree.write(t, m.tree)
	opts := dataset.Options{ClassFromFolder: true}
	m.mustCreate(opts)
	check := func(version uint64, classes ...string) {
		t.Helper()
		v := m.open(version)
		if wrong := m.verify(v); len(wrong) > 0 {
			t.Error(wrong)
		}
		if v.Columns()[0].Optional {
			t.Error("the class is optional")
		}
		if got, err := v.Classes(0); err != nil || !slices.Equal(got, classes) {
			t.Errorf("%q, %v", got, err)
		}
		for i := range v.Len() {
			s, err := v.Sample(i)
			must(t, err)
			folder, _, _ := strings.Cut(s.Key, "/")
			if value := s.Values[0]; value.Text != folder || classes[value.Int] != folder {
				t.Errorf("%q: %+v", s.Key, value)
			}
		}
	}
	check(1, "cats", "dogs")
	if listed := m.listTars(1); len(listed) != 18 || !slices.Contains(listed, "cats/young/1.cls") {
		t.Errorf("%v", listed)
	}
	content{"birds/1.jpg": "x"}.write(t, m.tree)
	if report := m.mustCreate(opts); report.Kept != 9 || report.Added != 1 {
		t.Errorf("%+v", report)
	}
	check(2, "cats", "dogs", "birds")
	content{"top.jpg": "x", "cats/9.cls": "x"}.write(t, m.tree)
	if _, err := m.create(opts); !object.Is(err, object.Invalid) || len(m.problems) != 2 {
		t.Errorf("%v %q", err, m.problems)
	}
}
