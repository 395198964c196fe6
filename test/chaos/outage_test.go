package chaos

import "sync"

// outage is the time around a power cut. Answers count for nothing, until thaw, if
// their requests began before the cut has returned. A file system that is being shut
// down lets some fsyncs succeed that it does not keep: with the power really gone
// nobody would have heard of them. What is asked for afterwards and acknowledged
// nevertheless is a lie.
type outage struct {
	guard  sync.Mutex
	frozen bool
	cuts   int // that have returned
	cut    int // number of the last one
}

// freeze cuts.
func (o *outage) freeze(cut func() error) error {
	o.guard.Lock()
	o.frozen, o.cut = true, o.cuts+1
	o.guard.Unlock()
	err := cut()
	o.guard.Lock()
	o.cuts++
	o.guard.Unlock()
	return err
}

func (o *outage) thaw() {
	o.guard.Lock()
	defer o.guard.Unlock()
	o.frozen = false
}

// now is what a request keeps of the time it begins at.
func (o *outage) now() int {
	o.guard.Lock()
	defer o.guard.Unlock()
	return o.cuts
}

// late reports whether the answer to a request counts for nothing.
func (o *outage) late(began int) bool {
	o.guard.Lock()
	defer o.guard.Unlock()
	return o.frozen && began < o.cut
}

// during reports whether the cut has begun and the power is not back.
func (o *outage) during() bool {
	o.guard.Lock()
	defer o.guard.Unlock()
	return o.frozen
}
