package bench

import "time"

// Histogram and Checker are for tests of what the report is made of.
type (
	Histogram = histogram
	Checker   = checker
)

func (h *histogram) Add(d time.Duration)                  { h.add(d) }
func (h *histogram) Merge(other *histogram)               { h.merge(other) }
func (h *histogram) Quantile(q float64) time.Duration     { return h.quantile(q) }
func (c *checker) Begin(verify bool, k string, x Content) { c.verify = verify; c.begin(k, x) }
func (c *checker) End() (int64, error)                    { return c.end() }
