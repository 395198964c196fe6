package chaos

import (
	"path/filepath"
	"testing"
	"time"
)

func TestPowerCut(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) { powerCuts(t, kind) })
	}
}

func powerCuts(t *testing.T, kind string) {
	random := newRandom(t)
	v := newVolume(t, kind, "640MiB")
	s := newSubject(t, random, filepath.Join(v.dir, "data"))
	cuts := setting(t, "CUTS", 10)
	for i := range cuts {
		if random.IntN(4) == 0 {
			// What the node shows after a kill must outlast a power cut right after it,
			// though it was in the page cache only.
			s.work(200*time.Millisecond, s.node.Kill)
			s.start()
			checkSome(t.Context(), t, random, s.client, s.ledger, 0)
		}
		s.work(400*time.Millisecond, func() {
			if err := s.ledger.freeze(v.cut); err != nil {
				t.Errorf("cut: %v", err)
			}
			// For a moment the node lives on without its disk, and must not
			// acknowledge what it cannot keep.
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			s.node.Kill()
		})
		s.ledger.thaw()
		v.unmount()
		v.mount()
		s.start()
		share := 0.3
		if i%20 == 19 || i == cuts-1 {
			share = 1
		}
		checkSome(t.Context(), t, random, s.client, s.ledger, share)
		if t.Failed() {
			t.Fatalf("after cut %d", i+1)
		}
	}
	t.Logf("%d writes acknowledged, %d refused", s.crew.acked.Load(), s.crew.refused.Load())
	s.checkSettled()
}
