package objecttest

import (
	"bytes"
	"fmt"

	"penstock.dev/penstock/internal/object"
)

// modelTest does the same random things to the holder and to a Memory, and
// compares what both answer. ETags differ between the two, so those of each are
// remembered.
type modelTest struct {
	*suite
	model *Memory
	now   map[string][2]string // the current ETags of a key: the holder's, the model's
	old   map[string][2]string // ETags that have passed
}

func testModel(s *suite) {
	m := &modelTest{suite: s, model: NewMemory(), now: map[string][2]string{}, old: map[string][2]string{}}
	steps := []struct {
		weight int
		step   func(key string) string
	}{
		{8, m.stepPut}, {3, m.stepDelete}, {3, m.stepStat}, {6, m.stepOpen}, {2, m.stepList},
	}
	total := 0
	for _, st := range steps {
		total += st.weight
	}
	for i := range s.opts.Steps {
		pick := s.rand.IntN(total)
		for _, st := range steps {
			if pick -= st.weight; pick < 0 {
				if what := st.step(s.key()); s.Failed() {
					s.Fatalf("step %d: %s", i, what)
				}
				break
			}
		}
	}
	for key := range m.now { // and in the end everything is there
		m.stepOpen(key)
	}
}

func (s *suite) key() string {
	all := s.possible([]string{"a", "a/b", "a/c", "b", "..", "/", "\x00", "é", "z"})
	return all[s.rand.IntN(len(all))]
}

// condition returns the same condition for the holder and for the model.
func (m *modelTest) condition(key string) (holder, model object.Condition) {
	tags := m.now[key]
	if m.rand.IntN(3) == 0 {
		tags = m.old[key]
	}
	if m.opts.Lacks.Conditions {
		return object.Condition{}, object.Condition{}
	}
	switch m.rand.IntN(8) {
	case 0:
		return object.Condition{IfNoneMatch: "*"}, object.Condition{IfNoneMatch: "*"}
	case 1:
		return object.Condition{IfMatch: "*"}, object.Condition{IfMatch: "*"}
	case 2:
		return object.Condition{IfMatch: tags[0]}, object.Condition{IfMatch: tags[1]}
	case 3:
		return object.Condition{IfNoneMatch: tags[0]}, object.Condition{IfNoneMatch: tags[1]}
	}
	return object.Condition{}, object.Condition{}
}

func (m *modelTest) agree(a, b error) bool {
	m.Helper()
	if (a == nil) != (b == nil) || (a != nil && object.KindOf(a) != object.KindOf(b)) {
		m.Errorf("the holder answers %v, the model %v", a, b)
	}
	return a == nil && b == nil
}

func (m *modelTest) stepPut(key string) string {
	size := m.rand.IntN(3000)
	if m.rand.IntN(8) == 0 {
		size = m.rand.IntN(2 << 20)
	}
	seed := m.rand.Uint64()
	here, there := m.condition(key)
	opts := object.PutOptions{Condition: here, Metadata: map[string]string{"seed": fmt.Sprint(seed)}}
	a, errA := m.Put(m.Context(), name(key), bytes.NewReader(content(seed, size)), opts)
	opts.Condition = there
	b, errB := m.model.Put(m.Context(), name(key), bytes.NewReader(content(seed, size)), opts)
	if m.agree(errA, errB) {
		m.old[key] = m.now[key]
		m.now[key] = [2]string{a.ETag, b.ETag}
		m.same("put", m.alike(a, b), b)
	}
	return fmt.Sprintf("put %q, %d bytes, %+v", key, size, here)
}

func (m *modelTest) stepDelete(key string) string {
	here, there := m.condition(key)
	if m.agree(m.Delete(m.Context(), name(key), here), m.model.Delete(m.Context(), name(key), there)) {
		m.old[key] = m.now[key]
		delete(m.now, key)
	}
	return fmt.Sprintf("delete %q, %+v", key, here)
}

func (m *modelTest) stepStat(key string) string {
	a, errA := m.Stat(m.Context(), name(key))
	b, errB := m.model.Stat(m.Context(), name(key))
	if m.agree(errA, errB) {
		m.same("stat", m.alike(a, b), b)
	}
	return fmt.Sprintf("stat %q", key)
}

func (m *modelTest) stepOpen(key string) string {
	r := object.Range{}
	if m.rand.IntN(2) == 0 {
		r = object.Range{Offset: m.rand.Int64N(4000) - 500, Length: m.rand.Int64N(2000)}
	}
	b, errB := m.model.Open(m.Context(), name(key), r)
	if errB != nil {
		a, errA := m.Open(m.Context(), name(key), r)
		if errA == nil {
			a.Close()
		}
		m.agree(errA, errB)
		return fmt.Sprintf("open %q %+v", key, r)
	}
	var want bytes.Buffer
	if _, err := b.WriteTo(&want); err != nil {
		m.Fatal(err)
	}
	got, info := m.get(name(key), r)
	if !bytes.Equal(got, want.Bytes()) {
		m.Errorf("%d bytes, want %d others", len(got), want.Len())
	}
	m.same("open", m.alike(info, b.Info()), b.Info())
	return fmt.Sprintf("open %q %+v", key, r)
}

func (m *modelTest) stepList(string) string {
	opts := object.ListOptions{Limit: m.rand.IntN(5)}
	if m.rand.IntN(2) == 0 {
		opts.Delimiter = "/"
	}
	if a, b := m.outline(m.list(Bucket, opts)), m.outline(listAll(m.suite, m.model, opts)); a != b {
		m.Errorf("lists\n%s\nwant\n%s", a, b)
	}
	return fmt.Sprintf("list %+v", opts)
}
