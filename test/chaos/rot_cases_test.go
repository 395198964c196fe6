package chaos

import (
	"fmt"
	"slices"
	"testing"

	"penstock.dev/penstock"
)

// rotCase is what is damaged, and in which state of the drive.
type rotCase struct {
	name     string
	prefixes []string
	kill     bool // the process was killed: its index is behind its log
	share    int  // of all faults, in per cent
	atOnce   int  // faults per start

	// strict: every damaged object is reported by name. Where index and log are
	// damaged together, or the head of a record that no index knew yet, nobody can
	// tell the name: then an older state may come back, but never silently.
	strict bool
}

var rotCases = []rotCase{
	{"packs", []string{"packs/"}, false, 30, 5, true},
	{"index", []string{"index/"}, false, 20, 5, true},
	{"blobs", []string{"blobs/"}, false, 15, 5, true},
	{"blobs after a kill", []string{"blobs/"}, true, 5, 5, true},
	{"index after a kill", []string{"index/"}, true, 5, 5, true},
	{"one of all", []string{""}, false, 10, 1, true},
	{"one of all after a kill", []string{""}, true, 10, 1, false},
	{"anything", []string{""}, true, 5, 10, false},
}

// rotSum counts what became of faults.
type rotSum struct {
	faults   int
	whole    int // starts after which every object was right
	reported int // objects that were answered as damaged
	older    int // objects in an older state, with the damage reported
	refused  int // starts
}

// examine reads everything and judges it. read answers with what a client without
// any checks of its own gets.
func (sum *rotSum) examine(t testing.TB, c rotCase, l *ledger, read func(key string) ([]byte, string, error), scrub func() []string) {
	t.Helper()
	var damaged, older []string
	for _, key := range l.keys() {
		now, _, _ := l.known(key)
		data, mark, err := read(key)
		gone := penstock.Is(err, penstock.NotFound)
		switch {
		case gone && now == (state{}), err == nil && now != (state{}) && mark == now.mark() && now.matches(data):
		case err == nil && !genuine(mark, data):
			t.Errorf("WRONG BYTES: %s holds %v, and %d bytes marked %q were served as right", key, now, len(data), mark)
		case err == nil || gone:
			older = append(older, fmt.Sprintf("%s holds %v and was answered as %q (%v)", key, now, mark, err))
		case penstock.Is(err, penstock.Corrupt):
			damaged = append(damaged, l.name(key).String())
		default:
			t.Errorf("%s: %v: %v", key, penstock.KindOf(err), err)
		}
	}
	if len(damaged)+len(older) == 0 {
		sum.whole++
	}
	sum.reported += len(damaged)
	sum.older += len(older)
	found := scrub()
	for _, message := range older {
		if c.strict || len(found) == 0 {
			t.Errorf("%s; scrub: %d findings", message, len(found))
		}
	}
	for _, name := range damaged {
		if c.strict && !slices.Contains(found, name) {
			t.Errorf("%s cannot be read, and scrub does not name it", name)
		}
	}
}

// refuse counts a start that did not succeed.
func (sum *rotSum) refuse(t testing.TB, c rotCase, err error) {
	t.Helper()
	sum.refused++
	if c.strict || c.atOnce == 1 { // several faults may hit both copies of the identity
		t.Errorf("it does not start: %v", err)
	} else if sum.refused < 10 {
		t.Logf("it does not start: %v", err)
	}
}

// genuine reports whether the bytes are those of the write that the mark names.
func genuine(mark string, data []byte) bool {
	s := state{Size: int64(len(data))}
	_, err := fmt.Sscanf(mark, "%d-%s", &s.Number, &s.Of)
	return err == nil && s.matches(data)
}
