package penstock_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/wire"
)

func noise(seed, size int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	b := make([]byte, size)
	r.Read(b) //nolint:errcheck // it cannot fail
	return b
}

func makeBucket(t *testing.T, c *penstock.Client, bucket string) {
	t.Helper()
	if _, err := c.CreateBucket(t.Context(), bucket, penstock.BucketOptions{}); err != nil {
		t.Fatal(err)
	}
}

func ref(key string) penstock.Ref {
	return penstock.Ref{Name: penstock.Name{Bucket: "photos", Key: key}}
}

// TestBatches stores objects in one request and reads them in another: small and
// large ones, ranges, and ones that are not there.
func TestBatches(t *testing.T) {
	c := connect(t)
	makeBucket(t, c, "photos")
	sizes := []int{0, 1, 100, 4096, 100 << 10, 300 << 10, 3 << 20}
	var objects []penstock.Upload
	for i := range 300 {
		objects = append(objects, penstock.Upload{Key: fmt.Sprintf("dir%d/%d.bin", i%7, i), Bytes: noise(i, sizes[i%6]), ContentType: "image/png"})
	}
	objects = append(objects, penstock.Upload{Key: "large", Bytes: noise(300, sizes[6])})
	if err := c.PutBatch(t.Context(), "photos", objects); err != nil {
		t.Fatal(err)
	}
	info, err := c.Stat(t.Context(), penstock.Name{Bucket: "photos", Key: objects[3].Key})
	if err != nil || info.ContentType != "image/png" {
		t.Errorf("%+v, %v", info, err)
	}
	var refs []penstock.Ref
	var want [][]byte
	for _, i := range rand.Perm(len(objects)) {
		refs, want = append(refs, ref(objects[i].Key)), append(want, objects[i].Bytes)
		if len(objects[i].Bytes) > 1000 {
			part := ref(objects[i].Key)
			part.Range = penstock.Range{Offset: 500, Length: 400}
			refs, want = append(refs, part), append(want, objects[i].Bytes[500:900])
		}
		refs, want = append(refs, ref("gone")), append(want, nil)
	}
	n := 0
	for item, err := range c.Batch(t.Context(), refs) {
		switch {
		case item.Ref != refs[n]:
			t.Fatalf("item %d is %v, not %v", n, item.Ref, refs[n])
		case want[n] == nil && item.Ref.Name.Key == "gone":
			if !penstock.Is(err, penstock.NotFound) {
				t.Errorf("%v: %v", item.Ref, err)
			}
		case err != nil || !bytes.Equal(item.Bytes, want[n]):
			t.Errorf("%v %v: %d bytes, %v", item.Ref, item.Ref.Range, len(item.Bytes), err)
		}
		n++
	}
	if n != len(refs) {
		t.Errorf("%d items for %d references", n, len(refs))
	}
	for range c.Batch(t.Context(), refs) {
		break // and the connection is not left in a bad state
	}
	if _, err := c.Get(t.Context(), refs[0].Name); err != nil && !penstock.Is(err, penstock.NotFound) {
		t.Error(err)
	}
	for range c.Batch(t.Context(), nil) {
		t.Error("an item of nothing")
	}
}

// TestCheckedRefs asks for bytes with known checksums, right and wrong ones: in
// packs, in blobs, too large to be held in memory, inside of tars.
func TestCheckedRefs(t *testing.T) {
	c := connect(t)
	makeBucket(t, c, "photos")
	member := noise(4, 5000)
	contents := map[string][]byte{
		"small": noise(1, 10000), "blob": noise(2, 1<<20), "large": noise(3, 6<<20),
		"t.tar": archive(t, map[string][]byte{"m": member, "empty": {}}),
	}
	for key, data := range contents {
		if _, err := c.Put(t.Context(), ref(key).Name, bytes.NewReader(data), penstock.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var refs []penstock.Ref
	var want [][]byte // nil: not what was asked for
	ask := func(key, member string, content []byte, r penstock.Range) {
		piece := content
		if r.Length > 0 {
			piece = content[r.Offset:][:r.Length]
		}
		right := penstock.Ref{Name: ref(key).Name, Member: member, Range: r, CRC32: crc32.ChecksumIEEE(piece), Checked: true}
		wrong := right
		wrong.CRC32++
		refs, want = append(refs, right, wrong), append(want, piece, nil)
		if wrong = right; r.Length > 0 {
			wrong.Range.Length = int64(len(content)) // reaches beyond the end
			refs, want = append(refs, wrong), append(want, nil)
		}
	}
	for key, data := range contents {
		ask(key, "", data, penstock.Range{})
		ask(key, "", data, penstock.Range{Offset: 600, Length: 300})
	}
	ask("blob", "", contents["blob"], penstock.Range{Offset: 60000, Length: 300000})
	ask("large", "", contents["large"], penstock.Range{Offset: 1, Length: 5 << 20})
	ask("t.tar", "m", member, penstock.Range{})
	ask("t.tar", "m", member, penstock.Range{Offset: 600, Length: 300})
	ask("t.tar", "empty", nil, penstock.Range{})
	n := 0
	for item, err := range c.Batch(t.Context(), refs) {
		what := fmt.Sprintf("%v %+v", item.Ref, item.Ref.Range)
		switch {
		case want[n] == nil && refs[n].CRC32 != 0:
			if !penstock.Is(err, penstock.Stale) || !strings.Contains(err.Error(), "not what was asked for") {
				t.Errorf("%s: %d bytes, %v", what, len(item.Bytes), err)
			}
		case err != nil || !bytes.Equal(item.Bytes, want[n]):
			t.Errorf("%s: %d bytes, %v", what, len(item.Bytes), err)
		}
		n++
	}
	if n != len(refs) {
		t.Errorf("%d items for %d references", n, len(refs))
	}
}

// TestPutBatchFailures names what was not stored.
func TestPutBatchFailures(t *testing.T) {
	c := connect(t)
	makeBucket(t, c, "photos")
	err := c.PutBatch(t.Context(), "photos", []penstock.Upload{{Key: "a", Bytes: []byte("A")}, {Key: "b"}, {Key: "a", Bytes: []byte("other")}})
	var failed *penstock.PutBatchError
	if !errors.As(err, &failed) || len(failed.Failed) != 1 || !penstock.Is(failed.Failed["a"], penstock.Invalid) {
		t.Errorf("%v", err)
	}
	if data, err := c.Get(t.Context(), ref("a").Name); string(data) != "A" {
		t.Errorf("%q, %v", data, err)
	}
	if err := c.PutBatch(t.Context(), "nowhere", []penstock.Upload{{Key: "a"}}); !penstock.Is(err, penstock.NotFound) {
		t.Errorf("%v", err)
	}
	if err := c.PutBatch(t.Context(), "photos", nil); err != nil {
		t.Error(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.PutBatch(canceled, "photos", []penstock.Upload{{Key: "x"}}); !penstock.Is(err, penstock.Canceled) {
		t.Errorf("%v", err)
	}
}

// archive returns a tar of files by name.
func archive(t *testing.T, files map[string][]byte, more ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write(data) //nolint:errcheck // in memory
	}
	for _, h := range more {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestMembers reads files out of tars, small ones in packs and large ones in
// blobs, and sees when the tar is replaced.
func TestMembers(t *testing.T) {
	c := connect(t)
	makeBucket(t, c, "photos")
	files := map[string][]byte{"empty": {}, "./dot/a.jpg": noise(1, 5000), "b.jpg": noise(2, 4096), "c.jpg": noise(3, 2<<20)}
	small := archive(t, map[string][]byte{"x": []byte("X"), "y": noise(4, 700)})
	for key, data := range map[string][]byte{"large.tar": archive(t, files), "small.tar": small, "no.tar": noise(5, 2000)} {
		if _, err := c.Put(t.Context(), ref(key).Name, bytes.NewReader(data), penstock.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var refs []penstock.Ref
	ask := func(key, member string, r penstock.Range) {
		refs = append(refs, penstock.Ref{Name: ref(key).Name, Member: member, Range: r})
	}
	ask("large.tar", "empty", penstock.Range{})
	ask("large.tar", "dot/a.jpg", penstock.Range{})
	ask("small.tar", "y", penstock.Range{Offset: 100, Length: 50})
	ask("large.tar", "missing", penstock.Range{})
	ask("large.tar", "b.jpg", penstock.Range{Offset: -96})
	ask("no.tar", "x", penstock.Range{})
	ask("gone.tar", "x", penstock.Range{})
	ask("large.tar", "c.jpg", penstock.Range{})
	ask("small.tar", "x", penstock.Range{Offset: 5})
	want := []any{[]byte{}, files["./dot/a.jpg"], noise(4, 700)[100:150], penstock.NotFound, files["b.jpg"][4000:], penstock.Invalid, penstock.NotFound, files["c.jpg"], penstock.Invalid}
	for round := range 2 {
		n := 0
		for item, err := range c.Batch(t.Context(), refs) {
			switch w := want[n].(type) {
			case penstock.Kind:
				if !penstock.Is(err, w) {
					t.Errorf("%v: %v, want %v", item.Ref, err, w)
				}
			case []byte:
				if err != nil || !bytes.Equal(item.Bytes, w) {
					t.Errorf("round %d, %v: %d bytes of %d, %v", round, item.Ref, len(item.Bytes), len(w), err)
				}
			}
			n++
		}
	}
	if _, err := c.Put(t.Context(), ref("small.tar").Name, bytes.NewReader(archive(t, map[string][]byte{"x": []byte("new")})), penstock.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for item, err := range c.Batch(t.Context(), []penstock.Ref{{Name: ref("small.tar").Name, Member: "x"}}) {
		if string(item.Bytes) != "new" {
			t.Errorf("%q, %v", item.Bytes, err)
		}
	}
}

// TestBatchBreaksOff has a node that sends less than it should, once: the rest is
// asked for again.
func TestBatchBreaksOff(t *testing.T) {
	answer := func(from, to int, whole bool) []byte {
		var s wire.Segment
		b := wire.AppendBatchHead(nil, 4-from)
		for i := from; i < to; i++ {
			b = s.Begin(b, []int64{1})
			b = append(b, byte('a'+i))
			b = s.End(b, []wire.Status{{CRC32: crcOf(byte('a' + i))}})
		}
		if whole {
			b = wire.AppendBatchEnd(b)
		}
		return b
	}
	var mu sync.Mutex // an answer broken off orders nothing between its request and the next
	var asked []int
	c, _ := link(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		refs, err := wire.ParseRefs(body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, len(refs))
		switch len(asked) {
		case 1:
			w.Write(answer(0, 2, false)) //nolint:errcheck // as the client sees
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.Write(answer(2, 4, true)) //nolint:errcheck // as the client sees
		}
	})
	var got strings.Builder
	for item, err := range c.Batch(t.Context(), []penstock.Ref{ref("a"), ref("b"), ref("c"), ref("d")}) {
		if err != nil {
			t.Error(err)
		}
		got.Write(item.Bytes)
	}
	mu.Lock()
	defer mu.Unlock()
	if got.String() != "abcd" || len(asked) < 3 || asked[len(asked)-1] != 2 {
		t.Errorf("%q after asking for %v", got.String(), asked)
	}
}

func crcOf(b byte) uint32 { return crc32.ChecksumIEEE([]byte{b}) }

// TestPutBatchChecked: bytes that have not the checksum they must have are refused by
// the node, and the others are stored.
func TestPutBatchChecked(t *testing.T) {
	client := connect(t)
	makeBucket(t, client, "sums")
	good := penstock.Upload{Key: "good", Bytes: []byte("a"), CRC32: crcOf('a'), Checked: true}
	bad := penstock.Upload{Key: "bad", Bytes: []byte("b"), CRC32: crcOf('a'), Checked: true}
	err := client.PutBatch(t.Context(), "sums", []penstock.Upload{good, bad})
	failed, ok := errors.AsType[*penstock.PutBatchError](err)
	if !ok || len(failed.Failed) != 1 || !penstock.Is(failed.Failed["bad"], penstock.Invalid) {
		t.Fatalf("%v", err)
	}
	refs := []penstock.Ref{{Name: penstock.Name{Bucket: "sums", Key: "good"}}, {Name: penstock.Name{Bucket: "sums", Key: "bad"}}}
	items := client.Batch(t.Context(), refs)
	for range 2 { // a sequence may be gone through again
		var got []string
		for item, err := range items {
			if !item.Last {
				t.Errorf("%s: its memory is used again, and it does not say so", item.Ref)
			}
			got = append(got, fmt.Sprint(string(item.Bytes), penstock.KindOf(err)))
		}
		if want := []string{fmt.Sprint("a", penstock.KindOf(nil)), fmt.Sprint("", penstock.NotFound)}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
