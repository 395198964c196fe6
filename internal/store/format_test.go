package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// newerPack makes the head of a pack one of format 2.
func newerPack(data []byte) []byte {
	const link, sum = 157, 148
	data = bytes.Clone(data)
	var facts [3]byte
	base64.RawURLEncoding.Decode(facts[:], data[link:link+4]) //nolint:errcheck // it is ours
	facts[0] = 2
	base64.RawURLEncoding.Encode(data[link:], facts[:])
	copy(data[sum:sum+8], "        ")
	total := 0
	for _, b := range data[:512] {
		total += int(b)
	}
	copy(data[sum:], fmt.Sprintf("%06o\x00 ", total))
	return data
}

// TestNewerFormat refuses what a newer version may have written, says so, and
// changes nothing.
func TestNewerFormat(t *testing.T) {
	mem := fault.NewMemory(1)
	m := newModel()
	s, stop := start(t, quick(small(mem)))
	m.steps(t, s, random(1, 91), 100)
	stop()
	s, err := store.Open(ctx, small(mem)) // which ends a compaction that stop broke off
	must(t, err)
	put(t, s, "x", []byte("x")) // so that a pack is open
	must(t, s.Close())
	files := take(t, mem, ".")
	open := ""
	for _, name := range packsOf(t, mem) {
		if !bytes.HasSuffix(bytes.TrimRight(files[name], "\x00"), []byte("PSTKDIR1")) {
			open = name
		}
	}
	for _, c := range []struct {
		file string
		make func([]byte) []byte
	}{
		{"identity", line(2, 2)},
		{"identity.copy", line(2, 2)},
		{"identity", line(3, 1)},
		{"roster", line(2, 2)},
		{"roster", line(3, 8)},
		{open, newerPack},
	} {
		t.Run(c.file, func(t *testing.T) {
			mem := files.drive(t, 1)
			save(t, mem, c.file, c.make(files[c.file]))
			before := take(t, mem, ".")
			for range 2 {
				_, err := store.Open(ctx, small(mem))
				wantKind(t, "open", err, object.Invalid)
				if !strings.Contains(err.Error(), "format") {
					t.Errorf("%q does not say that it is about the format", err)
				}
			}
			if after := take(t, mem, "."); !maps.EqualFunc(before, after, bytes.Equal) {
				for name := range after {
					if !bytes.Equal(before[name], after[name]) {
						t.Errorf("%s was changed", name)
					}
				}
			}
			save(t, mem, c.file, files[c.file])
			s, stop := start(t, small(mem))
			m.clone().checkExcept(t, s, "x")
			stop()
		})
	}
}

// line sets one of the numbers in the first line of a sealed file, and seals it.
func line(field, value int) func([]byte) []byte {
	return func(data []byte) []byte {
		first, rest, _ := bytes.Cut(data, []byte("\n"))
		fields := strings.Fields(string(first))
		fields[field] = fmt.Sprint(value)
		sealed := []byte(strings.Join(fields[:4], " ") + " ")
		sum := crc32.Update(crc32.ChecksumIEEE(sealed), crc32.IEEETable, rest)
		return append(fmt.Appendf(sealed, "%08x\n", sum), rest...)
	}
}

// checkExcept is check beside one object that the model does not know.
func (m *model) checkExcept(t *testing.T, s *store.Store, k string) {
	t.Helper()
	del(t, s, k)
	m.checkSettled(t, s)
}

// TestNewerPackAmongOthers has a pack of a newer format where only a read meets
// it: that is no fault of the request, and others are served.
func TestNewerPackAmongOthers(t *testing.T) {
	mem := fault.NewMemory(2)
	s, stop := start(t, quick(small(mem)))
	for i := range 60 {
		put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", 3000))
	}
	stop()
	first := packsOf(t, mem)[0]
	save(t, mem, first, newerPack(load(t, mem, first)))
	s, _ = start(t, quick(small(mem)))
	refused := 0
	for i := range 60 {
		if _, err := get(s, fmt.Sprintf("k%d", i)); err != nil {
			wantKind(t, "read", err, object.Unavailable)
			refused++
		}
	}
	if refused == 0 || refused > 30 {
		t.Errorf("%d of 60 are refused", refused)
	}
	found := 0
	_, err := s.Scrub(ctx, store.ScrubOptions{}, func(f store.Finding) {
		if f.Kind == "pack" && f.File == first {
			found++
		}
	})
	must(t, err)
	if found == 0 {
		t.Error("scrub does not report it")
	}
}

// TestNewerIndex is rebuilt: it is a cache.
func TestNewerIndex(t *testing.T) {
	mem := fault.NewMemory(3)
	m := newModel()
	s, stop := start(t, quick(small(mem)))
	m.steps(t, s, random(3, 91), 100)
	stop()
	data := load(t, mem, "index/checkpoint")
	binary.LittleEndian.PutUint32(data[8:], 2)
	binary.LittleEndian.PutUint32(data[len(data)-4:], crc32.ChecksumIEEE(data[:len(data)-4]))
	save(t, mem, "index/checkpoint", data)
	s, _ = start(t, quick(small(mem)))
	m.checkSettled(t, s)
	scrubbed(t, s)
}

// TestTwoStores refuses a directory that is in use, also as one of several, and
// leaves the others free.
func TestTwoStores(t *testing.T) {
	p := newPair(4)
	s, stop := start(t, p.options(0))
	put(t, s, "k", []byte("k"))
	for range 2 {
		_, err := store.Open(ctx, p.options(0))
		wantKind(t, "a second store", err, object.Unavailable)
		_, err = store.Open(ctx, p.options(1, 0))
		wantKind(t, "a second store", err, object.Unavailable)
		if !strings.Contains(err.Error(), "in use") {
			t.Errorf("%q does not say why", err)
		}
	}
	holds(t, s, "k", []byte("k"))
	stop()
	s, _ = start(t, p.options(0, 1))
	holds(t, s, "k", []byte("k"))
}

// TestOtherStore refuses disks of two stores together.
func TestOtherStore(t *testing.T) {
	p := newPair(5)
	for i := range 2 {
		s, stop := start(t, p.options(i))
		put(t, s, "k", []byte{byte(i)})
		stop()
	}
	_, err := store.Open(ctx, p.options(0, 1))
	wantKind(t, "disks of two stores", err, object.Invalid)
	for i := range 2 {
		s, _ := start(t, p.options(i))
		holds(t, s, "k", []byte{byte(i)})
	}
}

// TestLostIdentity refuses packs without an identity: they could not be verified.
func TestLostIdentity(t *testing.T) {
	mem := fault.NewMemory(6)
	s, stop := start(t, small(mem))
	put(t, s, "k", []byte("k"))
	stop()
	must(t, mem.Remove("identity"))
	s, stop = start(t, small(mem)) // the copy does
	holds(t, s, "k", []byte("k"))
	stop()
	must(t, mem.Remove("identity"))
	must(t, mem.Remove("identity.copy"))
	before := take(t, mem, ".")
	_, err := store.Open(ctx, small(mem))
	wantKind(t, "open", err, object.Corrupt)
	if after := take(t, mem, "."); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Error("something was changed")
	}
}
