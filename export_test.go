package penstock

import (
	"context"
	"time"
)

// SetPause replaces the waiting between attempts.
func (c *Client) SetPause(pause func(ctx context.Context, wait time.Duration) error) { c.pause = pause }
