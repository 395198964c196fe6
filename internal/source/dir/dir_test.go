package dir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/object/objecttest"
	"penstock.dev/penstock/internal/source"
	"penstock.dev/penstock/internal/source/dir"
	"penstock.dev/penstock/internal/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string, opts dir.Options) *dir.Source {
	t.Helper()
	s, err := dir.New(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var lacks = objecttest.Lacks{Sums: true, Versions: true, Metadata: true, Buckets: true, Nested: true, Keys: dir.Possible}

func name(key string) object.Name { return object.Name{Bucket: objecttest.Bucket, Key: key} }

func wantKind(t *testing.T, what string, err error, kind object.Kind) {
	t.Helper()
	if !object.Is(err, kind) {
		t.Errorf("%s: %v (%v), want %v", what, err, object.KindOf(err), kind)
	}
}

func TestConformance(t *testing.T) {
	for name, opts := range map[string]dir.Options{"plain": {}, "small window": {Window: 3}} {
		t.Run(name, func(t *testing.T) {
			objecttest.Run(t, func(t *testing.T) objecttest.Holder { return open(t, t.TempDir(), opts) }, objecttest.Options{Lacks: lacks})
		})
	}
}

func TestSourceLaws(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Place {
		path := t.TempDir()
		return sourcetest.Place{
			Source: open(t, path, dir.Options{}),
			Write: func(key string, data []byte) error {
				place := filepath.Join(path, key)
				if err := os.MkdirAll(filepath.Dir(place), 0o777); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(path, ".penstock-put-x"), data, 0o666); err != nil {
					return err
				}
				return os.Rename(filepath.Join(path, ".penstock-put-x"), place)
			},
			Remove: func(key string) error {
				first, _, _ := strings.Cut(key, "/")
				return os.RemoveAll(filepath.Join(path, first))
			},
		}
	}, sourcetest.Options{Possible: dir.Possible})
}

func TestOpener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "with space")
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	opener := source.Opener{Schemes: map[string]source.OpenFunc{"file": dir.Opener(dir.Options{})}}
	s, err := opener.Open(t.Context(), "file://"+strings.ReplaceAll(path, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), name("a/b"), strings.NewReader("x"), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(path, "a/b")); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
	_, err = opener.Open(t.Context(), "file://"+strings.ReplaceAll(path, " ", "%20")+"/missing")
	wantKind(t, "a directory that is not there", err, object.NotFound)
	_, err = dir.New("relative", dir.Options{})
	wantKind(t, "a relative path", err, object.Invalid)
}

// TestLinks shows what symbolic links can do: lead to files of the tree, and nowhere else.
func TestLinks(t *testing.T) {
	outside, path := t.TempDir(), t.TempDir()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600),
		os.Mkdir(filepath.Join(path, "real"), 0o777),
		os.WriteFile(filepath.Join(path, "real/file"), []byte("inside"), 0o666),
		os.Symlink("real/file", filepath.Join(path, "link")),
		os.Symlink("real", filepath.Join(path, "linked")),
		os.Symlink("..", filepath.Join(path, "real/up")),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(path, "absolute")),
		os.Symlink("../"+filepath.Base(outside)+"/secret", filepath.Join(path, "relative")),
		os.Symlink(outside, filepath.Join(path, "away")),
		os.Symlink("circle", filepath.Join(path, "circle")),
		os.Symlink("nothing", filepath.Join(path, "dangling")),
		syscall.Mkfifo(filepath.Join(path, "pipe"), 0o666),
	)
	var skipped []string
	s := open(t, path, dir.Options{Skipped: func(path string, _ error) { skipped = append(skipped, path) }})
	for _, key := range []string{"absolute", "relative", "away/secret", "circle"} {
		_, err := s.Stat(t.Context(), name(key))
		wantKind(t, "stat "+key, err, object.Denied)
		_, err = s.Open(t.Context(), name(key), object.Range{})
		wantKind(t, "open "+key, err, object.Denied)
	}
	for _, key := range []string{"dangling", "pipe", "real", "linked"} {
		_, err := s.Stat(t.Context(), name(key))
		wantKind(t, "stat "+key, err, object.NotFound)
		_, err = s.Open(t.Context(), name(key), object.Range{})
		wantKind(t, "open "+key, err, object.NotFound)
	}
	_, err := s.Put(t.Context(), name("away/new"), strings.NewReader("x"), object.PutOptions{})
	wantKind(t, "put outside", err, object.Denied)
	wantKind(t, "delete outside", s.Delete(t.Context(), name("away/secret"), object.Condition{}), object.Denied)
	for _, key := range []string{"link", "linked/file", "real/up/link"} {
		if info, err := s.Stat(t.Context(), name(key)); err != nil || info.Size != 6 {
			t.Errorf("%s: %+v, %v", key, info, err)
		}
	}
	if got := keys(t, s, object.ListOptions{}); !slices.Equal(got, []string{"link", "real/file"}) {
		t.Errorf("listed: %q", got)
	}
	if got := keys(t, s, object.ListOptions{Prefix: "linked/"}); len(got) != 0 {
		t.Errorf("listed behind a link: %q", got)
	}
	for _, key := range []string{"absolute", "relative", "away", "circle", "dangling", "pipe", "linked", "real/up"} {
		if !slices.Contains(skipped, key) {
			t.Errorf("%q was passed over without a word", key)
		}
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
}

func keys(t *testing.T, s source.Source, opts object.ListOptions) []string {
	t.Helper()
	var all []string
	for e, err := range s.List(t.Context(), objecttest.Bucket, opts) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Mark())
	}
	return all
}

// TestChangedInPlace writes into a file that is being read: the reader is Stale, and
// nobody gets the whole of a mixture.
func TestChangedInPlace(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "file")
	before := bytes.Repeat([]byte("before"), 50_000)
	s := open(t, path, dir.Options{})
	for what, change := range map[string]func() error{
		"overwritten": func() error { return overwrite(file, bytes.Repeat([]byte("after."), 50_000)) },
		"truncated":   func() error { return os.Truncate(file, 1000) },
		"grown":       func() error { return os.Truncate(file, 400_000) },
	} {
		for _, writeTo := range []bool{false, true} {
			if err := os.WriteFile(file, before, 0o666); err != nil {
				t.Fatal(err)
			}
			info, err := s.Stat(t.Context(), name("file"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.OpenVersion(t.Context(), name("file"), object.Range{Length: 200_000}, info.ETag)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // for file systems whose clock is coarse
			if err := change(); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if writeTo {
				_, err = r.WriteTo(&got)
			} else {
				_, err = io.Copy(&got, struct{ io.Reader }{r})
			}
			wantKind(t, what, err, object.Stale)
			if got.Len() >= 200_000-10 {
				t.Errorf("%s: all of a mixture was given", what)
			}
			r.Close()
			_, err = s.OpenVersion(t.Context(), name("file"), object.Range{}, info.ETag)
			wantKind(t, what+", opened again", err, object.Stale)
		}
	}
}

func overwrite(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}

// TestNothingIsLeft looks at the directory itself after writes that failed and deletes.
func TestNothingIsLeft(t *testing.T) {
	path := t.TempDir()
	s := open(t, path, dir.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	body := io.MultiReader(strings.NewReader("x"), readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }))
	if _, err := s.Put(ctx, name("a/b/c/d"), body, object.PutOptions{}); err == nil {
		t.Error("a canceled put succeeds")
	}
	_, err := s.Put(t.Context(), name("e/f"), strings.NewReader("x"), object.PutOptions{Condition: object.Condition{IfMatch: "*"}})
	wantKind(t, "put with a condition that does not hold", err, object.NotFound)
	for i := range 3 {
		if _, err := s.Put(t.Context(), name("g/h/"+fmt.Sprint(i)), strings.NewReader("x"), object.PutOptions{Condition: object.Condition{IfNoneMatch: "*"}}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Put(t.Context(), name("g/h"), strings.NewReader("x"), object.PutOptions{})
	wantKind(t, "put where a directory is", err, object.Invalid)
	_, err = s.Put(t.Context(), name("g/h/0/i"), strings.NewReader("x"), object.PutOptions{})
	wantKind(t, "put below an object", err, object.Invalid)
	for i := range 3 {
		if err := s.Delete(t.Context(), name("g/h/"+fmt.Sprint(i)), object.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
		if at != path {
			t.Errorf("%s is left", at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestWideDirectory lists a directory much larger than the window, and begins where the
// prefix leads: a directory beside it that cannot be read does not matter.
func TestWideDirectory(t *testing.T) {
	path := t.TempDir()
	for i := range 500 {
		if err := os.MkdirAll(filepath.Join(path, fmt.Sprintf("d%03d", i)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, fmt.Sprintf("d%03d/f", i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var skips atomic.Int64
	s := open(t, path, dir.Options{Window: 16, Skipped: func(string, error) { skips.Add(1) }})
	got := keys(t, s, object.ListOptions{})
	if len(got) != 500 || !slices.IsSorted(got) {
		t.Errorf("%d keys are listed", len(got))
	}
	if err := syscall.Mkfifo(filepath.Join(path, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, s, object.ListOptions{Prefix: "d250/"}); !slices.Equal(got, []string{"d250/f"}) {
		t.Errorf("listed: %q", got)
	}
	if skips.Load() != 0 {
		t.Error("a listing of one directory reads the one above it")
	}
	if got := keys(t, s, object.ListOptions{Delimiter: "/", After: "d497/"}); !slices.Equal(got, []string{"d498/", "d499/"}) {
		t.Errorf("listed: %q", got)
	}
}

// TestSendfile shows that WriteTo hands the writer the file itself.
func TestSendfile(t *testing.T) {
	path := t.TempDir()
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := os.WriteFile(filepath.Join(path, "file"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, dir.Options{})
	r, err := s.Open(t.Context(), name("file"), object.Range{Offset: 5, Length: 900_000})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := &fileTaker{}
	if n, err := r.WriteTo(w); err != nil || n != 900_000 || !bytes.Equal(w.Bytes(), data[5:900_005]) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if w.fromFile < 850_000 {
		t.Errorf("only %d bytes came straight from the file", w.fromFile)
	}
}

// fileTaker takes bytes as a socket does, which looks for a file behind a limit.
type fileTaker struct {
	bytes.Buffer
	fromFile int64
}

func (f *fileTaker) ReadFrom(r io.Reader) (int64, error) {
	n, err := f.Buffer.ReadFrom(r)
	if limited, ok := r.(*io.LimitedReader); ok {
		if _, ok := limited.R.(*os.File); ok {
			f.fromFile += n
		}
	}
	return n, err
}
