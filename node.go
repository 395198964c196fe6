package penstock

import (
	"context"
	"net/http"
	"time"
)

// Map is the numbered list of the cluster's nodes.
type Map struct {
	Number uint32   `json:"number"`
	Nodes  []Member `json:"nodes"`
}

// Member is one node of a map.
type Member struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Weight  float64 `json:"weight"`
	State   string  `json:"state"`
}

// Disk is the state of one of a node's disks. Sizes are in bytes.
type Disk struct {
	ID    string `json:"id"`
	Name  string `json:"name"` // where it is
	Kind  string `json:"kind,omitempty"`
	State string `json:"state"` // "ok" if it can be read and written
	Size  int64  `json:"size"`
	Free  int64  `json:"free"`
	Used  int64  `json:"used"` // by us
	Live  int64  `json:"live"` // of those, what objects need
	Error string `json:"error,omitempty"`
}

// Health returns nil if the node is ready for requests, Busy if it is starting or
// stopping, Unavailable if there is none. It asks once.
func (c *Client) Health(ctx context.Context) error {
	resp, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/readyz", nil), what: "the node", once: true})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Await returns nil as soon as the node is ready for requests, or why it is not when
// the context ends.
func (c *Client) Await(ctx context.Context) error {
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for {
		err := c.Health(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-poll.C:
		}
	}
}

// Version returns the version of the node's program.
func (c *Client) Version(ctx context.Context) (string, error) {
	var answer struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
	}
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/openapi.json", nil), what: "the node's description", out: &answer})
	return answer.Info.Version, err
}

// Map returns the cluster's nodes.
func (c *Client) Map(ctx context.Context) (Map, error) {
	var answer Map
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/map", nil), what: "the map", out: &answer})
	return answer, err
}

// Disks returns the state of the node's disks.
func (c *Client) Disks(ctx context.Context) ([]Disk, error) {
	var answer struct {
		Disks []Disk `json:"disks"`
	}
	_, _, err := c.do(ctx, call{method: http.MethodGet, url: c.path("/v1/disks", nil), what: "disks", out: &answer})
	return answer.Disks, err
}
