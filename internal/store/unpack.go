package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/pack"
)

// UnpackOptions configure Unpack.
type UnpackOptions struct {
	Progress func(objects, bytes int64) // called after each object; may be nil
	Problem  func(what string)          // called for everything that could not be restored; may be nil
}

// UnpackReport sums up what was restored.
type UnpackReport struct {
	Objects  int64 `json:"objects"`
	Bytes    int64 `json:"bytes"`
	Problems int64 `json:"problems"`
}

// Unpacked is one line of the list that Unpack leaves beside the files.
type Unpacked struct {
	Path        string            `json:"path"`
	Bucket      string            `json:"bucket"`
	Key         string            `json:"key"`
	ID          string            `json:"id,omitempty"` // as in packs; "null" for what has none and is not the newest
	Size        int64             `json:"size"`
	CRC32       string            `json:"crc32"`
	ETag        string            `json:"etag"`
	Version     string            `json:"version"`
	Modified    time.Time         `json:"modified"`
	ContentType string            `json:"content_type,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// Unpack restores the objects of data directories that no server uses, from
// packs and blobs alone: index, roster and control records are not needed, and
// nothing in the directories is changed. Objects become files bucket/key under
// out; those whose key cannot be a path get an escaped one. Versions that are not the
// newest stand likewise under .penstock/versions/ID. The file .penstock/objects.ndjson
// lists all of them with what else is known. What lies beside buckets is left out.
func Unpack(ctx context.Context, disks []Disk, out string, o UnpackOptions) (UnpackReport, error) {
	u := &unpack{opts: o, newest: make(map[object.Name]unpackEntry)}
	defer u.close()
	for _, d := range disks {
		unlock, err := unpackLock(d)
		if err != nil {
			return u.report, err
		}
		defer unlock()
		if err := u.read(ctx, d); err != nil {
			return u.report, object.Errorf(object.KindOf(err), "%s: %w", d.Name, err)
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return u.report, err
	}
	root, err := os.OpenRoot(out)
	if err != nil {
		return u.report, err
	}
	defer root.Close()
	u.root = root
	err = u.restore(ctx)
	return u.report, err
}

type unpack struct {
	opts   UnpackOptions
	newest map[object.Name]unpackEntry
	files  []*pack.File
	root   *os.Root
	report UnpackReport
}

type unpackEntry struct {
	fs   disk.FS
	file *pack.File
	pack.Stub
}

// unpackLock keeps a server off the directory. A directory that cannot be
// written to cannot be in use by one.
func unpackLock(d Disk) (unlock func(), err error) {
	lock, err := d.FS.Lock(lockFile)
	switch {
	case err == nil:
		return func() { lock.Close() }, nil //nolint:errcheck // released at exit at the latest
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return func() {}, nil
	}
	return nil, object.Errorf(object.Unavailable, "%w", err)
}

func (u *unpack) close() {
	for _, f := range u.files {
		f.Close() //nolint:errcheck // opened for reading
	}
}

func (u *unpack) problem(format string, args ...any) {
	u.report.Problems++
	if u.opts.Problem != nil {
		u.opts.Problem(fmt.Sprintf(format, args...))
	}
}

// unchanged is a directory in which no file can be replaced.
type unchanged struct{ disk.FS }

func (unchanged) Remove(name string) error {
	return &fs.PathError{Op: "remove", Path: name, Err: syscall.EROFS}
}

func (unchanged) Create(name string) (disk.File, error) {
	return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EROFS}
}

// read notes the newest record of each name in a directory's packs.
func (u *unpack) read(ctx context.Context, d Disk) error {
	names, err := d.FS.ReadDir(pack.Dir)
	if err != nil {
		return object.Errorf(object.Unavailable, "%w", err)
	}
	slices.Sort(names)
	var secret []byte
	// A damaged copy of the identity is not repaired now; the other one is good.
	if id, err := disk.ReadIdentity(unchanged{d.FS}); err == nil || errors.Is(err, syscall.EROFS) {
		secret, _ = id.Key()
	}
	files := make(map[uint64]*pack.File)
	ends := make(map[uint64]int64)
	for _, name := range names {
		id, ok := pack.ParseFileName(name)
		if !ok {
			continue
		}
		f, err := pack.Open(d.FS, id, secret)
		if err != nil {
			u.problem("%s: %v", name, err)
			continue
		}
		files[id] = f
		u.files = append(u.files, f)
		if prev, end := f.Previous(); prev != 0 {
			ends[prev] = end
		}
	}
	for id, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		u.readPack(d, f, ends[id])
	}
	return nil
}

func (u *unpack) readPack(d Disk, f *pack.File, limit int64) {
	add := func(name object.Name, stub pack.Stub) error {
		e := entry{Stub: stub}
		old, known := u.newest[name]
		if !known || e.newer(&entry{Stub: old.Stub}) {
			u.newest[name] = unpackEntry{fs: d.FS, file: f, Stub: stub}
		}
		return nil
	}
	if _, err := f.Directory(add); err == nil {
		return
	}
	res, err := f.Scan(pack.ScanOptions{Limit: limit, Floor: limit}, func(r *pack.Record, l pack.Location) error {
		draft := pack.Draft{Record: *r, Location: l}
		return add(r.Name, draft.Stub())
	})
	if err != nil {
		u.problem("pack %016x: %v", f.ID(), err)
	}
	for _, span := range res.Damage {
		u.problem("pack %016x is damaged at %d (%d bytes)", f.ID(), span.Offset, span.Length)
	}
}

func (u *unpack) restore(ctx context.Context) error {
	if err := u.root.MkdirAll(".penstock", 0o755); err != nil {
		return err
	}
	list, err := u.root.Create(".penstock/objects.ndjson")
	if err != nil {
		return err
	}
	defer list.Close()
	lines := json.NewEncoder(list)
	names, tops := u.objects()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := u.object(name, u.newest[name], tops[name])
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return err
		}
		if err != nil {
			u.problem("%s: %v", name, err)
			continue
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
		u.report.Objects++
		u.report.Bytes += line.Size
		if u.opts.Progress != nil {
			u.opts.Progress(u.report.Objects, u.report.Bytes)
		}
	}
	return list.Close()
}

// objects returns the names of what is to be restored, in order, and which of them
// are what their key alone means.
func (u *unpack) objects() (names []object.Name, tops map[object.Name]bool) {
	newest := make(map[object.Name]object.Name) // without an ID -> with
	for name, e := range u.newest {
		if e.Kind == pack.Tombstone || strings.Contains(name.Bucket, object.Beside("", "")) {
			continue
		}
		if e.Kind == pack.Object {
			names = append(names, name)
		}
		key := exactOf(name, false)
		if best, ok := newest[key]; !ok || e.Version.After(u.newest[best].Version) {
			newest[key] = name
		}
	}
	slices.SortFunc(names, func(a, b object.Name) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), b.ID.Compare(a.ID))
	})
	tops = make(map[object.Name]bool, len(newest))
	for _, name := range newest {
		tops[name] = true
	}
	return names, tops
}

// versionText is how an ID stands in paths.
func versionText(id object.Version) string {
	if id == (object.Version{}) {
		return "null"
	}
	return fmt.Sprintf("%08x%016x", id.Map, id.Counter)
}

// object restores one object to a file that is whole or not there.
func (u *unpack) object(name object.Name, e unpackEntry, top bool) (*Unpacked, error) {
	rec, payload, err := e.file.Read(e.Location, nil)
	if err != nil {
		return nil, err
	}
	id, under := versionText(name.ID), ""
	if !top {
		under = ".penstock/versions/" + id + "/"
	} else if name.ID == (object.Version{}) {
		id = ""
	}
	file, where, err := u.create(under, name)
	if err != nil {
		return nil, err
	}
	err = writeContent(file, e.fs, rec, payload)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = u.root.Chtimes(where, rec.Modified, rec.Modified)
	}
	if err != nil {
		u.root.Remove(where) //nolint:errcheck // the first error counts
		return nil, err
	}
	info := rec.Info()
	return &Unpacked{
		Path: where, Bucket: name.Bucket, Key: name.Key, ID: id, Size: info.Size, CRC32: fmt.Sprintf("%08x", info.CRC32), ETag: info.ETag,
		Version: info.Version.String(), Modified: info.Modified, ContentType: info.ContentType, Metadata: info.Metadata,
	}, nil
}

// create opens a file for an object under its own name or, where that cannot be
// a path, or is taken by a directory or file, under an escaped one.
func (u *unpack) create(under string, name object.Name) (*os.File, string, error) {
	plain := under + name.String()
	if filepath.IsLocal(plain) && path.Clean(plain) == plain && !strings.ContainsAny(plain, "\x00\n\r\\") {
		if f, err := u.createAt(plain); err == nil {
			return f, plain, nil
		} else if disk.IsFull(err) {
			return nil, "", err
		}
	}
	escaped := strings.ReplaceAll(url.QueryEscape(name.Key), ".", "%2E")
	if len(escaped) > 200 {
		escaped = fmt.Sprintf("%s~%x", escaped[:180], sha256.Sum256([]byte(name.Key)))
	}
	where := under + ".penstock/escaped/" + name.Bucket + "/" + escaped
	f, err := u.createAt(where)
	return f, where, err
}

func (u *unpack) createAt(where string) (*os.File, error) {
	if err := u.root.MkdirAll(path.Dir(where), 0o755); err != nil {
		return nil, err
	}
	return u.root.OpenFile(where, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
}

// writeContent writes a record's content and checks it as a whole.
func writeContent(w io.Writer, fsys disk.FS, rec *pack.Record, payload []byte) error {
	if len(rec.Extents) == 0 {
		_, err := w.Write(payload)
		return err
	}
	sum := crc32.NewIEEE()
	for _, x := range rec.Extents {
		f, err := fsys.Open(blobName(x.Blob))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.MultiWriter(w, sum), io.NewSectionReader(f, x.Offset, x.Length))
		f.Close() //nolint:errcheck // opened for reading
		if err == nil && n < x.Length {
			err = object.Errorf(object.Corrupt, "blob %016x ends too early", x.Blob)
		}
		if err != nil {
			return err
		}
	}
	if sum.Sum32() != rec.CRC32 {
		return object.Errorf(object.Corrupt, "content does not match its checksum")
	}
	return nil
}
