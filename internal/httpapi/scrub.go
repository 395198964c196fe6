package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// progressEvery is how often a scrub says how far it is, at most.
const progressEvery = 250 * time.Millisecond

// scrub checks everything that is stored, and sends a line of JSON for each thing
// there is to say. It ends when the client leaves.
func (a *API) scrub(x *exchange) error {
	if err := x.noQuery(); err != nil {
		return err
	}
	if body, err := x.ReadSmall(x.Body(), maxSmallBody); err != nil {
		return err
	} else if len(body) > 0 {
		return object.Errorf(object.Invalid, "a scrub takes no body")
	}
	ctx, cancel := context.WithCancel(x.R.Context())
	defer cancel()
	x.Header()["Content-Type"] = []string{"application/x-ndjson"}
	x.Extend() // the first line may take a while
	out := &scrubLines{x: x, cancel: cancel}
	report, err := a.node.Scrub(ctx, node.ScrubOptions{Progress: out.progress}, out.finding)
	if err != nil {
		if !x.Sent {
			return err
		}
		return out.send(scrubJSON{Error: &errorDetail{object.KindOf(err).String(), err.Error()}})
	}
	return out.send(scrubJSON{Report: &report})
}

// scrubLines writes lines; the scrub may call it from several goroutines.
type scrubLines struct {
	mu     sync.Mutex
	x      *exchange
	cancel context.CancelFunc
	last   time.Time
	err    error
}

func (l *scrubLines) progress(p node.ScrubProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.x.api.clock(); now.Sub(l.last) >= progressEvery {
		l.last = now
		l.line(scrubJSON{Progress: &p})
	}
}

func (l *scrubLines) finding(f node.Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(scrubJSON{Finding: &f})
}

func (l *scrubLines) send(v scrubJSON) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(v)
	return l.err
}

// line writes one line and sees it off. A client that does not take it in time
// ends the scrub.
func (l *scrubLines) line(v scrubJSON) {
	if l.err != nil {
		return
	}
	l.x.Extend()
	body, err := marshal(v)
	if err == nil {
		if _, err = l.x.Write(body); err == nil {
			err = http.NewResponseController(l.x.W).Flush()
		}
	}
	if err != nil {
		l.err = err
		l.cancel()
	}
}
