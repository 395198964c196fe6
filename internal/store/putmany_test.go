package store_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// TestPutMany stores objects together. What cannot be stored is told for each, and
// the others are there, after a power cut too.
func TestPutMany(t *testing.T) {
	mem := fault.NewMemory(1)
	s, err := store.Open(ctx, small(mem))
	must(t, err)
	put(t, s, "over", []byte("old"))
	objects := []object.Upload{
		{Key: "a", Bytes: []byte("A"), ContentType: "image/jpeg"},
		{Key: "dir/b", Bytes: bytesOf("b", 3000)},
		{Key: "", Bytes: []byte("x")},
		{Key: "over", Bytes: []byte("new")},
		{Key: "a", Bytes: []byte("again")},
		{Key: "large", Bytes: make([]byte, 5000)},
		{Key: "dir", Bytes: []byte("a file where a directory is")},
		{Key: strings.Repeat("x", 1025), Bytes: []byte("x")},
		{Key: "empty"},
		{Key: "wrong", Bytes: []byte("x"), CRC32: 1, Checked: true},
	}
	errs := s.PutMany(ctx, "bkt", objects)
	for i, err := range errs {
		if i == 2 || i == 4 || i == 5 || i == 7 || i == 9 {
			wantKind(t, objects[i].Key, err, object.Invalid)
		} else {
			must(t, err)
		}
	}
	after := mem.Crash()
	s.Close() //nolint:errcheck // the power is cut
	s, _ = start(t, small(after))
	for _, i := range []int{0, 1, 3, 6, 8} {
		holds(t, s, objects[i].Key, objects[i].Bytes)
	}
	info, err := s.Stat(ctx, key("a"))
	must(t, err)
	if info.ContentType != "image/jpeg" {
		t.Errorf("content type %q", info.ContentType)
	}
	missing(t, s, "large")
	missing(t, s, "wrong")
	plain := map[string]bool{} // what plain tar would restore
	for r := tar.NewReader(bytes.NewReader(load(t, after, packsOf(t, after)[0]))); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		plain[h.Name] = true
	}
	if !plain["bkt/a"] || plain["bkt/dir"] && plain["bkt/dir/b"] {
		t.Errorf("plain tar sees %v", plain)
	}
	usage(t, s, 5, 1+3000+3+len(objects[6].Bytes))
	scrubbed(t, s)
	if errs := s.PutMany(ctx, "bkt", nil); len(errs) != 0 {
		t.Error(errs)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	wantKind(t, "canceled", s.PutMany(canceled, "bkt", objects[:1])[0], object.Canceled)
}

// TestPutManyAtOnce has writers overwrite the same names together, beside single
// writes, copies and deletes: nobody waits for ever, and the sums are right.
func TestPutManyAtOnce(t *testing.T) {
	s, _ := start(t, quick(small(fault.NewMemory(1), fault.NewMemory(2))))
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 5))
			for range 60 {
				if w == 0 {
					s.Delete(ctx, key(fmt.Sprintf("k%d", r.IntN(40))), object.Condition{})                                     //nolint:errcheck // it may not be there
					s.Copy(ctx, key(fmt.Sprintf("k%d", r.IntN(40))), key(fmt.Sprintf("k%d", r.IntN(40))), object.PutOptions{}) //nolint:errcheck // it may not be there
					s.Put(ctx, key(fmt.Sprintf("k%d", r.IntN(40))), bytes.NewReader(make([]byte, 100)), object.PutOptions{})   //nolint:errcheck // checked below
					continue
				}
				var objects []object.Upload
				for _, k := range r.Perm(40)[:20] {
					objects = append(objects, object.Upload{Key: fmt.Sprintf("k%d", k), Bytes: make([]byte, 100)})
				}
				for i, err := range s.PutMany(ctx, "bkt", objects) {
					if err != nil {
						t.Errorf("%s: %v", objects[i].Key, err)
					}
				}
			}
		})
	}
	wg.Wait()
	n := len(names(t, s, object.ListOptions{}))
	usage(t, s, n, 100*n)
	scrubbed(t, s)
}

func BenchmarkPutMany4KiB(b *testing.B) {
	dir := b.TempDir()
	o := small(disk.NewDir(dir))
	o.InlineMax, o.PackSize, o.IndexMem, o.HotPlaces = 0, 0, 0, 0
	s, stop, err := running(o)
	if err != nil {
		b.Fatal(err)
	}
	defer stop() //nolint:errcheck // the directory is thrown away
	objects := make([]object.Upload, 1000)
	body := bytes.Repeat([]byte("x"), 4<<10)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for i := range objects {
			objects[i] = object.Upload{Key: fmt.Sprintf("train/n%05d/image-%09d.jpg", n%1000, n), Bytes: body}
			n++
		}
		for _, err := range s.PutMany(ctx, "bkt", objects) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/object")
}
