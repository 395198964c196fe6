package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

// rotten is a closed store to be damaged, and what it should hold.
type rotten struct {
	files shot
	m     *model
}

func newRotten(t *testing.T, seed uint64) *rotten {
	t.Helper()
	mem := fault.NewMemory(seed)
	m := newModel()
	s, stop := start(t, quick(small(mem)))
	m.steps(t, s, random(seed, 61), 150)
	tidy(t, s)
	stop()
	return &rotten{files: take(t, mem, "."), m: m}
}

// hit is one fault and where it was.
type hit struct {
	what string
	file string
}

// damage does one thing to one of the files.
func (x *rotten) damage(t *testing.T, r *rand.Rand, fsys disk.FS) hit {
	t.Helper()
	var targets []string
	for name, data := range x.files {
		if !strings.HasPrefix(name, "index/") && name != "lock" && len(data) > 0 {
			targets = append(targets, name)
		}
	}
	slices.Sort(targets)
	name := targets[r.IntN(len(targets))]
	if r.IntN(2) == 0 { // most are blobs
		packs := slices.DeleteFunc(slices.Clone(targets), func(s string) bool { return strings.HasPrefix(s, "blobs/") })
		name = packs[r.IntN(len(packs))]
	}
	data := bytes.Clone(x.files[name])
	at := r.IntN(len(data))
	length := min(1+r.IntN(2000), len(data)-at)
	var what string
	switch r.IntN(7) {
	case 0, 1:
		what = "flip"
		data[at] ^= 1 << r.IntN(8)
	case 2:
		what = "zero"
		clear(data[at : at+length])
	case 3:
		what = "garble"
		for i := range length {
			data[at+i] = byte(r.Uint32())
		}
	case 4:
		what = "truncate"
		data = data[:at]
	case 5:
		what = "swap inside"
		other := r.IntN(len(data) - length + 1)
		piece := bytes.Clone(data[at : at+length])
		copy(data[at:], data[other:other+length])
		copy(data[other:], piece)
	case 6:
		what = "swap with another"
		source := x.files[targets[r.IntN(len(targets))]]
		copy(data[at:at+length], source[r.IntN(len(source)):])
	}
	save(t, fsys, name, data)
	return hit{fmt.Sprintf("%s %d bytes at %d of %d", what, length, at, len(x.files[name])), name}
}

// TestRot damages one file of a closed store. Whatever is served is right, what
// is not damaged is served, and a scrub finds why something is not.
func TestRot(t *testing.T) {
	t.Parallel()
	x := newRotten(t, 1)
	runs(t, "PENSTOCK_ROT", 150, func(t *testing.T, seed uint64) {
		r := random(seed, 62)
		mem := x.files.drive(t, seed)
		h := x.damage(t, r, mem)
		t.Logf("%s: %s", h.file, h.what)
		s, err := store.Open(ctx, small(mem))
		must(t, err)
		bad := x.serves(t, s)
		if most := 1 + 2000/512 + 2000/512; bad > most && !strings.HasPrefix(h.what, "truncate") {
			t.Errorf("%d objects suffer", bad)
		}
		if strings.HasPrefix(h.file, "identity") || h.file == "roster" || h.file == "removed" {
			if bad > 0 {
				t.Errorf("%d objects suffer from a damaged %s", bad, h.file)
			}
		}
		found := 0
		_, err = s.Scrub(ctx, store.ScrubOptions{}, func(store.Finding) { found++ })
		must(t, err)
		if bad > 0 && found == 0 {
			t.Errorf("scrub does not see why %d objects suffer", bad)
		}
		// What is damaged can be replaced and deleted.
		for name := range x.m.possible {
			if _, err := s.Stat(ctx, name); object.Is(err, object.NotFound) {
				continue
			}
			if len(name.Key)%2 == 0 {
				must(t, s.Delete(ctx, name, object.Condition{}))
			} else {
				_, err := s.Put(ctx, name, strings.NewReader("new"), object.PutOptions{})
				must(t, err)
			}
		}
		must(t, s.Close())
		s = still(t, small(mem))
		for name := range x.m.possible {
			got, err := get(s, name.Key)
			if object.Is(err, object.NotFound) {
				continue
			}
			if err != nil || string(got) != "new" {
				t.Errorf("%s, replaced: %d bytes, %v", name, len(got), err)
			}
		}
		must(t, s.Close())
	})
}

// serves reads everything in every way and returns how many objects are damaged.
func (x *rotten) serves(t *testing.T, s *store.Store) (bad int) {
	t.Helper()
	listed := make(map[string]bool)
	for e, err := range s.List(ctx, "bkt", object.ListOptions{}) {
		must(t, err)
		listed[e.Info.Name.Key] = true
	}
	for name, states := range x.m.possible {
		want := content(states[0])
		if listed[name.Key] != (states[0] != 0) {
			t.Errorf("%s: listed %v", name, listed[name.Key])
		}
		if _, err := s.Stat(ctx, name); states[0] == 0 {
			wantKind(t, "stat of "+name.Key, err, object.NotFound)
			continue
		} else if err != nil {
			wantKind(t, "stat of "+name.Key, err, object.Corrupt, object.Unavailable)
		}
		suffers := false
		for range 2 { // the second time as a blob that was verified
			for _, r := range []object.Range{{}, {Offset: int64(len(want) / 2)}} {
				offset, length, err := r.Resolve(int64(len(want)))
				must(t, err)
				for _, verified := range []bool{false, true} {
					got, err := readRange(s, name, r, verified)
					if !bytes.HasPrefix(want[offset:offset+length], got) {
						t.Fatalf("%s: wrong bytes", name)
					}
					if err != nil {
						wantKind(t, "read of "+name.Key, err, object.Corrupt, object.Unavailable)
						suffers = true
					} else if len(got) < int(length) {
						t.Fatalf("%s: %d of %d bytes and no error", name, len(got), length)
					}
				}
			}
		}
		if suffers {
			bad++
		}
	}
	return bad
}

func readRange(s *store.Store, name object.Name, r object.Range, verified bool) ([]byte, error) {
	open := s.Open
	if verified {
		open = s.OpenVerified
	}
	reader, err := open(ctx, name, r)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	_, err = reader.WriteTo(&buf)
	return buf.Bytes(), errors.Join(err, reader.Close())
}

// TestRotWithoutIndex damages a pack and deletes the index, so that packs are
// scanned. Nothing is served that was not written under its name, and what a pack
// with a directory held is exact or said to be damaged.
func TestRotWithoutIndex(t *testing.T) {
	t.Parallel()
	x := newRotten(t, 2)
	var packs []string
	for name := range x.files {
		if strings.HasPrefix(name, "packs/") {
			packs = append(packs, name)
		}
	}
	slices.Sort(packs)
	ever := make(map[string]bool)
	for n := range x.m.next + 1 {
		ever[string(content(n))] = true
	}
	runs(t, "PENSTOCK_ROT", 80, func(t *testing.T, seed uint64) {
		r := random(seed, 63)
		mem := x.files.drive(t, seed)
		erase(t, mem, "index")
		name := packs[r.IntN(len(packs))]
		data := bytes.Clone(x.files[name])
		at := r.IntN(len(data))
		sealed := bytes.HasSuffix(bytes.TrimRight(data, "\x00"), []byte("PSTKDIR1"))
		if r.IntN(2) == 0 {
			data[at] ^= 1 << r.IntN(8)
		} else {
			end := min(len(data), at+r.IntN(2000))
			clear(data[at:end])
			sealed = sealed && end <= int(binary.LittleEndian.Uint64(data[len(data)-1024-16:])) // the directory is not hit too
		}
		t.Logf("%s at %d of %d; the last is %s", name, at, len(data), packs[len(packs)-1])
		save(t, mem, name, data)
		s, err := store.Open(ctx, small(mem))
		must(t, err)
		for name, states := range x.m.possible {
			got, err := get(s, name.Key)
			switch {
			case object.Is(err, object.Corrupt), object.Is(err, object.NotFound) && states[0] == 0:
			case err == nil && states[0] != 0 && bytes.Equal(got, content(states[0])):
			case !sealed && object.Is(err, object.NotFound), !sealed && err == nil && ever[string(got)]:
				// The damage took the name too.
			default:
				t.Errorf("%s, which is %d: %d bytes, %v", name, states[0], len(got), err)
			}
		}
		must(t, s.Close())
	})
}

// TestForgedRecords stores a copy of a pack as an object, deletes what the pack
// held, damages the record around the copy and scans. Nothing of it comes to life.
func TestForgedRecords(t *testing.T) {
	o := store.Options{InlineMax: 300 << 10, PackSize: 1 << 20, IndexMem: 16 << 10, HotPlaces: 64}
	mem := fault.NewMemory(1)
	o.Disks = []store.Disk{{FS: mem, Name: "disk"}}
	s := still(t, o)
	for i := range 20 {
		put(t, s, fmt.Sprintf("secret%d", i), bytesOf(fmt.Sprintf("secret%d", i), 2000))
	}
	copied := load(t, mem, packsOf(t, mem)[0])
	copied = bytes.TrimRight(copied, "\x00")
	copied = append(copied, make([]byte, 2048-len(copied)%512)...)
	for i := range 20 {
		del(t, s, fmt.Sprintf("secret%d", i))
	}
	// At every distance of a block, in the same pack and in another.
	for i := range 3 {
		put(t, s, fmt.Sprintf("copy%d", i), append(make([]byte, 512*i), copied...))
	}
	for len(packsOf(t, mem)) < 2 {
		put(t, s, "filler", bytesOf("filler", 100<<10))
	}
	for i := 3; i < 6; i++ {
		put(t, s, fmt.Sprintf("copy%d", i), append(make([]byte, 512*i), copied...))
	}
	put(t, s, "last", []byte("last"))
	must(t, s.Close())
	files := take(t, mem, ".")
	for _, pack := range packsOf(t, mem) {
		heads := []int{}
		for at := 0; at < len(files[pack]); at += 512 {
			if bytes.Contains(files[pack][at:at+100], []byte("bkt/copy")) {
				heads = append(heads, at)
			}
		}
		if len(heads) == 0 {
			t.Fatal("the heads of the copies are not to be found")
		}
		for _, head := range heads {
			mem := files.drive(t, 1)
			erase(t, mem, "index")
			data := bytes.Clone(files[pack])
			clear(data[head : head+512])
			if tail := bytes.LastIndex(data, []byte("PSTKDIR1")); tail > 0 {
				clear(data[tail : tail+8]) // no directory either
			}
			save(t, mem, pack, data)
			o.Disks[0].FS = mem
			s := still(t, o)
			for i := range 20 {
				missing(t, s, fmt.Sprintf("secret%d", i))
			}
			holds(t, s, "last", []byte("last"))
			must(t, s.Close())
			report, err := store.Unpack(ctx, o.Disks, t.TempDir(), store.UnpackOptions{})
			must(t, err)
			if report.Objects > 8 {
				t.Errorf("unpack restored %d objects", report.Objects)
			}
		}
	}
}

// TestPackCut cuts a pack off, within its head or behind it, before any checkpoint
// of the index. It is not taken for one that was just begun: the loss is reported,
// at every scrub.
func TestPackCut(t *testing.T) {
	for _, at := range []int{89, 2048, 20000} {
		t.Run(fmt.Sprint(at), func(t *testing.T) { packCut(t, at) })
	}
}

func packCut(t *testing.T, at int) {
	mem := fault.NewMemory(1)
	o := small(mem)
	o.IndexMem = 1 << 20
	s, err := store.Open(ctx, o)
	must(t, err)
	for i := range 100 {
		put(t, s, fmt.Sprintf("k%d", i), bytesOf("k", 3000))
	}
	dead := mem.KillProcess()
	s.Close() //nolint:errcheck // its drive is dead
	packs := packsOf(t, dead)
	save(t, dead, packs[1], load(t, dead, packs[1])[:at])
	for range 2 {
		s, stop := start(t, small(dead))
		found := 0
		_, err = s.Scrub(ctx, store.ScrubOptions{}, func(f store.Finding) {
			if strings.HasPrefix(f.File, packs[1]) {
				found++
			}
		})
		must(t, err)
		if found == 0 {
			t.Error("no findings")
		}
		stop()
	}
}
