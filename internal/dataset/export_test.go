package dataset

import "time"

// SetClock has Create take the time from now: once when it begins, and once when it
// has listed everything and begins to pack.
func (o *Options) SetClock(now func() time.Time) { o.now = now }
