package tree_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/tree"
)

const border = 256 << 10 // between files that travel together and alone

// oddFiles makes files with names and sizes that could go wrong.
func oddFiles(t *testing.T) (dir string, count, size int64) {
	t.Helper()
	dir = t.TempDir()
	for path, n := range map[string]int{
		"empty": 0, "one": 1, "-r": 3, "a b/c d": 10, "Grüße/世界.txt": 20, "new\nline": 5, "100%41 ?#&+;=[x]": 6, "...": 7, ".hidden/..x": 8,
		`back\slash`: 9, "quote\"'": 4, "d/e/e/p/e/r/file": 11, "d/e/e/p/e/r.txt": 12, strings.Repeat("n", 255): 13,
		"border": border, "above": border + 1, "large/file": 3<<20 + 17, "large/other": 1 << 20,
	} {
		write(t, dir, path, content(path, n))
		count, size = count+1, size+int64(n)
	}
	if err := os.Mkdir(filepath.Join(dir, "nothing"), 0o777); err != nil {
		t.Fatal(err)
	}
	return dir, count, size
}

func TestThereAndBack(t *testing.T) {
	r := newRig(t)
	dir, count, size := oddFiles(t)
	opts, told := options()
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "odd", opts)
	r.want(report, err, tree.Report{Files: count, Bytes: size})
	if keys := r.keys("odd/"); len(keys) != int(count) || !slices.Contains(keys, "odd/new\nline") || !slices.Contains(keys, "odd/d/e/e/p/e/r/file") {
		t.Errorf("%d keys: %q", len(keys), keys)
	}
	for _, checksum := range []bool{false, true} {
		opts.Checksum = checksum
		report, err = tree.Put(t.Context(), r.client, dir, bucket, "odd/", opts)
		r.want(report, err, tree.Report{Unchanged: count})
	}
	opts.Force = true
	report, err = tree.Put(t.Context(), r.client, dir, bucket, "odd", opts)
	r.want(report, err, tree.Report{Files: count, Bytes: size})

	opts, back := tree.Options{Problem: opts.Problem}, filepath.Join(t.TempDir(), "new", "dir")
	report, err = tree.Get(t.Context(), r.client, bucket, "odd", back, opts)
	r.want(report, err, tree.Report{Files: count, Bytes: size})
	sameFiles(t, back, dir)
	if _, err := os.Lstat(filepath.Join(back, ".penstock-get")); !os.IsNotExist(err) {
		t.Errorf("temporaries: %v", err)
	}
	for _, checksum := range []bool{false, true} {
		opts.Checksum = checksum
		report, err = tree.Get(t.Context(), r.client, bucket, "odd", back, opts)
		r.want(report, err, tree.Report{Unchanged: count})
		// What came out has the object's time: it need not go in again.
		report, err = tree.Put(t.Context(), r.client, back, bucket, "odd", opts)
		r.want(report, err, tree.Report{Unchanged: count})
	}
	opts.Force = true
	report, err = tree.Get(t.Context(), r.client, bucket, "odd", back, opts)
	r.want(report, err, tree.Report{Files: count, Bytes: size})
	r.wantNames(told.failed)
	r.wantNames(told.skipped)
}

func TestPutWhatHasChanged(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	for _, path := range []string{"same", "longer", "newer", "secret", "large", "secret large"} {
		size := 100
		if strings.Contains(path, "large") {
			size = border + 100
		}
		write(t, dir, path, content(path, size))
		age(t, dir, path, time.Hour)
	}
	if _, err := tree.Put(t.Context(), r.client, dir, bucket, "", tree.Options{}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "longer", content("longer", 101))
	age(t, dir, "longer", time.Hour)
	write(t, dir, "newer", content("other", 100))
	age(t, dir, "newer", -time.Second) // whatever the clocks' grain is
	write(t, dir, "large", content("other", border+100))
	age(t, dir, "large", -time.Second)
	write(t, dir, "secret", content("other", 100))
	age(t, dir, "secret", time.Hour)
	write(t, dir, "secret large", content("other", border+100))
	age(t, dir, "secret large", time.Hour)
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "", tree.Options{})
	r.want(report, err, tree.Report{Files: 3, Bytes: 101 + 100 + border + 100, Unchanged: 3})
	report, err = tree.Put(t.Context(), r.client, dir, bucket, "", tree.Options{Checksum: true})
	r.want(report, err, tree.Report{Files: 2, Bytes: 100 + border + 100, Unchanged: 4})
	back := t.TempDir()
	if _, err := tree.Get(t.Context(), r.client, bucket, "", back, tree.Options{}); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, back, dir)
}

func TestPutWhatIsNoFile(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	write(t, dir, "file", []byte("file"))
	write(t, dir, "dir/file", []byte("file"))
	write(t, dir, "not\xffUTF-8", []byte("x"))
	write(t, dir, ".penstock-get/1.part", []byte("x"))
	long := strings.Repeat(strings.Repeat("l", 250)+"/", 5) + "file"
	write(t, dir, long, []byte("x"))
	for name, target := range map[string]string{"link": "file", "gone": "missing", "to dir": "dir", "unreadable": "/proc/self/mem", "growing": "/proc/version"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) []string {
		for i, name := range names {
			names[i] = filepath.Join(dir, name)
		}
		return names
	}
	opts, told := options()
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "p", opts)
	r.want(report, err, tree.Report{Files: 2, Bytes: 8, Skipped: 7, Failed: 2})
	r.wantNames(told.failed, in("not\xffUTF-8", long)...)
	r.wantNames(told.skipped, in("link", "gone", "to dir", "unreadable", "growing", "pipe", ".penstock-get")...)

	opts, told = options()
	opts.Follow = true
	report, err = tree.Put(t.Context(), r.client, dir, bucket, "q", opts)
	r.want(report, err, tree.Report{Files: 3, Bytes: 12, Skipped: 3, Failed: 5})
	r.wantNames(told.failed, in("not\xffUTF-8", long, "gone", "unreadable", "growing")...)
	r.wantNames(told.skipped, in("to dir", "pipe", ".penstock-get")...)
	if keys := r.keys("q/"); !slices.Equal(keys, []string{"q/dir/file", "q/file", "q/link"}) {
		t.Errorf("%q", keys)
	}
}

func TestPutFromNowhere(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	write(t, dir, "file", nil)
	for _, path := range []string{"missing", "file"} {
		report, err := tree.Put(t.Context(), r.client, filepath.Join(dir, path), bucket, "", tree.Options{})
		if _, ok := errors.AsType[*os.PathError](err); !ok || report.Failed+report.Files > 0 {
			t.Errorf("%s: %+v, %v", path, report, err)
		}
	}
	for _, force := range []bool{false, true} {
		if _, err := tree.Put(t.Context(), r.client, dir, "no-such-bucket", "", tree.Options{Force: force}); !penstock.Is(err, penstock.NotFound) {
			t.Error(err)
		}
	}
	if _, err := tree.Put(t.Context(), r.client, dir, "X", "", tree.Options{}); !penstock.Is(err, penstock.Invalid) {
		t.Error(err)
	}
}

func TestPutOverQuota(t *testing.T) {
	r := newRig(t)
	dir, size := manyFiles(t, 3000)
	quota := size / 2
	if _, err := r.client.UpdateBucket(t.Context(), bucket, penstock.BucketOptions{Quota: &quota}); err != nil {
		t.Fatal(err)
	}
	opts, told := options()
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "", opts)
	if err != nil || report.Files == 0 || report.Failed == 0 || report.Files+report.Failed != 3000 || report.Bytes > quota {
		t.Errorf("%+v, %v", report, err)
	}
	if len(told.failed) != int(report.Failed) || len(r.keys("")) != int(report.Files) {
		t.Errorf("%d are named, %d objects, %+v", len(told.failed), len(r.keys("")), report)
	}
}

func TestPutInterrupted(t *testing.T) {
	r := newRig(t)
	dir, size := manyFiles(t, 12000)
	opts, told := options()
	opts.Requests = 1
	first, err := tree.Put(r.cancelAt(3, "/v1/put-batch"), r.client, dir, bucket, "p", opts)
	if !errors.Is(err, context.Canceled) || first.Files == 0 || first.Files >= 12000 || first.Failed > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := tree.Put(t.Context(), r.client, dir, bucket, "p", opts)
	if err != nil || second.Failed > 0 || second.Files+second.Unchanged != 12000 || second.Unchanged < first.Files || second.Files == 0 {
		t.Errorf("%+v after %+v, %v", second, first, err)
	}
	third, err := tree.Put(t.Context(), r.client, dir, bucket, "p", tree.Options{Checksum: true})
	r.want(third, err, tree.Report{Unchanged: 12000})
	r.wantNames(told.failed)
	if b, err := r.client.Bucket(t.Context(), bucket); err != nil || b.Bytes != size {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestPutWhileNodeRestarts shows that a node that comes back loses no file.
func TestPutWhileNodeRestarts(t *testing.T) {
	r := newRig(t)
	dir, size := manyFiles(t, 8000)
	r.atRequest(3, "/v1/put-batch", func() {
		if err := r.node.Restart(); err != nil {
			t.Error(err)
		}
	})
	opts, told := options()
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "", opts)
	r.want(report, err, tree.Report{Files: 8000, Bytes: size})
	r.wantNames(told.failed)
}

// TestNodeGoesAway shows that every act ends when there is no node any more, and
// that it can be continued.
func TestNodeGoesAway(t *testing.T) {
	r := newRig(t)
	dir, _ := manyFiles(t, 8000)
	opts, told := options()
	opts.Patience = 100 * time.Millisecond
	r.atRequest(3, "/v1/put-batch", r.node.Kill)
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "", opts)
	if !penstock.Is(err, penstock.Unavailable) || report.Files+report.Failed >= 8000 || len(told.failed) != int(report.Failed) {
		t.Errorf("%+v, %v", report, err)
	}
	if err := r.node.Start(); err != nil {
		t.Fatal(err)
	}
	again, err := tree.Put(t.Context(), r.client, dir, bucket, "", opts)
	if err != nil || again.Failed > 0 || again.Files+again.Unchanged != 8000 || again.Unchanged < report.Files {
		t.Errorf("%+v after %+v, %v", again, report, err)
	}
	back := t.TempDir()
	r.atRequest(3, "/v1/batch", r.node.Kill)
	if report, err := tree.Get(t.Context(), r.client, bucket, "", back, opts); !penstock.Is(err, penstock.Unavailable) || report.Files >= 8000 {
		t.Errorf("%+v, %v", report, err)
	}
	if err := r.node.Start(); err != nil {
		t.Fatal(err)
	}
	if report, err := tree.Get(t.Context(), r.client, bucket, "", back, opts); err != nil || report.Files+report.Unchanged != 8000 {
		t.Errorf("%+v, %v", report, err)
	}
	sameFiles(t, back, dir)
}

// TestProgress holds the first request back until the whole tree has been counted.
func TestProgress(t *testing.T) {
	r := newRig(t)
	dir, size := manyFiles(t, 500)
	counted := make(chan tree.State, 1)
	opts, _ := options()
	opts.CountAfter = 1
	opts.Progress = func(s tree.State) {
		if s.TotalFiles > 0 {
			select {
			case counted <- s:
			default:
			}
		}
	}
	r.atRequest(1, "/v1/put-batch", func() {
		if s := <-counted; s.TotalFiles != 500 || s.TotalBytes != size || s.Elapsed == 0 {
			t.Errorf("%+v", s)
		}
	})
	report, err := tree.Put(t.Context(), r.client, dir, bucket, "", opts)
	r.want(report, err, tree.Report{Files: 500, Bytes: size})

	r.atRequest(1, "/v1/batch", func() {
		if s := <-counted; s.TotalFiles != 500 || s.TotalBytes != size {
			t.Errorf("%+v", s)
		}
	})
	for len(counted) > 0 {
		<-counted
	}
	report, err = tree.Get(t.Context(), r.client, bucket, "", t.TempDir(), opts)
	r.want(report, err, tree.Report{Files: 500, Bytes: size})
}
