package pack

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// Options say how a pack is made.
type Options struct {
	ID     uint64
	Disk   string // identity of the disk, for people
	Secret []byte // the disk's
	Clock  func() time.Time

	// Previous is the log pack this one goes on after, and End where that one
	// ends: whatever stands there behind it was never acknowledged.
	Previous uint64
	End      int64

	// Step is how much room is reserved at a time. Zero means 16 MiB.
	Step int64

	// Moved says that the pack gets records moved from others. It is made under
	// another name and appears as a whole when it is sealed.
	Moved bool
}

// Writer appends to one pack. A full disk or an Invalid record leave it as it
// was. After any other error the pack is suspect, and the writer gives only that
// error from then on: abandon it and go on in a new one.
type Writer struct {
	fs        disk.FS
	file      disk.File
	name      string
	key       *Key
	opts      Options
	end       int64 // where the next record goes
	synced    int64 // everything before is durable
	allocated int64
	contents  directoryBuilder
	pieces    [][]byte // of records that are written in one go
	failed    error    // makes the pack suspect
}

// maxPieces is how many pieces of memory are written in one go, or a few more.
const maxPieces = 1000

// Create makes a pack with its head record, durable when it returns. If it fails
// it leaves no file, a leftover, or one that has no records. A file that has the
// name of a pack and no head is damaged.
func Create(fsys disk.FS, o Options) (*Writer, error) {
	w := newWriter(fsys, o)
	if f, err := fsys.Open(w.name); err == nil {
		f.Close() //nolint:errcheck // opened for reading
		return nil, w.fail(fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, w.fail(err)
	}
	w.name += ".new"
	var err error
	if w.file, err = fsys.Create(w.name); disk.IsFull(err) {
		return nil, full(err)
	} else if err != nil {
		return nil, w.fail(err)
	}
	if err := w.begin(); err != nil {
		w.file.Close()
		fsys.Remove(w.name) //nolint:errcheck // the first error counts; a leftover is swept at the next start
		return nil, err
	}
	return w, nil
}

func newWriter(fsys disk.FS, o Options) *Writer {
	if o.Step == 0 {
		o.Step = 16 << 20
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Writer{fs: fsys, name: FileName(o.ID), key: NewKey(o.Secret, o.ID), opts: o}
}

func (w *Writer) begin() error {
	r := Record{Kind: head, Modified: w.opts.Clock()}
	d := NewDraft(r, append(make([]byte, headLen(&r), 2*Block), aboutText(&w.opts, w.key)...))
	if err := w.Append(d); err != nil {
		return err
	}
	if err := w.Sync(); err != nil {
		return err
	}
	if !w.opts.Moved {
		if err := w.fs.Rename(w.name, FileName(w.opts.ID)); err != nil {
			return w.fail(err)
		}
		w.name = FileName(w.opts.ID)
	}
	if err := w.fs.SyncDir(path.Dir(w.name)); err != nil {
		return w.fail(err)
	}
	return nil
}

// ID returns the number of the pack.
func (w *Writer) ID() uint64 { return w.opts.ID }

// End returns where the next record would go.
func (w *Writer) End() int64 { return w.end }

// Synced returns how far the pack is durable.
func (w *Writer) Synced() int64 { return w.synced }

// Append gives each draft its place and writes it, not yet durably: all of them
// or, if it fails, none. A full disk is Unavailable by a *FullError; a record
// that could not be read again is Invalid.
func (w *Writer) Append(drafts ...*Draft) error {
	if w.failed != nil {
		return w.failed
	}
	end := w.end
	for _, d := range drafts {
		if err := d.Validate(); err != nil {
			return err
		}
		end += d.Len()
	}
	if err := w.reserve(end); err != nil {
		return err
	}
	if err := w.write(drafts); err != nil {
		return w.undo(err)
	}
	for _, d := range drafts {
		w.contents.add(&d.Record, d.Location)
	}
	w.end = end
	return nil
}

// write writes drafts behind the last record, many in one go.
func (w *Writer) write(drafts []*Draft) error {
	at, place := w.end, w.end // of the pieces, of the next draft
	w.pieces = w.pieces[:0]
	defer func() { clear(w.pieces[:cap(w.pieces)]) }()
	for i, d := range drafts {
		d.place(w.key, place, w.synced)
		place = d.End()
		w.pieces = d.appendPieces(w.pieces)
		if len(w.pieces) < maxPieces && i < len(drafts)-1 {
			continue
		}
		if err := disk.WritePieces(w.file, w.pieces, at); err != nil {
			return err
		}
		w.pieces, at = w.pieces[:0], place
	}
	return nil
}

// undo settles a failed write. On a file system that cannot reserve room a full
// disk shows only now; what was written is cut off, lest a record that failed
// comes back, or garbage follows a shorter one.
func (w *Writer) undo(err error) error {
	if !disk.IsFull(err) {
		return w.fail(err)
	}
	if cerr := w.file.Truncate(w.end); cerr != nil {
		return w.fail(cerr)
	}
	w.allocated = w.end
	return full(err)
}

// fail turns an error of the file system into ours, and the writer away from the
// pack.
func (w *Writer) fail(err error) error {
	w.failed = object.Errorf(object.Unavailable, "pack %016x: %w", w.opts.ID, err)
	return w.failed
}

// reserve makes sure of room up to end, and of the two zero blocks that end a
// tar archive behind it.
func (w *Writer) reserve(end int64) error {
	end += 2 * Block
	if end <= w.allocated {
		return nil
	}
	want := (end + w.opts.Step - 1) / w.opts.Step * w.opts.Step
	err := w.file.Allocate(want)
	if disk.IsFull(err) && want > end {
		want = end // a nearly full disk may still have room for this much
		err = w.file.Allocate(want)
	}
	if disk.IsFull(err) {
		return full(err)
	}
	if err != nil {
		return w.fail(err)
	}
	w.allocated = want
	return nil
}

// Sync makes everything appended so far durable.
func (w *Writer) Sync() error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.file.Sync(); err != nil {
		return w.fail(err)
	}
	w.synced = w.end
	return nil
}

// Discard closes the pack and, if it was never sealed and had another name until
// then, removes it.
func (w *Writer) Discard() error {
	err := w.file.Close()
	if w.opts.Moved {
		if rerr := w.fs.Remove(w.name); err == nil {
			err = rerr
		}
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// Leftover reports whether a name in the packs' directory is of a pack that was
// never finished.
func Leftover(name string) bool {
	base, ok := strings.CutSuffix(name, ".new")
	if !ok {
		return false
	}
	_, ok = ParseFileName(base)
	return ok
}
