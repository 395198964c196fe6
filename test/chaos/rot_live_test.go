package chaos

import (
	"fmt"
	"slices"
	"testing"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/disk"
)

// TestRotLive damages blobs under a node that runs and has read them before. In a
// bucket with verify=always it notices on every read, also of a piece.
func TestRotLive(t *testing.T) {
	random := newRandom(t)
	s := newSubject(t, random, dataDir(t))
	s.ledger = newLedger("always")
	always := "always"
	createBucket(t, s.client, s.ledger.bucket, penstock.BucketOptions{Verify: &always})
	var keys []string
	for i := range 20 {
		key := fmt.Sprintf("blob%d", i)
		if err := s.put(key, inlineMax+1+random.Int64N(200<<10)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	s.checkAll()
	data := disk.NewDir(s.node.Data()[0])
	limits := sizes(t, data)
	broken := map[string]bool{}
	for range setting(t, "FAULTS", 300) / 30 {
		inflict(t, random, data, limits, rotCase{prefixes: []string{"blobs/"}, atOnce: 1})
		for _, key := range keys {
			now, _, _ := s.ledger.known(key)
			body, mark, err := get(s.node.Endpoint, s.ledger.name(key))
			switch {
			case err == nil && (mark != now.mark() || !now.matches(body)):
				t.Fatalf("WRONG BYTES: %s holds %v; %d bytes marked %q", key, now, len(body), mark)
			case err == nil && broken[key]:
				t.Fatalf("%s was damaged and is whole again", key)
			case err != nil && !penstock.Is(err, penstock.Corrupt):
				t.Fatalf("%s: %v", key, err)
			}
			broken[key] = err != nil
			s.checkPiece(key, now)
		}
	}
	var found []string
	for _, f := range s.scrub() {
		found = append(found, f.Name)
	}
	for key, is := range broken {
		if is && !slices.Contains(found, s.ledger.name(key).String()) {
			t.Errorf("scrub does not name %s", key)
		}
	}
	t.Logf("%d of %d blobs damaged", len(found), len(keys))
}

// checkPiece reads a random piece of an object, whose checksum no client knows.
func (s *subject) checkPiece(key string, now state) {
	s.tb.Helper()
	piece := penstock.Range{Offset: s.random.Int64N(now.Size), Length: 1 + s.random.Int64N(100<<10)}
	offset, length, err := piece.Resolve(now.Size)
	if err != nil {
		s.tb.Fatal(err)
	}
	r, err := s.client.Open(s.tb.Context(), s.ledger.name(key), piece)
	if err != nil {
		return // reported
	}
	defer r.Close()
	got := make([]byte, length)
	n := 0
	for n < len(got) && err == nil {
		var m int
		m, err = r.Read(got[n:])
		n += m
	}
	if want := now.bytes()[offset : offset+length]; !slices.Equal(got[:n], want[:n]) {
		s.tb.Fatalf("WRONG BYTES: %d at %d of %s", length, offset, key)
	}
}
