package store

import (
	"context"
	"hash/crc32"
	"strings"
	"testing"

	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/object"
)

// TestPlaceOfAnother has two names with one hash, as whoever chooses names can make
// them. To guess the checksum of a byte gives nothing of the other object away.
func TestPlaceOfAnother(t *testing.T) {
	ctx := context.Background()
	s, err := Open(ctx, Options{Disks: []Disk{{FS: fault.NewMemory(1), Name: "memory"}}, InlineMax: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mine := object.Name{Bucket: "mine", Key: "made to fit"}
	for _, size := range []int{100, 100 << 10} { // in a pack, in a blob
		secret := object.Name{Bucket: "theirs", Key: "secret"}
		content := strings.Repeat("s", size)
		if _, err := s.Put(ctx, secret, strings.NewReader(content), object.PutOptions{SizeHint: int64(size)}); err != nil {
			t.Fatal(err)
		}
		p, err := s.placeOf(secret, hashName(secret))
		if err != nil {
			t.Fatal(err)
		}
		p.hash = hashName(mine)
		ref := object.Ref{Name: mine, Range: object.Range{Offset: 7, Length: 1}, Checked: true, CRC32: crc32.ChecksumIEEE([]byte("s"))}
		theirs := ref
		theirs.Name = secret
		for _, refs := range [][]object.Ref{{ref}, {theirs, ref}} { // alone, and behind one that may be read
			_, _, seen := s.hot.get(p.hash)
			s.hot.offer(p, seen)
			for item, err := range s.Batch(ctx, refs) {
				if item.Ref.Name == mine && !object.Is(err, object.NotFound) {
					t.Errorf("%d bytes: %q, %v", size, item.Bytes, err)
				}
			}
		}
	}
}
