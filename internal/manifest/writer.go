package manifest

import (
	"path/filepath"
	"slices"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Options say what a new manifest holds.
type Options struct {
	Info
	Fields  []Field
	Columns []Column

	// Memory is how much may be taken for sorting keys, in bytes; zero means 128 MiB.
	// Beside it a Writer takes up to 64 KiB for each section and 8 bytes for each
	// shard. More samples need more space on disk: three times the manifest.
	Memory int64
}

// Validate reports as Invalid what no manifest can hold.
func (o *Options) Validate() error {
	if err := o.validate(o.Fields, o.Columns); err != nil {
		return err
	}
	if !o.Created.IsZero() && !time.Unix(0, o.Created.UnixNano()).Equal(o.Created) {
		return invalid("%v is out of range", o.Created)
	}
	if len(o.Fields) > 0 && o.Fields[0].Apart {
		return invalid("field %q is the first one and cannot be apart", o.Fields[0].Name)
	}
	if o.Memory < 0 {
		return invalid("%d bytes of memory are too few", o.Memory)
	}
	return nil
}

// Writer makes a manifest. Samples are numbered as they are added. Until Finish has
// returned there is nothing at the path; nothing is left of a Writer that was
// aborted.
type Writer struct {
	path    string
	memory  int64
	head    head
	spool   *spool
	keyEnds *stream
	keys    *stream
	hashes  *stream
	sizes   []*stream
	sums    []*stream
	columns []*columnWriter
	places  *locations
	done    bool
}

// Create begins a manifest that will be at path. Its temporary file is in the same
// directory.
func Create(path string, o Options) (*Writer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	sp, err := newSpool(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	w := &Writer{
		path: path, memory: o.Memory, spool: sp,
		keyEnds: sp.stream(), keys: sp.stream(), hashes: sp.stream(),
		sizes: make([]*stream, len(o.Fields)), sums: make([]*stream, len(o.Fields)), columns: make([]*columnWriter, len(o.Columns)),
	}
	if w.memory == 0 {
		w.memory = 128 << 20
	}
	w.head.about = o.Info
	w.head.fields, w.head.columns = slices.Clone(o.Fields), slices.Clone(o.Columns)
	w.head.classes = make([]uint32, len(o.Columns))
	w.places = newLocations(sp, w.head.fields)
	for f := range w.sizes {
		w.sizes[f], w.sums[f] = sp.stream(), sp.stream()
	}
	for c := range w.columns {
		if w.columns[c], err = newColumnWriter(sp, c, o.Columns[c]); err != nil {
			sp.close()
			return nil, err
		}
	}
	return w, nil
}

// AddShard adds a shard and returns its number: the first is 0. Samples may be added
// before the shard they lie in, whose size may not be known yet.
func (w *Writer) AddShard(s Shard) (uint32, error) {
	if err := w.check(); err != nil {
		return 0, err
	}
	return w.places.addShard(s)
}

// Add adds the next sample, and does not keep s. One that is Invalid changes
// nothing: the next may follow. That a key was there before is found by Finish.
func (w *Writer) Add(s *Sample) error {
	if err := w.check(); err != nil {
		return err
	}
	if err := w.checkSample(s); err != nil {
		return invalid("sample %d, %q: %w", w.head.samples, s.Key, err)
	}
	w.head.samples++
	w.keys.string(s.Key)
	w.keyEnds.uint64(uint64(w.keys.length))
	w.hashes.uint32(hashKey([]byte(s.Key)))
	for f := range s.Pieces {
		size, sum := uint32(s.Pieces[f].Size), s.Pieces[f].CRC32
		if s.Pieces[f].Absent {
			size, sum = absent, 0
		}
		w.sizes[f].uint32(size)
		if !w.head.fields[f].Unchecked {
			w.sums[f].uint32(sum)
		}
	}
	for c := range s.Values {
		w.columns[c].add(s.Values[c])
	}
	w.places.add(s.Pieces)
	return w.spool.err
}

// check refuses to go on after an end or a failure.
func (w *Writer) check() error {
	if w.done {
		return object.Errorf(object.Internal, "the manifest %s is finished or given up", w.path)
	}
	return w.spool.err
}

func (w *Writer) checkSample(s *Sample) error {
	if w.head.samples >= MaxSamples {
		return invalid("there cannot be more than %d samples", int64(MaxSamples))
	}
	if err := object.ValidateKey(s.Key); err != nil {
		return err
	}
	if len(s.Pieces) != len(w.sizes) || len(s.Values) != len(w.columns) {
		return invalid("it has %d pieces and %d values, not %d and %d", len(s.Pieces), len(s.Values), len(w.sizes), len(w.columns))
	}
	for f := range s.Pieces {
		if err := s.Pieces[f].check(w.head.fields[f].Name); err != nil {
			return err
		}
	}
	for c := range s.Values {
		if err := w.columns[c].check(&s.Values[c]); err != nil {
			return err
		}
	}
	return w.places.check(s.Pieces)
}

func (p *Piece) check(field string) error {
	switch {
	case p.Absent && (p.Size != 0 || p.Offset != 0 || p.Shard != 0 || p.CRC32 != 0):
		return invalid("field %q is absent and has a size, a place or a checksum", field)
	case p.Size < 0:
		return invalid("field %q has %d bytes", field, p.Size)
	case p.Size > MaxSize:
		return invalid("field %q has %d bytes: a field of 4 GiB or more cannot be part of a sample", field, p.Size)
	}
	return nil
}

// Finish writes the manifest and returns when it is durable. A key that occurs
// twice is Exists, a shard that was not added is Invalid. Whatever it returns, the
// Writer is at its end.
func (w *Writer) Finish() error {
	if err := w.check(); err != nil {
		w.Abort()
		return err
	}
	defer w.Abort()
	parts, err := w.parts()
	if err != nil {
		return err
	}
	return assemble(w.path, &w.head, parts)
}

// Abort ends the Writer and removes what it left. After Finish it does nothing.
func (w *Writer) Abort() {
	if !w.done {
		w.done = true
		w.spool.close()
	}
}

// parts completes the head, so far as it is known without the sections' bytes, and
// returns these.
func (w *Writer) parts() ([]part, error) {
	forms, parts, err := w.places.finish()
	if err != nil {
		return nil, err
	}
	w.head.forms, w.head.shards = forms, int64(len(w.places.shardSizes))
	parts = append(parts, w.keyEnds.as(keyEnds, 0), w.keys.as(keys, 0))
	for f := range w.sizes {
		parts = append(parts, w.sizes[f].as(sizes, f))
		if !w.head.fields[f].Unchecked {
			parts = append(parts, w.sums[f].as(sums, f))
		}
	}
	for c := range w.columns {
		var more []part
		w.head.classes[c], more = w.columns[c].finish()
		parts = append(parts, more...)
	}
	order, err := sortKeys(w.spool, w.keyEnds, w.keys, w.memory)
	if err != nil {
		return nil, err
	}
	index, err := hashIndex(w.spool, w.hashes, w.memory)
	if err != nil {
		return nil, err
	}
	return append(append(parts, order.as(byKey, 0)), index...), w.spool.err
}
