package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"penstock.dev/penstock"
)

// ledger remembers what the node was asked to store and what it said. Each key
// has one writer at a time, except those under race/.
type ledger struct {
	bucket string
	mu     sync.Mutex
	lines  map[string]*line
	outage
}

// line is what is known about one key. If something about it is unknown, a
// request broke off and the object may be in either state.
type line struct {
	now     state
	etag    string
	maybe   []state  // what requests without an answer may have made of it
	writes  int      // given out as numbers
	began   int      // when the last request did: see outage
	refused bool     // under race/: somebody was told that it exists
	history []string // the last that happened, for complaints
}

// note keeps what happened to a key.
func (ln *line) note(format string, args ...any) {
	if len(ln.history) > 20 {
		ln.history = slices.Delete(ln.history, 0, 1)
	}
	ln.history = append(ln.history, fmt.Sprintf(format, args...))
}

func newLedger(bucket string) *ledger {
	return &ledger{bucket: bucket, lines: map[string]*line{}}
}

func (l *ledger) name(key string) penstock.Name { return penstock.Name{Bucket: l.bucket, Key: key} }

// line returns the line of a key.
func (l *ledger) line(key string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[key]
	if ln == nil {
		ln = &line{}
		l.lines[key] = ln
	}
	return ln
}

// next returns a new state for a key.
func (l *ledger) next(key string, size int64) state {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.writes++
	return state{Of: key, Number: ln.writes, Size: size}
}

// known returns the state of a key, and false if it is not certain.
func (l *ledger) known(key string) (state, string, bool) {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	return ln.now, ln.etag, len(ln.maybe) == 0
}

// begin notes that a key may come to be in a state.
func (l *ledger) begin(key string, to state) {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.maybe = append(ln.maybe, to)
	ln.began = l.now()
	ln.note("asked for %v", to)
}

// done notes that it came to be, because the node said so.
func (l *ledger) done(key string, to state, etag string) error {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late(ln.began) || (ln.raced(key) && l.during()) {
		ln.note("too late: %v", to)
		return nil
	}
	if ln.raced(key) && ln.now != (state{}) {
		return fmt.Errorf("%s was created twice: %v and %v", key, ln.now, to)
	}
	ln.note("acknowledged %v", to)
	ln.now, ln.etag = to, etag
	ln.forget(to)
	if !ln.raced(key) {
		ln.maybe = nil
	}
	return nil
}

// undone notes that it did not, because the node said so.
func (l *ledger) undone(key string, to state) {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.during() {
		return
	}
	ln.note("refused %v", to)
	ln.forget(to)
	ln.refused = true
}

func (ln *line) forget(to state) {
	if i := slices.Index(ln.maybe, to); i >= 0 {
		ln.maybe = slices.Delete(ln.maybe, i, i+1)
	}
}

func (ln *line) raced(key string) bool { return len(key) > 5 && key[:5] == "race/" }

// settle says what a key was found to be, and reports what is wrong with that.
// From then on it is certain: what was seen once must stay.
func (l *ledger) settle(key string, found state, etag string) error {
	if err := l.permit(key, found); err != nil {
		return err
	}
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	again := slices.Contains(ln.maybe, found) // a copy of what it held already
	if found == ln.now && !again && ln.etag != "" && found != (state{}) && etag != ln.etag {
		return fmt.Errorf("%s: ETag changed from %s to %s", key, ln.etag, etag)
	}
	ln.now, ln.etag, ln.maybe, ln.refused = found, etag, nil, found != (state{}) && ln.refused
	return nil
}

// permit is settle without consequences: for a node that runs on without its disk,
// where what broke off may still come to light at the next start.
func (l *ledger) permit(key string, found state) error {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	ln.note("found %v", found)
	fits := found == ln.now || slices.Contains(ln.maybe, found)
	if ln.raced(key) {
		if ln.now != (state{}) {
			fits = found == ln.now // nothing replaces a winner
		} else if ln.refused && len(ln.maybe) == 0 {
			return fmt.Errorf("%s: writers were told that it exists, and nobody made it", key)
		}
	}
	if !fits {
		return fmt.Errorf("%s: found %v, acknowledged was %v, possible are %v; it was %s", key, found, ln.now, ln.maybe, strings.Join(ln.history, ", "))
	}
	return nil
}

// history returns what happened to a key, as far as it is kept.
func (l *ledger) history(key string) string {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(ln.history, ", ")
}

// candidates returns what a key may hold now.
func (l *ledger) candidates(key string) []state {
	ln := l.line(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]state{ln.now}, ln.maybe...)
}

// keys returns all keys that were ever written, in order.
func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]string, 0, len(l.lines))
	for key := range l.lines {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// uncertain returns the keys whose state is not known.
func (l *ledger) uncertain() []string {
	return slices.DeleteFunc(l.keys(), func(key string) bool {
		_, _, known := l.known(key)
		return known
	})
}
