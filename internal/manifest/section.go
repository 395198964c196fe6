package manifest

import "fmt"

// kind says what a section holds. The numbers stand in the file. Those below
// firstIndex are the logical part, and the identity of the version covers them;
// those from firstPlace on are the locations.
type kind uint16

const (
	keyEnds    kind = 1 // of each sample, where its key ends
	keys       kind = 2 // all keys, one behind the other
	sizes      kind = 3 // for each field
	sums       kind = 4 // for each field whose checksums belong to the version
	values     kind = 5 // for each column; of a text where it ends, of a class its number
	texts      kind = 6 // for each column of type Text or Class
	classEnds  kind = 7 // for each column of type Class
	present    kind = 8 // for each optional column: bits
	byKey      kind = 16
	buckets    kind = 17
	prints     kind = 18
	numbers    kind = 19
	shardOf    kind = 32 // of each sample
	offsets    kind = 33 // of each sample
	gaps       kind = 34 // for each field but the first: relative to the sample's offset, or a shard of its own
	learnt     kind = 35 // for fields that are unchecked otherwise
	shardSizes kind = 36
	shardForms kind = 37
	nameEnds   kind = 38
	names      kind = 39
	tagEnds    kind = 40
	tags       kind = 41

	firstIndex = byKey
	firstPlace = shardOf
)

var kindNames = map[kind]string{
	keyEnds:    "ends of keys",
	keys:       "keys",
	sizes:      "sizes",
	sums:       "checksums",
	values:     "values",
	texts:      "texts",
	classEnds:  "ends of class names",
	present:    "bits of values that are present",
	byKey:      "order by key",
	buckets:    "buckets of the hash index",
	prints:     "fingerprints of the hash index",
	numbers:    "numbers of the hash index",
	shardOf:    "shards of samples",
	offsets:    "offsets of samples",
	gaps:       "places of further fields",
	learnt:     "checksums learnt later",
	shardSizes: "sizes of shards",
	shardForms: "formats of shards",
	nameEnds:   "ends of shard names",
	names:      "shard names",
	tagEnds:    "ends of shard tags",
	tags:       "shard tags",
}

// id names a section: its kind, and the number of the field or column it is for.
type id struct {
	kind kind
	item uint16
}

// known says whether this version looks into such sections.
func (i id) known() bool { return kindNames[i.kind] != "" }

func (i id) String() string {
	name := kindNames[i.kind]
	switch i.kind {
	case sizes, sums, gaps, learnt:
		return fmt.Sprintf("%s of field %d", name, i.item)
	case values, texts, classEnds, present:
		return fmt.Sprintf("%s of column %d", name, i.item)
	}
	if !i.known() {
		return fmt.Sprintf("bytes of kind %d", i.kind)
	}
	return name
}

// section is an entry of the table of sections.
type section struct {
	id
	offset int64
	length int64
}

// align rounds up to where a section may begin.
func align(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// area is a section that is looked into. One that is not there has no bytes.
type area struct {
	id
	offset int64
	bytes  []byte
}

// fieldAreas and columnAreas are what belongs to one field or column. The checksums
// of a field may be those of the version or those learnt later.
type (
	fieldAreas  struct{ sizes, sums, gaps area }
	columnAreas struct{ values, texts, classEnds, present area }
)

// areas are all sections this version knows.
type areas struct {
	keyEnds, keys                   area
	ofField                         []fieldAreas
	ofColumn                        []columnAreas
	byKey, buckets, prints, numbers area
	shardOf, offsets                area
	shardSizes, shardForms          area
	nameEnds, names, tagEnds, tags  area
}

// want is a section a manifest must have, or may have.
type want struct {
	kind     kind
	item     int
	length   int64 // negative: any
	optional bool
	area     *area
}

// wants lists the sections of a manifest with head h, in the order of the file.
func (a *areas) wants(h *head) []want {
	n, s := h.samples, h.shards
	a.ofField = make([]fieldAreas, len(h.fields))
	a.ofColumn = make([]columnAreas, len(h.columns))
	all := []want{{kind: keyEnds, length: 8 * n, area: &a.keyEnds}, {kind: keys, length: -1, area: &a.keys}}
	for f := range h.fields {
		all = append(all, want{kind: sizes, item: f, length: 4 * n, area: &a.ofField[f].sizes})
	}
	for f := range h.fields {
		if !h.fields[f].Unchecked {
			all = append(all, want{kind: sums, item: f, length: 4 * n, area: &a.ofField[f].sums})
		}
	}
	all = a.columnWants(all, h)
	all = append(all,
		want{kind: byKey, length: 4 * n, area: &a.byKey},
		want{kind: buckets, length: 4 * (bucketCount(n) + 1), area: &a.buckets},
		want{kind: prints, length: 2 * n, area: &a.prints},
		want{kind: numbers, length: 4 * n, area: &a.numbers})
	if len(h.fields) > 0 {
		all = append(all, want{kind: shardOf, length: 4 * n, area: &a.shardOf}, want{kind: offsets, length: 8 * n, area: &a.offsets})
	}
	for f := 1; f < len(h.fields); f++ {
		all = append(all, want{kind: gaps, item: f, length: 4 * n, area: &a.ofField[f].gaps})
	}
	for f := range h.fields {
		if h.fields[f].Unchecked {
			all = append(all, want{kind: learnt, item: f, length: 4 * n, optional: true, area: &a.ofField[f].sums})
		}
	}
	return append(all,
		want{kind: shardSizes, length: 8 * s, area: &a.shardSizes},
		want{kind: shardForms, length: s, area: &a.shardForms},
		want{kind: nameEnds, length: 8 * s, area: &a.nameEnds},
		want{kind: names, length: -1, area: &a.names},
		want{kind: tagEnds, length: 8 * s, area: &a.tagEnds},
		want{kind: tags, length: -1, area: &a.tags})
}

func (a *areas) columnWants(all []want, h *head) []want {
	n := h.samples
	for c, col := range h.columns {
		all = append(all, want{kind: values, item: c, length: int64(valueWidth(col.Type, h.classes[c])) * n, area: &a.ofColumn[c].values})
	}
	for c, col := range h.columns {
		if col.Type == Text || col.Type == Class {
			all = append(all, want{kind: texts, item: c, length: -1, area: &a.ofColumn[c].texts})
		}
	}
	for c, col := range h.columns {
		if col.Type == Class {
			all = append(all, want{kind: classEnds, item: c, length: 8 * int64(h.classes[c]), area: &a.ofColumn[c].classEnds})
		}
	}
	for c, col := range h.columns {
		if col.Optional {
			all = append(all, want{kind: present, item: c, length: (n + 7) / 8, area: &a.ofColumn[c].present})
		}
	}
	return all
}

// valueWidth is how many bytes a value takes in the section of values.
func valueWidth(t Type, classes uint32) int {
	switch {
	case t != Class:
		return 8
	case classes <= 1<<16:
		return 2
	}
	return 4
}
