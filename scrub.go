package penstock

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"

	"penstock.dev/penstock/internal/object"
)

// ScrubEvent is one thing a scrub says; one of its fields is not nil. The last
// event of a scrub that went through is its Report.
type ScrubEvent struct {
	Progress *ScrubProgress `json:"progress,omitempty"`
	Finding  *ScrubFinding  `json:"finding,omitempty"`
	Report   *ScrubReport   `json:"report,omitempty"`
}

// ScrubProgress says how far a scrub is.
type ScrubProgress struct {
	Bytes      int64 `json:"bytes"`
	TotalBytes int64 `json:"total_bytes"`
	Records    int64 `json:"records"`
	Blobs      int64 `json:"blobs"`
}

// ScrubFinding is one damage.
type ScrubFinding struct {
	Disk   string `json:"disk"`
	Kind   string `json:"kind"`
	Name   string `json:"name,omitempty"` // of the object, where it is known
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset"`
	Detail string `json:"detail"`
}

// ScrubReport is the sum of a scrub.
type ScrubReport struct {
	ScrubProgress
	Findings int64 `json:"findings"`
}

// Scrub has the node read and check everything it stores, and yields what it
// says while it does so. An error ends it; damage is no error but a Finding. The
// scrub stops when the caller stops listening or the context ends.
func (c *Client) Scrub(ctx context.Context) iter.Seq2[ScrubEvent, error] {
	return func(yield func(ScrubEvent, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, _, err := c.do(ctx, call{method: http.MethodPost, url: c.path("/v1/scrub", nil), what: "the scrub", once: true})
		if err != nil {
			yield(ScrubEvent{}, err)
			return
		}
		defer resp.Body.Close()
		lines := json.NewDecoder(resp.Body)
		for {
			event, err := c.scrubLine(ctx, lines)
			if !yield(event, err) || err != nil || event.Report != nil {
				return
			}
		}
	}
}

// scrubLine reads the next event.
func (c *Client) scrubLine(ctx context.Context, lines *json.Decoder) (ScrubEvent, error) {
	var line struct {
		ScrubEvent
		Error *struct{ Kind, Message string } `json:"error"`
	}
	switch err := lines.Decode(&line); {
	case errors.Is(err, io.EOF):
		return ScrubEvent{}, c.errorf(Unavailable, "the scrub broke off before its report")
	case err != nil:
		return ScrubEvent{}, c.broken(ctx, err).err
	case line.Error != nil:
		return ScrubEvent{}, c.errorf(object.ParseKind(line.Error.Kind), "the scrub failed: %s", line.Error.Message)
	}
	return line.ScrubEvent, nil
}
