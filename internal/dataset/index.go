package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"penstock.dev/penstock/internal/localfile"
	"penstock.dev/penstock/internal/manifest"
	"penstock.dev/penstock/internal/object"
)

// of says what the files of an origin are, if nobody else has said it.
func (in Input) of(folders []*folder) (Input, error) {
	if in != Auto {
		return in, nil
	}
	found := map[Input]int{}
	for _, f := range folders {
		for i := range f.ends {
			found[inputOf(f.name(i))]++
		}
	}
	switch {
	case found[Tar] > 0 && len(found) == 1:
		return Tar, nil
	case found[TFRecord] > 0 && len(found) == 1:
		return TFRecord, nil
	case found[Tar] > 0 || found[TFRecord] > 0:
		return "", invalid("there are %d tars, %d TFRecords and %d other files: --input tar or tfrecord takes only those, --input files takes all for files of samples",
			found[Tar], found[TFRecord], found[Files])
	}
	return Files, nil
}

func inputOf(name string) Input {
	switch {
	case strings.HasSuffix(name, ".tar"):
		return Tar
	case strings.Contains(name, ".tfrecord"):
		return TFRecord
	}
	return Files
}

// index makes a version of files that are shards already. They stay where they are
// if readers of the place find them there; otherwise they are copied as they are.
func (m *maker) index(ctx context.Context, folders []*folder, input Input) error {
	l := &listing{}
	for _, f := range folders {
		l.take(f, func(i int) bool {
			if input == Flat || inputOf(f.name(i)) == input || len(folders) == 1 && len(f.ends) == 1 {
				return false
			}
			m.skip(m.from.local(f.path+f.name(i)), object.Errorf(object.Invalid, "it is not called .%s", input))
			return true
		})
	}
	if err := m.check(); err != nil {
		return err
	}
	if l.files == 0 {
		return nothing(m.from)
	}
	m.step("indexing", 0, l.bytes)
	x := &indexer{maker: m, listing: l, input: input, shape: newShape(&m.opts), names: newNames(), old: m.oldShards()}
	if err := m.oldClasses(x.shape); err != nil {
		return err
	}
	x.begin = sync.OnceValue(func() error { return m.draft.begin(ctx, m.note) })
	all := make([]*taken, l.files)
	parallel(m.workers(), l.files, 1, func(i, _ int) {
		if ctx.Err() != nil {
			return
		}
		var err error
		if all[i], err = x.file(ctx, uint32(i)); err != nil {
			m.stop(err)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	all = slices.DeleteFunc(all, func(t *taken) bool { return t == nil })
	x.duplicates(all)
	if err := m.check(); err != nil {
		return err
	}
	return x.write(ctx, all)
}

// indexer finds the samples in shards.
type indexer struct {
	*maker
	listing *listing
	input   Input
	shape   *shape
	names   *names
	old     map[string]*oldShard
	begin   func() error // of the draft, before the first thing is written
}

// file finds the samples of one file. Without an error it returns nil if the file is
// left out.
func (x *indexer) file(ctx context.Context, number uint32) (*taken, error) {
	path := x.listing.path(number)
	f, i := x.listing.at(number)
	t := &taken{path: path, shard: manifest.Shard{Name: x.place.foreign(x.from, path), Size: f.sizes[i], Format: x.input.format()}}
	t.columns = len(x.shape.list)
	if t.shard.Name == "" {
		return x.copied(ctx, t, int(number))
	}
	if err := object.ValidateKey(t.shard.Name); err != nil {
		x.problem(x.from.local(path), err)
		return nil, nil
	}
	tag, err := x.from.tag(ctx, path)
	if err != nil {
		return nil, err
	}
	t.shard.Tag = tag
	if old := x.old[t.shard.Name]; old != nil && old.same(t.shard, x.base.note.sameAs(x.note) && x.base.note.before(f.stamps[i])) {
		t.old = old.samples
		x.bytes.Add(t.shard.Size)
		return t, nil
	}
	in, err := x.from.stream(ctx, path)
	if err != nil {
		x.badSample(x.from.local(path), localfile.Reason(err))
		return nil, nil
	}
	defer in.Close()
	err = x.scan(ctx, t, in)
	if now, tagErr := x.from.tag(ctx, path); err == nil && tagErr == nil && now != tag {
		err = errChanged
	}
	return x.result(t, err)
}

// copied copies a shard to the dataset's place while it is read, unless the last
// version has a copy.
func (x *indexer) copied(ctx context.Context, t *taken, number int) (*taken, error) {
	if len(x.old) > 0 {
		if in, err := x.from.stream(ctx, t.path); err == nil {
			err = x.quiet().scan(ctx, t, in)
			in.Close()
			if old := x.copyOf(t); err == nil && old != nil {
				t.shard, t.old = old.Shard, old.samples
				return t, nil
			}
		}
	}
	if err := x.begin(); err != nil {
		return nil, err
	}
	extension := map[Input]string{Tar: ".tar", TFRecord: ".tfrecord", Flat: ".records"}[x.input]
	name := shardName(x.base.next, number, extension)
	for {
		var scanned error
		*t = taken{path: t.path, columns: t.columns, shard: manifest.Shard{Size: t.shard.Size, Format: t.shard.Format}}
		written, tag, err := x.draft.write(ctx, name, func(out io.Writer) error {
			in, err := x.from.stream(ctx, t.path)
			if err != nil {
				scanned = localfile.Reason(err)
				return errNone
			}
			defer in.Close()
			tee := &teeing{in: in, out: out}
			scanned = x.scan(ctx, t, tee)
			if scanned != nil && tee.failed == nil {
				return errNone
			}
			return tee.failed
		})
		switch {
		case err == nil:
			t.shard.Name, t.shard.Tag, t.copied = written, tag, true
			return t, nil
		case errors.Is(err, errNone):
			return x.result(t, scanned)
		case ctx.Err() == nil && x.draft.again(ctx, name, err):
		default:
			return nil, err
		}
	}
}

// quiet returns an indexer that tells nobody: what it finds is found again.
func (x *indexer) quiet() *indexer {
	y, m, r := *x, *x.maker, &run{opts: x.opts, begun: x.begun, stop: x.stop}
	r.opts.Problem = nil
	m.run, y.maker = r, &m
	return &y
}

// copyOf returns the shard of the last version that holds the same samples in the same
// places.
func (x *indexer) copyOf(t *taken) *oldShard {
	if t.len() == 0 {
		return nil
	}
	first, err := x.base.last.Find(t.key(0))
	if err != nil {
		return nil
	}
	for _, old := range x.old {
		if old.Size != t.shard.Size || old.Format != t.shard.Format || len(old.samples) != t.len() || old.samples[0] != first {
			continue
		}
		for i, number := range old.samples {
			was, err := x.oldSample(number)
			if err != nil {
				return nil
			}
			now, err := x.sample(t, i)
			if err != nil || now.key != was.key || !now.same(was) || !now.sameOffsets(was) {
				return nil
			}
		}
		return old
	}
	return nil
}

// teeing writes what is read.
type teeing struct {
	in     io.Reader
	out    io.Writer
	failed error // of the writer
}

// Read reads and writes.
func (t *teeing) Read(b []byte) (int, error) {
	n, err := t.in.Read(b)
	if _, failed := t.out.Write(b[:n]); failed != nil {
		t.failed = failed
		return n, failed
	}
	return n, err
}

// result leaves out a shard that cannot be read.
func (x *indexer) result(t *taken, err error) (*taken, error) {
	if err != nil {
		x.badSample(x.from.local(t.path), localfile.Reason(err))
		return nil, nil
	}
	return t, nil
}

func (in Input) format() manifest.Format {
	switch in {
	case Tar:
		return manifest.Tar
	case TFRecord:
		return manifest.TFRecord
	}
	return manifest.Records
}

func at(shard, member string) string { return fmt.Sprintf("%s: %s", shard, member) }
