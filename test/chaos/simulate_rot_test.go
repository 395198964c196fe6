package chaos

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/fault"
	"penstock.dev/penstock/internal/store"
)

// TestSimulateRot is TestRot on a store in this process, which starts a hundred
// times faster, and with a clock that does not make it wait.
func TestSimulateRot(t *testing.T) {
	faults := setting(t, "FAULTS", 300)
	for _, c := range rotCases {
		t.Run(c.name, func(t *testing.T) {
			random := newRandom(t)
			var sum rotSum
			for range max(1, faults*c.share/100/c.atOnce/20) {
				synctest.Test(t, func(t *testing.T) { sum.simulate(t, random, c) })
				if t.Failed() {
					return
				}
			}
			t.Logf("%+v", sum)
		})
	}
}

// simulate fills a drive and lets copies of it rot.
func (sum *rotSum) simulate(t *testing.T, random *rand.Rand, c rotCase) {
	drive, limits, l := fillDrive(t, random, c.kill)
	for range 20 {
		image := drive.Image()
		damages := inflict(t, random, image, limits, c)
		sum.faults += len(damages)
		sum.open(t, c, image, l)
		if t.Failed() {
			t.Fatalf("damage: %v", damages)
		}
	}
}

// fillDrive returns a drive with objects on it, how much of each file may rot, and
// what is there.
func fillDrive(t *testing.T, random *rand.Rand, kill bool) (*fault.Memory, map[string]int64, *ledger) {
	t.Helper()
	drive, l := fault.NewMemory(random.Uint64()), newLedger("chaos")
	held, stop, err := openStore(drive, true)
	if err != nil {
		t.Fatal(err)
	}
	c := newCrew(t, random, held, l, 2, 30)
	for _, w := range c.workers {
		w.size = simulatedSize
	}
	c.run(t.Context(), 150)
	// The very end of a log that was not closed cannot be told from a write that a
	// crash tore. So it is left alone, and something is put behind what may rot.
	limits := sizes(t, drive)
	for i := range 5 {
		to := l.next(fmt.Sprint("end/", i), 100)
		info, err := held.Put(t.Context(), l.name(to.Of), bytes.NewReader(to.bytes()), penstock.PutOptions{Metadata: map[string]string{"mark": to.mark()}})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.done(to.Of, to, info.ETag); err != nil {
			t.Fatal(err)
		}
	}
	if !kill {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		return drive, sizes(t, drive), l
	}
	after := drive.KillProcess()
	_ = stop() // its drive is dead
	return after, limits, l
}

// open opens a store on a drive and examines it.
func (sum *rotSum) open(t *testing.T, c rotCase, drive *fault.Memory, l *ledger) {
	t.Helper()
	held, stop, err := openStore(drive, true)
	if err != nil {
		sum.refuse(t, c, err)
		return
	}
	read := func(key string) ([]byte, string, error) { return readStored(t, held, l.name(key)) }
	sum.examine(t, c, l, read, func() []string {
		var found []string
		if _, err := held.Scrub(t.Context(), store.ScrubOptions{}, func(f store.Finding) { found = append(found, f.Name) }); err != nil {
			t.Errorf("scrub: %v", err)
		}
		return found
	})
	_ = stop() // it is thrown away
}

func readStored(t *testing.T, held holder, name penstock.Name) ([]byte, string, error) {
	t.Helper()
	r, err := held.Open(t.Context(), name, penstock.Range{})
	for range 30 {
		if !penstock.Is(err, penstock.Unavailable) {
			break
		}
		time.Sleep(time.Second) // an index is being rebuilt
		r, err = held.Open(t.Context(), name, penstock.Range{})
	}
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return data, markOf(r.Info()), err
}
