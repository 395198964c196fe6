package pack_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/pack"
)

// TestTarAtEveryMoment reads the pack with archive/tar before each operation on
// the drive, through the life of a pack: made, filled, resumed, filled, sealed.
func TestTarAtEveryMoment(t *testing.T) {
	m := newMemory(t, 1)
	done, begun, looks := 0, 0, 0
	fsys := fault.InjectOn(m, fault.Mutations, func(op fault.Op) error {
		if op.Kind == fault.OpCreate {
			return nil
		}
		looks++
		if op.Kind == fault.OpSyncDir || strings.HasSuffix(op.Name, ".new") {
			return nil
		}
		plain, _ := members(t, contents(t, m, 1))
		if len(plain) < done || len(plain) > begun {
			t.Fatalf("before %v: %d members, %d appended, %d about to be", op, len(plain), done, begun)
		}
		for name, content := range plain {
			if content != strings.Repeat(name, len(content)/len(name)) {
				t.Fatalf("%s has a wrong content", name)
			}
		}
		return nil
	})
	o := options(1)
	o.Step = 512
	w := create(t, fsys, o)
	fill := func() {
		for _, sizes := range [][]int{{0}, {5}, {100, 200, 300}, {90_000}, {1, 70_000, 2, 3, 150_000, 4}, {600_000}, make([]int, 300)} {
			var batch []*pack.Draft
			for _, size := range sizes {
				begun++
				key := fmt.Sprintf("key-%05d", begun)
				r := put(key, uint64(begun))
				if begun%3 == 0 {
					r.Metadata = map[string]string{"a": "b"}
				}
				batch = append(batch, draft(r, bytes.Repeat([]byte("bkt/"+key), size)))
			}
			must(t, w.Append(batch...))
			done = begun
			if size := len(contents(t, m, 1)); int64(size) < w.End()+2*pack.Block {
				t.Fatalf("%d bytes: no room for the end of a tar at %d", size, w.End())
			}
			must(t, w.Sync())
		}
	}
	fill()
	end := w.End()
	must(t, w.Discard())
	var err error
	w, err = pack.Resume(fsys, o, end)
	must(t, err)
	fill()
	must(t, w.Seal())
	if plain, own := members(t, contents(t, m, 1)); len(plain) != done || len(own) != 2 {
		t.Fatal(len(plain), len(own))
	}
	if looks < 40 {
		t.Fatalf("only %d looks", looks)
	}
}

// TestResume: what was behind the end is gone, and the directory knows the
// records from before.
func TestResume(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	for i := range uint64(5) {
		l.append(put(fmt.Sprint("k", i), i+1), bytes.Repeat([]byte{byte(i)}, 5000))
	}
	l.sync()
	must(t, l.w.Discard())
	cut := l.records[3].Offset
	l.records = l.records[:3]
	for range 3 {
		w, err := pack.Resume(m, options(1), cut)
		must(t, err)
		if size := len(contents(t, m, 1)); int64(size) != cut || w.End() != cut || w.Synced() != cut {
			t.Fatal(size, w.End(), w.Synced())
		}
		checkMembers(t, contents(t, m, 1), len(l.records)+1)
		l.w = w
		l.append(put("short", uint64(100+len(l.records))), []byte("short"))
		l.sync()
		checkMembers(t, contents(t, m, 1), len(l.records)+1)
		l.checkWhole(t, open(t, contents(t, m, 1)))
		cut = w.End()
		must(t, w.Discard())
	}
	for _, bad := range []int64{-512, 0, 512, cut - 1, cut + 1<<30} {
		if w, err := pack.Resume(m, options(1), bad); err == nil {
			t.Errorf("resumed at %d: %v", bad, w)
		}
	}
	if _, err := pack.Resume(m, options(2), cut); err == nil {
		t.Error("resumed a pack that is not there")
	}
	l.w, _ = pack.Resume(m, options(1), cut)
	l.seal()
	l.checkWhole(t, open(t, contents(t, m, 1)))
}

// TestResumeAfterSeal goes on behind a directory.
func TestResumeAfterSeal(t *testing.T) {
	m := newMemory(t, 1)
	l := newLog(t, m, options(1))
	l.append(put("a", 1), []byte("a"))
	l.seal()
	_, res := l.scan(t, open(t, contents(t, m, 1)), pack.ScanOptions{})
	var err error
	l.w, err = pack.Resume(m, options(1), res.End)
	must(t, err)
	l.append(put("b", 2), []byte("b"))
	l.seal()
	data := contents(t, m, 1)
	l.checkWhole(t, open(t, data))
	checkMembers(t, data, 5)
}
