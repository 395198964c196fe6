package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/store"
)

func partName(i int) object.Name { return object.Name{Bucket: parts, Key: fmt.Sprintf("up/%05d", i)} }

// putParts stores parts of these sizes and returns their names and what they hold.
func putParts(t *testing.T, s *store.Store, sizes ...int) (names []object.Name, all []byte) {
	t.Helper()
	for i, size := range sizes {
		data := bytesOf(fmt.Sprintf("part %d", i), size)
		_, err := s.Put(ctx, partName(i), bytes.NewReader(data), object.PutOptions{SizeHint: int64(size), Near: key("whole")})
		must(t, err)
		names, all = append(names, partName(i)), append(all, data...)
	}
	return names, all
}

func multipart(n int) func() (object.Finish, error) {
	return func() (object.Finish, error) { return object.Finish{ETag: fmt.Sprintf("sum-%d", n)}, nil }
}

// TestCompose puts objects together from parts of every kind and reads all ranges
// that cross from one into the next. Then the parts are deleted, and the object is
// still whole.
// refs names whole objects, in any version.
func refs(names ...object.Name) []object.Ref {
	all := make([]object.Ref, len(names))
	for i, name := range names {
		all[i].Name = name
	}
	return all
}

func TestCompose(t *testing.T) {
	t.Parallel()
	for name, sizes := range map[string][]int{
		"one": {200000}, "large": {200000, 65536, 131072, 5001}, "small": {1, 2, 3}, "mixed": {70000, 100, 0, 90000, 1},
		"empty": {0, 0}, "blocks": {65536, 65536}, "short blocks": {65537, 65535, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, quick(small(fault.NewMemory(1), fault.NewMemory(2))))
			from, want := putParts(t, s, sizes...)
			crc := crc32.ChecksumIEEE(want)
			o := object.PutOptions{ContentType: "text/plain", CRC32: &crc, Finish: multipart(len(sizes))}
			info, err := s.Compose(ctx, key("whole"), refs(from...), o)
			must(t, err)
			for _, part := range from {
				must(t, s.Delete(ctx, part, object.Condition{}))
			}
			got, err := s.Stat(ctx, key("whole"))
			must(t, err)
			if got.ETag != info.ETag || got.CRC32 != crc || got.Size != int64(len(want)) || got.ContentType != "text/plain" {
				t.Fatalf("%+v, told %+v", got, info)
			}
			var lengths []int64
			for _, n := range sizes {
				if n > 0 {
					lengths = append(lengths, int64(n))
				}
			}
			if !slices.Equal(got.Parts, lengths) {
				t.Fatalf("parts of %v, not %v", got.Parts, lengths)
			}
			holds(t, s, "whole", want)
			at := int64(0)
			for _, n := range lengths {
				at += n
				for _, r := range []object.Range{{Offset: max(0, at-5), Length: 10}, {Offset: max(0, at-n), Length: n}, {Offset: max(0, at-1)}} {
					for _, verified := range []bool{false, true} {
						offset, length, err := r.Resolve(got.Size)
						must(t, err)
						data, err := readRange(s, key("whole"), r, verified)
						if err != nil || !bytes.Equal(data, want[offset:offset+length]) {
							t.Fatalf("%+v: %d bytes, %v", r, len(data), err)
						}
					}
				}
			}
			scrubbed(t, s)
			usage(t, s, 1, len(want))
		})
	}
}

// TestComposeRefuses refuses what makes no sense, and leaves everything as it was.
func TestComposeRefuses(t *testing.T) {
	s := still(t, small(fault.NewMemory(1)))
	defer s.Close()
	put(t, s, "whole", []byte("before"))
	from, _ := putParts(t, s, 70000, 10)
	_, err := s.Compose(ctx, key("whole"), nil, object.PutOptions{})
	wantKind(t, "no parts", err, object.Invalid)
	stale := refs(from...)
	stale[0].Of = object.Version{Map: 1, Counter: 1}
	_, err = s.Compose(ctx, key("whole"), stale, object.PutOptions{})
	wantKind(t, "another version", err, object.Stale)
	_, err = s.Compose(ctx, key("whole"), refs(append(slices.Clone(from), partName(9))...), object.PutOptions{})
	wantKind(t, "a part that is missing", err, object.NotFound)
	crc := uint32(1)
	_, err = s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{CRC32: &crc})
	wantKind(t, "another checksum", err, object.Invalid)
	_, err = s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{Condition: object.Condition{IfNoneMatch: "*"}})
	wantKind(t, "a condition", err, object.Exists)
	refusal := errors.New("no")
	_, err = s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{Finish: func() (object.Finish, error) { return object.Finish{}, refusal }})
	if !errors.Is(err, refusal) {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	_, err = s.Compose(ended, key("whole"), refs(from...), object.PutOptions{})
	wantKind(t, "nobody waits", err, object.Canceled)
	holds(t, s, "whole", []byte("before"))
	for _, part := range from {
		_, err := s.Stat(ctx, part)
		must(t, err)
	}
	scrubbed(t, s)
}

// TestComposeTwice uses one part twice, versions of one key, and the object itself.
func TestComposeTwice(t *testing.T) {
	s := still(t, small(fault.NewMemory(1)))
	defer s.Close()
	large, little := bytesOf("large", 70000), []byte("little")
	first, err := s.Put(ctx, key("k"), bytes.NewReader(large), object.PutOptions{Keep: true})
	must(t, err)
	second, err := s.Put(ctx, key("k"), bytes.NewReader(little), object.PutOptions{Keep: true})
	must(t, err)
	from := []object.Name{first.Name, second.Name, first.Name, key("k")}
	want := slices.Concat(large, little, large, little)
	_, err = s.Compose(ctx, key("k"), refs(from...), object.PutOptions{})
	must(t, err)
	holds(t, s, "k", want)
	null := key("k")
	null.ID = object.NullID
	_, err = s.Compose(ctx, key("k"), refs(null, first.Name), object.PutOptions{})
	must(t, err)
	for _, name := range []object.Name{first.Name, second.Name} {
		must(t, s.Delete(ctx, name, object.Condition{}))
	}
	holds(t, s, "k", slices.Concat(want, large))
	_, err = s.Copy(ctx, key("k"), key("k"), object.PutOptions{})
	must(t, err)
	holds(t, s, "k", slices.Concat(want, large))
	scrubbed(t, s)
	del(t, s, "k")
	usage(t, s, 0, 0)
	scrubbed(t, s)
}

// TestComposeMany puts an object together from as many parts as S3 allows.
func TestComposeMany(t *testing.T) {
	t.Parallel()
	mem := fault.NewMemory(1)
	o := small(mem)
	s := still(t, o)
	const count = 10000
	// The parts are versions of a few blobs, lest the test takes long.
	sizes := []int{5000, 4200, 9001}
	blobs, _ := putParts(t, s, sizes...)
	var from []object.Name
	var want []byte
	for i := range count {
		name := object.Name{Bucket: parts, Key: fmt.Sprintf("copy/%05d", i)}
		_, err := s.Copy(ctx, name, blobs[i%3], object.PutOptions{})
		must(t, err)
		from, want = append(from, name), append(want, bytesOf(fmt.Sprintf("part %d", i%3), sizes[i%3])...)
	}
	_, err := s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{Finish: multipart(count)})
	must(t, err)
	for range 2 {
		info, err := s.Stat(ctx, key("whole"))
		must(t, err)
		if len(info.Parts) != count || info.CRC32 != crc32.ChecksumIEEE(want) {
			t.Fatalf("%d parts, checksum %08x", len(info.Parts), info.CRC32)
		}
		holds(t, s, "whole", want)
		for _, at := range []int64{0, 5000, 1 << 20, info.Size - 9001 - 7, info.Size - 1} {
			data, err := readRange(s, key("whole"), object.Range{Offset: at, Length: 100000}, false)
			if err != nil || !bytes.Equal(data, want[at:min(info.Size, at+100000)]) {
				t.Fatalf("at %d: %d bytes, %v", at, len(data), err)
			}
		}
		for item, err := range s.Batch(ctx, []object.Ref{{Name: key("whole"), Range: object.Range{Offset: 4990, Length: 14020}}}) {
			if err != nil || !bytes.Equal(item.Bytes, want[4990:4990+14020]) {
				t.Fatal(len(item.Bytes), err)
			}
		}
		must(t, s.Close())
		s = still(t, o)
	}
	must(t, s.Close())
}

// TestComposeOverDisks has parts on two disks, of which one is full or takes no
// writes: the object is put together on the other.
func TestComposeOverDisks(t *testing.T) {
	for _, cause := range []error{nil, syscall.ENOSPC, syscall.EROFS} {
		t.Run(fmt.Sprint(cause), func(t *testing.T) {
			p := newPair(3)
			s, _ := start(t, p.options(0, 1))
			var from []object.Name
			var want []byte
			for i, on := range []int{0, 1, 0, 1, 0} { // most of it on the first
				k := fmt.Sprintf("part%d", i)
				data := bytesOf(k, 70000)
				p.on(t, s, on, k, data)
				from, want = append(from, key(k)), append(want, data...)
			}
			if cause != nil {
				p.gates[0].set(fault.FailMatching(func(op fault.Op) bool { return op.Kind&fault.Mutations != 0 }, cause))
			}
			_, err := s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{})
			must(t, err)
			holds(t, s, "whole", want)
			p.gates[0].set(nil)
			allWell(t, s)
			for _, name := range from {
				must(t, s.Delete(ctx, name, object.Condition{}))
			}
			holds(t, s, "whole", want)
			usage(t, s, 1, len(want))
			scrubbed(t, s)
		})
	}
}

// TestComposeFails fails each operation of the drive in turn while an object is put
// together from a large and a small part. Then it is what it was or the new one, and
// the parts are there; nothing is left behind.
func TestComposeFails(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for n := int64(1); ; n++ {
			mem, g := fault.NewMemory(uint64(n)), newGate()
			s := still(t, small(fault.Inject(mem, g.Hook)))
			put(t, s, "whole", []byte("before"))
			from, want := putParts(t, s, 70000, 100)
			g.set(fault.FailNth(n, fault.Mutations, cause))
			_, err := s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{})
			g.set(nil)
			if err == nil {
				holds(t, s, "whole", want)
			} else {
				wantKind(t, "compose", err, object.Unavailable)
				holds(t, s, "whole", []byte("before"))
			}
			s.Close() //nolint:errcheck // a failed drive may be noted there
			for _, after := range []*fault.Memory{mem.Image(), mem.KillProcess()} {
				s := still(t, small(after))
				got, rerr := get(s, "whole")
				if rerr != nil || !bytes.Equal(got, want) && (err == nil || string(got) != "before") {
					t.Fatalf("operation %d: %v; then %d bytes, %v", n, err, len(got), rerr)
				}
				for _, part := range from {
					_, err := readName(s, part)
					must(t, err)
				}
				scrubbed(t, s)
				must(t, s.Close())
			}
			if err == nil {
				break
			}
		}
	}
}

// TestReadWhileReplaced reads an object of several parts to its end after it was
// replaced, or deleted, and all its parts with it. Then their space comes back.
func TestReadWhileReplaced(t *testing.T) {
	mem := fault.NewMemory(1)
	s := still(t, small(mem))
	defer s.Close()
	for _, how := range []string{"replaced", "deleted"} {
		from, want := putParts(t, s, 70000, 70000, 6000)
		_, err := s.Compose(ctx, key("whole"), refs(from...), object.PutOptions{})
		must(t, err)
		for _, part := range from {
			must(t, s.Delete(ctx, part, object.Condition{}))
		}
		var readers []object.Reader
		for _, r := range []object.Range{{}, {Offset: 69000, Length: 2000}, {Offset: 140001}} {
			reader, err := s.Open(ctx, key("whole"), r)
			must(t, err)
			readers = append(readers, reader)
		}
		if how == "deleted" {
			del(t, s, "whole")
		} else {
			put(t, s, "whole", []byte("new"))
		}
		scrubbed(t, s)
		for _, reader := range readers {
			offset, length := reader.Bounds()
			var got bytes.Buffer
			if _, err := reader.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), want[offset:offset+length]) {
				t.Fatalf("%s: %d bytes at %d, %v", how, got.Len(), offset, err)
			}
			must(t, reader.Close())
		}
		if left := tree(t, mem, "blobs"); len(left) > 0 {
			t.Fatalf("%s: %v are left", how, left)
		}
	}
}

// TestManyLocks lets everybody who locks several names do so at the same time.
func TestManyLocks(t *testing.T) {
	t.Parallel()
	s, stop, err := running(quick(small(fault.NewMemory(1))))
	must(t, err)
	keys := []string{"a", "b", "c", "d"}
	for _, k := range keys {
		put(t, s, k, bytesOf(k, 6000))
	}
	limited, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for w := range uint64(6) {
		wg.Go(func() {
			r := random(w, 95)
			pick := func() object.Name { return key(keys[r.IntN(len(keys))]) }
			for range 60 {
				var err error
				switch r.IntN(4) {
				case 0:
					_, err = s.Compose(limited, pick(), refs(pick(), pick()), object.PutOptions{Keep: r.IntN(2) == 0})
				case 1:
					_, err = s.Copy(limited, pick(), pick(), object.PutOptions{})
				case 2:
					var many []object.Upload
					for _, i := range r.Perm(len(keys)) {
						many = append(many, object.Upload{Key: keys[i], Bytes: []byte("x")})
					}
					err = errors.Join(s.PutMany(limited, "bkt", many)...)
				default:
					_, err = s.Put(limited, pick(), strings.NewReader(strings.Repeat("y", 6000)), object.PutOptions{})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	scrubbed(t, s)
	must(t, stop())
}

// TestCopyWhileReplaced copies an object that is being replaced. The copy is one of
// them as a whole: content, ETag and metadata belong together.
func TestCopyWhileReplaced(t *testing.T) {
	t.Parallel()
	s, stop, err := running(quick(small(fault.NewMemory(1))))
	must(t, err)
	write := func(n int) error {
		data := bytes.Repeat([]byte{byte(n)}, 6000+n)
		o := object.PutOptions{Metadata: map[string]string{"n": fmt.Sprint(n)}, Finish: multipart(n)}
		_, err := s.Put(ctx, key("src"), bytes.NewReader(data), o)
		return err
	}
	must(t, write(0))
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for n := range 200 {
			if err := write(n); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		_, err := s.Copy(ctx, key("dst"), key("src"), object.PutOptions{})
		must(t, err)
		info, err := s.Stat(ctx, key("dst"))
		must(t, err)
		n := int(info.Size) - 6000
		if info.ETag != fmt.Sprintf("sum-%d", n) || info.Metadata["n"] != fmt.Sprint(n) {
			t.Fatalf("%d bytes with ETag %s and metadata %v", info.Size, info.ETag, info.Metadata)
		}
	}
	wg.Wait()
	must(t, stop())
}

// TestMarksOnFullDisk: a mark that frees nothing does not use up what deletes need.
func TestMarksOnFullDisk(t *testing.T) {
	mem := fault.NewMemory(1)
	mem.SetCapacity(4 << 20)
	s, _ := start(t, quick(small(mem)))
	n := fill(t, s, "k", 3000)
	_, err := s.Mark(ctx, key("k0"), true, object.Condition{})
	wantKind(t, "a mark that is kept", err, object.Unavailable)
	_, err = s.Mark(ctx, key("none"), false, object.Condition{})
	wantKind(t, "a mark over nothing", err, object.Unavailable)
	until(t, "a mark that replaces an object is taken", func() bool {
		_, err = s.Mark(ctx, key("k0"), false, object.Condition{})
		return err == nil
	})
	missing(t, s, "k0")
	for i := 1; i < n; i++ {
		until(t, "the delete is taken", func() bool { return s.Delete(ctx, key(fmt.Sprintf("k%d", i)), object.Condition{}) == nil })
	}
	until(t, "there is room again", func() bool {
		_, err := s.Put(ctx, key("new"), strings.NewReader("x"), object.PutOptions{Keep: true})
		return err == nil
	})
}
