package chaos

import (
	"strings"
	"testing"
)

// A ledger that accepts everything proves nothing.
func TestLedgerNotices(t *testing.T) {
	one, two := state{Of: "k", Number: 1, Size: 5}, state{Of: "k", Number: 2, Size: 7}
	tests := []struct {
		name  string
		key   string
		tell  func(l *ledger, key string)
		found state
		etag  string
		want  string // in the complaint; empty: none
	}{
		{"kept", "k", func(l *ledger, key string) { l.begin(key, one); l.done(key, one, "e") }, one, "e", ""},
		{"lost", "k", func(l *ledger, key string) { l.begin(key, one); l.done(key, one, "e") }, state{}, "", "acknowledged"},
		{"stale", "k", func(l *ledger, key string) { l.done(key, one, "e"); l.done(key, two, "f") }, one, "e", "acknowledged"},
		{"another ETag", "k", func(l *ledger, key string) { l.done(key, one, "e") }, one, "f", "ETag"},
		{"deleted and back", "k", func(l *ledger, key string) { l.done(key, one, "e"); l.done(key, state{}, "") }, one, "e", "acknowledged"},
		{"unanswered, old", "k", func(l *ledger, key string) { l.done(key, one, "e"); l.begin(key, two) }, one, "e", ""},
		{"unanswered, new", "k", func(l *ledger, key string) { l.done(key, one, "e"); l.begin(key, two) }, two, "f", ""},
		{"unanswered, gone", "k", func(l *ledger, key string) { l.done(key, one, "e"); l.begin(key, two) }, state{}, "", "acknowledged"},
		{"refused and done", "k", func(l *ledger, key string) { l.begin(key, two); l.undone(key, two) }, two, "f", "acknowledged"},
		{"a winner replaced", "race/1", func(l *ledger, key string) { l.begin(key, two); l.begin(key, one); l.done(key, one, "e") }, two, "f", "acknowledged"},
		{"no winner", "race/1", func(l *ledger, key string) { l.begin(key, two); l.undone(key, two) }, state{}, "", "nobody"},
	}
	for _, test := range tests {
		l := newLedger("b")
		test.tell(l, test.key)
		err := l.settle(test.key, test.found, test.etag)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want a complaint with %q", test.name, err, test.want)
		}
	}
	l := newLedger("b")
	l.begin("k", two)
	if err := l.settle("k", two, "f"); err != nil {
		t.Error(err)
	}
	if err := l.settle("k", state{}, ""); err == nil {
		t.Error("what was seen once may vanish")
	}
	l = newLedger("b")
	l.begin("k", one)
	if err := l.freeze(func() error { return l.done("k", one, "e") }); err != nil {
		t.Error(err)
	}
	l.begin("l", two)
	l.done("l", two, "f")
	l.thaw()
	if err := l.settle("k", state{}, ""); err != nil {
		t.Errorf("an answer during the cut counts: %v", err)
	}
	if err := l.settle("l", state{}, ""); err == nil {
		t.Error("an answer to a request after the cut does not count")
	}
	l.done("race/1", one, "e")
	if err := l.done("race/1", two, "f"); err == nil {
		t.Error("two may win a race")
	}
	if !one.matches(one.bytes()) || one.matches(two.bytes()) || one.matches(nil) {
		t.Error("contents are mistaken for others")
	}
}
