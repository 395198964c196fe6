package pack_test

import (
	"bytes"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 for a new one")

// random returns a source whose seed is printed if the test fails.
func random(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

var secret = bytes.Repeat([]byte{7}, 32)

func clock() time.Time { return time.Unix(1700000000, 5).UTC() }

func options(id uint64) pack.Options {
	return pack.Options{ID: id, Disk: "d", Secret: secret, Clock: clock, Step: 64 << 10}
}

func newDisk(t testing.TB) *disk.Dir {
	t.Helper()
	d := disk.NewDir(t.TempDir())
	if err := d.MkdirAll(pack.Dir); err != nil {
		t.Fatal(err)
	}
	return d
}

func newMemory(t testing.TB, seed uint64) *fault.Memory {
	t.Helper()
	m := fault.NewMemory(seed)
	if err := m.MkdirAll(pack.Dir); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, fsys disk.FS, o pack.Options) *pack.Writer {
	t.Helper()
	w, err := pack.Create(fsys, o)
	must(t, err)
	return w
}

func draft(r pack.Record, payload []byte) *pack.Draft {
	return pack.NewDraft(r, append(make([]byte, pack.HeadLen(&r)), payload...))
}

func put(key string, counter uint64) pack.Record {
	return pack.Record{Kind: pack.Object, Name: object.Name{Bucket: "bkt", Key: key}, Version: object.Version{Map: 1, Counter: counter}, Modified: time.Unix(1700000000, 42).UTC()}
}

func remove(key string, counter uint64) pack.Record {
	r := put(key, counter)
	r.Kind = pack.Tombstone
	return r
}

// written is what a test knows of a record.
type written struct {
	*pack.Draft
	payload []byte
	synced  int64 // how far the pack was synced when it was appended
}

// log writes a pack and keeps what it wrote.
type log struct {
	t       testing.TB
	w       *pack.Writer
	records []written
}

func newLog(t testing.TB, fsys disk.FS, o pack.Options) *log {
	t.Helper()
	return &log{t: t, w: create(t, fsys, o)}
}

func (l *log) append(r pack.Record, payload []byte) {
	l.t.Helper()
	d := draft(r, payload)
	must(l.t, l.w.Append(d))
	l.records = append(l.records, written{d, payload, l.w.Synced()})
}

func (l *log) sync() {
	l.t.Helper()
	must(l.t, l.w.Sync())
}

func (l *log) seal() {
	l.t.Helper()
	must(l.t, l.w.Seal())
}

// same reports whether a record that was read is the one that was written.
func same(got, want *pack.Record) bool {
	g, w := *got, *want
	if len(w.Metadata) == 0 {
		w.Metadata = nil
	}
	return reflect.DeepEqual(g, w)
}

// image is a disk that holds the bytes of packs, for reading alone.
type image map[uint64][]byte

type imageFile struct{ *bytes.Reader }

func (f imageFile) Close() error                       { return nil }
func (f imageFile) Sync() error                        { return fs.ErrPermission }
func (f imageFile) Truncate(int64) error               { return fs.ErrPermission }
func (f imageFile) Allocate(int64) error               { return fs.ErrPermission }
func (f imageFile) WriteAt([]byte, int64) (int, error) { return 0, fs.ErrPermission }
func (f imageFile) Size() (int64, error)               { return f.Reader.Size(), nil }

type imageFS struct {
	disk.FS
	packs image
}

func (d imageFS) Open(name string) (disk.File, error) {
	for id, data := range d.packs {
		if pack.FileName(id) == name {
			return imageFile{bytes.NewReader(data)}, nil
		}
	}
	return nil, fs.ErrNotExist
}

// contents returns the bytes of a pack.
func contents(t testing.TB, fsys disk.FS, id uint64) []byte {
	t.Helper()
	data, err := fileContents(fsys, pack.FileName(id))
	must(t, err)
	return data
}

func fileContents(fsys disk.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}

// open opens pack 1 of some bytes.
func open(t testing.TB, data []byte) *pack.File {
	t.Helper()
	f, err := pack.Open(imageFS{packs: image{1: data}}, 1, secret)
	must(t, err)
	return f
}
