package manifest

import (
	"math"
	"slices"
	"unicode/utf8"
)

// columnWriter gathers the values of one column.
type columnWriter struct {
	Column
	number int
	values *stream // of classes: the number as they came, plus 1; 0 is missing
	texts  *stream
	ends   *stream // of class names
	bits   *stream // which samples have a value
	byte   byte    // the last of them, not full yet
	count  int64

	codes map[string]uint32 // of classes
	names []string
	free  bool // names are taken as they come
}

func newColumnWriter(sp *spool, number int, c Column) (*columnWriter, error) {
	w := &columnWriter{Column: c, number: number, values: sp.stream(), texts: sp.stream(), ends: sp.stream(), bits: sp.stream()}
	if c.Type != Class {
		if len(c.Classes) > 0 {
			return nil, invalid("column %q has classes and is not of that type", c.Name)
		}
		return w, nil
	}
	w.free = c.Classes == nil
	w.codes = make(map[string]uint32, len(c.Classes))
	for _, name := range c.Classes {
		if err := w.checkClass(name); err != nil {
			return nil, err
		}
		if _, twice := w.codes[name]; twice {
			return nil, invalid("class %q is twice in column %q", name, c.Name)
		}
		w.addClass(name)
	}
	return w, nil
}

// checkClass looks whether there can be one more class.
func (w *columnWriter) checkClass(name string) error {
	if len(w.names) >= MaxClasses {
		return invalid("column %q cannot have more than %d classes", w.Name, MaxClasses)
	}
	if err := validClass(name); err != nil {
		return invalid("column %q: %w", w.Name, err)
	}
	return nil
}

func (w *columnWriter) addClass(name string) uint32 {
	code := uint32(len(w.names))
	w.codes[name] = code
	w.names = append(w.names, name)
	return code
}

// check looks whether a value can be added, and changes nothing.
func (w *columnWriter) check(v *Value) error {
	if v.Missing {
		if !w.Optional {
			return invalid("column %q has no value, and is not optional", w.Name)
		}
		return nil
	}
	switch w.Type {
	case Text:
		if len(v.Text) > MaxText || !utf8.ValidString(v.Text) {
			return invalid("column %q: a text must have at most %d bytes of UTF-8", w.Name, MaxText)
		}
	case Class:
		if _, known := w.codes[v.Text]; known {
			return nil
		}
		if !w.free {
			return invalid("column %q has no class %q", w.Name, v.Text)
		}
		return w.checkClass(v.Text)
	}
	return nil
}

// add takes a value that was checked just before. A missing one is zero.
func (w *columnWriter) add(v Value) {
	if w.Optional {
		if !v.Missing {
			w.byte |= 1 << (w.count % 8)
		}
		if w.count%8 == 7 {
			w.bits.byte(w.byte)
			w.byte = 0
		}
	}
	w.count++
	if v.Missing {
		v = Value{Missing: true}
	}
	switch w.Type {
	case Int:
		w.values.uint64(uint64(v.Int))
	case Float:
		w.values.uint64(math.Float64bits(v.Float))
	case Text:
		w.texts.string(v.Text)
		w.values.uint64(uint64(w.texts.length))
	case Class:
		if v.Missing {
			w.values.uint32(0)
			return
		}
		code, known := w.codes[v.Text]
		if !known {
			code = w.addClass(v.Text)
		}
		w.values.uint32(code + 1)
	}
}

// finish returns the number of classes and the sections.
func (w *columnWriter) finish() (classes uint32, parts []part) {
	if w.Optional {
		if w.count%8 != 0 {
			w.bits.byte(w.byte)
		}
		parts = append(parts, w.bits.as(present, w.number))
	}
	switch w.Type {
	case Text:
		parts = append(parts, w.texts.as(texts, w.number))
	case Class:
		classes = uint32(len(w.names))
		moved := w.sortClasses()
		for _, name := range w.names {
			w.texts.string(name)
			w.ends.uint64(uint64(w.texts.length))
		}
		width := valueWidth(Class, classes)
		recode := func(v uint64) uint64 { return uint64(moved[v]) }
		return classes, append(parts, w.values.converted(values, w.number, 4, width, recode),
			w.texts.as(texts, w.number), w.ends.as(classEnds, w.number))
	}
	return 0, append(parts, w.values.as(values, w.number))
}

// sortClasses puts names that were taken as they came into order, so that numbers
// do not depend on which sample was first. It returns the new number of each; the
// first is that of samples that have none.
func (w *columnWriter) sortClasses() (moved []uint32) {
	if w.free {
		slices.Sort(w.names)
	}
	moved = make([]uint32, len(w.names)+1)
	for number, name := range w.names {
		moved[w.codes[name]+1] = uint32(number)
	}
	return moved
}
