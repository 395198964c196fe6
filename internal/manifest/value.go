package manifest

import (
	"math"
	"runtime/debug"

	"penstock.dev/penstock/internal/object"
)

// Value returns what sample i has in column c.
func (m *Manifest) Value(i, c int) (v Value, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.checkSample(i); err != nil {
		return Value{}, err
	}
	if err := m.checkColumn(c); err != nil {
		return Value{}, err
	}
	return m.value(int64(i), c)
}

func (m *Manifest) value(i int64, c int) (v Value, err error) {
	of := &m.ofColumn[c]
	if m.columns[c].Optional {
		if err := m.touch(&of.present, i/8, i/8+1); err != nil {
			return Value{}, err
		}
		if of.present.bytes[i/8]>>(i%8)&1 == 0 {
			return Value{Missing: true}, nil
		}
	}
	switch m.columns[c].Type {
	case Int, Float:
		bits, err := m.uint64(&of.values, i)
		if err != nil {
			return Value{}, err
		}
		if m.columns[c].Type == Int {
			return Value{Int: int64(bits)}, nil
		}
		return Value{Float: math.Float64frombits(bits)}, nil
	case Text:
		text, err := m.bytes(&of.values, &of.texts, i)
		return Value{Text: string(text)}, err
	}
	number, err := m.class(i, c)
	if err != nil {
		return Value{}, err
	}
	name, err := m.bytes(&of.classEnds, &of.texts, number)
	return Value{Int: number, Text: string(name)}, err
}

// class returns the number of the class of sample i.
func (m *Manifest) class(i int64, c int) (number int64, err error) {
	of := &m.ofColumn[c]
	if valueWidth(Class, m.classes[c]) == 2 {
		n, e := m.uint16(&of.values, i)
		number, err = int64(n), e
	} else {
		n, e := m.uint32(&of.values, i)
		number, err = int64(n), e
	}
	if err == nil && number >= int64(m.classes[c]) {
		err = m.corrupt("sample %d has class %d of %d in column %d", i, number, m.classes[c], c)
	}
	return number, err
}

// Classes returns the names of the classes of column c, in the order of their
// numbers. It is empty for columns that are of another type.
func (m *Manifest) Classes(c int) (all []string, err error) {
	defer m.guard(&err, debug.SetPanicOnFault(m.mapped))
	if err := m.checkColumn(c); err != nil {
		return nil, err
	}
	of := &m.ofColumn[c]
	all = make([]string, m.classes[c])
	for i := range all {
		name, err := m.bytes(&of.classEnds, &of.texts, int64(i))
		if err != nil {
			return nil, err
		}
		all[i] = string(name)
	}
	return all, nil
}

func (m *Manifest) checkColumn(c int) error {
	if c < 0 || c >= len(m.columns) {
		return object.Errorf(object.NotFound, "%s has no column %d: it has %d", m, c, len(m.columns))
	}
	return nil
}
