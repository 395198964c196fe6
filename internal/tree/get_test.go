package tree_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

// TestHostileKeys shows that nothing is written outside of the directory.
func TestHostileKeys(t *testing.T) {
	r := newRig(t)
	above := t.TempDir()
	dir := filepath.Join(above, "dir")
	outside := filepath.Join(above, "outside")
	write(t, outside, "file", []byte("mine"))
	write(t, dir, "fine", []byte("old"))
	for link, target := range map[string]string{"out": "../outside", "absolute": outside, "linked": "../outside/file", "inside": "sub"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "directory/file", []byte("x"))
	write(t, dir, "sub/old", []byte("x"))
	bad := []string{
		"../outside/file", "..", ".", "/etc/x", "//", "x//y", "x/./y", "x/../../y", "nul\x00", "out/file", "absolute/file", "pipe", "directory",
		"a/b", "a/b/c", "a/d", ".penstock-get/1.part", ".penstock-get", "slash/", "fine/not",
	}
	good := []string{"fine", "a", "a!", "a-", "a0", "ab/c", "linked", "inside/file", "...", "nested/x"}
	size := int64(0)
	for _, key := range append(bad, good...) {
		r.put(key, "content of "+key)
	}
	for _, key := range good {
		size += int64(len("content of " + key))
	}
	r.put("marker/", "")
	opts, told := options()
	report, err := tree.Get(t.Context(), r.client, bucket, "", dir, opts)
	r.want(report, err, tree.Report{Files: int64(len(good)), Bytes: size, Failed: int64(len(bad)), Skipped: 1})
	for i := range bad {
		bad[i] = bucket + "/" + bad[i]
	}
	r.wantNames(told.failed, bad...)
	r.wantNames(told.skipped, bucket+"/marker/")
	if got := files(t, outside); len(got) != 1 || string(got["file"]) != "mine" {
		t.Errorf("outside: %q", got)
	}
	for _, key := range good {
		if data, err := os.ReadFile(filepath.Join(dir, key)); string(data) != "content of "+key {
			t.Errorf("%s: %q, %v", key, data, err)
		}
	}
	if entries, err := os.ReadDir(above); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestGetInterrupted(t *testing.T) {
	r := newRig(t)
	dir, size := manyFiles(t, 4000)
	write(t, dir, "zz/large", content("large", 5<<20))
	size += 5 << 20
	if _, err := tree.Put(t.Context(), r.client, dir, bucket, "p", tree.Options{}); err != nil {
		t.Fatal(err)
	}
	back := t.TempDir()
	opts, told := options()
	first, err := tree.Get(r.cancelAt(6, "/v1/batch"), r.client, bucket, "p", back, opts)
	if !errors.Is(err, context.Canceled) || first.Files == 0 || first.Files >= 4001 || first.Failed > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	want := files(t, dir)
	for path, data := range files(t, back) {
		if !bytes.Equal(data, want[path]) {
			t.Errorf("%s is not whole", path)
		}
	}
	// So it is after a kill.
	write(t, back, ".penstock-get/17.part", []byte("half"))
	second, err := tree.Get(t.Context(), r.client, bucket, "p", back, opts)
	if err != nil || second.Failed > 0 || second.Unchanged != first.Files || second.Files+second.Unchanged != 4001 || first.Bytes+second.Bytes != size {
		t.Errorf("%+v after %+v, %v", second, first, err)
	}
	sameFiles(t, back, dir)
	r.wantNames(told.failed)
}

func TestGetWhatHasChanged(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	for _, key := range []string{"same", "newer", "shorter", "secret"} {
		r.put(key, "content")
	}
	if _, err := tree.Get(t.Context(), r.client, bucket, "", dir, tree.Options{}); err != nil {
		t.Fatal(err)
	}
	r.put("newer", "another")
	write(t, dir, "shorter", []byte("cont"))
	write(t, dir, "secret", []byte("changed"))
	age(t, dir, "secret", -time.Second)
	report, err := tree.Get(t.Context(), r.client, bucket, "", dir, tree.Options{})
	r.want(report, err, tree.Report{Files: 2, Bytes: 14, Unchanged: 2})
	report, err = tree.Get(t.Context(), r.client, bucket, "", dir, tree.Options{Checksum: true})
	r.want(report, err, tree.Report{Files: 1, Bytes: 7, Unchanged: 3})
	if got := files(t, dir); string(got["newer"]) != "another" || string(got["secret"]) != "content" {
		t.Errorf("%q", got)
	}
	// A file system that keeps seconds only.
	for path := range files(t, dir) {
		st, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		at := st.ModTime().Truncate(time.Second)
		if err := os.Chtimes(filepath.Join(dir, path), at, at); err != nil {
			t.Fatal(err)
		}
	}
	report, err = tree.Get(t.Context(), r.client, bucket, "", dir, tree.Options{})
	r.want(report, err, tree.Report{Unchanged: 4})
}

func TestGetNothing(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "dir")
	if _, err := tree.Get(t.Context(), r.client, "no-such-bucket", "", dir, tree.Options{}); !penstock.Is(err, penstock.NotFound) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a directory was made for nothing: %v", err)
	}
	r.put("prefixed", "x") // does not lie under prefix/
	if _, err := tree.Get(t.Context(), r.client, bucket, "prefix", dir, tree.Options{}); !penstock.Is(err, penstock.NotFound) {
		t.Error(err)
	}
}

func TestTwoGets(t *testing.T) {
	r := newRig(t)
	r.put("key", "content")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".penstock-get"), 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(filepath.Join(dir, ".penstock-get"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Get(t.Context(), r.client, bucket, "", dir, tree.Options{}); !penstock.Is(err, penstock.Busy) {
		t.Error(err)
	}
	other.Close()
	report, err := tree.Get(t.Context(), r.client, bucket, "", dir, tree.Options{})
	r.want(report, err, tree.Report{Files: 1, Bytes: 7})
}
