package shard_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/shard"
)

// gathered returns all metrics by their name.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	all := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.Metric {
			all[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := newIndexes(t, shard.Options{Registry: registry})
	want := func(hits, misses, builds, entries float64) {
		t.Helper()
		got := gathered(t, registry)
		bytes := got["penstock_shard_index_bytes"]
		if got["penstock_shard_index_hits_total"] != hits || got["penstock_shard_index_misses_total"] != misses ||
			got["penstock_shard_index_builds_total"] != builds || got["penstock_shard_index_entries"] != entries || (bytes > 0) != (entries > 0) {
			t.Errorf("%v, want %g hits, %g misses, %g builds, %g entries", got, hits, misses, builds, entries)
		}
	}
	want(0, 0, 0, 0)
	var o objects
	get := func(key string, v int, data []byte) error {
		_, err := c.Get(t.Context(), named(key), version(v), o.open(data))
		return err
	}
	tar := archive(t, bare("a"))
	must(t, get("k", 1, tar))
	want(0, 1, 1, 1)
	must(t, get("k", 1, tar))
	must(t, get("k", 1, tar))
	want(2, 1, 1, 1)
	must(t, get("k", 2, tar)) // drops the old one
	want(2, 2, 2, 1)
	for range 2 { // that it is none is remembered
		if err := get("no tar", 1, []byte("hello")); !object.Is(err, object.Invalid) {
			t.Error(err)
		}
	}
	want(3, 3, 3, 2)
	must(t, c.Close())
	want(3, 3, 3, 0)
}
