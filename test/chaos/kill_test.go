package chaos

import (
	"testing"
	"time"
)

func TestKill(t *testing.T) {
	random := newRandom(t)
	s := newSubject(t, random, dataDir(t))
	kills := setting(t, "KILLS", 100)
	for i := range kills {
		s.work(300*time.Millisecond, s.node.Kill)
		s.start()
		share := 0.1
		if i%50 == 49 || i == kills-1 {
			share = 1
		}
		checkSome(t.Context(), t, random, s.client, s.ledger, share)
		if t.Failed() {
			t.Fatalf("after kill %d", i+1)
		}
	}
	t.Logf("%d writes acknowledged, %d refused", s.crew.acked.Load(), s.crew.refused.Load())
	s.checkSettled()
}
