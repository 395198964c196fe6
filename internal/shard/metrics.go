package shard

import "github.com/prometheus/client_golang/prometheus"

// metrics are the counters of Indexes.
type metrics struct {
	hits   prometheus.Counter
	misses prometheus.Counter
	builds prometheus.Counter
}

// newMetrics registers what is counted and what is asked of the indexes when
// metrics are collected. Without a registry it is counted all the same.
func newMetrics(registry prometheus.Registerer, c *Indexes) *metrics {
	register := func(collector prometheus.Collector) {
		if registry != nil {
			registry.MustRegister(collector)
		}
	}
	counter := func(name, help string) prometheus.Counter {
		counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "penstock_shard_index_" + name, Help: help})
		register(counter)
		return counter
	}
	gauge := func(name, help string, value func() float64) {
		register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "penstock_shard_index_" + name, Help: help}, value))
	}
	gauge("bytes", "Memory that indexes of tars take.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.bytes)
	})
	gauge("entries", "Tars whose index is kept, or of which it is known that they have none.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.used.Len())
	})
	return &metrics{
		hits:   counter("hits_total", "Times that the index of a tar was at hand."),
		misses: counter("misses_total", "Times that the index of a tar had to be waited for."),
		builds: counter("builds_total", "Tars that were read from end to end to index them."),
	}
}
